"""Messages on a socket, with descriptors: bounds, ownership, and non-blocking sockets."""

from __future__ import annotations

import array
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from storlet_daemon.protocol import framing, messages

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        yield ours, theirs


def fill(connection: socket.socket) -> None:
    while True:
        framing.send(connection, messages.Started())


def send_raw(connection: socket.socket, data: bytes, fds: list[int]) -> None:
    connection.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])


def test_descriptors_arrive_as_duplicates_that_no_child_inherits(pair: Pair) -> None:
    reading, writing = os.pipe()
    framing.send(pair[0], messages.Begin(), [writing])
    received = framing.receive(pair[1])
    assert received is not None
    with received.descriptors as descriptors:
        assert received.message(messages.WORKER_REPORTS) == messages.Begin()
        fd = descriptors.filenos()[0]
        assert fd != writing
        assert not os.get_inheritable(fd)
        os.write(fd, b"through")
    assert os.read(reading, 10) == b"through"
    os.close(reading)
    os.close(writing)


def test_the_end_of_the_connection_is_none(pair: Pair) -> None:
    pair[0].close()
    assert framing.receive(pair[1]) is None


def test_a_non_blocking_socket_raises(pair: Pair) -> None:
    pair[1].setblocking(False)
    with pytest.raises(BlockingIOError):
        framing.receive(pair[1])
    pair[0].setblocking(False)
    with pytest.raises(BlockingIOError):
        fill(pair[0])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b"x",
        b'{"type":1}',
        b"\xff",
        b"[" * 60000,
        b'{"type":"a","x":NaN}',
        b'{"type":"a","x":"\\ud800"}',
    ],
)
def test_an_invalid_record_is_refused_and_its_descriptors_are_closed(
    pair: Pair, data: bytes
) -> None:
    reading, writing = os.pipe()
    send_raw(pair[0], data, [writing, writing])
    os.close(writing)
    with pytest.raises(framing.ProtocolError):
        framing.receive(pair[1])
    assert os.read(reading, 1) == b""
    os.close(reading)


def test_a_message_of_the_wrong_kind_has_its_descriptors_closed(pair: Pair) -> None:
    reading, writing = os.pipe()
    framing.send(pair[0], messages.Started(), [writing])
    os.close(writing)
    received = framing.receive(pair[1])
    assert received is not None
    with pytest.raises(framing.ProtocolError):
        received.message(messages.INVOCATION_EVENTS)
    assert os.read(reading, 1) == b""
    os.close(reading)


def test_a_message_may_have_65536_bytes_and_no_more(pair: Pair) -> None:
    head, tail = b'{"type":"started","x":"', b'"}'
    data = head + b"x" * (framing.MESSAGE_MAX - len(head) - len(tail)) + tail
    pair[0].send(data)
    assert framing.receive(pair[1]) is not None
    pair[0].send(data + b" ")
    with pytest.raises(framing.ProtocolError, match="65536"):
        framing.receive(pair[1])
    with pytest.raises(framing.ProtocolError, match="more than 65536"):
        framing.encode(messages.Metadata({"x": "x" * framing.MESSAGE_MAX}))


def test_thirty_two_descriptors_pass_and_thirty_three_do_not(pair: Pair) -> None:
    with Path(os.devnull).open("rb") as null:
        framing.send(pair[0], messages.Started(), [null.fileno()] * 32)
        received = framing.receive(pair[1])
        assert received is not None
        assert len(received.descriptors) == 32
        received.descriptors.close()
        send_raw(pair[0], b'{"type":"started"}', [null.fileno()] * 33)
        with pytest.raises(framing.ProtocolError):
            framing.receive(pair[1])
        with pytest.raises(framing.ProtocolError):
            framing.send(pair[0], messages.Started(), [null.fileno()] * 33)


@pytest.mark.parametrize(("depth", "is_allowed"), [(7, True), (8, False)])
def test_nesting_has_a_bound(depth: int, is_allowed: bool) -> None:
    data = b'{"type":"x","many":"[[[[[[[[[[[[","deep":' + b"[" * depth + b"]" * depth + b"}"
    if is_allowed:
        assert framing.decode(data)["type"] == "x"
    else:
        with pytest.raises(framing.ProtocolError, match="deeper than 8"):
            framing.decode(data)


def test_half_of_a_surrogate_pair_is_sent_as_a_question_mark() -> None:
    assert framing.decode(framing.encode(messages.Metadata({"a": "\ud800"})))["metadata"] == {
        "a": "?"
    }


def test_a_usual_message_is_recognised_by_its_bytes(pair: Pair) -> None:
    sender, receiver = pair
    started, done = messages.Started(), messages.Done(messages.OK)
    usual = {framing.encode(started): started}
    framing.send(sender, started)
    assert framing.receive_message(receiver, messages.INVOCATION_EVENTS, usual) is started
    framing.send(sender, done)
    assert framing.receive_message(receiver, messages.INVOCATION_EVENTS, usual) == done
    sender.close()
    assert framing.receive_message(receiver, messages.INVOCATION_EVENTS, usual) is None


def test_the_descriptors_of_a_usual_message_are_closed(pair: Pair) -> None:
    sender, receiver = pair
    started = messages.Started()
    before = len(list(Path("/proc/self/fd").iterdir()))
    send_raw(sender, framing.encode(started), [0])
    with pytest.raises(messages.ProtocolError):
        framing.receive_message(
            receiver, messages.INVOCATION_EVENTS, {framing.encode(started): started}
        )
    assert len(list(Path("/proc/self/fd").iterdir())) == before
