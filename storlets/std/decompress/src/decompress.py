"""Decompresses an object, within limits and to the end; ``packed`` has the formats.

A range of the output is given if it does not need all of the object: of zstd with a seek table, and
of an object that is not compressed.
"""

from __future__ import annotations

import os
from typing import Any

import output_range
import packed
import seek_table
import zstd_frames
from parameters import is_true
from refusal import Refusal

OUTPUT_BYTES = 1 << 20
ITEM = "Compression"
PLAIN = "none"
#: An empty value removes the item.
REMOVED = {ITEM: ""}


class DecompressionError(Refusal):
    """The format of the object is unknown."""


class Decompress:
    """See the README for the parameters."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        source, target = in_files[0], out_files[0]
        start = source.read(packed.INPUT_BYTES)
        kind = format_of(params, source.get_metadata(), start)
        if output_range.is_wanted(params):
            if write_range(source, target, kind, params):
                return
            source.seek(len(start))
        target.set_metadata(REMOVED)
        if kind == PLAIN:
            source = packed.Begun(source, start)
        else:
            source = packed.Unpacked(source, kind, start, int(params["max-ratio"]))
        while block := source.read(OUTPUT_BYTES):
            target.write(block)


def write_range(source: Any, target: Any, kind: str, params: dict[str, str]) -> bool:
    """Write the range of the data that is requested; False: only all of them can be given."""
    size = source.seek(0, os.SEEK_END)
    if kind == PLAIN:
        first, end = output_range.begin(target, REMOVED, params, size)
        source.seek(first)
        while first < end:
            block = source.read(min(OUTPUT_BYTES, end - first))
            if not block:
                raise DecompressionError("the object is cut")
            target.write(block)
            first += len(block)
        return True
    if kind != "zstd" or not seek_table.is_in(source):
        return False
    try:
        frames = seek_table.read(source)
    except seek_table.SeekTableError:
        # For example that of the last one of several objects in one; the frames are valid.
        return False
    packed.require_ratio(size, sum(plain for _, plain in frames), int(params["max-ratio"]))
    if not zstd_frames.EvenFrames.are(frames):
        return False
    data = zstd_frames.EvenFrames(source, frames)
    data.write(target, *output_range.begin(target, REMOVED, params, data.size))
    return True


def format_of(params: dict[str, str], metadata: dict[str, str], start: bytes) -> str:
    """The format by parameter, metadata or first bytes."""
    if params["format"] != "auto":
        return params["format"]
    for name, value in metadata.items():
        if name.lower() == ITEM.lower() and value.strip():
            kind = value.strip().lower()
            if kind not in (*packed.MAGIC, PLAIN):
                known = ", ".join(packed.MAGIC)
                raise DecompressionError(f"its {ITEM} is {kind}: known are {known}")
            return kind
    kind = packed.kind_of(start)
    if kind:
        return kind
    if is_true(params, "accept-plain"):
        return PLAIN
    raise DecompressionError(
        f"the object has no {ITEM} in its metadata and begins like none of"
        f" {', '.join(packed.MAGIC)}"
    )
