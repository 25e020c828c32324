"""Bounded reads of an archive, and of the archive in a compressed object.

The modules of Python take the sizes in an archive as they are.  Their reads go through these
classes, so a size that lies is an error instead of memory.
"""

from __future__ import annotations

import bz2
import lzma
import os
import zlib
from typing import Any

#: Bound of one read: of the directory of a ZIP, or of one header of a TAR.
MOST_READ_BYTES = 4 << 20
BLOCK_BYTES = 64 * 1024
#: This much output is within the ratio for any input.
FREE_BYTES = 16 << 20
#: xz -9 needs 65 MiB.
XZ_MEMORY_BYTES = 80 << 20
MAGIC = {"gzip": b"\x1f\x8b", "bz2": b"BZh", "xz": b"\xfd7zXZ\0"}


class ArchiveError(ValueError):
    """The archive is not valid, exceeds a limit, or has no such member."""


def require_ratio(packed: int, plain: int, max_ratio: int) -> None:
    if plain > FREE_BYTES + packed * max_ratio:
        raise ArchiveError(f"{packed} bytes become more than {max_ratio} times as many (max-ratio)")


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


class Unpacked:
    """The data of a compressed file; it can only seek forward."""

    def __init__(self, file: Any, kind: str, max_ratio: int) -> None:
        self._file, self._kind, self._max_ratio = file, kind, max_ratio
        self._decoder = decoder_of(kind)
        self._rest = b""
        self._taken = self._position = 0
        self._is_end = False

    def read(self, size: int) -> bytes:
        parts = []
        while size and (part := self._part(min(size, BLOCK_BYTES))):
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence != os.SEEK_SET or offset < self._position:
            raise ArchiveError("its headers are not in order")
        while self._position < offset and self._part(min(offset - self._position, BLOCK_BYTES)):
            pass
        return self._position

    def tell(self) -> int:
        return self._position

    def _part(self, size: int) -> bytes:
        """At least one byte, except at the end."""
        while not self._is_end:
            data = b""
            if self._decoder.needs_input:
                data = self._rest or self._file.read(BLOCK_BYTES)
                self._taken += 0 if self._rest else len(data)
                self._rest = b""
                if not data:
                    raise ArchiveError(f"the object is cut: its {self._kind} does not end")
            try:
                output = self._decoder.decompress(data, size)
            except (zlib.error, lzma.LZMAError, OSError, EOFError, ValueError) as error:
                raise ArchiveError(f"the object is no valid {self._kind}: {error}") from error
            if self._decoder.eof:
                self._next_stream()
            self._position += len(output)
            require_ratio(self._taken, self._position, self._max_ratio)
            if output:
                return bytes(output)
        return b""

    def _next_stream(self) -> None:
        """Begin the stream that follows, or end; zero bytes between streams are padding."""
        rest = self._decoder.unused_data.lstrip(b"\0")
        while not rest and (block := self._file.read(BLOCK_BYTES)):
            self._taken += len(block)
            rest = block.lstrip(b"\0")
        self._rest = rest
        self._is_end = not rest
        self._decoder = decoder_of(self._kind)


def decoder_of(kind: str) -> Any:
    """A new decoder of one stream."""
    if kind == "gzip":
        return GzipDecoder()
    if kind == "bz2":
        return bz2.BZ2Decompressor()
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, XZ_MEMORY_BYTES)


class GzipDecoder:
    """One stream of gzip, with the methods of the decoders of ``bz2`` and ``lzma``."""

    def __init__(self) -> None:
        self._decoder = zlib.decompressobj(16 + zlib.MAX_WBITS)

    def decompress(self, data: bytes, max_length: int) -> bytes:
        rest = self._decoder.unconsumed_tail
        return self._decoder.decompress(rest + data if rest else data, max_length)

    @property
    def eof(self) -> bool:
        return self._decoder.eof

    @property
    def needs_input(self) -> bool:
        return not self._decoder.eof and not self._decoder.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._decoder.unused_data
