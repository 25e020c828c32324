"""Copies of storlet code on a node, one directory a storlet version.

Files are fetched into a temporary directory beside the final one, checked against their hashes
and renamed.  A crash half-way leaves a temporary name that never runs and is removed later.

A plain storlet is on the disk before it is renamed.  A bundle can have thousands of files, so the
first call does not wait for the disk: they are synced when it has begun.  From then on the folder
has the mode :data:`~storlet_middleware.code_folders.ON_DISK`.  ``storlet-sandboxd`` removes folders
without it after a crash of the node.

This module knows nothing of Swift: the caller gives it a :class:`Fetcher`.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Protocol

from storlet_middleware import child, code_folders, errors, metrics
from storlet_middleware.concurrency import ProcessEnded, WaitExpired, monotonic
from storlet_middleware.engine import unpack_process
from storlet_middleware.engine.fetch_lock import FetchLock
from storlet_middleware.engine.storlet_version import CodeFile, StorletVersion
from storlet_middleware.errors import InternalError, NodeBusy, Unprocessable

_STALE_TEMP_SECONDS: Final = 3600
#: The beginning of the name of a lock.
_LOCK: Final = ".lock-"
#: A bundle of 1 GiB takes 10 s.
_UNPACK_CPU_SECONDS: Final = 40


class Fetcher(Protocol):
    """Gives the bytes of one code file."""

    def fetch(self, account: str, file: CodeFile) -> Iterator[bytes]:
        """Chunks of exactly the object that ``file`` names; raises when it was replaced."""


class CodeCache:
    """The code directories ``<code_dir>/<version key>/``.

    :param max_bytes: limit of a storlet with its dependencies.
    """

    def __init__(self, max_bytes: int, logger: Any) -> None:
        self._max_bytes = max_bytes
        self._logger = logger

    def ensure(self, code_dir: str, version: StorletVersion, fetcher: Fetcher) -> None:
        """Return when the code of ``version`` is in ``code_dir``.

        Concurrent calls fetch it once.
        """
        home = Path(code_dir)
        final = home / version.key
        if final.is_dir():
            metrics.cache_hit(self._logger)
            return
        if sum(file.size for file in version.files) > self._max_bytes:
            raise Unprocessable(
                f"storlet and dependencies are larger than the {self._max_bytes} bytes allowed",
                code=errors.STORLET_LOAD,
            )
        try:
            self._ensure(home, final, version, fetcher)
        except OSError as error:
            if final.is_dir():
                return  # this fetch stalled, and another one that took over was first
            # A full or failing disk is the node's and may pass: another replica or a retry may
            # work.
            text = f"this node cannot keep the storlet's code: {os.strerror(error.errno or 0)}"
            raise NodeBusy(text) from error

    def _ensure(self, home: Path, final: Path, version: StorletVersion, fetcher: Fetcher) -> None:
        lock = FetchLock(home / f"{_LOCK}{version.key[:16]}", self._logger)
        with lock.held():
            if final.is_dir():
                # Another task fetched it meanwhile.
                metrics.cache_hit(self._logger)
                return
            metrics.cache_miss(self._logger)
            self._clear_stale(home)
            temp = code_folders.temporary(final)
            temp.mkdir(code_folders.IN_MEMORY)
            began = monotonic()
            fetcher = _Marked(fetcher, lock)
            try:
                if version.digest:
                    self._unpack(temp, final, version, fetcher)
                else:
                    for file in version.files:
                        self._write(temp, version.account, file, fetcher, is_kept=True)
                    code_folders.sync(temp)
                    temp.chmod(code_folders.ON_DISK)
                    temp.rename(final)
            finally:
                shutil.rmtree(temp, ignore_errors=True)
                metrics.cache_fetched(self._logger, monotonic() - began)

    def _write(
        self, directory: Path, account: str, file: CodeFile, fetcher: Fetcher, *, is_kept: bool
    ) -> None:
        """Write ``file``; verify its hash and sync it if it is kept."""
        digest = hashlib.md5(usedforsecurity=False)
        has_hash = is_kept and not file.is_segmented
        size = 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(directory / file.file_name, flags, 0o600)
        with os.fdopen(fd, "wb") as out:
            for chunk in fetcher.fetch(account, file):
                size += len(chunk)
                if size > file.size:
                    break
                if has_hash:
                    digest.update(chunk)
                out.write(chunk)
            if size != file.size or (has_hash and digest.hexdigest() != file.etag):
                raise InternalError(
                    f"code of {file.container}/{file.name} arrived incomplete or altered"
                )
            if is_kept:
                out.flush()
                os.fchmod(fd, file.mode)  # for any umask: the tenant's uid is "other" here
                os.fsync(fd)

    def _unpack(
        self, directory: Path, final: Path, version: StorletVersion, fetcher: Fetcher
    ) -> None:
        """Fetch a bundle, unpack it below ``directory``, and rename its folder to ``final``.

        A process of its own unpacks it.  The process starts during the fetch, which takes about as
        long, verifies the hash of the bundle, and syncs the files after the rename.
        """
        (file,) = version.files
        arguments = (str(directory / file.file_name), version.digest, str(directory))
        try:
            with child.answers(
                unpack_process.__name__, _UNPACK_CPU_SECONDS, *arguments, has_rest=True
            ) as ask:
                self._write(directory, version.account, file, fetcher, is_kept=False)
                fault = ask(b"").decode("utf-8", "replace").strip()
                if not fault:
                    (directory / unpack_process.CODE).rename(final)
        except WaitExpired:
            raise NodeBusy("the storlet's code could not be unpacked in time") from None
        except ProcessEnded as ended:
            if ended.status == unpack_process.NO_SPACE:
                raise OSError(errno.ENOSPC, "") from None
            fault = str(ended)
        if fault:
            raise InternalError(f"bundle {version.name} cannot be unpacked: {fault}")

    def _clear_stale(self, code_dir: Path) -> None:
        """Remove leftovers of crashes: an hour is longer than any fetch in progress."""
        for entry in os.scandir(code_dir):
            with contextlib.suppress(OSError):
                if time.time() - entry.stat(follow_symlinks=False).st_mtime <= _STALE_TEMP_SECONDS:
                    continue
                if entry.name.startswith(code_folders.TEMPORARY):
                    shutil.rmtree(entry.path, ignore_errors=True)
                elif entry.name.startswith(_LOCK):
                    Path(entry.path).unlink()


class _Marked:
    """A fetcher whose progress the lock shows."""

    def __init__(self, fetcher: Fetcher, lock: FetchLock) -> None:
        self._fetcher = fetcher
        self._lock = lock

    def fetch(self, account: str, file: CodeFile) -> Iterator[bytes]:
        """See :class:`Fetcher`."""
        for chunk in self._fetcher.fetch(account, file):
            self._lock.mark()
            yield chunk
