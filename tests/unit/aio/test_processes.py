"""Processes are found by their mark and signalled only when they are ours; with real processes."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from storlet_middleware.aio import keeper, processes
from storlet_middleware.aio.processes import Process, Program
from storlet_middleware.aio.progress import AioError
from tests.support.cluster import wait_for

SLEEP = "import time; time.sleep(60)"
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
PARENT = (
    "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)'])"
)


@pytest.fixture
def owner() -> Iterator[str]:
    name = f"unit-{secrets.token_hex(4)}"
    yield name
    processes.stop(name, patience_seconds=0.1)


def program(tmp_path: Path, code: str, name: str = "server") -> Program:
    return Program(name, [sys.executable, "-c", code], tmp_path / f"{name}.log")


def started(owner: str, what: Program) -> int:
    pid = processes.start(owner, what)
    wait_for(lambda: processes.leader(owner, what.name) == pid, 5, "its mark")
    return pid


def test_a_started_process_leads_its_own_session_without_input(owner: str, tmp_path: Path) -> None:
    pid = started(owner, program(tmp_path, SLEEP))
    assert os.getsid(pid) == pid
    assert Path(f"/proc/{pid}/fd/0").readlink() == Path("/dev/null")
    assert Path(f"/proc/{pid}/cwd").readlink() == Path("/")


def test_stop_ends_the_children_too(owner: str, tmp_path: Path) -> None:
    started(owner, program(tmp_path, PARENT))
    wait_for(lambda: len(processes.running(owner)) == 2, 5, "its child")
    processes.stop(owner)
    assert processes.running(owner) == []


def test_a_child_whose_leader_was_killed_is_found(owner: str, tmp_path: Path) -> None:
    pid = started(owner, program(tmp_path, PARENT))
    wait_for(lambda: len(processes.running(owner)) == 2, 5, "its child")
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: processes.leader(owner, "server") is None, 5, "the leader's end")
    assert len(processes.running(owner, "server")) == 1
    assert len(processes.stop(owner)) == 1
    assert processes.running(owner) == []


def test_a_known_leader_is_found_without_a_look_at_others(
    owner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = keeper.Leader(owner, "server")
    assert not watched.is_alive()
    pid = started(owner, program(tmp_path, SLEEP))
    assert watched.is_alive()
    with monkeypatch.context() as patch:
        patch.setattr(processes, "everything", lambda: pytest.fail("a look at all processes"))
        assert watched.is_alive()
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not watched.is_alive(), 5, "its end")
    again = started(owner, program(tmp_path, SLEEP))
    assert (watched.is_alive(), watched.pid) == (True, again)


def test_leaders_are_those_of_one_owner_by_name(owner: str, tmp_path: Path) -> None:
    pid = started(owner, program(tmp_path, PARENT))
    assert processes.leaders(owner) == {"server": pid}
    assert processes.leaders(f"{owner}-other") == {}
    processes.stop(owner)
    assert processes.leaders(owner) == {}


def test_one_that_ignores_the_term_signal_is_killed(owner: str, tmp_path: Path) -> None:
    started(owner, program(tmp_path, STUBBORN))
    wait_for((tmp_path / "server.log").read_text, 5, "the handler")
    processes.stop(owner, patience_seconds=0.3)
    assert processes.running(owner) == []


def test_stop_of_one_name_leaves_the_others(owner: str, tmp_path: Path) -> None:
    started(owner, program(tmp_path, SLEEP, "one"))
    started(owner, program(tmp_path, SLEEP, "two"))
    processes.stop(owner, "one")
    assert [process.name for process in processes.running(owner)] == ["two"]


def test_several_names_are_stopped_together(owner: str, tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        started(owner, program(tmp_path, SLEEP, name))
    assert len(processes.stop(owner, "one", "three")) == 2
    assert [process.name for process in processes.running(owner)] == ["two"]


def test_another_owners_process_is_left_alone(owner: str, tmp_path: Path) -> None:
    other = f"{owner}-2"
    started(other, program(tmp_path, SLEEP))
    try:
        processes.stop(owner)
        assert len(processes.running(other)) == 1
    finally:
        processes.stop(other)


def test_a_pid_reused_by_another_process_is_not_signalled() -> None:
    with subprocess.Popen([sys.executable, "-c", SLEEP]) as stranger:
        assert not processes.kill(
            Process(stranger.pid, "unit", "server", leader=False), signal.SIGKILL
        )
        assert stranger.poll() is None
        stranger.kill()
    assert not processes.kill(Process(stranger.pid, "unit", "server", leader=False), signal.SIGKILL)


def test_a_program_that_dies_while_starting_shows_its_log(owner: str, tmp_path: Path) -> None:
    what = program(tmp_path, "raise SystemExit('no such configuration')")
    processes.start(owner, what)
    with pytest.raises(AioError, match="no such configuration"):
        processes.wait_until(lambda: False, owner, what, seconds=10)


def test_a_program_that_is_missing_is_named(owner: str, tmp_path: Path) -> None:
    with pytest.raises(AioError, match="/nowhere/server"):
        processes.start(owner, Program("server", ["/nowhere/server"], tmp_path / "log"))


def test_a_start_does_not_bring_a_deleted_home_back(owner: str, tmp_path: Path) -> None:
    gone = tmp_path / "home/logs"
    with pytest.raises(AioError, match="No such file"):
        processes.start(
            owner, Program("server", [sys.executable, "-c", SLEEP], gone / "server.log")
        )
    assert not gone.parent.exists()
