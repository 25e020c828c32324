"""Keeps records of one length that match a condition, and some of their fields or figures."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from itertools import chain, compress
from operator import itemgetter
from typing import Any

import record_blocks
import structure
from record_blocks import Part
from record_figures import Figures
from structure import Block

JSON = "application/json"


class Records:
    """See structure.py for the description of records and the condition."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        layout = structure.parse(params["struct"])
        needles = structure.needles(params["where"], layout)
        keep = selected(params["where"], layout, needles)
        names = [name.strip() for name in params["fields"].split(",") if name.strip()]
        wanted = params["aggregate"].strip()
        if names and wanted:
            raise structure.StructureError("fields and aggregate exclude each other")
        figures = Figures(wanted, layout) if wanted else None
        result = layout.projected(names or [field.name for field in layout.fields])
        shown = projection(layout, result)
        target = out_files[0]
        target.set_metadata({"Content-Type": JSON if figures else "application/octet-stream"})
        for part in record_blocks.parts(in_files[0], layout.size, is_searched=bool(needles)):
            if figures is None:
                target.write(shown(keep(part)))
            else:
                figures.add(keep(part))
        if figures is not None:
            target.write(figures.line())


def selected(
    where: str, layout: structure.Structure, needles: Sequence[structure.Needle]
) -> Callable[[Part], Block]:
    """The function that gives the records of a part that fit a condition."""
    size = layout.size
    flags_of = structure.selection(where, layout)

    def compared(block: Block) -> Block:
        starts = compress(range(0, len(block), size), flags_of(block))
        return b"".join([block[at : at + size] for at in starts])

    def searched(part: Part) -> Block:
        for needle in needles:
            found = needle.candidates(*part)
            if found is not None:
                return found if needle.is_condition else compared(found)
        return compared(part.records())

    if flags_of is None:
        return Part.records
    return searched if needles else lambda part: compared(part.records())


def projection(
    layout: structure.Structure, result: structure.Structure
) -> Callable[[Block], Block]:
    """The function that gives the fields of the output from records.

    It takes their bytes: a NaN of four bytes that became a number of Python could be another one.
    """
    # Fields of one type in another order have the same length.
    if result.fields == layout.fields and result.size == layout.size:
        return lambda block: block
    names = [field.name for field in result.fields]
    chosen = [field for field in layout.fields if field.name in names]
    codes, end = "", 0
    for field in chosen:
        size = struct.calcsize(layout.order + field.code)
        codes += f"{field.offset - end}x{size}s"
        end = field.offset + size
    unpack = struct.Struct(f"{codes}{layout.size - end}x").iter_unpack
    places = [[field.name for field in chosen].index(name) for name in names]
    if places == sorted(places):
        return lambda block: b"".join(chain.from_iterable(unpack(block)))
    ordered = itemgetter(*places)
    return lambda block: b"".join(chain.from_iterable(map(ordered, unpack(block))))
