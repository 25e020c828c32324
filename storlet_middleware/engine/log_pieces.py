"""The log of an invocation in pieces while it runs, for callers that follow it.

A piece has whole lines and at most :data:`MAX_BYTES`, and there is at most one in
:data:`INTERVAL_SECONDS`.  Of a log that grows faster, a piece has the newest lines and the number
of bytes that are left out.

Nothing here waits for the storlet: the offset of the log is read without its lock, and the memory
file without its offset.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from storlet_middleware.concurrency import monotonic
from storlet_middleware.engine.handover import offset

MAX_BYTES: Final = 4096
INTERVAL_SECONDS: Final = 1.0


@dataclass(frozen=True)
class LogPiece:
    """A part of a log; ``skipped_bytes`` before it are left out."""

    text: str
    skipped_bytes: int = 0


def ignore(piece: LogPiece) -> None:
    """The receiver of the log of a run that cannot be followed."""


class LogPieces:
    """The pieces of one log.

    :param delay_seconds: a run that ends within this time has no pieces; ``None``: no run has.
    """

    def __init__(self, delay_seconds: float | None) -> None:
        #: When the first piece may come, and the next one.
        self._first = self._next = None if delay_seconds is None else monotonic() + delay_seconds
        self._taken = 0

    def due(self, fd: int, limit: int) -> LogPiece | None:
        """The new lines of the log ``fd`` of ``limit`` bytes; ``None`` if there are none, or the
        last piece was too recent.
        """
        if self._next is None or monotonic() < self._next:
            return None
        self._next = monotonic() + INTERVAL_SECONDS
        return self._cut(fd, limit, is_end=False)

    def last(self, fd: int, limit: int) -> LogPiece | None:
        """The rest of the log of a run that has ended, soon after another piece, too."""
        if self._first is None or monotonic() < self._first:
            return None
        return self._cut(fd, limit, is_end=True)

    def _cut(self, fd: int, limit: int, *, is_end: bool) -> LogPiece | None:
        if fd < 0:
            return None
        size = min(offset(fd), limit)
        begin = max(self._taken, size - MAX_BYTES)
        if size <= begin:
            return None
        data = os.pread(fd, size - begin, begin)
        if begin > self._taken:
            # The first line is a part of one, unless there is only one.
            begin += data.find(b"\n") + 1
            data = data[data.find(b"\n") + 1 :]
        end = len(data) if is_end or len(data) == MAX_BYTES else data.rfind(b"\n") + 1
        if not end:
            return None
        skipped = begin - self._taken
        self._taken = begin + end
        return LogPiece(data[:end].decode("utf-8", "replace"), skipped)
