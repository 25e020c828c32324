"""The groups of a sandbox: the current ones, those that leave, and the room for one more worker."""

from __future__ import annotations

import pytest

from storlet_daemon.budget import Budget
from storlet_daemon.protocol import framing
from storlet_daemon.worker_group.group import WorkerGroup
from storlet_daemon.worker_group.worker_process import State
from storlet_daemon.worker_groups import WorkerGroups
from tests.unit.daemon.loads import load_of
from tests.unit.daemon.worker_group.groups import World


@pytest.fixture
def groups() -> WorkerGroups:
    """Groups whose sandbox has room for two workers."""
    return WorkerGroups(Budget(tasks=2, memory_bytes=0))


def add(world: World, groups: WorkerGroups, version: str, *phases: State) -> WorkerGroup:
    """A group with a worker for each of ``phases``."""
    group = WorkerGroup(load_of(version=version), world.listen(), world.runtime, world.hooks)
    world.states.append(group.state)
    for phase in phases:
        world.add(group.state, phase)
    groups.add(version, group)
    return group


def test_there_are_no_groups_at_first(groups: WorkerGroups) -> None:
    assert not groups
    assert (list(groups), groups.versions, groups.pids, groups.status(1).groups) == (
        [],
        (),
        set(),
        (),
    )
    assert groups.current("a") is None
    groups.unload("a")


def test_a_status_that_does_not_fit_has_the_groups_that_are_busy(
    world: World, groups: WorkerGroups
) -> None:
    """The longest names take twice their bytes, and a message has 64 KiB."""
    for number in range(128):
        load = load_of(version=f"{number:064x}", code="c" * 64, name='"' * 255)
        group = WorkerGroup(load, world.listen(), world.runtime, world.hooks)
        world.states.append(group.state)
        group.state.active_at -= number
        if number % 4 == 3:
            world.add(group.state, State.BUSY)
        groups.add(load.version, group)
    status = groups.status(7)
    framing.encode(status)
    assert status.request == 7
    assert [each.busy for each in status.groups[:32]] == [1] * 32
    idle = [int(each.version, 16) for each in status.groups[32:]]
    assert idle == [number for number in range(128) if number % 4 != 3][: len(idle)]
    assert len(status.groups) > 64


def test_a_worker_has_its_group(world: World, groups: WorkerGroups) -> None:
    first = add(world, groups, "a", State.IDLE)
    second = add(world, groups, "b", State.IDLE, State.IDLE)
    assert groups.current("b") is second
    for group in (first, second):
        assert {groups.of(pid) for pid in group.workers} == {group}
    assert groups.pids == {*first.workers, *second.workers}
    assert groups.of(1) is None
    assert [each.workers for each in groups.status(1).groups] == [1, 2]


def test_a_group_that_leaves_stays_until_its_last_worker_has_exited(
    world: World, groups: WorkerGroups
) -> None:
    group = add(world, groups, "a", State.BUSY)
    groups.unload("a")
    assert (groups.versions, groups.status(1).groups) == ((), ())
    assert list(groups) == [group]
    groups.drop_if_left(group)
    assert groups
    group.workers.clear()
    groups.drop_if_left(group)
    assert not groups


def test_a_group_without_workers_leaves_at_once(world: World, groups: WorkerGroups) -> None:
    add(world, groups, "a")
    groups.unload("a")
    assert not groups


@pytest.mark.parametrize(
    ("phase", "is_active"), [(State.IDLE, False), (State.BUSY, True), (State.LOADING, True)]
)
def test_groups_are_active_while_a_worker_is(
    world: World, groups: WorkerGroups, phase: State, is_active: bool
) -> None:
    add(world, groups, "a", State.IDLE)
    add(world, groups, "b", phase)
    assert groups.are_active is is_active


def test_without_room_the_group_that_is_idle_for_longest_retires_its_workers(
    world: World, groups: WorkerGroups
) -> None:
    old, new = (add(world, groups, version, State.IDLE) for version in ("old", "new"))
    requester = add(world, groups, "more").state
    old.state.active_at -= 10
    assert not groups.make_room(requester)
    assert all(one.is_retiring for one in old.workers.values())
    assert not any(one.is_retiring for one in new.workers.values())


def test_there_is_room_below_the_budget_and_for_a_first_worker(world: World) -> None:
    small = WorkerGroups(Budget(tasks=1, memory_bytes=1))
    group = add(world, small, "a")
    assert small.make_room(group.state)
    world.add(group.state, State.BUSY)
    assert not small.make_room(group.state)
