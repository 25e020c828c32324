"""The start of an invocation: slot, code, sandbox, worker."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from storlet_daemon.protocol import messages
from storlet_middleware.engine.invocation import Invocation
from storlet_middleware.engine.launcher import Launcher
from storlet_middleware.engine.sandbox_client import SandboxClient
from storlet_middleware.engine.task import StreamInput
from storlet_middleware.errors import StorletError, TenantBusy
from tests.unit.middleware.engine.storlet_code import Fetcher, Nothing, left, start, version
from tests.unit.middleware.logger import Logger
from tests.unit.middleware.support import (
    Node,
    WorkerRun,
    Workers,
    make_config,
    open_descriptors,
    upper,
    wait_until,
)


def test_a_warm_start_sends_no_request(node: Node, short_dir: Path) -> None:
    launcher, fetcher = Launcher(make_config(short_dir), Logger()), Fetcher()
    for _ in range(3):
        start(launcher, fetcher)
    assert [type(request).__name__ for request in node.asked] == ["Prepare", "Acquire"]
    assert fetcher.count == 1


def test_the_runs_of_an_account_take_turns_at_small_pieces(node: Node, short_dir: Path) -> None:
    launcher = Launcher(make_config(short_dir), Logger())
    task = launcher.task("tx-1", {}, launcher.effective(version(), {}), wants_log=False)
    runs = [Invocation(task, [StreamInput(Nothing(), {})]) for _ in range(2)]
    for run in runs:
        launcher.start(run, version(), Fetcher())
        assert run.output.first()
    assert runs[0]._pace.turns is runs[1]._pace.turns
    assert len(launcher._turns) == 1
    for run in runs:
        run.close()
    del run, runs
    assert not launcher._turns


def test_the_parts_of_a_cold_start_are_measured(node: Node, short_dir: Path) -> None:
    usual, launcher = node.answer, Launcher(make_config(short_dir), Logger())

    def answer(request: Any) -> Any:
        if isinstance(request, messages.Acquire):
            time.sleep(0.2)
        return usual(request)

    def script(run: WorkerRun) -> None:
        time.sleep(0.3)
        upper(run)

    node.answer, node.workers.script = answer, script
    cold = start(launcher, Fetcher(pause=0.1))
    assert cold.code >= 0.1
    assert cold.sandbox >= 0.2
    assert cold.worker >= 0.3
    warm = start(launcher, Fetcher())
    assert (warm.code, warm.sandbox) == (0, 0)
    assert warm.worker >= 0.3


def test_a_lost_worker_group_is_requested_again(node: Node, short_dir: Path) -> None:
    launcher = Launcher(make_config(short_dir), Logger())
    start(launcher, Fetcher())
    node.workers.close()
    Path(node.workers.path).unlink()
    node.workers = Workers(short_dir / "w2.sock")
    start(launcher, Fetcher())
    assert len(node.asked) == 4


def test_code_that_sandboxd_has_just_evicted_is_fetched_once_more(
    node: Node, short_dir: Path
) -> None:
    usual, fetcher, refused = node.answer, Fetcher(), []

    def answer(request: Any) -> Any:
        if isinstance(request, messages.Acquire) and not refused:
            refused.append(request)
            shutil.rmtree(node.code_dir / version().key)
            return messages.NodeRefused("code.missing", "it went away")
        return usual(request)

    node.answer = answer
    start(Launcher(make_config(short_dir), Logger()), fetcher)
    assert (fetcher.count, [path.name for path in node.code_dir.iterdir()]) == (2, [version().key])


def test_a_caller_gets_heartbeats_during_a_cold_start_and_can_give_up(
    node: Node, short_dir: Path
) -> None:
    launcher = Launcher(make_config(short_dir), Logger())
    invocation = Invocation(
        launcher.task("tx-1", {}, launcher.effective(version(), {}), wants_log=False), []
    )
    before = open_descriptors()
    waiting = launcher.start_with_heartbeats(invocation, version(), Fetcher(pause=5), (0.05, 0.05))
    next(waiting)
    next(waiting)
    waiting.close()  # type: ignore[attr-defined]
    invocation.close()
    assert wait_until(lambda: open_descriptors() <= before)
    assert left(node.code_dir) == []


@pytest.mark.parametrize(
    ("fault", "code"), [("", "tenant.busy"), ("frozen", "sandbox.unavailable")]
)
def test_a_full_backlog_of_a_frozen_sandbox_is_a_fault_of_the_node(
    node: Node, short_dir: Path, monkeypatch: pytest.MonkeyPatch, fault: str, code: str
) -> None:
    def full(self: SandboxClient, account: str, group: str) -> None:
        raise TenantBusy("the backlog is full")

    monkeypatch.setattr(SandboxClient, "connect_warm", full)
    monkeypatch.setattr(SandboxClient, "fault", lambda *_: fault)
    with pytest.raises(StorletError) as caught:
        start(Launcher(make_config(short_dir), Logger()), Fetcher())
    assert caught.value.code == code
