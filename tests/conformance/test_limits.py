"""Limits of a worker group, the errors of invocations that exceed them, and placement in groups."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from storlet_daemon import landlock
from storlet_daemon.protocol import messages
from storlet_daemon.protocol.messages import Resources
from tests.conformance.conftest import ControlGroups
from tests.conformance.daemon_harness import Code, HostSandbox, Storlet, running, until
from tests.conformance.test_workers import is_alive, pid_of

MIB = 1 << 20


@pytest.fixture
def load(
    control_groups: ControlGroups, sandbox: HostSandbox, code: Callable[[str], Code]
) -> Callable[..., Storlet]:
    """``probe`` with limits, its workers in real control groups."""
    sandbox.place = control_groups.place

    def with_limits(workers_max: int = 2, **limits: int) -> Storlet:
        return sandbox.load(code("probe"), workers_max=workers_max, limits=Resources(**limits))

    return with_limits


@pytest.fixture
def folder() -> Iterator[str]:
    """A folder in memory, like a sandbox's scratch space."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as path:
        yield path


# placement


def test_a_worker_waits_for_placement_and_is_placed_with_all_its_processes(
    load: Callable[..., Storlet], sandbox: HostSandbox, control_groups: ControlGroups
) -> None:
    seen = []

    def place(wanted: messages.Place) -> str:
        seen.append(
            Path(f"/proc/{wanted.pid}/cmdline").read_bytes()
            == Path(f"/proc/{sandbox.pid}/cmdline").read_bytes()
        )
        return control_groups.place(wanted)

    sandbox.place = place
    storlet = load(memory_bytes=256 * MIB)
    with running(storlet.start(do="sleep", seconds="0.2")) as run:
        assert control_groups.members() == set(sandbox.descendants())
        assert run.finish().done.is_ok
    # The moved process still ran the supervisor's own program.
    assert seen
    assert all(seen)
    assert sandbox.placed[0].version == storlet.code.version
    assert sandbox.placed[0].limits == Resources(memory_bytes=256 * MIB)


def test_without_an_answer_a_worker_runs_unplaced_and_is_announced_again(
    sandbox: HostSandbox, code: Callable[[str], Code]
) -> None:
    sandbox.place = lambda _place: None
    began = time.monotonic()
    storlet = sandbox.load(code("probe"), workers_max=1)
    pid = pid_of(storlet)
    assert time.monotonic() - began >= 1
    sandbox.drop_control()
    sandbox.placed.clear()
    sandbox.accept()
    until(lambda: [place.pid for place in sandbox.placed] == [pid])
    assert pid_of(storlet) == pid


def test_without_a_node_daemon_workers_do_not_wait_for_placement(
    sandbox: HostSandbox, code: Callable[[str], Code]
) -> None:
    storlet = sandbox.load(code("probe"), workers_max=1)
    pid = pid_of(storlet)
    sandbox.drop_control()
    placed = len(sandbox.placed)
    storlet.run(do="raise")
    new = pid_of(storlet)
    assert new != pid
    assert len(sandbox.placed) == placed
    sandbox.accept()
    until(lambda: new in {place.pid for place in sandbox.placed[placed:]})


def test_a_worker_that_is_killed_while_it_waits_is_replaced(
    sandbox: HostSandbox, code: Callable[[str], Code]
) -> None:
    killed = []

    def place(wanted: messages.Place) -> str | None:
        if killed:
            return ""
        killed.append(wanted.pid)
        os.kill(wanted.pid, signal.SIGKILL)
        return None

    sandbox.place = place
    assert sandbox.load(code("probe")).run(b"next").output == b"next"
    assert len(sandbox.placed) == 2


def test_replies_about_ended_processes_are_ignored(probe: Storlet, sandbox: HostSandbox) -> None:
    for pid in (0, 1, sandbox.pid, 2**22):
        sandbox.send(messages.Placed(pid, "anything"))
    sandbox.send(messages.Placed(pid_of(probe), "no/such/group"))
    assert probe.run(b"next").output == b"next"


# limits


def test_a_storlet_beyond_its_memory_does_not_affect_another(
    load: Callable[..., Storlet],
    sandbox: HostSandbox,
    code: Callable[[str], Code],
    control_groups: ControlGroups,
) -> None:
    storlet = load(memory_bytes=64 * MIB)
    sandbox.place = lambda _place: ""
    of = code("probe")
    neighbour = sandbox.load(Code(of.folder, of.main, of.file, of.language, "neighbour"))
    sandbox.place = control_groups.place
    with running(neighbour.start(do="sleep", seconds="1")) as run:
        result = storlet.run(do="hold_memory", mib="200")
        assert result.done.code == messages.LIMIT_MEMORY, result.done
        assert result.done.usage is not None
        expected = "more than the 64 MiB" if of.language != "java" else "heap of each worker has"
        assert expected in (result.done.message or "")
        assert run.finish().output == b"slept"
    assert storlet.run(b"next").output == b"next"


def test_refused_processes_are_reported_as_a_limit(load: Callable[..., Storlet]) -> None:
    storlet = load(workers_max=1, processes=40)
    for do in ("threads", "processes"):
        result = storlet.run(do=do, count="60")
        assert result.done.code == messages.LIMIT_PROCESSES, result.done
        assert storlet.run(b"next").output == b"next"


def test_scratch_space_that_is_used_up_ends_the_invocation(
    load: Callable[..., Storlet], folder: str, sandbox: HostSandbox
) -> None:
    storlet = load(memory_bytes=256 * MIB, scratch_bytes=4 * MIB)
    assert storlet.run(do="scratch", folder=folder, files="3", seconds="0.4").output == b"filled"
    began = time.monotonic()
    # A second worker may have been started, which may hold some files.
    done = storlet.run(do="scratch", folder=folder, files="8", seconds="30").done
    assert time.monotonic() - began < 10
    assert done.code == messages.LIMIT_SCRATCH
    assert "more than the 4 MiB" in (done.message or "")
    for file in Path(folder).iterdir():
        file.unlink()
    assert storlet.run(b"next").output == b"next"
    assert is_alive(sandbox.pid)


def test_a_file_that_is_too_long_is_an_error_of_the_write(
    load: Callable[..., Storlet], folder: str
) -> None:
    done = (
        load(scratch_bytes=4 * MIB)
        .run(do="scratch", folder=folder, files="1", mib="5", seconds="0")
        .done
    )
    assert done.code == messages.LIMIT_SCRATCH
    assert "File too large" in (done.message or "")


def test_open_files_are_limited(load: Callable[..., Storlet]) -> None:
    storlet = load(open_files=100)
    assert storlet.run(do="open", count="20").output == b"20"
    done = storlet.run(do="open", count="100").done
    assert done.code == messages.FAILED
    assert "Too many open files" in (done.message or "")


def test_the_number_of_workers_is_limited_by_the_storlets_memory(
    load: Callable[..., Storlet], language: str
) -> None:
    shares = {"python": 64, "java": 256, "native": 16}
    storlet = load(workers_max=4, memory_bytes=shares[language] * MIB)
    with (
        running(storlet.start(do="sleep", seconds="0.5")),
        running(storlet.start(do="sleep", seconds="0.5")),
        storlet.start(b"third") as third,
    ):
        time.sleep(0.1)
        assert storlet.group.workers == 2
        assert third.finish().output == b"third"


# queries of the node daemon


def test_a_supervisor_reports_the_actual_state_of_its_sandbox(sandbox: HostSandbox) -> None:
    answer = sandbox.ask(messages.Inspect(3))
    assert isinstance(answer, messages.Inspected)
    assert answer.request == 3
    assert "NoNewPrivs" in answer.files["/proc/self/status"]


def test_a_sandbox_with_storlets_is_not_assigned_again(
    probe: Storlet, sandbox: HostSandbox
) -> None:
    answer = sandbox.ask(messages.Assign(4, 1_234_567, 1_234_567))
    assert isinstance(answer, messages.Refused)
    assert probe.run(b"next").output == b"next"


# storlets of one tenant among themselves


def test_a_storlet_cannot_look_into_the_workers_of_another_or_into_the_supervisor(
    user_sandbox: HostSandbox, code: Callable[[str], Code]
) -> None:
    storlet = user_sandbox.load(code("probe"))
    of = code("probe")
    victim = user_sandbox.load(Code(of.folder, of.main, of.file, of.language, "victim"))
    for pid in (pid_of(victim), user_sandbox.pid):
        assert storlet.run(do="spy", pid=str(pid)).output == b""
    # Control: without isolation the same attempt succeeds in this sandbox.
    own_child = "self" if of.language == "java" else str(pid_of(storlet))
    assert storlet.run(do="spy", pid=own_child).done.is_ok


def test_a_storlet_cannot_signal_another(
    user_sandbox: HostSandbox, code: Callable[[str], Code]
) -> None:
    storlet = user_sandbox.load(code("probe"))
    of = code("probe")
    victim = user_sandbox.load(
        Code(of.folder, of.main, of.file, of.language, "victim"), workers_max=1
    )
    pid = pid_of(victim)
    with running(victim.start(do="spin")):
        # Signal 0 has no effect on kernels that let it pass.
        answer = storlet.run(do="signal", pid=str(pid), signal="0").output
        assert (answer == b"sent") is (landlock.interface() < 6)
