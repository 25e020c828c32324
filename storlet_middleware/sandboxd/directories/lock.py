"""The lock of a node: the sandboxd that holds it owns ``run_dir`` and every sandbox of the node."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from storlet_middleware.sandboxd.directories.filesystem import path_faults
from storlet_middleware.sandboxd.errors import StartupFault


class NodeLock:
    """An exclusive ``flock`` of a file that contains the holder's pid."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1

    def acquire(self) -> None:
        """Take the lock or raise :class:`StartupFault` naming the process that holds it."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        with path_faults(self._path):
            descriptor = os.open(self._path, flags, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not _is_at(self._path, descriptor):
                # The former holder removed the file between our open and our flock
                # (``clear_run_dir``): a third process would lock a new file.
                os.close(descriptor)
                raise StartupFault(
                    f"{self._path} was removed while it was being locked: start again"
                )
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise StartupFault(
                f"another storlet-sandboxd runs on {self._path.parent}: "
                f"pid {holder or 'unknown'} holds {self._path.name}"
            ) from None
        self._descriptor = descriptor

    def release(self) -> None:
        """Release the lock; the end of the process releases it, too."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except OSError:
        return False
