"""The seek table of zstd: the sizes of all frames, in a skippable frame at the end of the object.

The format is that of zstd's seekable files, so its tools read the table, and each reader of zstd
skips it.
"""

from __future__ import annotations

import os
import struct
from typing import Any

from refusal import Refusal

#: The head of a skippable frame, an entry, and the end of the table.
HEAD, ENTRY, FOOT = struct.Struct("<II"), struct.Struct("<II"), struct.Struct("<IBI")
SKIPPABLE, TABLE = 0x184D2A5E, 0x8F92EAB1
HAS_CHECKSUMS, RESERVED = 0x80, 0x7C
CHECKSUM_BYTES = 4
#: 1 TiB of data in frames of 1 MiB.
MOST_FRAMES = 1 << 20


class SeekTableError(Refusal):
    """The object has no seek table, or a wrong one."""


def encoded(sizes: list[tuple[int, int]]) -> bytes:
    """The table for frames with these sizes: compressed, and of their data."""
    entries = b"".join(ENTRY.pack(*each) for each in sizes)
    foot = FOOT.pack(len(sizes), 0, TABLE)
    return HEAD.pack(SKIPPABLE, len(entries) + len(foot)) + entries + foot


def is_in(source: Any) -> bool:
    """Whether a seekable object ends as one with a seek table."""
    size = source.seek(0, os.SEEK_END)
    if size < HEAD.size + FOOT.size:
        return False
    _, _, magic = FOOT.unpack(bytes_at(source, size - FOOT.size, FOOT.size))
    return bool(magic == TABLE)


def read(source: Any) -> list[tuple[int, int]]:
    """The sizes of the frames of a seekable object: compressed, and of their data.

    :raises SeekTableError: there is no table, or it does not fit to the object.
    """
    if not is_in(source):
        raise SeekTableError("the object has no seek table of zstd")
    size = source.seek(0, os.SEEK_END)
    count, flags, _ = FOOT.unpack(bytes_at(source, size - FOOT.size, FOOT.size))
    if count > MOST_FRAMES or flags & RESERVED:
        raise SeekTableError(f"its seek table has {count} frames and the flags {flags:#x}")
    each = ENTRY.size + (CHECKSUM_BYTES if flags & HAS_CHECKSUMS else 0)
    start = size - FOOT.size - count * each - HEAD.size
    if start < 0:
        raise SeekTableError("its seek table is longer than the object")
    data = bytes_at(source, start, HEAD.size + count * each)
    if HEAD.unpack_from(data) != (SKIPPABLE, count * each + FOOT.size):
        raise SeekTableError("its seek table does not begin where it should")
    sizes = [ENTRY.unpack_from(data, HEAD.size + number * each) for number in range(count)]
    if sum(compressed for compressed, _ in sizes) != start:
        raise SeekTableError("its seek table is not of this object")
    return sizes


def bytes_at(source: Any, place: int, size: int) -> bytes:
    """``size`` bytes from ``place``, which the object has."""
    source.seek(place)
    data = b""
    while len(data) < size:
        part = source.read(size - len(data))
        if not part:
            raise SeekTableError("the object is cut")
        data += part
    return data
