"""The logical types with nanoseconds in the schema of a Parquet footer, and their places.

A footer is a structure in the compact protocol of Thrift, and the schema is its second field. The
others may have any bytes, such as the least number of a column, so the schema is read field by
field.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

#: Kinds of values in Thrift's compact protocol.  A field with a boolean has it as its kind.
TRUE, FALSE, BYTE, SHORT, INTEGER, LONG, DOUBLE, BINARY, LIST, SET, MAP, STRUCT, UUID = range(1, 14)
_WIDTHS = {TRUE: 0, FALSE: 0, BYTE: 1, DOUBLE: 8, UUID: 16}
#: Numbers of fields, as in ``parquet.thrift``.
_SCHEMA, _LOGICAL_TYPE, _TIME, _TIMESTAMP, _IS_IN_UTC, _UNIT, _NANOS = 2, 10, 7, 8, 1, 2, 3


class Nanoseconds(NamedTuple):
    """A logical type with nanoseconds.

    ``place`` is that of the field in the footer that says whether its values are in UTC.
    """

    place: int
    is_timestamp: bool
    is_in_utc: bool


def types_with_nanoseconds(footer: bytes) -> tuple[Nanoseconds, ...]:
    """The types, in the order of the schema.

    :raises ValueError: the footer is no structure of Thrift.
    """
    reader = _Reader(footer)
    try:
        for number, kind, _ in reader.fields():
            if (number, kind) == (_SCHEMA, LIST):
                count, _ = reader.list_head()
                return tuple(found for _ in range(count) for found in _of_element(reader))
            reader.skip(kind)
    except (IndexError, RecursionError):
        raise ValueError("the footer is no structure of Thrift") from None
    return ()


def in_local_time(footer: bytes, types: tuple[Nanoseconds, ...]) -> bytes:
    """The footer, in which values of these types are not in UTC."""
    changed = bytearray(footer)
    for each in types:
        changed[each.place] = changed[each.place] & 0xF0 | FALSE
    return bytes(changed)


def _of_element(reader: _Reader) -> Iterator[Nanoseconds]:
    """The type of one element of the schema, if it has nanoseconds."""
    for number, kind, _ in reader.fields():
        if (number, kind) != (_LOGICAL_TYPE, STRUCT):
            reader.skip(kind)
            continue
        for logical, inner, _ in reader.fields():
            if logical in (_TIME, _TIMESTAMP) and inner == STRUCT:
                yield from _of_time(reader, is_timestamp=logical == _TIMESTAMP)
            else:
                reader.skip(inner)


def _of_time(reader: _Reader, *, is_timestamp: bool) -> Iterator[Nanoseconds]:
    found, has_nanoseconds = None, False
    for number, kind, place in reader.fields():
        if number == _IS_IN_UTC and kind in (TRUE, FALSE):
            found = Nanoseconds(place, is_timestamp, kind == TRUE)
        elif (number, kind) == (_UNIT, STRUCT):
            for unit, inner, _ in reader.fields():
                has_nanoseconds |= unit == _NANOS
                reader.skip(inner)
        else:
            reader.skip(kind)
    if found is not None and has_nanoseconds:
        yield found


class _Reader:
    """Reads a structure; its methods raise :class:`IndexError` behind the last byte."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def fields(self) -> Iterator[tuple[int, int, int]]:
        """Number, kind and place of each field of a structure; the caller reads their values."""
        number = 0
        while True:
            place, head = self._at, self._byte()
            kind = head & 15
            if not kind:
                return
            if head >> 4:
                number += head >> 4
            else:
                coded = self._varint()
                number = coded >> 1 ^ -(coded & 1)
            yield number, kind, place

    def list_head(self) -> tuple[int, int]:
        """The number of elements of a list, and their kind."""
        head = self._byte()
        return (self._varint() if head >> 4 == 15 else head >> 4), head & 15

    def skip(self, kind: int) -> None:
        """Read the value of a field.

        :raises ValueError: there is no such kind.
        """
        if kind in _WIDTHS:
            self._advance(_WIDTHS[kind])
        elif kind in (SHORT, INTEGER, LONG):
            self._varint()
        elif kind == BINARY:
            self._advance(self._varint())
        elif kind in (LIST, SET):
            count, inner = self.list_head()
            for _ in range(count):
                self._skip_element(inner)
        elif kind == MAP:
            count = self._varint()
            kinds = self._byte() if count else 0
            for _ in range(count):
                self._skip_element(kinds >> 4)
                self._skip_element(kinds & 15)
        elif kind == STRUCT:
            for _, inner, _ in self.fields():
                self.skip(inner)
        else:
            raise ValueError(f"there is no kind {kind}")

    def _skip_element(self, kind: int) -> None:
        """Read an element of a list; a boolean has a byte there."""
        if kind in (TRUE, FALSE):
            self._byte()
        else:
            self.skip(kind)

    def _advance(self, count: int) -> None:
        self._at += count
        if self._at > len(self._data):
            raise IndexError(self._at)

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            part = self._byte()
            value |= (part & 127) << shift
            if part < 128:
                return value
        raise ValueError("a number has more than 64 bits")
