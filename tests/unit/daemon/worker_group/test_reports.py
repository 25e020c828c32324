"""The reports of workers: valid sequences, and workers that send any other."""

from __future__ import annotations

import math
import os
import socket
from collections.abc import Callable

import pytest

from storlet_daemon.protocol.messages import Begin, End, LoadFailed, Message, Ready
from storlet_daemon.worker_group.cancellation import Cancellation
from storlet_daemon.worker_group.exit_cause import ExitCause
from storlet_daemon.worker_group.group_state import GroupState
from storlet_daemon.worker_group.policing import Policing
from storlet_daemon.worker_group.reports import OVERTIME_SECONDS, Reports, peer_uid
from storlet_daemon.worker_group.scaling import Scaling
from storlet_daemon.worker_group.starting import Starter
from storlet_daemon.worker_group.worker_process import State, WorkerProcess
from tests.unit.daemon.worker_group.groups import World


class Group:
    """A group whose listening socket was made by this user, as in tests on a host."""

    def __init__(self, world: World, state: GroupState) -> None:
        self.world = world
        self.state = state
        cause = ExitCause(state)
        self.starter = Starter(state, cause, lambda _one: None)
        scaling = Scaling(state, self.starter)
        cancellation = Cancellation(state, Policing(state), self.read, scaling.settle)
        self.reports = Reports(state, cause, self.starter, scaling, cancellation)
        self.reports.listener_uid = os.getuid()

    def read(self, one: WorkerProcess) -> None:
        self.reports.read(one)

    def report(self, one: WorkerProcess, *reports: Message, fd: int = -1) -> None:
        """Send the reports of a worker, and apply them."""
        self.world.report(one, *reports, fd=fd)
        self.reports.read(one)

    def connection(self) -> int:
        """A connection that the filter has made."""
        return self.world.pair()[0].fileno()


@pytest.fixture
def group(world: World) -> Group:
    return Group(world, world.state())


def test_the_reports_of_a_worker_from_its_load_to_its_recycling(world: World, group: Group) -> None:
    one = world.add(group.state, State.LOADING)
    group.report(one, Ready())
    assert (one.state, one.has_loaded) == (State.IDLE, True)
    group.report(one, Begin(), fd=group.connection())
    assert one.state is State.BUSY
    assert one.connection is not None
    group.report(one, End())
    assert (one.state, one.connection, one.runs) == (State.IDLE, None, 1)
    group.report(one, Begin(), fd=group.connection())
    group.report(one, End(recycle=True, failed=True))
    assert (one.state, one.has_failed) == (State.ENDING, True)
    assert one.deadline < math.inf
    assert (group.state.runs, group.state.failures) == (2, 1)
    assert world.calls.count("invocation_changed") == 4
    assert world.killed == []


def test_several_reports_are_applied_at_once_up_to_a_number(world: World, group: Group) -> None:
    one = world.add(group.state, State.IDLE)
    for _ in range(3):
        world.report(one, Begin(), fd=group.connection())
        world.report(one, End())
    group.reports.read(one, 3)
    assert (one.state, one.runs) == (State.BUSY, 1)
    group.reports.read(one)
    assert (one.state, one.runs) == (State.IDLE, 3)


@pytest.mark.parametrize(
    ("phase", "report"),
    [
        (State.WAITING, Ready()),
        (State.IDLE, Ready()),
        (State.IDLE, LoadFailed("why")),
        (State.IDLE, End()),
        (State.LOADING, End()),
        (State.REFUSING, Ready()),
    ],
)
def test_a_report_that_does_not_fit_the_state_kills_the_worker(
    world: World, group: Group, phase: State, report: Message
) -> None:
    one = world.add(group.state, phase)
    group.report(one, report)
    assert (world.killed, one.channel) == ([one.pid], None)


@pytest.mark.parametrize("data", [b"no JSON", b'{"type":"begin","id":"x"}', b'{"type":"done"}'])
def test_a_violation_of_the_protocol_kills_the_worker(
    world: World, group: Group, data: bytes
) -> None:
    one = world.add(group.state, State.IDLE)
    world.channels[one.pid].send(data)
    group.reports.read(one)
    assert world.killed == [one.pid]


def test_the_end_of_the_channel_gives_the_worker_a_deadline(world: World, group: Group) -> None:
    one = world.add(group.state, State.IDLE)
    world.channels[one.pid].close()
    group.reports.read(one)
    assert (one.channel, world.killed) == (None, [])
    assert one.deadline < math.inf


def test_a_connection_that_was_reported_before_kills_the_worker(world: World, group: Group) -> None:
    one = world.add(group.state, State.IDLE)
    fd = group.connection()
    group.report(one, Begin(), fd=fd)
    group.report(one, End())
    group.report(one, Begin(), fd=fd)
    assert world.killed == [one.pid]
    assert one.kill_reason is not None
    assert "does not exist" in one.kill_reason[1]


def pipe() -> int:
    reading, writing = os.pipe()
    os.close(writing)
    return reading


def own_socket() -> int:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.close()
    return ours.detach()


@pytest.mark.parametrize("make", [pipe, own_socket])
def test_a_connection_that_the_filter_has_not_made_kills_the_worker(
    world: World, group: Group, make: Callable[[], int]
) -> None:
    group.reports.listener_uid = os.getuid() + 1
    one = world.add(group.state, State.IDLE)
    fd = make()
    group.report(one, Begin(), fd=fd)
    os.close(fd)
    assert world.killed == [one.pid]


def test_a_worker_that_does_not_recycle_itself_is_killed(world: World) -> None:
    group = Group(world, world.state(runs_per_worker=2))
    one = world.add(group.state, State.IDLE)
    for _ in range(3):
        assert world.killed == []
        group.report(one, Begin(), fd=group.connection())
        group.report(one, End())
    assert world.killed == [one.pid]


@pytest.mark.parametrize("overtime", [-1.0, 1.0])
def test_a_worker_that_does_not_leave_at_its_age_is_killed(world: World, overtime: float) -> None:
    """It may keep deleted objects of its runs on the disk, and is never idle."""
    group = Group(world, world.state())
    one = world.add(group.state, State.LOADING)
    group.report(one, Ready())
    one.loaded_at -= group.state.load.worker_seconds + OVERTIME_SECONDS + overtime
    group.report(one, Begin(), fd=group.connection())
    assert world.killed == [], "its last run is undisturbed"
    group.report(one, End())
    assert world.killed == ([one.pid] if overtime > 0 else [])


def test_a_failed_load_is_answered_by_its_worker(world: World, group: Group) -> None:
    one = world.add(group.state, State.LOADING)
    group.report(one, LoadFailed("why", "where"))
    assert (one.state, one.is_retiring) == (State.REFUSING, False)
    assert group.state.load_failure.reason == LoadFailed("why", "where")


def test_a_failed_load_beside_workers_that_have_the_code_is_retired(
    world: World, group: Group
) -> None:
    world.add(group.state, State.IDLE)
    one = world.add(group.state, State.LOADING)
    group.report(one, LoadFailed("why"))
    assert one.is_retiring
    assert group.state.load_failure.reason is None
    assert group.starter.retry_at > 0.0


def test_a_successful_load_ends_the_refusals(world: World, group: Group) -> None:
    group.state.load_failure.record(LoadFailed("why"))
    group.report(world.add(group.state, State.LOADING), Ready())
    assert group.state.load_failure.reason is None


def test_the_user_of_a_peer(world: World) -> None:
    one, _ = world.pair()
    assert peer_uid(one) == peer_uid(world.listen()) == os.getuid()
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as other:
        assert peer_uid(other) != os.getuid()
