"""The log of a run: a sealed memory file that the storlet writes and this process reads.

The file is not lost when the storlet is killed, and a storlet cannot enlarge it.
"""

from __future__ import annotations

import os
from typing import Final

from storlet_daemon.protocol import messages
from storlet_daemon.protocol.descriptors import sealed_memory
from storlet_middleware.engine.handover import Handover, offset
from storlet_middleware.engine.log_pieces import LogPiece, LogPieces
from storlet_middleware.engine.task import Task

#: The end of a log that the record of a failed run has.
TAIL_BYTES: Final = 4096


class RunLog:
    """Owner of the memory file from :meth:`open` until :meth:`close`; there may be none."""

    __slots__ = ("_fd", "_pieces", "_task")

    def __init__(self, task: Task) -> None:
        self._task = task
        self._fd = -1
        self._pieces = LogPieces(task.log_delay_seconds)

    def open(self, handover: Handover) -> messages.Log | None:
        """Make the file and lend it to the worker; ``None`` if the run has no log."""
        if not (self._task.wants_log or self._task.keeps_log_tail):
            return None
        limit = self._task.limits.log
        self._fd = sealed_memory("storlet-log", limit)
        return messages.Log(handover.lend(self._fd), limit)

    def read(self) -> bytes:
        """The log so far, also of a storlet that was killed; its end if only that is kept."""
        if self._fd < 0:
            return b""
        size = min(offset(self._fd), self._task.limits.log)
        begin = 0 if self._task.wants_log else max(0, size - TAIL_BYTES)
        return os.pread(self._fd, size - begin, begin)

    def due_piece(self) -> LogPiece | None:
        """The new lines of the log of a run that is followed; does not wait."""
        return self._pieces.due(self._fd, self._task.limits.log)

    def last_piece(self) -> LogPiece | None:
        """The rest of the log, after the end of the run and before :meth:`close`."""
        return self._pieces.last(self._fd, self._task.limits.log)

    def close(self) -> None:
        """Close the file; may be called twice."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)
