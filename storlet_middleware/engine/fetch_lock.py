"""The lock of one fetch of code, among the server processes and green tasks of a node.

A server process that is stopped, or a fetch that hangs, keeps its lock.  The holder marks its
progress in the modification time of the lock's file; a waiting task that sees no mark for
:data:`STALL_SECONDS` removes the file and takes a new one.  Two fetches may then be under way,
which harms nothing: each writes into a folder of its own, and the rename that publishes it succeeds
once.  So the lock only saves work.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from storlet_middleware.concurrency import monotonic, sleep

#: Longer than a read of Swift, and longer than a bundle of 1 GiB is unpacked.
STALL_SECONDS: Final = 30.0
_MARK_SECONDS: Final = 1.0
_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_PAUSES: Final = (0.005, 0.2)


class FetchLock:
    """One task's use of the lock ``path``; owns a descriptor.

    :param logger: warned when the lock is taken from a holder that makes no progress.
    """

    def __init__(self, path: Path, logger: Any) -> None:
        self._path = path
        self._logger = logger
        self._fd = -1
        self._marked = 0.0

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock during the block; blocks no other task while it waits."""
        self._open()
        try:
            self._acquire()
            try:
                yield
            finally:
                # A task that has waited for the file, and finds it removed, waits for the one that
                # is there now.
                if self._is_named():
                    self._path.unlink()
        finally:
            os.close(self._fd)

    def mark(self) -> None:
        """Note progress of the holder."""
        now = monotonic()
        if now - self._marked >= _MARK_SECONDS:
            self._marked = now
            os.utime(self._fd)

    def _acquire(self) -> None:
        pause, longest = _PAUSES
        seen, since = 0, monotonic()
        while not self._try():
            if not self._is_named():
                # The holder has ended, or another task has taken over: wait for the file of now.
                self._reopen()
                seen = 0
                continue
            mark = os.fstat(self._fd).st_mtime_ns
            if mark != seen:
                seen, since = mark, monotonic()
            elif monotonic() - since > STALL_SECONDS:
                self._logger.warning("fetch of code stalls, begun again lock=%s", self._path)
                # A process may have replaced the file after the check above: then there is one
                # more fetch.
                self._path.unlink(missing_ok=True)
                continue
            # Hundreds of tasks may wait for one fetch.
            sleep(pause)
            pause = min(longest, pause * 1.5)
        self.mark()

    def _try(self) -> bool:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return self._is_named()

    def _open(self) -> None:
        self._fd = os.open(self._path, _FLAGS, 0o600)

    def _reopen(self) -> None:
        former = self._fd
        self._open()
        os.close(former)

    def _is_named(self) -> bool:
        """Whether the open file still has its name."""
        try:
            return os.path.samestat(self._path.lstat(), os.fstat(self._fd))
        except FileNotFoundError:
            return False
