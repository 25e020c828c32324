"""The input of a called storlet: frames with an end mark."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator

import eventlet
import pytest

from storlet_middleware.errors import BackendFailed
from storlet_middleware.services.call_input import CallInput, donated
from storlet_middleware.services.requests import StoreRefusal
from tests.unit.middleware.support import open_descriptors


class Pair:
    """An input and its writer."""

    def __init__(self) -> None:
        ours, self.worker = socket.socketpair()
        ours.setblocking(False)
        self.counted: list[int] = []
        self.input = CallInput(ours.detach(), self.counted.append)

    def write(self, data: bytes) -> None:
        self.worker.sendall(data)


@pytest.fixture
def pair() -> Iterator[Pair]:
    pair = Pair()
    yield pair
    pair.input.close()
    pair.input.close()
    pair.worker.close()


def frame(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def test_pieces_are_read_up_to_the_end_mark(pair: Pair) -> None:
    pair.write(frame(b"hello") + frame(b"you") + frame(b"") + b"more")
    assert [pair.input.read(3) for _ in range(5)] == [b"hel", b"lo", b"you", b"", b""]
    assert pair.counted == [3, 2, 3]


def test_a_reader_waits_for_the_rest(pair: Pair) -> None:
    whole = frame(b"hello") + frame(b"")

    def write() -> None:
        for byte in whole:
            pair.write(bytes([byte]))
            eventlet.sleep(0)

    eventlet.spawn(write)
    with eventlet.Timeout(10):
        data = b""
        while piece := pair.input.read():
            data += piece
    assert data == b"hello"


@pytest.mark.parametrize("given", [b"", b"\0\0", frame(b"hello"), frame(b"hello")[:-1]])
def test_a_stream_without_the_end_mark_is_incomplete(pair: Pair, given: bytes) -> None:
    pair.write(given)
    pair.worker.close()
    with pytest.raises(OSError, match="has not written all of it"):
        list(iter(pair.input.read, b""))


def test_a_reader_of_a_closed_input_ends(pair: Pair) -> None:
    reading = eventlet.spawn(pair.input.read)
    eventlet.sleep(0)
    pair.input.close()
    with eventlet.Timeout(10), pytest.raises(OSError, match="has not written all of it"):
        reading.wait()


def test_a_limit_ends_the_input() -> None:
    def refuse(size: int) -> None:
        raise StoreRefusal("storlet.limit.services", 422, f"{size} bytes")

    ours, worker = socket.socketpair()
    given = CallInput(ours.detach(), refuse)
    worker.sendall(frame(b"hello"))
    with pytest.raises(OSError, match="5 bytes"):
        given.read()
    assert given.refusal is not None
    given.close()
    worker.close()


def test_the_writing_end_is_sent_and_not_kept() -> None:
    sent: list[int] = []
    before = open_descriptors()
    given = donated(lambda fd: sent.append(os.dup(fd)), lambda _: None)
    os.write(sent[0], frame(b"hello") + frame(b""))
    os.close(sent[0])
    assert (given.read(), given.read()) == (b"hello", b"")
    given.close()
    assert open_descriptors() == before


def test_an_input_that_cannot_be_sent_is_closed() -> None:
    def fail(fd: int) -> None:
        raise OSError(errno.ETOOMANYREFS, "too many")

    before = open_descriptors()
    with pytest.raises(BackendFailed, match="no stream for the storlet"):
        donated(fail, lambda _: None)
    assert open_descriptors() == before
