"""``python3 -m tests.coverage``: run the unit tests under coverage; compare it with the floors.

Property tests (those of hypothesis) are left out: they add no covered statement, and tracing makes
them twice as slow. Exit status 1: a test failed, or a package is below its floor.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from storlet_middleware.aio.checks import WORKERS
from storlet_middleware.aio.venv import CHECKOUT, PACKAGES

from . import floors

SELECTION: Final = ("tests/unit", "-m", "not hypothesis and not alone")


def main() -> int:
    """Run the tests; print the packages below their floors, and the total in the last line."""
    with tempfile.TemporaryDirectory(prefix="storlets-coverage-") as folder:
        report = Path(folder) / "report.json"
        command = [
            *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", *WORKERS),
            *(f"--cov={name}" for name in PACKAGES),
            *("--cov-report=", f"--cov-report=json:{report}", *SELECTION),
        ]
        environment = os.environ | {"COVERAGE_FILE": str(Path(folder) / "data")}
        code = subprocess.run(command, cwd=CHECKOUT, env=environment, check=False).returncode
        if code:
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
