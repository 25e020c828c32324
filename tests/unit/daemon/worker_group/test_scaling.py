"""When one more worker is started, and when idle ones are retired."""

from __future__ import annotations

import time

import pytest

from storlet_daemon.protocol.messages import LoadFailed, Resources
from storlet_daemon.worker_group.exit_cause import ExitCause
from storlet_daemon.worker_group.group_state import GroupState
from storlet_daemon.worker_group.scaling import Scaling
from storlet_daemon.worker_group.starting import Starter
from storlet_daemon.worker_group.worker_process import State
from tests.unit.daemon.worker_group.groups import World


class Group:
    """The part of a group that decides the number of its workers."""

    def __init__(self, state: GroupState) -> None:
        self.state = state
        self.starter = Starter(state, ExitCause(state), lambda _one: None)
        self.scaling = Scaling(state, self.starter)

    @property
    def waits(self) -> bool:
        """True if the next connection starts a worker."""
        self.scaling.settle()
        return self.scaling.awaited is not None


@pytest.fixture
def group(world: World) -> Group:
    return Group(world.state())


def test_the_first_connection_starts_the_first_worker(world: World, group: Group) -> None:
    assert group.waits
    assert group.scaling.awaited == group.state.listening.fileno()
    world.poller.wait(0)
    assert world.launches == [], "nothing is started without a connection"
    world.connect(group.state.listening)
    world.poller.wait(1)
    assert len(world.launches) == 1
    assert not group.waits, "the new worker will take the connection"


@pytest.mark.parametrize(
    ("phase", "is_long", "waits"),
    [
        (State.WAITING, False, False),
        (State.LOADING, False, False),
        (State.IDLE, False, False),
        (State.REFUSING, False, False),
        (State.BUSY, False, False),  # soon free: most invocations are short
        (State.BUSY, True, True),
        (State.ENDING, False, True),
    ],
)
def test_a_connection_starts_a_worker_only_if_none_is_free_soon(
    world: World, group: Group, phase: State, is_long: bool, waits: bool
) -> None:
    world.add(group.state, phase, is_long=is_long)
    assert group.waits is waits


def test_the_number_of_workers_is_limited(world: World, group: Group) -> None:
    for _ in range(world.runtime.most):
        assert group.waits
        world.add(group.state, State.BUSY, is_long=True)
    assert not group.waits


def test_a_retiring_worker_does_not_count(world: World, group: Group) -> None:
    for _ in range(5):
        world.add(group.state, State.IDLE, is_retiring=True)
    assert group.waits


def test_nothing_is_started_during_a_pause_or_for_a_group_that_leaves(group: Group) -> None:
    group.starter.retry_at = time.monotonic() + 100
    assert not group.waits
    group.starter.retry_at = 0.0
    assert group.waits
    group.state.is_leaving = True
    assert not group.waits


@pytest.mark.parametrize("has_failed", [False, True])
def test_with_limits_a_dying_worker_that_may_hold_resources_delays_the_next(
    world: World, has_failed: bool
) -> None:
    """The new worker could fail although its code is correct."""
    for limits, is_limited in ((Resources(), False), (Resources(memory_bytes=1), True)):
        group = Group(world.state(limits=limits))
        world.add(group.state, State.ENDING, has_failed=has_failed)
        assert group.waits is not (is_limited and has_failed)


def test_a_replacement_is_loaded_before_it_is_needed(world: World, group: Group) -> None:
    world.add(group.state, State.BUSY)
    group.scaling.replace_if_short()
    assert len(world.launches) == 1
    group.scaling.replace_if_short()
    assert len(world.launches) == 1, "the first replacement is on its way"


def test_no_replacement_is_loaded_for_code_that_fails_to_load(world: World, group: Group) -> None:
    group.state.load_failure.record(LoadFailed("why"))
    group.scaling.replace_if_short()
    group.state.load_failure.clear()
    group.state.is_leaving = True
    group.scaling.replace_if_short()
    assert world.launches == []


def test_rest_retires_idle_workers_only(world: World, group: Group) -> None:
    phases = {phase: world.add(group.state, phase) for phase in State}
    group.scaling.rest()
    assert [phase for phase, one in phases.items() if one.is_retiring] == [State.IDLE]
