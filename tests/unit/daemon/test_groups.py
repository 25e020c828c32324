"""The workers of one storlet, where no process is needed to see what becomes of them."""

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
from storlet_daemon.groups import (
    CLEAN_UP_SECONDS,
    SHORT_SECONDS,
    State,
    Worker,
    WorkerGroup,
    describe_exit,
)
from storlet_daemon.poller import Poller
from storlet_daemon.protocol import framing, messages

PID = 4711


class FullMeter:
    """A worker that has used too much."""

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


def group_of(one: Worker) -> WorkerGroup:
    nothing: Any = None
    group = WorkerGroup(nothing, nothing, nothing, nothing)
    group.workers[one.pid] = one
    return group


def worker(channel: socket.socket, state: State) -> Worker:
    meter: Any = FullMeter()
    return Worker(PID, channel, -1, state, math.inf, 0.0, has_loaded=True, meter=meter)


def test_who_computes_and_says_that_he_does_nothing_is_killed(
    channel: socket.socket, killed: list[int]
) -> None:
    one = worker(channel, State.IDLE)
    group_of(one).look_at_idle({PID: 9.0})
    assert killed == [PID]
    assert one.blame is not None


def test_the_invocation_that_runs_when_this_is_seen_may_end(
    channel: socket.socket, killed: list[int]
) -> None:
    """Threads of a library may have spun after the last one: the client of this one has no part in it."""
    one = worker(channel, State.BUSY)
    group_of(one).look_at_idle({PID: 9.0})
    assert killed == []
    assert one.is_retiring
    assert not one.serves
    assert one.blame is None


class Lasting:
    """A worker that has run for long, so that the next connection would have another one started; and its filter's side."""

    def __init__(self, one: Worker) -> None:
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
        self.group.tick(time.monotonic())  # it lasts
        self.group.tick(time.monotonic())  # and is watched
        assert self.wants_another

    @property
    def wants_another(self) -> bool:
        return self.group.awaited is not None

    def leave(self, *, with_the_end: bool) -> None:
        if with_the_end:
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
def lasting(channel: socket.socket, killed: list[int]) -> Iterator[Lasting]:
    channel.setblocking(False)
    one = worker(channel, State.BUSY)
    one.meter = SimpleNamespace(sample=lambda _pid: None)  # type: ignore[assignment]
    made = Lasting(one)
    yield made
    made.close()


def test_who_cleans_up_when_the_filter_has_its_end_is_about_to_be_free(
    lasting: Lasting, killed: list[int]
) -> None:
    lasting.leave(with_the_end=True)
    assert not lasting.wants_another
    assert killed == []
    left_at = lasting.one.taken_at
    assert lasting.group.due == pytest.approx(left_at + SHORT_SECONDS)
    lasting.group.tick(left_at + SHORT_SECONDS)
    assert lasting.wants_another, "it takes long over that as well"
    assert killed == []
    lasting.group.tick(left_at + CLEAN_UP_SECONDS)
    assert killed == [PID]


def test_a_filter_that_leaves_without_its_end_cancels_at_once(
    lasting: Lasting, killed: list[int]
) -> None:
    lasting.leave(with_the_end=False)
    assert killed == [PID]
    assert lasting.wants_another


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
