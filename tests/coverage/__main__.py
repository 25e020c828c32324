"""``python3 -m tests.coverage``: run the unit tests under coverage; compare it with the floors.

:mod:`.selection` names the tests that are left out. A failed test is repeated once, without
coverage. Exit status 1: a test failed again, or a package is below its floor.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

from storlet_middleware.aio import sessions
from storlet_middleware.aio.checks import WORKERS
from storlet_middleware.aio.venv import PACKAGES

from . import floors
from .selection import SELECTION


def main() -> int:
    """Run the tests; print the packages below their floors, and the total in the last line."""
    with tempfile.TemporaryDirectory(prefix="storlets-coverage-") as folder:
        report = Path(folder) / "report.json"
        pytest = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q"]
        measured = [
            *WORKERS,
            *(f"--cov={name}" for name in PACKAGES),
            *("--cov-report=", f"--cov-report=json:{report}", *SELECTION),
        ]
        environment = os.environ | {"COVERAGE_FILE": str(Path(folder) / "data")}
        repeat = sessions.is_repeat_on(default=True)
        if sessions.run(pytest, [measured], environment, repeat):
            print("a unit test failed, so coverage is not compared")
            return 1
        found = floors.by_package(json.loads(report.read_text(encoding="utf-8")))
    faults = floors.faults(found)
    for fault in faults:
        print(fault)
    total = found[floors.TOTAL]
    print(f"{total.percent:.1f} % of {total.statements} statements; {len(faults)} below the floor")
    return min(1, len(faults))


if __name__ == "__main__":
    sys.exit(main())
