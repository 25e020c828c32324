"""Short output for unattended runs: one line per module, and each failure in one line at once and
in short at the end.

A reader of CI often sees only a part of the output, so server logs are cut to a few lines.
Works in one process and under pytest-xdist, where several workers each run a module at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pytest

REASON_COLUMNS: Final = 600
LOG_LINES: Final = 4
_SECTION_LINES: Final = 10
_SECTION_COLUMNS: Final = 200


@dataclass
class _Module:
    """A module that a worker is running."""

    name: str
    began: float
    ended: float
    tests: int = 0


class Brief:
    """Reporter plugin; ``tests/conftest.py`` registers it in the reporting process when ``CI`` is
    set."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        #: By xdist worker; the empty key without xdist.
        self._modules: dict[str, _Module] = {}
        config.option.verbose = -1
        config.option.tbstyle = "short"

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Print no dot for a test that passed."""
        return ("passed", "", "") if report.passed and report.when == "call" else None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._count(report)
        report.sections = [
            (
                title,
                "\n".join(line[:_SECTION_COLUMNS] for line in text.splitlines()[-_SECTION_LINES:]),
            )
            for title, text in report.sections
        ]
        if report.failed:
            self._print(f"{report.nodeid} failed in {report.when}: {_reason(report)}")

    def pytest_sessionfinish(self) -> None:
        for worker in list(self._modules):
            self._end_module(worker)

    def _count(self, report: pytest.TestReport) -> None:
        worker = getattr(report, "worker_id", "")
        name = report.nodeid.partition("::")[0]
        module = self._modules.get(worker)
        if module is None or module.name != name:
            self._end_module(worker)
            module = self._modules[worker] = _Module(name, report.start, report.stop)
        module.ended = report.stop
        # A worker sends no setup that passed (tests/support/reports.py).
        module.tests += report.when == "call" or (report.when == "setup" and not report.passed)

    def _end_module(self, worker: str) -> None:
        module = self._modules.pop(worker, None)
        if module is not None:
            where = f" on {worker}" if worker else ""
            self._print(
                f"{module.name} {module.tests} tests {module.ended - module.began:.0f} s{where}"
            )

    def _print(self, line: str) -> None:
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.ensure_newline()
            reporter.write_line(line)


def _reason(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr)
    where = f"{crash.path}:{crash.lineno}: " if crash is not None else ""
    return where + " ".join(text.split())[:REASON_COLUMNS]
