"""The check of the row with which the last thread of the engine begins.

Threads of the engine's reader begin at borders, each 2 MiB.  If the first row after the last border
has a fault, such as too few values, the thread takes its whole part for the rest of a quoted value,
and drops it without an error.  After other borders the reader finds such a row.  So this keeps the
part after the last border, and the engine reads the first row of it once more, alone.
"""

from __future__ import annotations

from typing import Any

#: The parts of a buffer in which threads begin: those of the engine.
PARTS = 4


class ThreadStarts:
    """The bytes of ``source``, of which the part after the last border is kept.

    :param head: the bytes before those of ``source``.
    :param mark: the quote; empty: there is none.
    :param buffer_bytes: the size of the engine's buffers.
    :param most_line_bytes: the bound of a row.
    """

    def __init__(
        self, source: Any, head: bytes, mark: bytes, buffer_bytes: int, most_line_bytes: int
    ) -> None:
        self._source = source
        self._mark = mark
        self._buffer_bytes = buffer_bytes
        self._thread_bytes = max(buffer_bytes // PARTS, most_line_bytes)
        self._at = 0
        self._border = 0
        self._is_over = False
        #: The bytes after the border.
        self._blocks: list[bytes] = []
        self._take(head)

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes, or what ``source`` gives; none only at the end."""
        data = bytes(self._source.read(size))
        self._take(data)
        self._is_over = not data
        return data

    def _take(self, data: bytes) -> None:
        if not data:
            return
        border = self._border_before(self._at + len(data))
        if border > self._border:
            data_after = data[border - self._at :]
            self._border, self._blocks = border, [data_after]
        else:
            self._blocks.append(data)
        self._at += len(data)

    def _border_before(self, end: int) -> int:
        """The last border before the end of the bytes so far."""
        buffer, place = divmod(end - 1, self._buffer_bytes)
        return buffer * self._buffer_bytes + place // self._thread_bytes * self._thread_bytes

    def rows(self) -> list[bytes]:
        """The first row of the last thread, which must have no fault; nothing: there is none, or
        a query that needs no more rows has ended before.

        If quotes are in the part, the border may be within a quoted value, and there is a second
        first row.  One of both must have no fault.
        """
        if not self._border or not self._is_over:
            return []
        part, mark = b"".join(self._blocks), self._mark
        found = [_first_row(part, mark, is_open=False)]
        if mark and mark in part:
            found.append(_first_row(part, mark, is_open=True))
        return [row for row in found if row] if found[0] else []


def _first_row(part: bytes, mark: bytes, *, is_open: bool) -> bytes:
    """The first whole row, or the last one without an end.

    :param is_open: the part begins within quotes.
    """
    start = _next_line(part, 0, mark, is_open=is_open)
    return part[start : _next_line(part, start, mark, is_open=False)]


def _next_line(part: bytes, at: int, mark: bytes, *, is_open: bool) -> int:
    """The place after the next line end outside of quotes."""
    while (end := part.find(b"\n", at)) >= 0:
        is_open ^= bool(mark) and part.count(mark, at, end) % 2 == 1
        at = end + 1
        if not is_open:
            return at
    return len(part)
