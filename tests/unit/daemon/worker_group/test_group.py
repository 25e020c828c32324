"""A worker group as its supervisor uses it: commands, the clock, the end of a worker."""

from __future__ import annotations

import math
import resource
import socket
import time
from typing import Any

import pytest

from storlet_daemon.protocol import messages
from storlet_daemon.worker_group.group import WorkerGroup
from storlet_daemon.worker_group.group_state import GroupState
from storlet_daemon.worker_group.worker_process import State, WorkerProcess
from tests.unit.daemon.loads import load_of
from tests.unit.daemon.worker_group.groups import World, done_of, is_shut_down


def used() -> resource.struct_rusage:
    """The usage of a dead process. A module-level value fails when the interpreter exits."""
    return resource.struct_rusage([0.5, 0.25, 100, *[0] * 13])


def group_of(world: World, **changes: Any) -> WorkerGroup:
    group = WorkerGroup(load_of(**changes), world.listen(), world.runtime, world.hooks)
    world.states.append(group.state)
    return group


def started(world: World, **changes: Any) -> tuple[WorkerGroup, WorkerProcess]:
    """A group with its first worker, which is idle."""
    group = group_of(world, **changes)
    group.begin()
    (one,) = group.workers.values()
    group.placed(one.pid, "")
    world.report(one, messages.Ready())
    world.poller.wait(1)
    assert one.state is State.IDLE
    return group, one


def running(world: World, group: WorkerGroup, one: WorkerProcess) -> socket.socket:
    """Begin an invocation; return the filter's end."""
    ours, filters = world.pair()
    world.report(one, messages.Begin(), fd=ours.fileno())
    world.poller.wait(1)
    ours.close()
    assert one.state is State.BUSY
    return filters


def test_a_group_starts_one_worker_and_waits_for_nothing_else(world: World) -> None:
    group, _ = started(world)
    assert len(world.launches) == 1
    assert group.awaited is None
    assert not group.is_active


def test_the_status_counts_runs_failures_and_idle_time(world: World) -> None:
    group, one = started(world, name="a.py")
    filters = running(world, group, one)
    status = group.status()
    assert (status.name, status.workers, status.busy, status.idle_seconds) == ("a.py", 1, 1, 0.0)
    assert group.is_active
    world.report(one, messages.End(failed=True))
    world.poller.wait(1)
    group.state.active_at -= 5
    status = group.status()
    assert (status.busy, status.runs, status.failures) == (0, 1, 1)
    assert status.idle_seconds >= 5
    filters.close()


def test_a_group_is_busy_as_soon_as_a_filter_has_connected(world: World) -> None:
    """A sandbox whose groups report to be idle is ended, and with it what has just connected."""
    group, one = started(world)
    group.state.active_at -= 60
    assert group.status().busy == 0
    world.connect(group.state.listening)
    status = group.status()
    assert (status.busy, status.idle_seconds) == (1, 0.0)
    accepted, _ = group.state.listening.accept()
    world.report(one, messages.Begin(), fd=accepted.fileno())
    accepted.close()
    status = group.status()
    assert (status.busy, status.idle_seconds) == (1, 0.0), "the report was not read yet"


def test_an_idle_group_is_idle_since_its_last_invocation(world: World) -> None:
    group, one = started(world)
    assert group.idle_since == group.state.active_at
    group.rest()
    assert one.is_retiring
    assert group.idle_since == math.inf, "there is nothing left to retire"


def test_the_same_socket_again_only_replaces_the_parameters(world: World) -> None:
    group, one = started(world)
    again = group.state.listening.dup()
    group.replace(load_of(idle_seconds=5), again)
    assert (again.fileno(), group.state.load.idle_seconds) == (-1, 5)
    assert not one.is_retiring
    assert len(world.launches) == 1


def test_another_socket_is_served_by_new_workers(world: World) -> None:
    group, one = started(world)
    old, new = group.state.listening, world.listen()
    group.replace(load_of(), new)
    assert one.is_retiring
    assert (group.state.listening, old.fileno()) == (new, -1)
    assert len(world.launches) == 2
    assert is_shut_down(world.channels[one.pid]), "it drains the old backlog, then exits"


def test_a_group_that_leaves_refuses_connections_and_lets_its_workers_finish(
    world: World,
) -> None:
    group, one = started(world)
    path = group.state.listening.getsockname()
    filters = running(world, group, one)
    group.leave()
    late = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with late, pytest.raises(ConnectionRefusedError):
        late.connect(path)
    assert (one.is_retiring, one.state, world.killed) == (True, State.BUSY, [])
    filters.close()


def test_a_connection_that_waits_when_the_group_leaves_gets_a_worker(world: World) -> None:
    group = group_of(world)
    group.state.listening.setblocking(False)
    world.connect(group.state.listening)
    group.leave()
    assert len(world.launches) == 1


def test_the_invocation_of_a_worker_that_died_gets_a_done(world: World) -> None:
    group, one = started(world)
    filters = running(world, group, one)
    group.exited(one.pid, 11, used())
    done = done_of(filters)
    assert (done.code, done.message) == (
        messages.FAILED,
        "storlet was killed by signal 11 (SIGSEGV) before it was done",
    )
    assert filters.recv(1) == b""
    assert (group.state.runs, group.state.failures) == (1, 1)
    assert "sweep" in world.calls
    assert len(world.launches) == 2, "it is replaced"


def test_a_cancelled_invocation_gets_no_done_and_does_not_count(world: World) -> None:
    group, one = started(world)
    filters = running(world, group, one)
    one.cancelled = one.connection
    group.exited(one.pid, 9, used())
    assert filters.recv(1000) == b""
    assert (group.state.runs, group.state.failures) == (0, 0)


def test_reports_sent_before_its_death_are_read_first(world: World) -> None:
    """The worker has ended the run, so only its own ``done`` can be missing."""
    group, one = started(world)
    filters = running(world, group, one)
    world.report(one, messages.End(recycle=True))
    group.exited(one.pid, 0, used())
    assert (group.state.runs, group.state.failures) == (1, 0)
    assert done_of(filters).outcome == messages.ERROR, "used only if the worker has sent none"


def test_a_worker_that_dies_while_it_loads_is_a_failed_load(world: World) -> None:
    group = group_of(world)
    group.begin()
    (one,) = group.workers.values()
    group.placed(one.pid, "")
    group.exited(one.pid, 1 << 8, used())
    reason = group.state.load_failure.reason
    assert reason is not None
    assert reason.message == "the process ended while it loaded the code: exited with code 1"


def test_a_load_that_takes_too_long_is_killed_with_its_reason(world: World) -> None:
    group = group_of(world, load_seconds=3)
    group.begin()
    (one,) = group.workers.values()
    group.placed(one.pid, "")
    group.tick(one.deadline)
    assert world.killed == [one.pid]
    group.exited(one.pid, 9, used())
    reason = group.state.load_failure.reason
    assert reason is not None
    assert reason.message == "loading took longer than 3 seconds"


def test_a_worker_without_placement_is_released_after_a_while(world: World) -> None:
    group = group_of(world)
    group.begin()
    (one,) = group.workers.values()
    assert one.state is State.WAITING
    assert group.due <= one.deadline
    group.tick(one.deadline)
    assert one.state is State.LOADING


def test_an_idle_worker_is_retired_after_its_time(world: World) -> None:
    group, one = started(world, idle_seconds=5)
    group.tick(one.since + 4.9)
    assert not one.is_retiring
    assert group.due == pytest.approx(one.since + 5)
    group.tick(one.since + 5)
    assert one.is_retiring


def test_a_worker_that_does_not_exit_after_its_end_is_killed(world: World) -> None:
    group, one = started(world)
    filters = running(world, group, one)
    world.report(one, messages.End(recycle=True))
    world.poller.wait(1)
    group.tick(one.deadline)
    assert world.killed == [one.pid]
    group.exited(one.pid, 9, used())
    message = done_of(filters).message
    assert message is not None
    assert "did not exit" in message


def test_a_group_of_idle_workers_that_die_reports_a_failed_load(world: World) -> None:
    group, one = started(world)
    for _ in range(3):
        assert group.state.load_failure.reason is None
        group.exited(one.pid, 0, used())
        one = world.add(group.state, State.IDLE)
    assert group.state.load_failure.reason is not None


def test_the_state_and_its_next_tick_are_those_of_the_group(world: World) -> None:
    group, _ = started(world, idle_seconds=60)
    assert isinstance(group.state, GroupState)
    group.tick(time.monotonic())
    assert time.monotonic() < group.due <= time.monotonic() + 60
