"""Why a worker died: code and text for its invocation, or a failed load."""

from __future__ import annotations

import os

import pytest

from storlet_daemon.protocol import messages
from storlet_daemon.protocol.descriptors import sealed_memory
from storlet_daemon.worker_group.exit_cause import CRASHES_MAX, ExitCause, describe_exit, mebibytes
from storlet_daemon.worker_group.worker_process import State
from tests.unit.daemon.worker_group.groups import World


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (0, "exited with code 0"),
        (3 << 8, "exited with code 3"),
        (11, "was killed by signal 11 (SIGSEGV)"),
        (9, "was killed by signal 9 (SIGKILL)"),
        (50, "was killed by signal 50"),
    ],
)
def test_an_exit_status_is_described(status: int, words: str) -> None:
    assert describe_exit(status) == words


KILLED = 9


def test_a_kill_for_misbehaviour_has_its_own_reason(world: World) -> None:
    state = world.state()
    one = world.add(state, State.ENDING, was_killed=True)
    one.kill_reason = (messages.LIMIT_SCRATCH, "why")
    assert ExitCause(state).of_run(one, KILLED) == (messages.LIMIT_SCRATCH, "why")


@pytest.mark.parametrize(
    ("status", "was_killed", "kills", "code"),
    [
        (KILLED, False, 1, messages.LIMIT_MEMORY),
        (KILLED, False, 0, messages.FAILED),
        (KILLED, True, 1, messages.FAILED),
        (11, False, 1, messages.FAILED),
        (1 << 8, False, 1, messages.FAILED),
    ],
)
def test_memory_is_the_cause_if_the_kernel_killed_the_worker_and_counted_it(
    world: World, status: int, was_killed: bool, kills: int, code: str
) -> None:
    state = world.state()
    one = world.add(state, State.BUSY, was_killed=was_killed)
    world.kills = kills
    assert ExitCause(state).of_run(one, status)[0] == code


def test_each_kill_of_the_kernel_explains_one_death(world: World) -> None:
    state = world.state()
    cause, one = ExitCause(state), world.add(state, State.BUSY)
    world.kills = 1
    assert cause.of_run(one, KILLED) == (
        messages.LIMIT_MEMORY,
        "storlet was killed: the sandbox has run out of memory",
    )
    assert cause.of_run(one, KILLED) == (
        messages.FAILED,
        "storlet was killed by signal 9 (SIGKILL) before it was done",
    )


def test_kills_of_several_workers_at_once_explain_each_death(world: World) -> None:
    """The kernel counts both before the supervisor has reaped the first."""
    state = world.state()
    cause = ExitCause(state)
    workers = [world.add(state, State.BUSY) for _ in range(2)]
    world.kills = 2
    assert [cause.of_run(one, KILLED)[0] for one in workers] == [messages.LIMIT_MEMORY] * 2


@pytest.mark.parametrize(
    ("full", "shmem", "text", "clears"),
    [
        (True, 0, "its workers together used more than the 64 MiB of its limit", False),
        (False, 0, "the sandbox has run out of memory", False),
        (True, 20 << 20, "its workers together used more than the 64 MiB of its limit", True),
    ],
)
def test_the_limit_of_the_storlet_is_named_if_its_own_control_group_was_full(
    world: World, full: bool, shmem: int, text: str, clears: bool
) -> None:
    """Files in memory outlive their process, so a large share of the limit is cleared."""
    state = world.state(limits=messages.Resources(memory_bytes=64 << 20))
    world.control_group(state, memory_events="oom_kill 0\n")
    cause, one = ExitCause(state), world.add(state, State.BUSY)
    assert state.control_group is not None
    cause.count_kills_in(state.control_group)
    world.control_group(
        state,
        memory_events="oom_kill 1\n",
        memory_events_local=f"oom {int(full)}\n",
        memory_stat=f"shmem {shmem}\n",
    )
    assert cause.of_run(one, KILLED) == (messages.LIMIT_MEMORY, f"storlet was killed: {text}")
    assert ("clear_scratch" in world.calls) is clears


def test_a_failed_load_comes_with_the_printed_output(world: World) -> None:
    state = world.state()
    one = world.add(state, State.LOADING, output=sealed_memory("output", 100))
    os.write(one.output, b"Traceback ...\n")
    cause = ExitCause(state)
    assert cause.of_load(one, 3 << 8) == messages.LoadFailed(
        "the process ended while it loaded the code: exited with code 3", "Traceback ...\n"
    )
    one.load_error = "loading took longer than 30 seconds"
    assert cause.of_load(one, KILLED).message == one.load_error
    os.close(one.output)
    one.output = -1
    assert cause.of_load(one, KILLED).traceback is None


def test_workers_that_keep_exiting_are_a_failed_load(world: World) -> None:
    state = world.state()
    cause = ExitCause(state)
    for _ in range(CRASHES_MAX - 1):
        cause.count_crash(0)
    cause.reset_crashes()
    for _ in range(CRASHES_MAX - 1):
        cause.count_crash(0)
    assert state.load_failure.reason is None, "a run was completed in between"
    cause.count_crash(0)
    assert state.load_failure.reason == messages.LoadFailed(
        "the process exits by itself after loading: exited with code 0"
    )


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 MiB"), (1 << 19, "0.5 MiB"), (64 << 20, "64 MiB"), (1 << 30, "1024 MiB")],
)
def test_sizes_in_error_texts(size: int, text: str) -> None:
    assert mebibytes(size) == text
