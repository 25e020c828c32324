"""The start of a worker: fork, placement into control groups, release."""

from __future__ import annotations

import functools
import math
import time
from typing import Any

import pytest

from storlet_daemon.launch import Start
from storlet_daemon.protocol import messages
from storlet_daemon.protocol.messages import LoadFailed, Place, Resources
from storlet_daemon.worker_group import starting
from storlet_daemon.worker_group.exit_cause import ExitCause
from storlet_daemon.worker_group.group_state import GroupState
from storlet_daemon.worker_group.starting import PLACE_SECONDS, RETRY_SECONDS, ROOM_SECONDS, Starter
from storlet_daemon.worker_group.worker_process import State, WorkerProcess
from tests.unit.daemon.worker_group.groups import World


def starter_of(state: GroupState) -> Starter:
    return Starter(state, ExitCause(state), lambda _one: None)


def started(state: GroupState) -> WorkerProcess:
    starter_of(state).start()
    (one,) = state.workers.values()
    return one


def released(world: World, one: WorkerProcess) -> bytes | None:
    """The message that released the worker."""
    try:
        return world.channels[one.pid].recv(100)
    except BlockingIOError:
        return None


def test_a_new_worker_waits_for_its_placement(world: World) -> None:
    state = world.state(limits=Resources(memory_bytes=5))
    one = started(state)
    assert world.places == [Place(state.load.version, one.pid, Resources(memory_bytes=5))]
    assert (one.state, released(world, one)) == (State.WAITING, None)
    assert one.deadline <= time.monotonic() + PLACE_SECONDS
    assert state.has_changed


def test_a_placed_worker_loads_the_code_before_a_deadline(world: World) -> None:
    state = world.state(load_seconds=9)
    starter = starter_of(state)
    starter.start()
    (one,) = state.workers.values()
    starter.placed(one, "g-1")
    assert released(world, one) == b"gog-1"
    assert (one.state, one.is_placed, state.directory) == (State.LOADING, True, "g-1")
    assert one.deadline == pytest.approx(time.monotonic() + 9, abs=1)
    starter.placed(one, "g-1")
    assert released(world, one) is None, "a worker is released once"


def test_a_worker_that_cannot_be_placed_loads_without_control_groups(world: World) -> None:
    world.can_place = False
    one = started(world.state())
    assert (one.state, one.is_placed, released(world, one)) == (State.LOADING, False, b"go")
    state = world.state()
    world.can_place = True
    starter = starter_of(state)
    starter.start()
    (other,) = state.workers.values()
    starter.placed(other, "")
    assert (other.is_placed, released(world, other), state.control_group) == (False, b"go", None)


def test_a_worker_retired_while_it_waited_still_drains_the_backlog(world: World) -> None:
    state = world.state()
    one = started(state)
    state.retire(one)
    starter_of(state).release(one, "")
    assert released(world, one) == b"go"
    assert released(world, one) == b"", "then its channel is shut down"


def test_code_that_cannot_run_here_starts_a_worker_that_refuses(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.runtime.reason = "python 3.2 is not in this sandbox"
    one = started(world.state())
    assert (one.state, world.places, released(world, one)) == (State.REFUSING, [], b"go")
    refused: list[Any] = []
    monkeypatch.setattr(starting.run_loop, "refuse", lambda *given: refused.append(given))
    (become_worker,) = world.launches
    become_worker(Start(control_group="", channel=4))
    ((config, failure),) = refused
    assert failure == LoadFailed("python 3.2 is not in this sandbox")
    assert (config.main, config.control_group) == ("a.B", "")


def test_a_failed_load_is_answered_until_the_next_attempt_is_due(world: World) -> None:
    state = world.state()
    state.load_failure.record(LoadFailed("why"))
    assert started(state).state is State.REFUSING
    state.workers.clear()
    state.load_failure.until = 0.0
    assert started(state).state is State.WAITING
    assert isinstance(world.launches[1], functools.partial)
    assert world.launches[1].func == world.runtime.become_worker


def test_without_room_the_start_is_deferred(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    state = world.state()
    state.due = math.inf
    starter = starter_of(state)
    world.has_room = False
    now = time.monotonic()
    starter.start()
    assert now + ROOM_SECONDS <= starter.retry_at == state.due

    def refuse(*_arguments: object) -> None:
        raise BlockingIOError

    monkeypatch.setattr(starting, "launch", refuse)
    world.has_room = True
    starter.start()
    assert starter.retry_at >= now + RETRY_SECONDS
    assert state.workers == {}


def test_a_new_node_daemon_is_requested_to_place_all_unplaced_workers(world: World) -> None:
    state = world.state()
    unplaced = world.add(state, State.BUSY)
    world.add(state, State.IDLE, is_placed=True)
    world.add(state, State.REFUSING)
    starter_of(state).announce()
    assert world.places == [messages.Place(state.load.version, unplaced.pid)]


def test_a_worker_without_a_channel_is_not_released(world: World) -> None:
    state = world.state()
    one = world.add(state, State.WAITING)
    state.close_channel(one)
    starter_of(state).release(one, "g-1")
    assert one.state is State.WAITING
