"""The node's copies of storlet code, kept below ``[sandbox] code_cache_bytes``.

Filters add storlet versions (``storlet_middleware.engine.code_cache``); only sandboxd evicts them,
because only sandboxd knows which are loaded.  The least recently used version is evicted first,
unless a sandbox has loaded it or it was used in the last :data:`RECENT_SECONDS`, when its filter
may be about to request its load.  A load counts as use, and is recorded as the modification time of
the version's folder.

Threads read and clear the disk, but the loop, which also answers the filters, renames an evicted
version.  So no request can come between the check of what is in use and the rename; a filter that
comes later is answered that the code is missing, and fetches it again.  An evicted version has a
temporary name that nothing runs; after a crash the next eviction deletes it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import stat
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from storlet_middleware import code_folders
from storlet_middleware.sandboxd.directories import filesystem
from storlet_middleware.sandboxd.threads import Threads

log = logging.getLogger("storlet.sandboxd")

#: Longer than from a filter's check of the directory to its request.
RECENT_SECONDS: Final = 60.0
#: Longer than any fetch that may still be running.
STALE_SECONDS: Final = 3600.0

_BLOCK_BYTES: Final = 512
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Copy:
    """A folder below an account's code directory; ``used_at`` in seconds since 1970."""

    path: Path
    used_at: float
    bytes: int

    @property
    def is_version(self) -> bool:
        """Whether it is complete; else it is a partial fetch or a partial deletion."""
        return code_folders.is_version(self.path)


class CodeSpace:
    """All accounts' code directories, which are below ``root``."""

    def __init__(self, root: Path, limit_bytes: int, threads: Threads) -> None:
        self._root = root
        self._limit_bytes = limit_bytes
        self._threads = threads
        self._known: set[Path] = set()

    def note_use(self, path: Path) -> bool:
        """Record the use of a version; return True when it is new, so that :meth:`evict` is due."""
        with contextlib.suppress(OSError):
            descriptor = os.open(path, _DIRECTORY)
            try:
                os.utime(descriptor)
            finally:
                os.close(descriptor)
        return path not in self._known

    async def evict(self, in_use: Callable[[], Collection[Path]]) -> int:
        """Evict to meet the limit; return the number of copies.

        :param in_use: returns folders of versions or accounts to keep.
        """
        copies = await self._threads.call(self.copies)
        self._known = {copy.path for copy in copies}
        gone, left_bytes = self.surplus(copies, in_use())
        taken = [path for copy in gone if (path := self.take(copy)) is not None]
        await self._threads.call(self.clear, taken)
        if taken:
            log.info("code removed copies=%d left_bytes=%d", len(taken), left_bytes)
        if left_bytes > self._limit_bytes:
            log.warning(
                "code cache is full of code in use bytes=%d code_cache_bytes=%d",
                left_bytes,
                self._limit_bytes,
            )
        return len(taken)

    def copies(self) -> list[Copy]:
        """All folders of versions; blocks on the disk."""
        found = []
        for account in _folders(self._root):
            for path in _folders(account):
                if code_folders.is_version(path) or path.name.startswith(code_folders.TEMPORARY):
                    with contextlib.suppress(OSError):  # removed meanwhile
                        found.append(Copy(path, path.lstat().st_mtime, _bytes_of(path)))
        return found

    def surplus(self, copies: Collection[Copy], in_use: Collection[Path]) -> tuple[list[Copy], int]:
        """The copies to evict, least recently used first, and the bytes that are left after that.

        Stale partial copies are always evicted.
        """
        now = time.time()
        gone = [
            copy for copy in copies if not copy.is_version and now - copy.used_at > STALE_SECONDS
        ]
        left_bytes = sum(copy.bytes for copy in copies) - sum(copy.bytes for copy in gone)
        for copy in sorted(
            (copy for copy in copies if copy.is_version), key=lambda copy: copy.used_at
        ):
            if left_bytes <= self._limit_bytes:
                break
            is_in_use = copy.path in in_use or copy.path.parent in in_use
            if not is_in_use and now - copy.used_at > RECENT_SECONDS:
                gone.append(copy)
                left_bytes -= copy.bytes
        return gone, left_bytes

    @staticmethod
    def take(copy: Copy) -> Path | None:
        """Rename a folder so that filters cannot find it; return its new path.

        ``None``: it was used or removed meanwhile.
        """
        taken = code_folders.temporary(copy.path)
        try:
            if copy.path.lstat().st_mtime != copy.used_at:
                return None
            copy.path.rename(taken)
        except OSError:
            return None
        return taken

    @staticmethod
    def clear(taken: Iterable[Path]) -> None:
        """Delete renamed folders; blocks on the disk."""
        for path in taken:
            shutil.rmtree(path, ignore_errors=True)  # follows no links


def _folders(path: Path) -> list[Path]:
    try:
        return filesystem.folders(path)
    except OSError:
        return []


def _bytes_of(path: Path) -> int:
    total = 0.0
    for directory, _, names in os.walk(path):
        for name in (".", *names):
            with contextlib.suppress(OSError):
                status = (Path(directory) / name).lstat()
                # Versions of a bundle share files: each counts its part, and all of them the whole.
                sharers = 1 if stat.S_ISDIR(status.st_mode) else max(1, status.st_nlink)
                if not stat.S_ISLNK(status.st_mode):
                    total += status.st_blocks * _BLOCK_BYTES / sharers
    return int(total)
