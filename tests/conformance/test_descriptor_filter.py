"""Workers on a kernel whose sockets cannot refuse descriptors: all that they do still works."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator

import pytest

from tests.conformance.conftest import new_sandbox
from tests.conformance.daemon_harness import Code, HostSandbox, Storlet


@pytest.fixture
def confined(
    language: str, code: Callable[[str], Code], request: pytest.FixtureRequest
) -> Iterator[tuple[HostSandbox, Storlet]]:
    sandbox = new_sandbox(language, request, further=("--confine-descriptors",))
    with sandbox:
        yield sandbox, sandbox.load(code("probe"), workers_max=1)
    shutil.rmtree(sandbox.folder)


def test_runs_report_their_start_and_their_events(confined: tuple[HostSandbox, Storlet]) -> None:
    _, storlet = confined
    for data in (b"first", b"second"):
        result = storlet.run(data, log_limit=65536)
        assert (result.done.outcome, result.output) == ("ok", data)


def test_a_cancelled_run_is_replaced(confined: tuple[HostSandbox, Storlet]) -> None:
    """The supervisor learns of a cancel by the connection, which the worker passes to it."""
    _, storlet = confined
    with storlet.start(do="spin") as run:
        run.event()
        run.event()
    assert storlet.run(b"next").output == b"next"
