"""A part of the data of an object in zstd; only the frames that have bytes of it are read."""

from __future__ import annotations

from typing import Any

import seek_table
import zstd_frames

ITEM = "Compression"


class PartError(ValueError):
    """The part is not in the data."""


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
        zstd_frames.write_part(source, target, frames, first, last + 1)
