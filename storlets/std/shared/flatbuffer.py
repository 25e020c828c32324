"""Tables of the FlatBuffers encoding, read with checked bounds.

Only what the checks of a stream of Arrow need: scalars, tables, vectors and texts.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cache

_VTABLE_BYTES = 4
_OFFSET = "I"


class FlatError(ValueError):
    """The bytes are no such table."""


@cache
def _packing(form: str) -> struct.Struct:
    return struct.Struct("<" + form)


class Table:
    """A table at the byte ``at`` of ``data``."""

    def __init__(self, data: bytes, at: int) -> None:
        """:raises FlatError: there is none."""
        self._data = data
        self._at = at
        self._slots = at - self._number("i", at)
        self._slots_end = self._slots + self._number("H", self._slots)

    @classmethod
    def root(cls, data: bytes) -> Table:
        """The table that ``data`` begins with a reference to."""
        return cls(data, _packing(_OFFSET).unpack(data[:4])[0] if len(data) >= 4 else -1)

    def _number(self, form: str, at: int) -> int:
        packing = _packing(form)
        if not 0 <= at <= len(self._data) - packing.size:
            raise FlatError("a reference leads out of it")
        return int(packing.unpack_from(self._data, at)[0])

    def _place(self, slot: int) -> int:
        """Where the value of a slot is, or 0 if the table has none."""
        entry = self._slots + _VTABLE_BYTES + 2 * slot
        if entry + 2 > self._slots_end:
            return 0
        offset = self._number("H", entry)
        return self._at + offset if offset else 0

    def _target(self, slot: int) -> int:
        """Where the reference in a slot leads, or 0."""
        place = self._place(slot)
        return place + self._number(_OFFSET, place) if place else 0

    def number(self, slot: int, form: str, default: int = 0) -> int:
        """A scalar; ``form`` is that of ``struct``."""
        place = self._place(slot)
        return self._number(form, place) if place else default

    def table(self, slot: int) -> Table | None:
        """Another table."""
        place = self._target(slot)
        return Table(self._data, place) if place else None

    def text(self, slot: int) -> str:
        """A text; an absent one is empty.

        :raises FlatError: it is not valid.
        """
        start, count = self.vector(slot, 1)
        try:
            return self._data[start : start + count].decode()
        except UnicodeDecodeError:
            raise FlatError("a name is no UTF-8") from None

    def tables(self, slot: int) -> Iterator[Table]:
        """The tables of a vector."""
        start, count = self.vector(slot, 4)
        for at in range(start, start + 4 * count, 4):
            yield Table(self._data, at + self._number(_OFFSET, at))

    def rows(self, slot: int, form: str) -> Iterator[tuple[int, ...]]:
        """The structures of a vector."""
        packing = _packing(form)
        start, count = self.vector(slot, packing.size)
        return packing.iter_unpack(self._data[start : start + count * packing.size])

    def vector(self, slot: int, size: int) -> tuple[int, int]:
        """Where the items of a vector begin, each of ``size`` bytes, and their count."""
        place = self._target(slot)
        if not place:
            return 0, 0
        count = self._number(_OFFSET, place)
        if count * size > len(self._data) - place - 4:
            raise FlatError("a vector leads out of it")
        return place + 4, count
