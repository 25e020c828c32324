"""A part of the data of an object in zstd; only the frames that have bytes of it are read."""

from __future__ import annotations

from typing import Any

import seek_table
import zstd_frames
from refusal import Refusal

ITEM = "Compression"


class PartError(Refusal):
    """The part is not in the data, or the object has other frames."""


class DecompressPart:
    """See the README for the parameters."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        source, target = in_files[0], out_files[0]
        first, last = int(params["first"]), int(params["last"])
        frames = seek_table.read(source)
        if not zstd_frames.EvenFrames.are(frames):
            mebibytes = zstd_frames.MOST_BYTES >> 20
            raise PartError(
                "the frames of the object do not have one size, except for the last one, of at most"
                f" {mebibytes} MiB, so their table cannot be checked: std:decompress gives the whole"
            )
        data = zstd_frames.EvenFrames(source, frames)
        size = data.size
        last = size - 1 if last < 0 else min(last, size - 1)
        if first > last and (first or size):
            raise PartError(f"first: {first}: the part is empty; the data have {size} bytes")
        # An empty value removes the item.
        target.set_metadata({ITEM: ""})
        data.write(target, first, last + 1)
