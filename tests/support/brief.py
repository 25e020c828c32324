"""What a run of CI prints: a line for each module, each failure in one line when it happens, and again in short at the end.

Who looks at CI often sees a part of its output only; it must be short, and no server's log may stand where a reason should.
"""

from __future__ import annotations

import time
from typing import Final

import pytest

REASON_COLUMNS: Final = 600
LOG_LINES: Final = 4
_SECTION_LINES: Final = 10
_SECTION_COLUMNS: Final = 200


class Brief:
    """A plugin for sessions that nobody watches; registered by ``tests/conftest.py`` when ``CI`` is set."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._module = ""
        self._tests = 0
        self._began = 0.0
        config.option.verbose = -1
        config.option.tbstyle = "short"

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """No dot for a test that passed."""
        return ("passed", "", "") if report.passed and report.when == "call" else None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        module = nodeid.partition("::")[0]
        if module != self._module:
            self._end_module()
            self._module, self._tests, self._began = module, 0, time.monotonic()
        self._tests += 1

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        report.sections = [
            (
                title,
                "\n".join(line[:_SECTION_COLUMNS] for line in text.splitlines()[-_SECTION_LINES:]),
            )
            for title, text in report.sections
        ]
        if report.failed:
            self._say(f"{report.nodeid} failed in {report.when}: {_reason(report)}")

    def pytest_sessionfinish(self) -> None:
        self._end_module()

    def _end_module(self) -> None:
        if self._module:
            self._say(f"{self._module} {self._tests} tests {time.monotonic() - self._began:.0f} s")
            self._module = ""

    def _say(self, line: str) -> None:
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.ensure_newline()
            reporter.write_line(line)


def _reason(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr)
    where = f"{crash.path}:{crash.lineno}: " if crash is not None else ""
    return where + " ".join(text.split())[:REASON_COLUMNS]
