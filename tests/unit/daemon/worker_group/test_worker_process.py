"""One worker process: derived properties of its state."""

from __future__ import annotations

import itertools

import pytest

from storlet_daemon.worker_group.worker_process import State
from tests.unit.daemon.worker_group.groups import World


@pytest.mark.parametrize(("phase", "is_retiring"), list(itertools.product(State, (False, True))))
def test_a_worker_serves_until_it_ends_or_retires(
    world: World, phase: State, is_retiring: bool
) -> None:
    one = world.add(world.state(), phase, is_retiring=is_retiring)
    assert one.serves is (phase is not State.ENDING and not is_retiring)


@pytest.mark.parametrize(
    ("phase", "has_failed", "was_killed", "expected"),
    [
        (State.ENDING, False, False, False),
        (State.ENDING, True, False, True),
        (State.ENDING, False, True, True),
        (State.BUSY, True, True, False),
    ],
)
def test_a_worker_that_ends_after_a_failure_may_hold_all_resources(
    world: World, phase: State, has_failed: bool, was_killed: bool, expected: bool
) -> None:
    one = world.add(world.state(), phase, has_failed=has_failed, was_killed=was_killed)
    assert one.may_hold_resources is expected


def test_the_last_connection_is_closed_once(world: World) -> None:
    one = world.add(world.state(), State.IDLE)
    one.close_ended()
    one.ended, peer = world.pair()
    one.close_ended()
    assert one.ended is None
    assert peer.recv(1) == b""
    one.close_ended()


def test_workers_are_distinct_even_with_equal_fields(world: World) -> None:
    state = world.state()
    one = world.add(state, State.IDLE)
    other = world.add(state, State.IDLE)
    other.pid, other.channel, other.since = one.pid, one.channel, one.since
    assert one != other
    assert one.seen is not other.seen
    assert one.meter is not other.meter
