"""Streams that a storlet writes, and the pace of their readers."""

from __future__ import annotations

import os
from collections.abc import Iterator

import eventlet
import pytest

from storlet_middleware.engine import handover, output_stream
from storlet_middleware.engine.output_stream import OutputStream, ReadPace, Turns, next_chunk
from tests.unit.middleware.support import open_descriptors


@pytest.fixture
def stream() -> Iterator[tuple[OutputStream, int]]:
    """An output, and the end that a storlet writes."""
    output = OutputStream()
    output.fd, writer = handover.stream(reader_is_ours=True)
    yield output, writer
    output.close()
    os.close(writer)


def test_a_read_returns_the_data_nothing_now_or_the_end(stream: tuple[OutputStream, int]) -> None:
    output, writer = stream
    assert output.read() is None
    os.write(writer, b"data")
    assert output.read() == b"data"
    assert output.read() is None


def test_reads_are_small_until_one_is_full(stream: tuple[OutputStream, int]) -> None:
    output, writer = stream
    data = os.urandom(200 << 10)
    assert os.write(writer, data) == len(data)
    chunks = [output.read() or b"", output.read() or b""]
    assert b"".join(chunks) == data
    assert len(chunks[0]) == 64 << 10


def test_bytes_written_after_the_end_are_no_output(stream: tuple[OutputStream, int]) -> None:
    output, writer = stream
    os.write(writer, b"data")
    output.end_here()
    os.write(writer, b" of a child process")
    assert [output.read(), output.read(), output.read()] == [b"data", b"", b""]


def test_a_closed_output_may_be_closed_again() -> None:
    before, output = open_descriptors(), OutputStream()
    output.fd, writer = handover.stream(reader_is_ours=True)
    os.close(writer)
    assert output.read() == b""
    output.close()
    output.close()
    assert open_descriptors() == before


class Clock:
    """The time as a pace sees it, which passes in its sleeps only."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.sleeps: list[float] = []
        monkeypatch.setattr(output_stream, "monotonic", lambda: self.now)
        monkeypatch.setattr(output_stream, "sleep", self.sleep)

    def sleep(self, seconds: float = 0.0) -> None:
        self.sleeps.append(round(seconds, 6))
        self.now += seconds


def test_small_pieces_gather_and_large_ones_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, pace = Clock(monkeypatch), ReadPace()
    for _ in range(30):
        pace.before_read()
        pace.after_read(1)
    assert clock.sleeps == [0.01] * 13
    pace.after_read(1 << 20)
    pace.before_read()
    assert len(clock.sleeps) == 13
    for _ in range(8):
        pace.after_read(1 << 20)
    assert 0.0 in clock.sleeps


def test_a_large_read_makes_up_for_small_ones_by_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, pace = Clock(monkeypatch), ReadPace()
    for _ in range(40):
        pace.after_read(1)
    pace.after_read(2 * 4096)
    for _ in range(4):
        pace.before_read()
        pace.after_read(1)
    assert clock.sleeps == [0.01] * 2


def test_readers_of_many_streams_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them sleeps until its own turn, at the same time as the others."""
    monkeypatch.setattr(output_stream, "monotonic", lambda: 100.0)
    pace = ReadPace()
    for _ in range(20):
        pace.after_read(1)
    wished: list[float] = []
    monkeypatch.setattr(output_stream, "sleep", wished.append)
    for _ in range(4):
        pace.before_read()
    assert [round(each, 6) for each in wished] == [0.01, 0.02, 0.03, 0.04]


def test_runs_of_an_account_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a pace for each, 64 runs would wake the hub 64 times as often as one."""
    monkeypatch.setattr(output_stream, "monotonic", lambda: 100.0)
    wished: list[float] = []
    monkeypatch.setattr(output_stream, "sleep", wished.append)
    turns = Turns()
    for _ in range(3):
        pace = ReadPace()
        pace.make_turns = lambda: turns
        for _ in range(20):
            pace.after_read(1)
        pace.before_read()
    assert [round(each, 6) for each in wished] == [0.01, 0.02, 0.03]


def test_a_task_reads_a_stream_to_its_end(stream: tuple[OutputStream, int]) -> None:
    output, writer = stream
    counted: list[int] = []
    pace = ReadPace()
    eventlet.spawn_after(0.01, os.write, writer, b"data")
    assert next_chunk(output, pace, counted.append) == b"data"
    output.end_here()
    assert next_chunk(output, pace, counted.append) == b""
    assert counted == [4]
