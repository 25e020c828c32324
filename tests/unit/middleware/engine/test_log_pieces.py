"""A growing log in bounded pieces."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from storlet_daemon.protocol.descriptors import sealed_memory
from storlet_middleware.engine import log_pieces
from storlet_middleware.engine.log_pieces import MAX_BYTES, LogPiece, LogPieces

LIMIT = 1 << 16


@pytest.fixture
def log() -> Iterator[int]:
    fd = sealed_memory("log", LIMIT)
    yield fd
    os.close(fd)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(log_pieces, "monotonic", lambda: now[0])
    return now


def test_pieces_have_whole_new_lines_and_the_last_one_the_rest(
    log: int, clock: list[float]
) -> None:
    pieces = LogPieces(0)
    assert pieces.due(log, LIMIT) is None
    os.write(log, "one ü\ntw".encode())
    assert pieces.due(log, LIMIT) is None  # too soon
    clock[0] += 1
    assert pieces.due(log, LIMIT) == LogPiece("one ü\n")
    clock[0] += 1
    assert pieces.due(log, LIMIT) is None  # no whole line
    os.write(log, b"o\nthree")
    clock[0] += 1
    assert pieces.due(log, LIMIT) == LogPiece("two\n")
    assert pieces.last(log, LIMIT) == LogPiece("three")
    assert pieces.last(log, LIMIT) is None


def test_a_run_that_is_shorter_than_the_delay_has_no_pieces(log: int, clock: list[float]) -> None:
    os.write(log, b"line\n")
    pieces, never = LogPieces(2.0), LogPieces(None)
    assert (pieces.due(log, LIMIT), pieces.last(log, LIMIT)) == (None, None)
    clock[0] += 2
    assert pieces.last(log, LIMIT) == LogPiece("line\n")
    clock[0] += 1000
    assert (never.due(log, LIMIT), never.last(log, LIMIT)) == (None, None)


def test_of_too_many_lines_the_newest_come_with_the_number_of_bytes_before(
    log: int, clock: list[float]
) -> None:
    lines = "".join(f"line {number}\n" for number in range(4000)).encode()
    os.write(log, lines)
    pieces = LogPieces(0)
    piece = pieces.due(log, LIMIT)
    assert piece is not None
    assert MAX_BYTES - 20 < len(piece.text) <= MAX_BYTES
    assert lines[piece.skipped_bytes :] == piece.text.encode()
    assert piece.text.startswith("line ")


def test_one_endless_line_comes_in_parts(log: int, clock: list[float]) -> None:
    os.write(log, b"x" * (2 * MAX_BYTES))
    assert LogPieces(0).due(log, LIMIT) == LogPiece("x" * MAX_BYTES, MAX_BYTES)


def test_a_storlet_that_moves_the_offset_harms_its_own_lines_only(
    log: int, clock: list[float]
) -> None:
    os.write(log, b"line\n")
    pieces = LogPieces(0)
    assert pieces.due(log, LIMIT) == LogPiece("line\n")
    clock[0] += 1
    os.lseek(log, 0, os.SEEK_SET)
    assert pieces.due(log, LIMIT) is None
    clock[0] += 1
    os.lseek(log, 1 << 40, os.SEEK_SET)
    piece = pieces.due(log, LIMIT)
    assert piece is not None
    assert len(piece.text) == MAX_BYTES
    assert LogPieces(0).due(-1, LIMIT) is None
