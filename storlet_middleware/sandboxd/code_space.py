"""The node's copies of storlet code, kept below ``[sandbox] code_cache_bytes``.

Filters add versions (``storlet_middleware.engine.code_cache``); only sandboxd removes them, because it alone knows which are loaded.  A
version goes when it is the one used longest ago, when no sandbox has loaded it, and when nobody used it in the last
:data:`RECENT_SECONDS`: its filter may be about to ask for it.  Used means loaded, and is written down as the time of
change of the version's folder.

The disk is read and cleared in threads, but a version is taken away (renamed) in the loop, which also answers the filters.
So between the last look at what is in use and the rename nothing can happen, and a filter that comes later is told that the code is missing, and fetches it once more.  What was
taken has a temporary name that nothing runs, and a crash before it is deleted leaves what the next look clears.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from storlet_middleware.sandboxd.threads import Threads

log = logging.getLogger("storlet.sandboxd")

#: Longer than from a filter's look into the directory to its request.
RECENT_SECONDS: Final = 60.0
#: Longer than any fetch, whose owner may still be alive.
STALE_SECONDS: Final = 3600.0
TEMPORARY: Final = ".tmp-"

_VERSION: Final = re.compile("[0-9a-f]{64}")
_BLOCK_BYTES: Final = 512
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Copy:
    """A folder below an account's code directory: ``used_at`` seconds since 1970, ``bytes`` on the disk."""

    path: Path
    used_at: float
    bytes: int

    @property
    def is_version(self) -> bool:
        """Whether it is complete; else it is half a fetch, or half deleted."""
        return _VERSION.fullmatch(self.path.name) is not None


class CodeSpace:
    """All accounts' code directories, which are below ``root``."""

    def __init__(self, root: Path, limit_bytes: int, threads: Threads) -> None:
        self._root = root
        self._limit_bytes = limit_bytes
        self._threads = threads
        self._known: set[Path] = set()

    def note_use(self, path: Path) -> bool:
        """Remember that a version is used now; whether it is new, so that it is time to :meth:`tidy`."""
        with contextlib.suppress(OSError):
            descriptor = os.open(path, _DIRECTORY)
            try:
                os.utime(descriptor)
            finally:
                os.close(descriptor)
        return path not in self._known

    async def tidy(self, in_use: Callable[[], Collection[Path]]) -> None:
        """Remove what is too much; ``in_use`` names versions, or whole accounts, that must stay."""
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

    def copies(self) -> list[Copy]:
        """Everything that is there; blocks on the disk."""
        found = []
        for account in _folders(self._root):
            for path in _folders(account):
                if _VERSION.fullmatch(path.name) or path.name.startswith(TEMPORARY):
                    with contextlib.suppress(OSError):  # it went away meanwhile
                        found.append(Copy(path, path.lstat().st_mtime, _bytes_of(path)))
        return found

    def surplus(self, copies: Collection[Copy], in_use: Collection[Path]) -> tuple[list[Copy], int]:
        """What should go, the one that was used longest ago first, and the bytes that are left then.

        Stale halves go whatever the limit is.
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
        """Take a folder away from whoever would look for it; where it is now.  ``None``: it was used or went away."""
        taken = copy.path.with_name(f"{TEMPORARY}{secrets.token_hex(8)}")
        try:
            if copy.path.lstat().st_mtime != copy.used_at:
                return None
            copy.path.rename(taken)
        except OSError:
            return None
        return taken

    @staticmethod
    def clear(taken: Iterable[Path]) -> None:
        """Delete what was taken; blocks on the disk."""
        for path in taken:
            shutil.rmtree(path, ignore_errors=True)  # follows no links


def _folders(path: Path) -> list[Path]:
    try:
        return [
            Path(entry.path) for entry in os.scandir(path) if entry.is_dir(follow_symlinks=False)
        ]
    except OSError:
        return []


def _bytes_of(path: Path) -> int:
    total = 0
    for directory, _, names in os.walk(path):
        for name in (".", *names):
            with contextlib.suppress(OSError):
                status = (Path(directory) / name).lstat()
                # A file with several names is counted for each; filters make none.
                total += status.st_blocks * _BLOCK_BYTES if not stat.S_ISLNK(status.st_mode) else 0
    return total
