"""The shared state of a group: the clock, and the end of a worker."""

from __future__ import annotations

import math
import os
import signal
import time
from pathlib import Path

import pytest

from storlet_daemon.protocol.messages import LoadFailed
from storlet_daemon.worker_group.group_state import (
    CLEAN_UP_SECONDS,
    LEAVE_SECONDS,
    REFUSE_SECONDS,
    SHORT_SECONDS,
    STOP_SECONDS,
    WATCH_SECONDS,
    LoadFailure,
)
from storlet_daemon.worker_group.worker_process import State
from tests.unit.daemon.worker_group.groups import World, is_shut_down

NOW = 1000.0


def test_a_failed_load_is_the_answer_for_a_limited_time() -> None:
    failure, reason = LoadFailure(), LoadFailed("why")
    assert not failure.is_current(0.0)
    failure.record(reason)
    now = time.monotonic()
    assert failure.reason == reason
    assert failure.is_current(now)
    assert not failure.is_current(now + REFUSE_SECONDS)
    failure.clear()
    assert not failure.is_current(now)


def test_the_next_tick_only_becomes_earlier(world: World) -> None:
    state = world.state()
    state.due = math.inf
    for moment, due in ((20.0, 20.0), (30.0, 20.0), (10.0, 10.0)):
        state.tick_at(moment)
        assert state.due == due
    state.set_deadline(world.add(state, State.LOADING), 5.0)
    assert state.due == 5.0


@pytest.mark.parametrize(
    ("phase", "changes", "seconds"),
    [
        (State.BUSY, {}, SHORT_SECONDS),
        (State.BUSY, {"is_long": True}, WATCH_SECONDS),
        (State.BUSY, {"is_long": True, "is_watched": True}, math.inf),
        (State.BUSY, {"is_watched": True, "taken_at": NOW}, SHORT_SECONDS),
        (State.BUSY, {"is_watched": True, "taken_at": NOW, "is_long": True}, CLEAN_UP_SECONDS),
        (State.IDLE, {}, 60.0),
        (State.IDLE, {"is_retiring": True}, math.inf),
        (State.LOADING, {}, math.inf),
        (State.WAITING, {}, math.inf),
        (State.ENDING, {}, math.inf),
    ],
)
def test_the_clock_changes_a_worker_after_a_bound_of_its_state(
    world: World, phase: State, changes: dict[str, object], seconds: float
) -> None:
    state = world.state(idle_seconds=60)
    one = world.add(state, phase, since=NOW, **changes)
    assert state.next_change(one) == pytest.approx(NOW + seconds)


def test_a_refusing_worker_is_replaced_when_the_load_is_tried_again(world: World) -> None:
    state = world.state()
    state.load_failure.record(LoadFailed("why"))
    one = world.add(state, State.REFUSING)
    assert state.next_change(one) == state.load_failure.until


@pytest.mark.parametrize(
    ("phase", "is_shut", "has_deadline"),
    [
        (State.IDLE, True, True),
        (State.REFUSING, True, True),
        (State.BUSY, True, False),
        (State.LOADING, True, False),
        (State.WAITING, False, False),  # it may be the one that drains the backlog
    ],
)
def test_a_retired_worker_ends_when_it_has_nothing_to_do(
    world: World, phase: State, is_shut: bool, has_deadline: bool
) -> None:
    state = world.state()
    one = world.add(state, phase)
    state.retire(one)
    assert one.is_retiring
    assert is_shut_down(world.channels[one.pid]) is is_shut
    assert (one.deadline < time.monotonic() + LEAVE_SECONDS + 1) is has_deadline
    assert state.serving() == []
    assert world.signals == []


def test_a_worker_whose_channel_is_broken_is_killed_instead_of_retired(world: World) -> None:
    state = world.state()
    one = world.add(state, State.IDLE)
    assert one.channel is not None
    with Path(os.devnull).open("rb") as null:
        os.dup2(null.fileno(), one.channel.fileno())
    state.retire(one)
    assert world.signals == [(one.pid, signal.SIGKILL)]


def test_after_the_end_of_its_channel_a_worker_has_to_exit_soon(world: World) -> None:
    state = world.state()
    one = world.add(state, State.IDLE)
    state.close_channel(one)
    assert one.channel is None
    assert one.deadline <= time.monotonic() + STOP_SECONDS
    assert world.channels[one.pid].recv(1) == b""
    earlier = one.deadline = 1.0
    state.close_channel(one)
    assert one.deadline == earlier


def test_a_worker_that_was_reaped_is_not_killed(world: World) -> None:
    """Its pid may belong to another process by now."""
    state = world.state()
    one = world.add(state, State.BUSY)
    state.kill(one)
    assert (one.state, one.was_killed, one.deadline) == (State.ENDING, True, math.inf)
    del state.workers[one.pid]
    state.kill(one)
    assert world.signals == [(one.pid, signal.SIGKILL)]


def test_a_worker_killed_while_it_loads_stays_in_that_state(world: World) -> None:
    """Its death is a failed load."""
    state = world.state()
    one = world.add(state, State.LOADING)
    state.kill(one)
    assert (one.state, one.was_killed) == (State.LOADING, True)


def test_the_end_of_the_supervisor_kills_every_worker(world: World) -> None:
    state = world.state()
    pids = [world.add(state, phase).pid for phase in State]
    state.kill_all()
    assert world.killed == pids
