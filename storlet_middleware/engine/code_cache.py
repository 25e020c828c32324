"""One exact version of a storlet, and its copy on a node.

A :class:`StorletVersion` names every byte that will run: the storlet and its dependencies by hash and time of upload.
Its key decides the directory on the node and, with the limits that hold, the worker group and its socket, so that nothing
can run half-old.  The limits that the storlet declares come with it, but are no part of the key: a change of them takes
effect at once and fetches nothing.

:class:`CodeCache` makes that directory: files are fetched into a temporary directory beside it, checked against their
hashes, synced and renamed.  A crash half-way leaves a temporary name that nothing ever runs and that is cleared later.
It knows nothing of Swift: the caller gives it a way to fetch an object.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Final, Protocol

from storlet_daemon.protocol import messages
from storlet_middleware import errors, metrics
from storlet_middleware.concurrency import monotonic, sleep
from storlet_middleware.errors import InternalError, NodeBusy, Unprocessable

_STALE_TEMP_SECONDS: Final = 3600
#: A version with all the dependencies that its metadata has room for takes 80 KB, and a tenant can have as many as it likes.
_MAX_VERSIONS: Final = 256


@dataclass(frozen=True)
class CodeFile:
    """One object that becomes one file.  ``etag`` is the MD5 of its bytes, or empty where Swift has no such hash
    (large objects); ``mode`` is the file's mode on the node."""

    container: str
    name: str
    etag: str
    timestamp: str
    size: int
    mode: int
    is_segmented: bool = False


@dataclass(frozen=True)
class StorletVersion:
    """A storlet as it will run; ``files[0]`` is the storlet, the others are its dependencies.  ``limits`` are those that it
    declares, by the names of :data:`storlet_middleware.engine.limits.TABLE`."""

    account: str
    name: str
    language: str
    language_version: str
    main: str
    files: tuple[CodeFile, ...]
    limits: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def key(self) -> str:
        """64 hex digits that change with anything that matters to the code."""
        code = {name: value for name, value in asdict(self).items() if name != "limits"}
        return hashlib.sha256(json.dumps(code, sort_keys=True).encode()).hexdigest()

    @cached_property
    def text(self) -> str:
        """All of it as JSON, for :meth:`from_text`."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    @staticmethod
    def from_text(text: str) -> StorletVersion:
        """The version that ``text`` describes; raises ``TypeError``, ``KeyError`` or ``ValueError`` when it is none.

        The same text gives the same object, so that what is worked out of it once serves all of its invocations.
        """
        return _of_text(text)

    def load_request(self, group: str, resources: messages.Resources) -> messages.Storlet:
        """What sandboxd is asked to load: this code, in a worker ``group`` with these ``resources``."""
        return messages.Storlet(
            name=self.name,
            version=group,
            code=self.key,
            language=self.language,
            main=self.main,
            file=self.name,
            language_version=self.language_version or None,
            dependencies=[file.name for file in self.files[1:]],
            limits=resources,
        )


@lru_cache(maxsize=_MAX_VERSIONS)
def _of_text(text: str) -> StorletVersion:
    fields = json.loads(text)
    return StorletVersion(**{**fields, "files": tuple(CodeFile(**file) for file in fields["files"])})


class Fetcher(Protocol):
    """Gives the bytes of one code file."""

    def fetch(self, account: str, file: CodeFile) -> Iterator[bytes]:
        """Chunks of exactly the object that ``file`` names; raises when it is not that version any more."""


class CodeCache:
    """Copies of storlet code below ``<code_dir>/<version key>/``, one directory a version.

    :param max_bytes: size of a storlet with its dependencies, at most.
    """

    def __init__(self, max_bytes: int, logger: metrics.Stats) -> None:
        self._max_bytes = max_bytes
        self._logger = logger

    def ensure(self, code_dir: str, version: StorletVersion, fetcher: Fetcher) -> None:
        """Return when the code of ``version`` is in ``code_dir``; fetches it once however many ask at the same time."""
        home = Path(code_dir)
        final = home / version.key
        if final.is_dir():
            metrics.cache_hit(self._logger)
            return
        if sum(file.size for file in version.files) > self._max_bytes:
            raise Unprocessable(
                f"storlet and dependencies are larger than the {self._max_bytes} bytes allowed", code=errors.STORLET_LOAD
            )
        try:
            self._ensure(home, final, version, fetcher)
        except OSError as error:
            # A full or failing disk is the node's trouble, and one that passes: another replica or a later try may work.
            raise NodeBusy(f"this node cannot keep the storlet's code: {os.strerror(error.errno or 0)}") from error

    def _ensure(self, home: Path, final: Path, version: StorletVersion, fetcher: Fetcher) -> None:
        lock_path = home / f".lock-{version.key[:16]}"
        with self._lock(lock_path):
            if final.is_dir():
                # Another task has fetched it meanwhile.
                metrics.cache_hit(self._logger)
                return
            metrics.cache_miss(self._logger)
            self._clear_stale(home)
            temp = home / f".tmp-{secrets.token_hex(8)}"
            temp.mkdir(0o755)
            began = monotonic()
            try:
                for file in version.files:
                    self._write(temp, version.account, file, fetcher)
                _sync_directory(temp)
                temp.rename(final)
                _sync_directory(home)
                lock_path.unlink()  # whoever waits for it finds the directory; nobody needs the lock again
            except BaseException:
                shutil.rmtree(temp, ignore_errors=True)
                raise
            finally:
                metrics.cache_fetched(self._logger, monotonic() - began)

    def _write(self, directory: Path, account: str, file: CodeFile, fetcher: Fetcher) -> None:
        digest = hashlib.md5(usedforsecurity=False)
        size = 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(directory / file.name, flags, 0o600)
        with os.fdopen(fd, "wb") as out:
            for chunk in fetcher.fetch(account, file):
                size += len(chunk)
                if size > file.size:
                    break
                digest.update(chunk)
                out.write(chunk)
            if size != file.size or (not file.is_segmented and digest.hexdigest() != file.etag):
                raise InternalError(f"code of {file.container}/{file.name} arrived incomplete or altered")
            out.flush()
            os.fchmod(fd, file.mode)  # not by umask: the tenant's uid is "other" here
            os.fsync(fd)

    @contextlib.contextmanager
    def _lock(self, path: Path) -> Iterator[None]:
        """Hold ``path`` against the node's other server processes and green tasks, without blocking either."""
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        pause = 0.005
        try:
            while True:
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    # Hundreds may wait for one fetch.
                    sleep(pause)
                    pause = min(0.2, pause * 1.5)
            yield
        finally:
            os.close(fd)

    def _clear_stale(self, code_dir: Path) -> None:
        """Remove what crashes left; an hour is longer than any fetch, whose owner may still be alive."""
        for entry in os.scandir(code_dir):
            with contextlib.suppress(OSError):
                if entry.name.startswith(".tmp-") and time.time() - entry.stat().st_mtime > _STALE_TEMP_SECONDS:
                    shutil.rmtree(entry.path, ignore_errors=True)


def _sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
