"""When the handlers of several descriptors are called."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from storlet_daemon.poller import Poller

LONG_SECONDS = 60


class Ends:
    """A connection; its first end is watched and counts how often it was read."""

    def __init__(self, poller: Poller) -> None:
        self.ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.times_read = 0
        self.messages = 0
        self.ours.setblocking(False)
        poller.watch(self.ours.fileno(), select.EPOLLIN, self._read)

    def _read(self) -> None:
        self.times_read += 1
        try:
            while self.ours.recv(100):
                self.messages += 1
        except BlockingIOError:
            pass

    def close(self) -> None:
        self.ours.close()
        self.theirs.close()


@pytest.fixture
def poller() -> Poller:
    return Poller()


@pytest.fixture
def often(poller: Poller) -> Iterator[Ends]:
    ends = Ends(poller)
    yield ends
    ends.close()


@pytest.fixture
def urgent(poller: Poller) -> Iterator[Ends]:
    ends = Ends(poller)
    yield ends
    ends.close()


def test_events_of_a_batch_are_read_together_after_an_urgent_one(
    poller: Poller, often: Ends, urgent: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    often.theirs.send(b"before")

    def talk() -> None:
        for _ in range(3):
            time.sleep(0.01)
            often.theirs.send(b"meanwhile")
        urgent.theirs.send(b"now")

    talker = threading.Thread(target=talk)
    talker.start()
    moments = iter([100.0])
    with monkeypatch.context() as patched:
        # Reading the clock twice would fail: all may have happened since the batch began.
        patched.setattr(
            "storlet_daemon.poller.time", SimpleNamespace(monotonic=lambda: next(moments))
        )
        poller.wait_batched(LONG_SECONDS, [urgent.ours.fileno()])
    talker.join()
    assert (often.times_read, often.messages) == (1, 4)
    assert urgent.messages == 1
    assert poller.since == 100.0


def test_a_batch_without_events_does_not_wait_for_one(poller: Poller, often: Ends) -> None:
    began = time.monotonic()
    poller.wait_batched(0.01, [])
    assert time.monotonic() - began < LONG_SECONDS
    assert often.times_read == 0


def test_wait_returns_for_an_event_that_has_just_happened(poller: Poller, often: Ends) -> None:
    poller.wait_batched(0.0, [])
    time.sleep(0.02)
    began = time.monotonic()
    often.theirs.send(b"1")
    poller.wait(-1)
    assert often.messages == 1
    assert poller.since >= began
