"""The data of a compressed object: all its members, one after the other, to the end.

A member is a stream of gzip, bz2 or xz, or a frame of zstd or lz4.  An object that ends within one,
or that has other data after one, is an error, never a shorter result.  The file classes of Python
are no choice: those of bz2 and xz take a damaged member for the end of the data.  The decoders give
at most the size of a read, so memory does not depend on the ratio.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from typing import Any

import packages
from refusal import Refusal

#: Small, because the rest of a block is copied for each member.
INPUT_BYTES = 64 * 1024
#: The magic of each format, and the first block of bz2.
SIGN_BYTES = 10
#: The buffer of an input: after a shorter read, all later ones would copy the rest of it.
START_BYTES = 256 * 1024
#: This much output is within the ratio for any input.
FREE_BYTES = 16 << 20
#: xz -9 needs 65 MiB.
XZ_MEMORY_BYTES = 80 << 20
#: The largest window of zstd that its own tools take: 128 MiB.
ZSTD_WINDOW_LOG = 27
MAGIC = {
    "gzip": b"\x1f\x8b", "bz2": b"BZh", "xz": b"\xfd7zXZ\0", "zstd": b"\x28\xb5\x2f\xfd",
    "lz4": b"\x04\x22\x4d\x18",
}  # fmt: skip
#: The bytes after the magic and the level of bz2: of a block, or of the end of no data.
BZ2_BLOCKS = (b"1AY&SY", b"\x17rE8P\x90")
#: The format of the first bytes, or none.
AUTO = "auto"
#: Formats that may have zero bytes after a member, in multiples of this.
PADDING = {"gzip": 1, "xz": 4}
WRONG = (zlib.error, lzma.LZMAError, OSError, EOFError, ValueError, RuntimeError)


class PackedError(Refusal):
    """The object is not valid in its format, or exceeds the ratio."""


def kind_of(start: bytes) -> str:
    """The format of an object that begins with ``start``; empty if it is none of them."""
    return next((kind for kind, magic in MAGIC.items() if start.startswith(magic)), "")


def kind_of_text(start: bytes) -> str:
    """As :func:`kind_of`, but text that begins with BZh is not bz2."""
    kind, block = kind_of(start), start[4:SIGN_BYTES]
    if kind == "bz2" and not any(known.startswith(block) for known in BZ2_BLOCKS):
        return ""
    return kind


def opened(source: Any, compression: str, *, is_text: bool = True) -> Any:
    """A file of the data of ``source``.

    :param compression: a format, ``none``, or ``auto``: by the first bytes, which no text has.
    :param is_text: False: the data can begin with any bytes, and ``auto`` is ``none``.
    """
    if compression == "none" or (compression == AUTO and not is_text):
        return source
    if compression != AUTO:
        return Unpacked(source, compression)
    start = b""
    while len(start) < SIGN_BYTES and (block := bytes(source.read(START_BYTES))):
        start += block
    kind = kind_of_text(start)
    return Unpacked(source, kind, start) if kind else Begun(source, start)


def require_ratio(packed: int, plain: int, max_ratio: int) -> None:
    """Raise :class:`PackedError` if ``plain`` bytes of data are too many for ``packed`` ones."""
    if plain > FREE_BYTES + packed * max_ratio:
        raise PackedError(f"{packed} bytes become more than {max_ratio} times as many (max-ratio)")


class Begun:
    """A file whose first bytes are read already."""

    def __init__(self, source: Any, start: bytes) -> None:
        self._source, self._start = source, start

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes, and none only at the end."""
        if not self._start:
            return bytes(self._source.read(size))
        data, self._start = self._start[:size], self._start[size:]
        return data


class Unpacked:
    """A file of the data.

    :param start: the first bytes of the object, if they are read already.
    :param max_ratio: most bytes of data for each byte of the object; 0 is no limit.
    """

    def __init__(self, file: Any, kind: str, start: bytes = b"", max_ratio: int = 0) -> None:
        self._file, self._kind, self._max_ratio = file, kind, max_ratio
        self._decoder = decoder_of(kind)
        self._wrong = WRONG
        if kind == "zstd":
            self._wrong += (packages.loaded(kind, packages.ZSTD).ZstdError,)
        self._rest = start
        self._taken, self._given = len(start), 0
        self._is_end = False

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes, and none only at the end.

        :raises PackedError: the object is cut, not valid, or exceeds the ratio.
        """
        while not self._is_end:
            data = b""
            if self._decoder.needs_input:
                data = self._rest or self._next_block()
                self._rest = b""
                if not data:
                    raise PackedError(
                        f"the object is cut: its {self._kind} does not end after"
                        f" {self._taken} bytes"
                    )
            output = self._decoded(data, size)
            if self._decoder.eof:
                self._next_member()
            if output:
                return output
        return b""

    def _next_block(self) -> bytes:
        block = bytes(self._file.read(INPUT_BYTES))
        self._taken += len(block)
        return block

    def _decoded(self, data: bytes, size: int) -> bytes:
        try:
            output = bytes(self._decoder.decompress(data, size))
        except self._wrong as error:
            at = self._taken - len(data)
            raise PackedError(
                f"the object is no valid {self._kind} near byte {at}: {error}"
            ) from error
        self._given += len(output)
        if self._max_ratio:
            require_ratio(self._taken, self._given, self._max_ratio)
        return output

    def _next_member(self) -> None:
        """Begin the member that follows, or end."""
        rest, padding = self._decoder.unused_data, 0
        unit = PADDING.get(self._kind)
        while True:
            if unit is not None:
                member = rest.lstrip(b"\0")
                padding += len(rest) - len(member)
                rest = member
            if rest:
                break
            rest = self._next_block()
            if not rest:
                self._is_end = True
                break
        if unit is not None and padding % unit:
            raise PackedError(f"the object is no valid {self._kind}: {padding} bytes of padding")
        self._rest = rest
        self._decoder = decoder_of(self._kind)


def decoder_of(kind: str) -> Any:
    """A new decoder of one member.

    :raises packages.PackageError: the image does not have the package of the format.
    """
    if kind == "gzip":
        return GzipDecoder()
    if kind == "bz2":
        return bz2.BZ2Decompressor()
    if kind == "xz":
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, XZ_MEMORY_BYTES)
    if kind == "zstd":
        zstd = packages.loaded(kind, packages.ZSTD)
        window = zstd.DecompressionParameter.window_log_max
        return zstd.ZstdDecompressor(options={window: ZSTD_WINDOW_LOG})
    return Lz4Decoder()


class Lz4Decoder:
    """One frame of lz4, with the methods of the decoders of ``bz2`` and ``lzma``."""

    def __init__(self) -> None:
        self._decoder = packages.loaded("lz4", packages.LZ4).LZ4FrameDecompressor()

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return bytes(self._decoder.decompress(data, max_length))

    @property
    def eof(self) -> bool:
        return bool(self._decoder.eof)

    @property
    def needs_input(self) -> bool:
        return not self._decoder.eof and bool(self._decoder.needs_input)

    @property
    def unused_data(self) -> bytes:
        return self._decoder.unused_data or b""


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
