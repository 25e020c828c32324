"""The input of a called storlet: frames with an end mark."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator

import eventlet
import pytest

from storlet_middleware.engine.output_stream import ReadPace
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
        self.input = CallInput(ours.detach(), self.counted.append, ReadPace())

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
    assert [pair.input.read(3) for _ in range(5)] == [b"hel", b"loy", b"ou", b"", b""]
    assert pair.counted == [3, 2, 1, 2]


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


def test_a_piece_that_is_here_does_not_wait_for_the_next_one(pair: Pair) -> None:
    pair.write(frame(b"hello") + frame(b"you")[:5])
    assert pair.input.read() == b"helloy"
    pair.write(b"ou" + frame(b"")[:2])
    assert pair.input.read() == b"ou"
    pair.write(b"\0\0")
    assert pair.input.read() == b""


def test_single_bytes_leave_turns_to_other_requests(pair: Pair) -> None:
    """Also if there is always more to read, and the reader has nothing to wait for."""
    turns = 0

    def count() -> None:
        nonlocal turns
        while True:
            eventlet.sleep()
            turns += 1

    frames = 16_000
    pair.write(frame(b"x") * frames + frame(b""))
    others = eventlet.spawn(count)
    eventlet.sleep()
    turns, size = 0, 0
    while piece := pair.input.read():
        size += len(piece)
    others.kill()
    assert size == frames
    assert turns >= 15, "a turn for each page of frames that was read"


def test_a_limit_ends_the_input() -> None:
    def refuse(size: int) -> None:
        raise StoreRefusal("storlet.limit.services", 422, f"{size} bytes")

    ours, worker = socket.socketpair()
    given = CallInput(ours.detach(), refuse, ReadPace())
    worker.sendall(frame(b"hello"))
    with pytest.raises(OSError, match="5 bytes"):
        given.read()
    assert given.refusal is not None
    given.close()
    worker.close()


def test_the_writing_end_is_sent_and_not_kept() -> None:
    sent: list[int] = []
    before = open_descriptors()
    given = donated(lambda fd: sent.append(os.dup(fd)), lambda _: None, ReadPace())
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
        donated(fail, lambda _: None, ReadPace())
    assert open_descriptors() == before
