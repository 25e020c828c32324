"""The object without its compression: all members, to the end.

The decoders of one member and this loop are those of ``std:decompress``; each storlet of the
library is built alone.  The file classes of Python are no choice: those of bz2 and xz take a
damaged member for the end of the data.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from typing import Any

from sql_check import SqlError

INPUT_BYTES = 64 * 1024
#: xz -9 needs 65 MiB.
XZ_MEMORY_BYTES = 80 << 20


def opened(source: Any, compression: str) -> Any:
    """A file with the plain data."""
    return source if compression == "none" else Unpacked(source, compression)


class Unpacked:
    """The data of all members, one after the other."""

    def __init__(self, file: Any, kind: str) -> None:
        self._file, self._kind = file, kind
        self._decoder = decoder_of(kind)
        self._rest = b""
        self._is_end = False

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes, and none only at the end.

        :raises SqlError: the data are cut or not valid.
        """
        while not self._is_end:
            data = b""
            if self._decoder.needs_input:
                data = self._rest or self._file.read(INPUT_BYTES)
                self._rest = b""
                if not data:
                    raise SqlError(f"compression: the object is cut: its {self._kind} has no end")
            try:
                output = self._decoder.decompress(data, size)
            except (zlib.error, lzma.LZMAError, OSError, EOFError, ValueError) as error:
                raise SqlError(
                    f"compression: the object is no valid {self._kind}: {error}"
                ) from error
            if self._decoder.eof:
                self._next_member()
            if output:
                return bytes(output)
        return b""

    def _next_member(self) -> None:
        """Begin the member that follows, or end."""
        rest, padding = self._decoder.unused_data, 0
        while True:
            if self._kind == "xz":
                member = rest.lstrip(b"\0")
                padding += len(rest) - len(member)
                rest = member
            if rest:
                break
            rest = self._file.read(INPUT_BYTES)
            if not rest:
                self._is_end = True
                break
        if padding % 4:
            raise SqlError(f"compression: the object is no valid xz: {padding} bytes of padding")
        self._rest = rest
        self._decoder = decoder_of(self._kind)


def decoder_of(kind: str) -> Any:
    """A new decoder of one member."""
    if kind == "gzip":
        return GzipDecoder()
    if kind == "bz2":
        return bz2.BZ2Decompressor()
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, XZ_MEMORY_BYTES)


class GzipDecoder:
    """One member of gzip, with the methods of the decoders of ``bz2`` and ``lzma``."""

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
