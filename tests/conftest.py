"""The cluster of the test session, started when the first test asks for it, and the logs of its servers beside a failure."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import brief
from tests.support.cluster import LOG_LINES, Cluster, attach, bring_up

_running: list[Cluster] = []


def pytest_configure(config: pytest.Config) -> None:
    """CI has a short output."""
    if os.environ.get("CI"):
        config.pluginmanager.register(brief.Brief(config), "brief")


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """The session's cluster: Swift, sandboxd and Docker on ports of their own."""
    given = os.environ.get("STORLETS_TEST_HOME")
    if given:
        _running.append(attach(Path(given)))
        yield _running[-1]
        _running.clear()
        return
    home = Path(tempfile.mkdtemp(prefix="storlets-", dir="/var/tmp"))
    try:
        _running.append(bring_up(home))
        yield _running[-1]
    finally:
        _running.clear()
        Cluster(home, {**os.environ, "STORLETS_HOME": str(home)}).run("down")
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def description(cluster: Cluster) -> dict[str, Any]:
    """``cluster.json`` as it was when the cluster came up."""
    return cluster.description


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    """A failure that concerns the cluster shows what its servers said last."""
    outcome = yield
    report = outcome.get_result()
    if report.failed and _running and "cluster" in getattr(item, "fixturenames", ()):
        lines = brief.LOG_LINES if os.environ.get("CI") else LOG_LINES
        report.sections.append(("logs of the cluster", _running[-1].logs(lines)))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """With ``STORLETS_FORBID_SKIPS`` a skipped test fails the session: something has not been tested."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("STORLETS_FORBID_SKIPS") and reporter and exitstatus == pytest.ExitCode.OK:
        not_run = [name for name in ("skipped", "xfailed") if reporter.stats.get(name)]
        if not_run:
            reporter.write_line(
                f"STORLETS_FORBID_SKIPS: there are {' and '.join(not_run)} tests", red=True
            )
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
