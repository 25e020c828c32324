"""Bounded reads of an archive, and of the archive in a compressed object.

The modules of Python take the sizes in an archive as they are.  Their reads go through these
classes, so a size that lies is an error instead of memory.
"""

from __future__ import annotations

import os
from typing import Any

from packed import Unpacked
from refusal import Refusal

#: Bound of one read: of the directory of a ZIP, or of one header of a TAR.
MOST_READ_BYTES = 4 << 20
BLOCK_BYTES = 64 * 1024


class ArchiveError(Refusal):
    """The archive is not valid, exceeds a limit, or has no such member."""


class Bounded:
    """A file whose reads have an upper bound.

    :ivar last: the data of the last read.
    """

    def __init__(self, file: Any) -> None:
        self._file = file
        self.last = b""

    def read(self, size: int = -1) -> bytes:
        # To the end of the file, which zipfile does near the end only.
        data = self._file.read(MOST_READ_BYTES + 1) if size == -1 else b""
        if not -1 <= size <= MOST_READ_BYTES or len(data) > MOST_READ_BYTES:
            raise ArchiveError(
                f"its directory or a header has more than {MOST_READ_BYTES} bytes, or a wrong size"
            )
        self.last = data if size == -1 else self._file.read(size)
        return self.last

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence == os.SEEK_SET and offset < 0:
            raise ArchiveError("its directory or a header has a wrong offset")
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def seekable(self) -> bool:
        return True


class Forward:
    """The data of a compressed file; it can only seek forward."""

    def __init__(self, data: Unpacked) -> None:
        self._data = data
        self._position = 0

    def read(self, size: int) -> bytes:
        """``size`` bytes; less only at the end."""
        parts = []
        while size and (part := self._data.read(min(size, BLOCK_BYTES))):
            parts.append(part)
            size -= len(part)
            self._position += len(part)
        return b"".join(parts)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence != os.SEEK_SET or offset < self._position:
            raise ArchiveError("its headers are not in order")
        while self._position < offset and self.read(min(offset - self._position, BLOCK_BYTES)):
            pass
        return self._position

    def tell(self) -> int:
        return self._position
