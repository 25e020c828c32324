"""Fixtures and session rules of all tests: clusters, users, the order of tests, skips, output.

With pytest-xdist (``-n``) each worker brings up clusters of its own.  A test that must not run
beside others has the marker ``alone``; ``make test`` runs those in a second session, in one
process.
"""

from __future__ import annotations

import functools
import gc
import os
import shutil
import signal
import socket
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.coverage import selection
from tests.support import brief, imports, scheduling
from tests.support.accounts import users_of
from tests.support.cluster import LOG_LINES, Cluster, attach, close_commands, fork_servers
from tests.support.http import Client
from tests.support.own_cluster import in_memory, own_cluster
from tests.support.reports import pytest_runtest_protocol
from tests.support.storlets import PLACEMENTS, JavaClasses, Toolbox, java_libraries

__all__ = ["pytest_runtest_protocol"]

#: Workers take modules in this order, by the start of their paths; of two that fit the longer one
#: counts.  Long modules first and short ones last: workers then end together.  The two long
#: modules of attacks run beside each other, and before the probes, some of which compare times.
ORDER: Final = (
    "tests/functional/",
    "tests/probe/test_attacks.py",
    "tests/probe/test_exhaustion.py",
    "tests/probe/",
    "tests/conformance/",
    "tests/java/",
    "tests/library/",
    "tests/unit/",
    # None of their modules takes a second.
    "tests/unit/daemon/protocol/",
    "tests/unit/middleware/config/",
    "tests/unit/middleware/s3select/",
)

#: One replica of the databases of accounts and containers: a change costs half as much, and one
#: process would serve all of them.  Two replicas of objects: one on each object server; the second
#: one on a server would cost a third of the time of each PUT.  Few tests use the class ``admin``: a
#: third of the sandboxes of self-tests, each of which takes a second of processor time.
CHOICES: Final = {
    "STORLETS_DATABASE_REPLICAS": "1",
    "STORLETS_OBJECT_REPLICAS": "2",
    "STORLETS_SELF_TESTS": "user",
}

#: The clusters that are up, by the names of their fixtures.
_running: dict[str, Cluster] = {}


def pytest_configure(config: pytest.Config) -> None:
    """Register the short output of CI in the process that reports; let SIGINT end processes.

    A session in the background of a shell ignores SIGINT, and so would the processes that it
    starts, also those that a test interrupts.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if os.environ.get("CI") and not scheduling.is_worker(config):
        config.pluginmanager.register(brief.Brief(config), "brief")


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """In a worker, import a share of the modules before the collection imports all.

    Last: pytest-cov begins in this hook, and traces nothing that is imported before.
    """
    imports.import_share(session.config)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> scheduling.Scheduling | None:
    """The scheduler of ``--dist loadfile``; None leaves the choice to pytest-xdist."""
    by_module = config.getoption("dist") == "loadfile"
    return scheduling.Scheduling(config, log) if by_module else None


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark unit tests, and those that the checker ``coverage`` leaves out, for ``-m``."""
    if item.nodeid.startswith("tests/unit/"):
        item.add_marker("unit")
    if selection.is_in_untraced_place(item.path):
        item.add_marker("untraced")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """After ``make check``, leave out the unit modules whose tests have all been run by it.

    The import of all unit tests takes each worker longer than that of all other tests.
    """
    if not os.environ.get("STORLETS_AFTER_CHECK"):
        return None
    is_unit = selection.UNIT in collection_path.parents and collection_path.name.startswith("test_")
    return True if is_unit and not selection.may_be_untraced(collection_path) else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort modules into :data:`ORDER`; the order within a folder stays.

    :raises pytest.UsageError: :func:`pytest_ignore_collect` would leave out a test.
    """
    marked = {
        item.path
        for item in items
        if any(item.get_closest_marker(name) for name in selection.UNTRACED)
    }
    hidden = sorted(
        str(module)
        for module in marked
        if selection.UNIT in module.parents and not selection.may_be_untraced(module)
    )
    if hidden:
        names = " and ".join(selection.UNTRACED)
        raise pytest.UsageError(
            f"{', '.join(hidden)}: has a test with one of the markers {names}, and"
            " neither word: `make test` after `make check` would not find it. Use the marker in"
            " the module"
        )
    items.sort(key=lambda item: _order_of(item.nodeid.partition("::")[0]))


@functools.cache
def _order_of(module: str) -> int:
    """The place of a module in :data:`ORDER`; first where none of them is its start."""
    fits = [(len(start), place) for place, start in enumerate(ORDER) if module.startswith(start)]
    return max(fits)[1] if fits else -1


@pytest.hookimpl(hookwrapper=True)
def pytest_collection() -> Generator[None]:
    """Leave the tests out of garbage collections, each of which would look at ten thousand.

    With the threshold of Python, a twentieth of the processor time of unit tests is collections.
    """
    gc.disable()
    yield
    gc.freeze()
    gc.set_threshold(50_000)
    gc.enable()


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The cluster of this session or worker: Swift, sandboxd and Docker on ports of its own."""
    given = os.environ.get("STORLETS_TEST_HOME")
    if given and scheduling.is_worker(request.config):
        pytest.fail("STORLETS_TEST_HOME names one cluster, and each worker of -n needs its own")
    if not given:
        fork_servers()
    with _attached(Path(given)) if given else own_cluster(parent=in_memory(), **CHOICES) as found:
        _running["cluster"] = found
        yield found
        del _running["cluster"]


@pytest.fixture(scope="session")
def other_cluster() -> Iterator[Cluster]:
    """A second cluster with encryption; tests may change its options with
    :meth:`Cluster.configured`."""
    fork_servers()
    with own_cluster("2-", in_memory(), **CHOICES, STORLETS_ENCRYPTION="1") as found:
        _running["other_cluster"] = found
        yield found
        del _running["other_cluster"]


@contextmanager
def _attached(home: Path) -> Iterator[Cluster]:
    """A running cluster, which is left running."""
    yield attach(home)


@pytest.fixture(scope="session")
def description(cluster: Cluster) -> dict[str, Any]:
    """``cluster.json`` as it was when the cluster came up."""
    return cluster.description


@pytest.fixture(scope="session")
def users(description: dict[str, Any]) -> dict[str, Client]:
    """A client for each user of the cluster."""
    return users_of(description)


@pytest.fixture(scope="session")
def admin(users: dict[str, Client]) -> Client:
    """``admin:admin`` has every permission in every account."""
    return users["admin:admin"]


@pytest.fixture(scope="session")
def toolbox(description: dict[str, Any]) -> Toolbox:
    """Builds and uploads storlets in either language."""
    if shutil.which("javac") is None:
        pytest.skip("no JDK: javac is missing")
    api_jar = Path(description["java_api_jar"])
    return Toolbox(JavaClasses(api_jar, java_libraries(api_jar)))


@pytest.fixture
def services() -> Iterator[Path]:
    """A folder of the host with a socket that any user may connect to: no sandbox may see one."""
    with (
        tempfile.TemporaryDirectory(prefix="services-", dir="/tmp") as name,
        socket.socket(socket.AF_UNIX) as listener,
    ):
        folder = Path(name)
        folder.chmod(0o755)
        listener.bind(f"{folder}/service.sock")
        (folder / "service.sock").chmod(0o777)
        listener.listen()
        yield folder


@pytest.fixture(params=PLACEMENTS)
def placement(request: pytest.FixtureRequest) -> str:
    """Each placement: a test that uses it runs once at the object node and once at the proxy."""
    return str(request.param)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    """Add the end of the server logs to a failure that concerns a cluster."""
    outcome = yield
    report = outcome.get_result()
    if not report.failed:
        return
    lines = brief.LOG_LINES if os.environ.get("CI") else LOG_LINES
    for name, cluster in _running.items():
        if name in getattr(item, "fixturenames", ()):
            report.sections.append((f"logs of the {name}", cluster.logs(lines)))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """With ``STORLETS_FORBID_SKIPS`` a skipped test fails the session.

    Under xdist only the controller has a reporter, and its statistics count the tests of all
    workers.
    """
    close_commands()
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    ran = exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}
    if os.environ.get("STORLETS_FORBID_SKIPS") and reporter and ran:
        not_run = [name for name in ("skipped", "xfailed") if reporter.stats.get(name)]
        if not_run:
            reporter.write_line(
                f"STORLETS_FORBID_SKIPS: there are {' and '.join(not_run)} tests", red=True
            )
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
