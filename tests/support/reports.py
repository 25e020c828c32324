"""Hook of pytest: a worker of pytest-xdist sends one report of a test that passes.

pytest makes three reports of each test: of its setup, its call and its teardown.  With the
messages of xdist itself, a worker would send six messages per test, and both processes need more
time for them than most unit tests run.  The reports of a setup and of a teardown that pass state
nothing but their seconds.  With ``-v`` or ``--durations`` everything is sent.
"""

from __future__ import annotations

import pytest
from _pytest.runner import runtestprotocol

from tests.support.scheduling import is_worker


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run the test and send its call, from start of setup to end of teardown, and each failure."""
    options = item.config.option
    if not is_worker(item.config) or options.verbose > 0 or options.durations:
        return None
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    for report in reports:
        is_call = report.when == "call"
        if is_call:
            report.start, report.stop = reports[0].start, reports[-1].stop
        if is_call or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    return True
