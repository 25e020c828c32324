"""Keeps records of one length that match a condition, and some of their fields."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import compress, starmap
from operator import itemgetter
from typing import Any

import structure

#: About this much is read and written at a time.
BLOCK_BYTES = 256 * 1024


class Records:
    """See structure.py for the description of records and the condition."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        layout = structure.parse(params["struct"])
        flags_of = structure.selection(params["where"], layout)
        needle = structure.needle(params["where"], layout)
        names = [name.strip() for name in params["fields"].split(",") if name.strip()]
        result = layout.projected(names or [field.name for field in layout.fields])
        shown = projection(layout, result)
        source, target = in_files[0], out_files[0]
        target.set_metadata({"Content-Type": "application/octet-stream"})
        size, read = layout.size, 0
        while block := source.read(max(BLOCK_BYTES // size, 1) * size):
            read += len(block)
            if len(block) % size:
                raise ValueError(
                    f"the object has {read} bytes, which is no multiple of {size}, the length of a"
                    " record"
                )
            if needle is not None:
                block = needle.candidates(block)
            places: Iterable[int] = range(0, len(block), size)
            if flags_of is not None:
                places = compress(places, flags_of(block))
            target.write(b"".join(shown(block, places)))


def projection(
    layout: structure.Structure, result: structure.Structure
) -> Callable[[bytes, Iterable[int]], Iterable[bytes]]:
    """The function that gives the output: from a block and the places of the records in it."""
    size, unpack, pack = layout.size, layout.packing.unpack_from, result.packing.pack
    if result.packing.format == layout.packing.format:
        return lambda block, places: (block[at : at + size] for at in places)
    indices = {field.name: field.index for field in layout.fields}
    chosen = [indices[field.name] for field in result.fields]
    if len(chosen) == 1:
        (only,) = chosen
        return lambda block, places: (pack(unpack(block, at)[only]) for at in places)
    ordered = itemgetter(*chosen)
    return lambda block, places: starmap(pack, (ordered(unpack(block, at)) for at in places))
