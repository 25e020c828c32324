"""Compresses an object, or leaves it as it is where that does not pay.

The metadata item ``Compression`` of the output has the format, or ``none``; ``std:decompress``
reads it.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from typing import Any

import packages
import seek_table
from parameters import is_true
from refusal import Refusal

BLOCK_BYTES = 1 << 20
ITEM = "Compression"
PLAIN = "none"
#: The policy ``auto`` compresses if the first block becomes at least this much smaller.
LEAST_SAVING = 0.1
#: Level by format and policy.  xz with 9 needs 674 MiB of memory, with 6 it needs 94, as zstd does
#: with 19.
LEVELS = {
    "gzip": {"best": 9, "fast": 1},
    "bz2": {"best": 9, "fast": 1},
    "xz": {"best": 6, "fast": 0},
    "zstd": {"best": 19, "fast": 1},
    "lz4": {"best": 9, "fast": 0},
}
#: The least and the highest level that the parameter ``level`` may give.
LEVEL_BOUNDS = {"gzip": (1, 9), "bz2": (1, 9), "xz": (1, 6), "zstd": (1, 19), "lz4": (1, 12)}


class CompressionError(Refusal):
    """The object cannot be compressed."""


class Compress:
    """See the README for the parameters."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        source, target = in_files[0], out_files[0]
        kind, policy = params["format"], params["policy"]
        level = level_of(kind, policy, int(params["level"]))
        has_table = is_true(params, "seek-table")
        if has_table and kind != "zstd":
            raise CompressionError("seek-table: is of format=zstd only")
        block = source.read(BLOCK_BYTES)
        present = compression_of(source.get_metadata())
        if present not in ("", PLAIN):
            # A second compression would hide the first one from std:decompress.
            if policy != "auto":
                raise CompressionError(f"the object is compressed: its {ITEM} is {present}")
            target.set_metadata({ITEM: present})
            copy(block, source, target)
        elif policy == "auto" and not pays(kind, block):
            target.set_metadata({ITEM: PLAIN})
            copy(block, source, target)
        else:
            target.set_metadata({ITEM: kind})
            if has_table:
                write_frames(block, source, target, level)
                return
            encoder = encoder_of(kind, level)
            while block:
                target.write(encoder.compress(block))
                block = source.read(BLOCK_BYTES)
            target.write(encoder.flush())


def write_frames(block: bytes, source: Any, target: Any, level: int) -> None:
    """A frame of zstd for each block, at least one, and the table of them."""
    sizes: list[tuple[int, int]] = []
    while block or not sizes:
        if len(sizes) == seek_table.MOST_FRAMES:
            raise CompressionError(f"seek-table: more than {seek_table.MOST_FRAMES} frames")
        encoder = encoder_of("zstd", level)
        frame = encoder.compress(block) + encoder.flush()
        target.write(frame)
        sizes.append((len(frame), len(block)))
        block = source.read(BLOCK_BYTES)
    target.write(seek_table.encoded(sizes))


def compression_of(metadata: dict[str, str]) -> str:
    """The value of ``Compression``; empty without one."""
    found = [value for name, value in metadata.items() if name.lower() == ITEM.lower()]
    return found[0].strip().lower() if found else ""


def copy(block: bytes, source: Any, target: Any) -> None:
    while block:
        target.write(block)
        block = source.read(BLOCK_BYTES)


def pays(kind: str, sample: bytes) -> bool:
    """Whether ``sample`` becomes smaller."""
    encoder = encoder_of(kind, LEVELS[kind]["fast"])
    size = len(encoder.compress(sample)) + len(encoder.flush())
    return size <= len(sample) * (1 - LEAST_SAVING)


def level_of(kind: str, policy: str, given: int) -> int:
    """The level of the format: ``given``, or that of the policy if it is 0.

    :raises CompressionError: the format has no such level.
    """
    if not given:
        return LEVELS[kind]["fast" if policy == "auto" else policy]
    least, most = LEVEL_BOUNDS[kind]
    if not least <= given <= most:
        raise CompressionError(f"level {given}: {kind} has levels from {least} to {most}")
    return given


def encoder_of(kind: str, level: int) -> Any:
    """A new object with ``compress`` and ``flush``.

    :raises packages.PackageError: the image does not have the package of the format.
    """
    if kind == "gzip":
        return zlib.compressobj(level, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    if kind == "bz2":
        return bz2.BZ2Compressor(level)
    if kind == "xz":
        return lzma.LZMACompressor(preset=level)
    if kind == "zstd":
        zstd = packages.loaded(kind, packages.ZSTD)
        parameter = zstd.CompressionParameter
        options = {parameter.compression_level: level, parameter.checksum_flag: 1}
        return zstd.ZstdCompressor(options=options)
    return Lz4Encoder(level)


class Lz4Encoder:
    """One frame of lz4 with the checksum of its data."""

    def __init__(self, level: int) -> None:
        lz4 = packages.loaded("lz4", packages.LZ4)
        self._encoder = lz4.LZ4FrameCompressor(compression_level=level, content_checksum=True)
        self._head = self._encoder.begin()

    def compress(self, data: bytes) -> bytes:
        head, self._head = self._head, b""
        return bytes(head + self._encoder.compress(data))

    def flush(self) -> bytes:
        head, self._head = self._head, b""
        return bytes(head + self._encoder.flush())
