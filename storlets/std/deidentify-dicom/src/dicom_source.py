"""The bytes of an object, read once in their order, with a bound of what is kept in memory.

A read beyond the end is an error: no part of an object is taken for all of it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

from refusal import Refusal

BLOCK_BYTES = 1 << 20
#: Bound of the data set before its pixels, which is kept in memory.
MOST_HEAD_BYTES = 64 << 20
#: A byte of padding may follow a deflated data set, and some programs write the end of a gzip file.
MOST_TRAILER_BYTES = 9

#: Gives at most a number of bytes; none at the end.
Read = Callable[[int], bytes]


class DicomError(Refusal):
    """The object is no valid DICOM, or it cannot be de-identified safely.

    No message has a value of the object.
    """


class Source:
    """Reads exact numbers of bytes.

    :ivar place: number of the bytes that were read.
    :ivar kept: the bytes that were read, until :meth:`release`.
    """

    def __init__(self, read: Read) -> None:
        self._read = read
        self._ahead = b""
        self._start = 0
        self.place = 0
        self.kept: bytearray | None = bytearray()

    def take(self, size: int) -> bytes:
        """The next ``size`` bytes.

        :raises DicomError: there are fewer, or too many are kept.
        """
        if self.kept is not None and len(self.kept) + size > MOST_HEAD_BYTES:
            raise DicomError(
                f"byte {self.place}: the data set before its pixels would have more than"
                f" {MOST_HEAD_BYTES >> 20} MiB"
            )
        end = self._start + size
        if end <= len(self._ahead):
            data = self._ahead[self._start : end]
            self._start = end
        else:
            data = self._joined(size)
        self.place += size
        if self.kept is not None:
            self.kept += data
        return data

    def release(self) -> bytearray:
        """The kept bytes; from now on none are kept."""
        kept, self.kept = self.kept, None
        return bytearray() if kept is None else kept

    def blocks(self, size: int) -> Iterator[bytes]:
        """The next ``size`` bytes in blocks of bounded length."""
        while size:
            block = self.take(min(size, BLOCK_BYTES))
            yield block
            size -= len(block)

    def is_at_end(self) -> bool:
        """Whether no byte is left."""
        if self._start == len(self._ahead):
            self._ahead, self._start = bytes(self._read(BLOCK_BYTES)), 0
        return not self._ahead

    def read(self, size: int) -> bytes:
        """At most ``size`` bytes, none at the end; for a source within this one."""
        if self.is_at_end():
            return b""
        return self.take(min(size, len(self._ahead) - self._start))

    def _joined(self, size: int) -> bytes:
        parts, left = [], size
        while left:
            if self.is_at_end():
                raise DicomError(
                    f"the object is cut: {left} bytes are missing at its end, of {size} at byte"
                    f" {self.place}"
                )
            part = self._ahead[self._start : self._start + left]
            self._start += len(part)
            left -= len(part)
            parts.append(part)
        return b"".join(parts)


class Inflated:
    """The data of a raw deflate stream, in blocks of bounded length."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._engine = zlib.decompressobj(-zlib.MAX_WBITS)

    def read(self, size: int) -> bytes:
        """At most ``size`` bytes, none at the end."""
        while not self._engine.eof:
            packed = self._engine.unconsumed_tail or self._source.read(BLOCK_BYTES)
            if not packed:
                raise DicomError("the object is cut: the deflated data set has no end")
            try:
                data = self._engine.decompress(packed, size)
            except zlib.error:
                raise DicomError("the deflated data set is damaged") from None
            if data:
                return data
        rest = self._engine.unused_data + self._source.read(BLOCK_BYTES)
        if len(rest) > MOST_TRAILER_BYTES:
            raise DicomError("there are data after the end of the deflated data set")
        return b""


class Deflated:
    """Deflates what is written, and writes it to ``write``."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._engine = zlib.compressobj(wbits=-zlib.MAX_WBITS)
        self._count = 0

    def write(self, data: bytes) -> None:
        self._put(self._engine.compress(data))

    def finish(self) -> None:
        """The end of the stream; its length is even."""
        self._put(self._engine.flush())
        self._put(bytes(self._count % 2))

    def _put(self, data: bytes) -> None:
        self._count += len(data)
        if data:
            self._write(data)
