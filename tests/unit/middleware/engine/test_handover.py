"""The hand-over of an invocation: the message and the descriptors that travel with it."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from storlet_daemon.protocol import framing, messages
from storlet_middleware.concurrency import WaitExpired
from storlet_middleware.engine import handover
from storlet_middleware.engine.handover import Handover
from storlet_middleware.errors import BadRequest, SandboxUnavailable
from tests.unit.middleware.support import open_descriptors

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, worker = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    with ours, worker:
        yield ours, worker


FIELDS: dict[str, Any] = {
    "id": "tx-1",
    "inputs": [messages.Input(0), messages.Input(1)],
    "output": messages.Output(2),
}
MESSAGE = messages.Invoke(**FIELDS)


def test_descriptors_arrive_in_the_order_of_their_positions(pair: Pair, tmp_path: Path) -> None:
    ours, worker = pair
    made = Handover()
    files = [os.open(tmp_path / str(number), os.O_CREAT | os.O_RDWR) for number in range(3)]
    assert [made.lend(files[0]), made.donate(files[1]), made.lend(files[2])] == [0, 1, 2]
    made.encode(MESSAGE)
    made.send(ours, 1)
    received = framing.receive(worker)
    assert received is not None
    assert received.message(messages.INVOCATION_REQUEST).output == MESSAGE.output
    for position, file in enumerate(files):
        taken = received.descriptors.take(position)
        assert os.path.sameopenfile(taken, file)
        os.close(taken)
    made.close()
    for file in (files[0], files[2]):
        os.close(file)


def test_only_donated_descriptors_are_closed() -> None:
    made, before = Handover(), open_descriptors()
    lent, donated = os.pipe()
    made.lend(lent)
    made.donate(donated)
    made.close()
    made.close()
    assert open_descriptors() == before + 1
    os.close(lent)


def test_a_description_that_fits_into_no_message_is_the_clients_fault() -> None:
    with pytest.raises(BadRequest, match="cannot be described"):
        Handover().encode(messages.Invoke(**{**FIELDS, "parameters": {"k": "v" * (1 << 20)}}))


def test_a_worker_that_takes_nothing_is_given_up_at_the_deadline(pair: Pair) -> None:
    ours, _ = pair
    made = Handover()
    made.encode(MESSAGE)
    with contextlib.suppress(BlockingIOError):
        while True:
            ours.send(b"fill")
    with pytest.raises(WaitExpired):
        made.send(ours, 0.02)


def test_a_worker_that_has_ended_is_a_failure_of_the_sandbox(pair: Pair) -> None:
    ours, worker = pair
    worker.close()
    made = Handover()
    made.encode(MESSAGE)
    with pytest.raises(SandboxUnavailable, match="ended while it took the invocation"):
        made.send(ours, 1)


@pytest.mark.parametrize("reader_is_ours", [True, False])
def test_a_stream_has_one_direction_and_never_blocks_our_end(*, reader_is_ours: bool) -> None:
    reader, writer = handover.stream(reader_is_ours=reader_is_ours)
    try:
        os.write(writer, b"data")
        assert os.read(reader, 10) == b"data"
        assert os.get_blocking(reader) is not reader_is_ours
        assert os.get_blocking(writer) is reader_is_ours
        if reader_is_ours:
            with pytest.raises(BrokenPipeError):
                os.write(reader, b"x")
        else:
            assert os.read(writer, 10) == b""
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.parametrize("position", [0, 3, 1 << 33])
def test_the_offset_of_a_file_is_read_without_a_change(tmp_path: Path, position: int) -> None:
    with (tmp_path / "file").open("wb") as file:
        os.lseek(file.fileno(), position, os.SEEK_SET)
        assert handover.offset(file.fileno()) == position
        assert os.lseek(file.fileno(), 0, os.SEEK_CUR) == position
