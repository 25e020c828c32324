"""Decompresses gzip, bz2 and xz, within limits and to the end.

An object may have several members (streams) one after the other.  An input that ends within one, or
that has other data after one, is an error.  The decoders give at most one block at a time, so
memory does not depend on the ratio.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Iterator
from typing import Any

#: Small, because the rest of a block is copied for each member.
INPUT_BYTES = 64 * 1024
OUTPUT_BYTES = 1 << 20
ITEM = "Compression"
PLAIN = "none"
#: This much output is within the ratio for any input.
FREE_BYTES = 16 << 20
#: xz -9 needs 65 MiB.
XZ_MEMORY_BYTES = 80 << 20
MAGIC = {"gzip": b"\x1f\x8b", "bz2": b"BZh", "xz": b"\xfd7zXZ\0"}
#: ``storlet run`` and the cluster accept the same words.
TRUE = ("true", "1", "yes", "on")


class DecompressionError(ValueError):
    """The object is not valid, or exceeds a limit."""


class Decompress:
    """See the README for the parameters."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        source, target = in_files[0], out_files[0]
        start = source.read(INPUT_BYTES)
        kind = format_of(params, source.get_metadata(), start)
        # An empty value removes the item.
        target.set_metadata({ITEM: ""})
        blocks = blocks_of(start, source)
        if kind != PLAIN:
            blocks = decompressed(blocks, kind, int(params["max-ratio"]))
        for block in blocks:
            target.write(block)


def format_of(params: dict[str, str], metadata: dict[str, str], start: bytes) -> str:
    """The format by parameter, metadata or first bytes."""
    if params["format"] != "auto":
        return params["format"]
    for name, value in metadata.items():
        if name.lower() == ITEM.lower() and value.strip():
            kind = value.strip().lower()
            if kind not in (*MAGIC, PLAIN):
                raise DecompressionError(f"its {ITEM} is {kind}: known are {', '.join(MAGIC)}")
            return kind
    for kind, magic in MAGIC.items():
        if start.startswith(magic):
            return kind
    if params["accept-plain"].lower() in TRUE:
        return PLAIN
    raise DecompressionError(
        f"the object has no {ITEM} in its metadata and begins like none of {', '.join(MAGIC)}"
    )


def blocks_of(start: bytes, source: Any) -> Iterator[bytes]:
    block = start
    while block:
        yield block
        block = source.read(INPUT_BYTES)


def decompressed(blocks: Iterator[bytes], kind: str, max_ratio: int) -> Iterator[bytes]:
    """The data of all members."""
    decoder = decoder_of(kind)
    read = written = padding = 0
    for block in blocks:
        rest = block
        read += len(block)
        while rest or not (decoder.needs_input or decoder.eof):
            if decoder.eof:
                member = rest.lstrip(b"\0") if kind == "xz" else rest
                padding += len(rest) - len(member)
                rest = member
                if not rest:
                    break
                require_padding(padding)
                decoder, padding = decoder_of(kind), 0
            try:
                output = decoder.decompress(rest, OUTPUT_BYTES)
            except (zlib.error, lzma.LZMAError, OSError, EOFError, ValueError) as error:
                raise DecompressionError(
                    f"the object is no valid {kind} near byte {read - len(rest)}: {error}"
                ) from error
            written += len(output)
            if written > FREE_BYTES + read * max_ratio:
                raise DecompressionError(
                    f"{read} bytes become more than {max_ratio} times as many (max-ratio)"
                )
            yield output
            rest = decoder.unused_data if decoder.eof else b""
    if not decoder.eof:
        raise DecompressionError(f"the object is cut: its {kind} does not end after {read} bytes")
    require_padding(padding)


def require_padding(count: int) -> None:
    """The format xz allows zero bytes after a member, four or a multiple."""
    if count % 4:
        raise DecompressionError(f"the object is no valid xz: {count} bytes of padding")


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
