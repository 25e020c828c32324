"""A part of the data of an object in zstd; only the frames that have bytes of it are read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import packed
import seek_table

OUTPUT_BYTES = 1 << 20
ITEM = "Compression"


class PartError(ValueError):
    """The part is not in the data, or a frame is not as the table has it."""


class DecompressPart:
    """See the README for the parameters."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        source, target = in_files[0], out_files[0]
        first, last = int(params["first"]), int(params["last"])
        frames = seek_table.read(source)
        size = sum(plain for _, plain in frames)
        last = size - 1 if last < 0 else min(last, size - 1)
        if first > last and (first or size):
            raise PartError(f"first: {first}: the part is empty; the data have {size} bytes")
        # An empty value removes the item.
        target.set_metadata({ITEM: ""})
        place = position = 0
        for compressed, plain in frames:
            if position + plain > first and position <= last:
                source.seek(place)
                at = position
                for block in data_of(Frame(source, compressed), plain):
                    target.write(block[max(0, first - at) : max(0, last + 1 - at)])
                    at += len(block)
            place += compressed
            position += plain


class Frame:
    """The bytes of one frame as a file."""

    def __init__(self, source: Any, size: int) -> None:
        self._source, self._left = source, size

    def read(self, size: int) -> bytes:
        data = bytes(self._source.read(min(size, self._left)))
        self._left -= len(data)
        return data


def data_of(frame: Frame, plain: int) -> Iterator[bytes]:
    """All data of a frame, also behind the part: the checksum is at its end."""
    data, given = packed.Unpacked(frame, "zstd"), 0
    while block := data.read(OUTPUT_BYTES):
        given += len(block)
        if given > plain:
            break
        yield block
    if given != plain:
        raise PartError(f"a frame does not have {plain} bytes, as the seek table says")
