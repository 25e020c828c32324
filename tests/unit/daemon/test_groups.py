"""The workers of one storlet, where no process is needed to see what becomes of them."""

from __future__ import annotations

import math
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from storlet_daemon import kernel
from storlet_daemon.groups import State, Worker, WorkerGroup

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


def test_who_computes_and_says_that_he_does_nothing_is_killed(channel: socket.socket, killed: list[int]) -> None:
    one = worker(channel, State.IDLE)
    group_of(one).look_at_idle({PID: 9.0})
    assert killed == [PID]
    assert one.blame is not None


def test_the_invocation_that_runs_when_this_is_seen_may_end(channel: socket.socket, killed: list[int]) -> None:
    """Threads of a library may have spun after the last one: the client of this one has no part in it."""
    one = worker(channel, State.BUSY)
    group_of(one).look_at_idle({PID: 9.0})
    assert killed == []
    assert one.is_retiring
    assert not one.serves
    assert one.blame is None
