"""Worker groups, without any real worker process."""

from __future__ import annotations

import math
import select
import socket
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from storlet_daemon import kernel
from storlet_daemon.poller import Poller
from storlet_daemon.protocol import framing, messages
from storlet_daemon.worker_group.group import WorkerGroup
from storlet_daemon.worker_group.group_state import CLEAN_UP_SECONDS, SHORT_SECONDS
from storlet_daemon.worker_group.worker_process import State, WorkerProcess

PID = 4711


class FullMeter:
    """The meter of a worker that has used too much CPU time."""

    allowed = 0.0
    is_quiet = False

    def is_over(self, _cpu_seconds: float) -> bool:
        return True


@pytest.fixture
def channel() -> Iterator[socket.socket]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        theirs.setblocking(False)
        yield ours


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    pids: list[int] = []
    monkeypatch.setattr(kernel, "kill", lambda pid, _number: pids.append(pid))
    monkeypatch.setattr(kernel, "kill_group", lambda _leader: None)
    return pids


def group_of(one: WorkerProcess) -> WorkerGroup:
    nothing: Any = None
    group = WorkerGroup(nothing, nothing, nothing, nothing)
    group.workers[one.pid] = one
    return group


def worker(channel: socket.socket, state: State) -> WorkerProcess:
    meter: Any = FullMeter()
    return WorkerProcess(PID, channel, -1, state, math.inf, 0.0, has_loaded=True, meter=meter)


def test_a_worker_that_computes_while_idle_is_killed(
    channel: socket.socket, killed: list[int]
) -> None:
    one = worker(channel, State.IDLE)
    group_of(one).police_idle({PID: 9.0})
    assert killed == [PID]
    assert one.kill_reason is not None


def test_an_invocation_running_at_the_sample_may_finish(
    channel: socket.socket, killed: list[int]
) -> None:
    """The CPU time may come from the last invocation's threads, not from this one."""
    one = worker(channel, State.BUSY)
    group_of(one).police_idle({PID: 9.0})
    assert killed == []
    assert one.is_retiring
    assert not one.serves
    assert one.kill_reason is None


class LastingRun:
    """A worker whose run lasts, so that the next connection needs another worker."""

    def __init__(self, one: WorkerProcess) -> None:
        self.one = one
        self.listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listening.bind("")  # some abstract name
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


def test_a_worker_is_almost_idle_once_the_filter_has_done(
    lasting: LastingRun, killed: list[int]
) -> None:
    lasting.disconnect(with_taken=True)
    assert not lasting.needs_another
    assert killed == []
    taken_at = lasting.one.taken_at
    assert lasting.group.due == pytest.approx(taken_at + SHORT_SECONDS)
    lasting.group.tick(taken_at + SHORT_SECONDS)
    assert lasting.needs_another, "restoring the process takes long as well"
    assert killed == []
    lasting.group.tick(taken_at + CLEAN_UP_SECONDS)
    assert killed == [PID]


def test_a_disconnect_without_taken_cancels_at_once(lasting: LastingRun, killed: list[int]) -> None:
    lasting.disconnect(with_taken=False)
    assert killed == [PID]
    assert lasting.needs_another
