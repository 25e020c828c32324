"""The log of a run: a sealed memory file that the storlet writes and this process reads.

The file is not lost when the storlet is killed, and a storlet cannot enlarge it.
"""

from __future__ import annotations

import os
import re
from typing import Final

from storlet_daemon.protocol import messages
from storlet_daemon.protocol.descriptors import sealed_memory
from storlet_daemon.protocol.redaction import Redaction
from storlet_middleware.engine.handover import Handover, offset
from storlet_middleware.engine.log_pieces import LogPiece, LogPieces
from storlet_middleware.engine.task import Task

#: The end of a log that the record of a failed run has.
TAIL_BYTES: Final = 4096
#: The last line of a log that a worker has cut.
_CUT: Final = re.compile(rb"\nlog truncated at [0-9]+ bytes\n\0*\Z")


class RunLog:
    """Owner of the memory file from :meth:`open` until :meth:`close`; there may be none."""

    __slots__ = ("_fd", "_pieces", "redaction", "task")

    def __init__(self, task: Task) -> None:
        #: Another one until :meth:`open`, if the storlet is replaced.
        self.task = task
        self._fd = -1
        self._pieces = LogPieces(task.log_delay_seconds)
        #: Removes the values of the run's secrets.
        self.redaction: Redaction | None = None

    def open(self, handover: Handover) -> messages.Log | None:
        """Make the file and lend it to the worker; ``None`` if the run has no log."""
        if not (self.task.wants_log or self.task.keeps_log_tail):
            return None
        limit = self.task.limits.log
        self._fd = sealed_memory("storlet-log", limit)
        return messages.Log(handover.lend(self._fd), limit)

    def read(self) -> bytes:
        """The log so far, also of a storlet that was killed; its end if only that is kept.

        It has no values of the run's secrets.
        """
        # Most logs are empty.  A memory file has blocks once anything was written, and to look for
        # them is one system call instead of three.
        if self._fd < 0 or not os.fstat(self._fd).st_blocks:
            return b""
        size = min(offset(self._fd), self.task.limits.log)
        begin = 0 if self.task.wants_log else max(0, size - TAIL_BYTES)
        if self.redaction:
            # All of it: the tail may begin within a value.
            data = _without_secrets(os.pread(self._fd, size, 0), self.redaction)
            return data if self.task.wants_log else data[-TAIL_BYTES:]
        return os.pread(self._fd, size - begin, begin)

    def due_piece(self) -> LogPiece | None:
        """The new lines of the log of a run that is followed; does not wait."""
        if self.redaction:
            # A piece may end within a value. The new code of a replaced storlet may have secrets
            # although the run was already followed.
            return None
        return self._pieces.due(self._fd, self.task.limits.log)

    def last_piece(self) -> LogPiece | None:
        """The rest of the log, after the end of the run and before :meth:`close`."""
        if self.redaction:
            return None
        return self._pieces.last(self._fd, self.task.limits.log)

    def close(self) -> None:
        """Close the file; may be called twice."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)


def _without_secrets(data: bytes, redaction: Redaction) -> bytes:
    """A log without the values of secrets; a log at its limit may end within one."""
    cut = _CUT.search(data)
    end = cut.start() if cut else len(data)
    return redaction.cut_data(data[:end]) + data[end:]
