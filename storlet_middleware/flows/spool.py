"""Intermediate results of distributions: in memory while they are small, then in a file.

A file has no name from its beginning, so it ends with its last descriptor, also when the process is
killed.  Three bounds hold, the first of them at the request, the others at the server process::

    Budget of a request    [library] distributed_spool_bytes
    share of an account    half of the space that others leave
    Space of the process   [library] distributed_spool_total_bytes

A client that reads its result slowly keeps it here.  As each account takes half of what others
leave, no number of such clients of a few accounts takes all of it.

A disk that is full, or a directory that cannot be used, is an error of the node.
"""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from storlet_middleware import errors, names
from storlet_middleware.config import Config
from storlet_middleware.errors import InternalError, NodeBusy, Unprocessable
from storlet_middleware.shared_bytes import SharedBytes

_MEMORY_BYTES: Final = 16 << 10
_CHUNK: Final = 64 << 10
#: An account may use this fraction of the space.
_OF_SPACE: Final = 2
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


class Space(SharedBytes):
    """The spools of all requests of a server process.

    :param directory: of their files; created if it is missing.
    """

    def __init__(self, directory: Path, most_bytes: int, logger: Any) -> None:
        share = most_bytes // _OF_SPACE
        super().__init__(
            share,
            most_bytes,
            f"intermediate results of the account's distributions have more than {share} bytes"
            " in this server process: retry later, or lower concurrency",
            "this server process has no space for more intermediate results",
        )
        self._directory = directory
        self._logger = logger

    @classmethod
    def of(cls, config: Config, logger: Any) -> Space:
        """The space of a configuration."""
        given = config.library.distributed_spool_dir
        directory = Path(given) if given else Path(config.sandbox.state_dir) / names.SPOOL_FOLDER
        return cls(directory, config.library.distributed_spool_total_bytes, logger)

    def file(self) -> Any:
        """A file without a name, unbuffered; the caller closes it.

        :raises NodeBusy: the directory cannot be used.
        """
        try:
            with contextlib.suppress(FileNotFoundError):
                return tempfile.TemporaryFile(buffering=0, dir=self._directory)
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            return tempfile.TemporaryFile(buffering=0, dir=self._directory)
        except OSError as error:
            raise self.failure(error) from error

    def failure(self, error: OSError) -> NodeBusy:
        """The error for the client; the operator's log has the directory."""
        self._logger.error(
            "ERROR storlets: intermediate results cannot be stored in %s: %s",
            self._directory,
            error.strerror,
        )
        why = "its disk is full" if error.errno in _FULL else f"{error.strerror}"
        return NodeBusy(f"intermediate results cannot be stored at this server: {why}")


class Budget:
    """Bytes that the spools of one request may hold at a time.

    :param space: of the process; the request's bytes count there for ``account``.
    """

    def __init__(self, most_bytes: int, space: Space, account: str) -> None:
        self.space = space
        self.used_bytes = 0
        self._most_bytes = most_bytes
        self._account = account

    def take(self, size: int) -> None:
        """Count ``size`` more bytes.

        :raises StorletError: one of the bounds is reached.
        """
        if self.used_bytes + size > self._most_bytes:
            raise Unprocessable(
                f"intermediate results have more than {self._most_bytes} bytes: let the split"
                " write less, or lower concurrency",
                code=errors.LIMIT_OUTPUT,
            )
        self.space.add(self._account, size)
        self.used_bytes += size

    def give_back(self, size: int) -> None:
        """Reverse of :meth:`take`."""
        self.used_bytes -= size
        self.space.remove(self._account, size)


class Spool:
    """One result; written once, then read, and closed by its owner.

    :attr:`metadata` is what its storlet set.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._pieces: list[bytes] = []
        self._file: Any = None
        self._is_closed = False
        self.size = 0
        self.metadata: Mapping[str, str] = {}

    def write(self, chunk: bytes) -> None:
        """Add ``chunk``.

        :raises StorletError: a bound is reached, or the disk is full.
        """
        self._budget.take(len(chunk))
        self.size += len(chunk)
        if self._file is None and self.size <= _MEMORY_BYTES:
            self._pieces.append(chunk)
            return
        if self._file is None:
            self._file = self._budget.space.file()
            chunk = b"".join((*self._pieces, chunk))
            self._pieces.clear()
        self._write_file(chunk)

    def _write_file(self, chunk: bytes) -> None:
        view = memoryview(chunk)
        try:
            while view:
                view = view[os.write(self._file.fileno(), view) :]
        except OSError as error:
            raise self._budget.space.failure(error) from error

    def chunks(self) -> Iterator[bytes]:
        """All of it; the spool stays open.

        :raises InternalError: a part of it is missing.
        """
        if self._is_closed:
            raise InternalError("an intermediate result was read after its end")
        if self._file is None:
            yield from tuple(self._pieces)
            return
        position = 0
        while chunk := self._read(position):
            position += len(chunk)
            yield chunk
        if position < self.size:
            raise InternalError("a part of an intermediate result is missing on the disk")

    def _read(self, position: int) -> bytes:
        if self._file is None:
            raise InternalError("an intermediate result ended while it was read")
        return os.pread(self._file.fileno(), _CHUNK, position)

    # --- as the input of a storlet ----------------------------------------------------------------

    def __iter__(self) -> Iterator[bytes]:
        return self.chunks()

    def abandon(self) -> None:
        """Nothing to do: nothing else reads it."""

    def close(self) -> None:
        """Release everything; may be called twice."""
        self._is_closed = True
        size, self.size = self.size, 0
        self._pieces.clear()
        file, self._file = self._file, None
        try:
            if size:
                self._budget.give_back(size)
        finally:
            if file is not None:
                file.close()
