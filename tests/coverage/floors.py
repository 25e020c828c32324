"""The least coverage of each package by the unit tests, in percent of its statements.

A floor is the coverage that was measured, minus one point and rounded down. Code that other tests
run (in a sandbox, on a cluster) does not count here, so floors differ. Raise a floor after adding
tests; never lower one to make the check pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

TOTAL: Final = "total"
FLOORS: Final[Mapping[str, int]] = {
    TOTAL: 92,
    "rules": 98,
    "rules/check": 97,
    "storlet_daemon": 69,
    "storlet_daemon/author": 96,
    "storlet_daemon/protocol": 99,
    "storlet_daemon/protocol/messages": 96,
    "storlet_daemon/runtimes": 99,
    "storlet_daemon/runtimes/java": 86,
    "storlet_daemon/runtimes/native": 99,
    "storlet_daemon/runtimes/python": 72,
    "storlet_daemon/selftest": 38,
    "storlet_daemon/worker": 43,
    "storlet_daemon/worker_group": 68,
    "storlet_middleware": 97,
    "storlet_middleware/account_secrets": 98,
    "storlet_middleware/admission": 96,
    "storlet_middleware/aio": 53,
    "storlet_middleware/backend": 99,
    "storlet_middleware/catalog": 94,
    "storlet_middleware/cli": 92,
    "storlet_middleware/config": 95,
    "storlet_middleware/enforcement": 83,
    "storlet_middleware/engine": 96,
    "storlet_middleware/flows": 94,
    "storlet_middleware/local": 75,
    "storlet_middleware/object_server": 91,
    "storlet_middleware/proxy": 94,
    "storlet_middleware/proxy/execution": 97,
    "storlet_middleware/records": 98,
    "storlet_middleware/ruleset": 93,
    "storlet_middleware/s3select": 96,
    "storlet_middleware/sandboxd": 91,
    "storlet_middleware/sandboxd/cgroups": 92,
    "storlet_middleware/sandboxd/directories": 97,
    "storlet_middleware/sandboxd/pool": 94,
    "storlet_middleware/sandboxd/sandbox": 94,
    "storlet_middleware/sandboxd/self_test": 96,
    "storlet_middleware/services": 96,
    "storlet_middleware/wsgi": 95,
}


@dataclass(frozen=True)
class Covered:
    """Covered and all statements of a package without its subpackages."""

    lines: int
    statements: int

    @property
    def percent(self) -> float:
        return 100 * self.lines / self.statements if self.statements else 100.0


def by_package(report: Mapping[str, Any]) -> dict[str, Covered]:
    """The packages in a JSON report of coverage, and their total."""
    found: dict[str, Covered] = {}
    for path, file in report["files"].items():
        summary = file["summary"]
        for name in (path.rpartition("/")[0], TOTAL):
            old = found.get(name, Covered(0, 0))
            found[name] = Covered(
                old.lines + summary["covered_lines"],
                old.statements + summary["num_statements"],
            )
    return found


def faults(found: Mapping[str, Covered], floors: Mapping[str, int] = FLOORS) -> list[str]:
    """A line for each package below its floor, without a floor, or with a floor but no code."""
    lines = [
        f"{name}: {covered.percent:.1f} % of its statements are covered, less than {floors[name]} %"
        for name, covered in sorted(found.items())
        if name in floors and covered.percent < floors[name]
    ]
    lines += [
        f"{name}: add its floor to tests/coverage/floors.py"
        for name in sorted(found.keys() - floors)
    ]
    return lines + [f"{name}: has a floor, but no code" for name in sorted(floors.keys() - found)]
