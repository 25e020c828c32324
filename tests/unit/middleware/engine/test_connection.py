"""The connection of an invocation to its worker, on a pair of sockets."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from storlet_daemon.protocol import framing, messages
from storlet_middleware.engine.connection import Connection
from storlet_middleware.errors import InternalError, SandboxUnavailable, Unprocessable
from tests.unit.middleware.support import open_descriptors

Pair = tuple[Connection, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """An open connection, and the worker's end of it."""
    ours, worker = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    connection = Connection()
    connection.open(ours)
    with worker:
        yield connection, worker
    connection.close()


def test_an_event_is_received_once_it_has_arrived(pair: Pair) -> None:
    connection, worker = pair
    with pytest.raises(BlockingIOError):
        connection.receive()
    framing.send(worker, messages.Started())
    assert connection.receive() == messages.Started()
    with pytest.raises(BlockingIOError):
        connection.receive()


@pytest.mark.parametrize(
    "record",
    [b"\xff garbage", b"{}", framing.encode(messages.Taken())],
    ids=["garbage", "no message", "a message of another kind"],
)
def test_an_invalid_event_is_a_failure_of_the_storlet(pair: Pair, record: bytes) -> None:
    connection, worker = pair
    worker.send(record)
    with pytest.raises(Unprocessable, match="sent an invalid event"):
        connection.receive()


def test_an_end_without_an_outcome_is_a_failure_of_the_sandbox(pair: Pair) -> None:
    connection, worker = pair
    worker.close()
    with pytest.raises(SandboxUnavailable, match="before it reported the outcome"):
        connection.receive()


def test_finish_acknowledges_the_outcome_and_then_closes(pair: Pair) -> None:
    connection, worker = pair
    connection.finish()
    received = framing.receive(worker)
    assert received is not None
    assert received.message(messages.INVOCATION_END) == messages.Taken()
    assert worker.recv(10) == b""


@pytest.mark.parametrize("way", ["cancel", "close"])
def test_a_connection_that_ends_without_an_acknowledgement_cancels(pair: Pair, way: str) -> None:
    connection, worker = pair
    getattr(connection, way)()
    assert worker.recv(10) == b""


def test_finish_accepts_a_worker_that_has_ended(pair: Pair) -> None:
    connection, worker = pair
    worker.close()
    connection.finish()


def test_a_closed_connection_has_no_descriptor_and_may_be_closed_again(pair: Pair) -> None:
    connection, _ = pair
    before = open_descriptors()
    connection.close()
    connection.close()
    connection.cancel()
    assert open_descriptors() == before - 1
    for use in (connection.fileno, connection.receive):
        with pytest.raises(InternalError, match="the invocation is closed"):
            use()
