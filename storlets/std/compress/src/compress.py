"""Compresses an object as gzip, bz2 or xz, or leaves it as it is where that does not pay.

The metadata item ``Compression`` of the output has the format, or ``none``; ``std:decompress``
reads it.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from typing import Any

BLOCK_BYTES = 1 << 20
ITEM = "Compression"
PLAIN = "none"
#: The policy ``auto`` compresses if the first block becomes at least this much smaller.
LEAST_SAVING = 0.1
#: Level by format and policy.  xz with 9 needs 674 MiB of memory, with 6 it needs 94.
LEVELS = {
    "gzip": {"best": 9, "fast": 1},
    "bz2": {"best": 9, "fast": 1},
    "xz": {"best": 6, "fast": 0},
}


class CompressionError(ValueError):
    """The object cannot be compressed."""


class Compress:
    """See the README for the parameters."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        source, target = in_files[0], out_files[0]
        kind, policy = params["format"], params["policy"]
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
            encoder = encoder_of(kind, policy)
            while block:
                target.write(encoder.compress(block))
                block = source.read(BLOCK_BYTES)
            target.write(encoder.flush())


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
    encoder = encoder_of(kind, "fast")
    size = len(encoder.compress(sample)) + len(encoder.flush())
    return size <= len(sample) * (1 - LEAST_SAVING)


def encoder_of(kind: str, policy: str) -> Any:
    """A new object with ``compress`` and ``flush``."""
    level = LEVELS[kind]["fast" if policy == "auto" else policy]
    if kind == "gzip":
        return zlib.compressobj(level, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    if kind == "bz2":
        return bz2.BZ2Compressor(level)
    return lzma.LZMACompressor(preset=level)
