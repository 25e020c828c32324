"""Plugin of pytest: ``--outcomes FILE`` writes what became of the tests of a session, as JSON.

``passed`` and ``failed`` are lists of test ids.  ``faults`` are failures that are not failures of a
test: a worker that crashed, a module that cannot be collected, a session that stopped early, a
forbidden skip.  :mod:`storlet_middleware.aio.sessions` decides from the file which tests to repeat.
Works in one process and in the controller of pytest-xdist; a worker writes nothing.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support.scheduling import is_worker


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--outcomes", metavar="FILE", help="write the outcomes of all tests as JSON")


def pytest_configure(config: pytest.Config) -> None:
    file = config.getoption("outcomes")
    if file and not is_worker(config):
        config.pluginmanager.register(Outcomes(Path(file)), "outcomes of a session")


class Outcomes:
    """Collects reports, and writes the file at the end of the session."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._passed: list[str] = []
        #: A dictionary is an ordered set: a test may fail in its call and in its teardown.
        self._failed: dict[str, None] = {}
        self._faults: list[str] = []
        self._has_skips = False

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._faults.append(f"{report.nodeid} cannot be collected")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed[report.nodeid] = None
        elif report.skipped:
            self._has_skips = True
        elif report.when == "call":
            self._passed.append(report.nodeid)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, error: object) -> None:
        """A worker of pytest-xdist ended."""
        if error:
            self._faults.append("a worker of pytest crashed")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        early = session.shouldstop or session.shouldfail
        if early:
            self._faults.append(f"a session stopped early: {early}")
        if self._has_skips and os.environ.get("STORLETS_FORBID_SKIPS"):
            self._faults.append("a test was skipped, which is forbidden")
        found = {
            "passed": self._passed,
            "failed": list(self._failed),
            "faults": list(dict.fromkeys(self._faults)),
        }
        self._file.write_text(json.dumps(found), encoding="utf-8")
