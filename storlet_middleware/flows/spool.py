"""Intermediate results of a distribution: in memory while they are small, then in a file.

The file has no name, so it ends with its last descriptor.  All results of one request share a
budget.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import BinaryIO, Final

from storlet_middleware import errors
from storlet_middleware.errors import Unprocessable

_MEMORY_BYTES: Final = 16 << 10
_CHUNK: Final = 64 << 10


class Budget:
    """Bytes that the spools of one request may hold at a time."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.used_bytes = 0


class Spool:
    """One result; written once, then read once."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._pieces: list[bytes] = []
        self._file: BinaryIO | None = None
        self.size = 0

    def write(self, chunk: bytes) -> None:
        """Add ``chunk``.

        :raises Unprocessable: the request's budget is used up.
        """
        budget = self._budget
        if budget.used_bytes + len(chunk) > budget.most_bytes:
            raise Unprocessable(
                f"intermediate results have more than {budget.most_bytes} bytes: let the split"
                " write less, or lower concurrency",
                code=errors.LIMIT_OUTPUT,
            )
        budget.used_bytes += len(chunk)
        self.size += len(chunk)
        if self._file is None and self.size > _MEMORY_BYTES:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
            for piece in self._pieces:
                self._file.write(piece)
            self._pieces.clear()
        if self._file is None:
            self._pieces.append(chunk)
        else:
            self._file.write(chunk)

    def chunks(self) -> Iterator[bytes]:
        """All of it; the spool stays open."""
        if self._file is None:
            yield from self._pieces
            return
        self._file.seek(0)
        while chunk := self._file.read(_CHUNK):
            yield chunk

    # --- as the input of a storlet ----------------------------------------------------------------

    def __iter__(self) -> Iterator[bytes]:
        return self.chunks()

    def abandon(self) -> None:
        """Nothing to do: nothing else reads it."""

    def close(self) -> None:
        """Release everything; may be called twice."""
        self._budget.used_bytes -= self.size
        self.size = 0
        self._pieces.clear()
        file, self._file = self._file, None
        if file is not None:
            file.close()
