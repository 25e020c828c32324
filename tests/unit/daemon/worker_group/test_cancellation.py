"""Runs that last: watched connections, disconnects, workers that are stopped."""

from __future__ import annotations

import math
import select
import signal
import socket
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from storlet_daemon.poller import Poller
from storlet_daemon.protocol import framing, messages
from storlet_daemon.worker_group.cancellation import Cancellation
from storlet_daemon.worker_group.group import WorkerGroup
from storlet_daemon.worker_group.group_state import CLEAN_UP_SECONDS, SHORT_SECONDS, GroupState
from storlet_daemon.worker_group.policing import Policing
from storlet_daemon.worker_group.worker_process import State, WorkerProcess
from tests.unit.daemon.worker_group.groups import FullMeter, World

PID = 4711


def worker(channel: socket.socket, state: State) -> WorkerProcess:
    meter: Any = FullMeter()
    return WorkerProcess(PID, channel, -1, state, math.inf, 0.0, has_loaded=True, meter=meter)


class LastingRun:
    """A worker whose run lasts, so that the next connection needs another worker."""

    def __init__(self, one: WorkerProcess) -> None:
        self.one = one
        self.listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listening.bind("")  # an abstract name
        self.listening.listen()
        one.connection, self.filter = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        one.since = time.monotonic() - 60
        self.poller = Poller()
        load: Any = SimpleNamespace(limits=messages.Resources(), idle_seconds=60.0)
        runtime: Any = SimpleNamespace(workers_max=lambda _load: 2)
        around: Any = SimpleNamespace(poller=self.poller)
        self.group = WorkerGroup(load, self.listening, runtime, around)
        self.group.workers[one.pid] = one
        self.group.tick(time.monotonic())  # the run lasts
        self.group.tick(time.monotonic())  # and is watched
        assert self.needs_another

    @property
    def needs_another(self) -> bool:
        return self.group.awaited is not None

    def disconnect(self, *, with_taken: bool) -> None:
        if with_taken:
            framing.send(self.filter, messages.Taken())
        self.filter.close()
        alarm = select.poll()
        alarm.register(self.one.connection or -1, select.POLLRDHUP)
        alarm.poll(1000)
        self.poller.wait(1)

    def close(self) -> None:
        self.listening.close()
        self.filter.close()
        if self.one.connection is not None:
            self.one.connection.close()


@pytest.fixture
def lasting(channel: socket.socket, killed: list[int]) -> Iterator[LastingRun]:
    channel.setblocking(False)
    one = worker(channel, State.BUSY)
    one.meter = SimpleNamespace(mark_run=lambda _pid: None)  # type: ignore[assignment]
    made = LastingRun(one)
    yield made
    made.close()


def test_a_worker_is_about_to_be_free_once_the_filter_has_done(
    lasting: LastingRun, killed: list[int]
) -> None:
    lasting.disconnect(with_taken=True)
    assert not lasting.needs_another
    assert killed == []
    taken_at = lasting.one.taken_at
    assert lasting.group.due == pytest.approx(taken_at + SHORT_SECONDS)
    lasting.group.tick(taken_at + SHORT_SECONDS)
    assert lasting.needs_another, "restoring the process takes long too"
    assert killed == []
    lasting.group.tick(taken_at + CLEAN_UP_SECONDS)
    assert killed == [PID]


def test_a_disconnect_without_taken_cancels_at_once(lasting: LastingRun, killed: list[int]) -> None:
    lasting.disconnect(with_taken=False)
    assert killed == [PID]
    assert lasting.needs_another


# --- a group of made-up workers


def cancellation(world: World, state: GroupState) -> tuple[Cancellation, list[str]]:
    """A cancellation whose reports never change anything, and its calls."""
    calls: list[str] = []
    made = Cancellation(
        state,
        Policing(state),
        lambda _one: calls.append("read_reports"),
        lambda: calls.append("settle"),
    )
    return made, calls


def test_a_stopped_worker_that_still_runs_the_cancelled_invocation_is_killed(
    world: World,
) -> None:
    state = world.state()
    made, calls = cancellation(world, state)
    one = world.add(state, State.BUSY)
    world.run(one)
    one.cancelled = one.connection
    made.stopped(one)
    assert world.signals == [(one.pid, signal.SIGKILL)]
    assert calls == ["read_reports", "settle"]


def test_a_stopped_worker_whose_invocation_is_over_continues(world: World) -> None:
    state = world.state()
    made, _ = cancellation(world, state)
    one = world.add(state, State.BUSY)
    world.run(one)
    one.cancelled = one.connection
    world.run(one)  # its reports show the next invocation
    made.stopped(one)
    assert world.signals == [(one.pid, signal.SIGCONT)]
    assert one.cancelled is None
    assert not one.was_killed


def test_a_worker_that_stops_by_itself_is_left_alone(world: World) -> None:
    state = world.state()
    made, calls = cancellation(world, state)
    one = world.add(state, State.BUSY)
    world.run(one)
    made.stopped(one)
    assert (world.signals, calls) == ([], [])


def busy_worker(world: World, state: GroupState) -> tuple[WorkerProcess, socket.socket]:
    one = world.add(state, State.BUSY)
    world.run(one)
    assert one.connection is not None
    return one, one.connection


def test_the_end_of_a_run_resets_everything_that_belongs_to_it(world: World) -> None:
    state = world.state()
    made, _ = cancellation(world, state)
    one, connection = busy_worker(world, state)
    one.since = time.monotonic() - 60
    made.run_lasts(one, connection, time.monotonic())
    assert (one.is_long, one.is_watched) == (True, True)
    assert made.take_connection(one) is connection
    assert (one.connection, one.is_long, one.is_watched) == (None, False, False)
    assert one.taken_at == math.inf
    state.hooks.poller.watch(connection.fileno(), 0, lambda: None)  # it was forgotten
    assert made.take_connection(one) is None


def test_a_run_that_has_just_begun_to_last_is_not_watched_yet(world: World) -> None:
    state = world.state()
    made, _ = cancellation(world, state)
    one, connection = busy_worker(world, state)
    now = time.monotonic()
    one.since = now - SHORT_SECONDS
    made.run_lasts(one, connection, now)
    assert (one.is_long, one.is_watched) == (True, False)
