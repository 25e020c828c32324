"""Keeps records of one length that match a condition, and some of their fields."""

from __future__ import annotations

from collections.abc import Callable
from itertools import compress, starmap
from operator import itemgetter
from typing import Any

import structure
from structure import Block

#: About this much is read at a time: the loop of Python costs little, and it fits into the second
#: cache of a processor.
BLOCK_BYTES = 1 << 20


class Records:
    """See structure.py for the description of records and the condition."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        layout = structure.parse(params["struct"])
        keep = selected(params["where"], layout)
        names = [name.strip() for name in params["fields"].split(",") if name.strip()]
        result = layout.projected(names or [field.name for field in layout.fields])
        shown = projection(layout, result)
        source, target = in_files[0], out_files[0]
        target.set_metadata({"Content-Type": "application/octet-stream"})
        size, total = layout.size, 0
        buffer = bytearray(max(BLOCK_BYTES // size, 1) * size)
        while count := source.readinto(buffer):
            total += count
            if count % size:
                raise ValueError(
                    f"the object has {total} bytes, which is no multiple of {size}, the length of a"
                    " record"
                )
            target.write(shown(keep(buffer if count == len(buffer) else buffer[:count])))


def selected(where: str, layout: structure.Structure) -> Callable[[Block], Block]:
    """The function that gives the records of a block that fit a condition."""
    size = layout.size
    flags_of = structure.selection(where, layout)
    needle = structure.needle(where, layout)

    def compared(block: Block) -> Block:
        starts = compress(range(0, len(block), size), flags_of(block))
        return b"".join([block[at : at + size] for at in starts])

    def searched(block: Block) -> Block:
        found = needle.candidates(block)
        if found is None:
            return compared(block)
        return found if needle.is_condition else compared(found)

    if flags_of is None:
        return lambda block: block
    return compared if needle is None else searched


def projection(
    layout: structure.Structure, result: structure.Structure
) -> Callable[[Block], Block]:
    """The function that gives the fields of the output from records."""
    unpack, pack = layout.packing.iter_unpack, result.packing.pack
    # Fields of one type in another order have the same length.
    if result.fields == layout.fields and result.size == layout.size:
        return lambda block: block
    indices = {field.name: field.index for field in layout.fields}
    chosen = [indices[field.name] for field in result.fields]
    if len(chosen) == 1:
        (only,) = chosen
        return lambda block: b"".join([pack(values[only]) for values in unpack(block)])
    ordered = itemgetter(*chosen)
    return lambda block: b"".join(starmap(pack, map(ordered, unpack(block))))
