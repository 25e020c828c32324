"""Objects of Arrow's IPC format, made byte by byte from its specification.

It is slow, knows no library of Arrow, and can make objects that lie.  A value is the one that is
stored: a date is a number of days.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import lz4.frame
from backports import zstd

END = b"\xff\xff\xff\xff\0\0\0\0"
MAGIC = b"ARROW1"
UNITS = {"s": 0, "ms": 1, "us": 2, "ns": 3}
_V5 = 4
_MAP = 17
_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3
_CODECS = {"lz4": 0, "zstd": 1}


# --- FlatBuffers ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Flat:
    """A table: the values of its slots, such as ``("q", 1)``, a text, or another table."""

    slots: Mapping[int, Any]


def packed(table: Flat) -> bytes:
    """The bytes of a table with all that it refers to; each part is at a multiple of 8."""
    buffer = bytearray(8)
    struct.pack_into("<I", buffer, 0, _put(buffer, table))
    return bytes(buffer) + bytes(-len(buffer) % 8)


def _aligned(buffer: bytearray) -> int:
    buffer += bytes(-len(buffer) % 8)
    return len(buffer)


def _put(buffer: bytearray, value: Any) -> int:
    at = _aligned(buffer)
    if isinstance(value, Flat):
        return _put_table(buffer, value)
    if isinstance(value, str):
        data = value.encode()
        buffer += struct.pack("<I", len(data)) + data + b"\0"
        return at
    form, rows = value
    if form == "tables":
        buffer += struct.pack("<I", len(rows)) + bytes(4 * len(rows))
        for number, row in enumerate(rows):
            place = at + 4 + 4 * number
            struct.pack_into("<I", buffer, place, _put(buffer, row) - place)
        return at
    # The rows of structures are at a multiple of 8, after their count.
    buffer += bytes(4) + struct.pack("<I", len(rows))
    for row in rows:
        buffer += struct.pack(f"<{form}", *row)
    return at + 4


def _put_table(buffer: bytearray, table: Flat) -> int:
    count = max(table.slots, default=-1) + 1
    places = {slot: 8 + 8 * number for number, slot in enumerate(sorted(table.slots))}
    vtable = len(buffer)
    size = 8 + 8 * len(places)
    buffer += struct.pack("<HH", 4 + 2 * count, size)
    buffer += b"".join(struct.pack("<H", places.get(slot, 0)) for slot in range(count))
    at = _aligned(buffer)
    buffer += struct.pack("<i", at - vtable) + bytes(size - 4)
    for slot, value in table.slots.items():
        place = at + places[slot]
        if isinstance(value, tuple) and len(value[0]) == 1 and not isinstance(value[1], list):
            struct.pack_into(f"<{value[0]}", buffer, place, value[1])
        else:
            struct.pack_into("<I", buffer, place, _put(buffer, value) - place)
    return at


# --- types ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """A type.

    :ivar code: its number in the union of types, whose table has ``slots``.
    :ivar form: the ``struct`` of a value of one length, or ``bit``, ``bytes`` and others.
    :ivar children: the types of its parts by their names.
    :ivar dictionary: the number of its dictionary, whose values have this type.
    """

    code: int
    form: str = ""
    slots: Mapping[int, Any] = field(default_factory=dict)
    children: Mapping[str, Kind] = field(default_factory=dict)
    width: int = 0
    nullable: bool = True
    dictionary: int | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)


def integer(bits: int, *, signed: bool = True) -> Kind:
    form = {8: "b", 16: "h", 32: "i", 64: "q"}[bits]
    slots = {0: ("i", bits), 1: ("B", signed)}
    return Kind(2, form if signed else form.upper(), slots)


def real(bits: int) -> Kind:
    return Kind(3, {16: "e", 32: "f", 64: "d"}[bits], {0: ("h", {16: 0, 32: 1, 64: 2}[bits])})


def decimal(digits: int, scale: int, bits: int = 128) -> Kind:
    slots = {0: ("i", digits), 1: ("i", scale), 2: ("i", bits)}
    return Kind(7, "whole", slots, width=bits // 8)


def date(unit: str = "d") -> Kind:
    return Kind(8, "i" if unit == "d" else "q", {0: ("h", int(unit != "d"))})


def time(unit: str) -> Kind:
    bits = 32 if unit in ("s", "ms") else 64
    return Kind(9, "i" if bits == 32 else "q", {0: ("h", UNITS[unit]), 1: ("i", bits)})


def timestamp(unit: str, zone: str = "") -> Kind:
    return Kind(10, "q", {0: ("h", UNITS[unit])} | ({1: zone} if zone else {}))


def fixed(width: int) -> Kind:
    return Kind(15, "fixed", {0: ("i", width)}, width=width)


def listed(item: Kind, *, large: bool = False) -> Kind:
    return Kind(21 if large else 12, "list", children={"item": item}, width=8 if large else 4)


def fixed_list(item: Kind, width: int) -> Kind:
    return Kind(16, "fixed_list", {0: ("i", width)}, {"item": item}, width)


def record(**children: Kind) -> Kind:
    return Kind(13, "record", children=children)


def mapping(key: Kind, value: Kind) -> Kind:
    pairs = record(key=replace(key, nullable=False), value=value)
    return Kind(_MAP, "list", {0: ("B", 0)}, {"entries": replace(pairs, nullable=False)}, 4)


NULL, BOOL = Kind(1, "null"), Kind(6, "bit")
TEXT, LARGE_TEXT = Kind(5, "bytes", width=4), Kind(20, "bytes", width=8)
BYTES, LARGE_BYTES = Kind(4, "bytes", width=4), Kind(19, "bytes", width=8)


# --- batches --------------------------------------------------------------------------------------


@dataclass
class Parts:
    """The nodes and buffers of a batch; a test may change them."""

    rows: int
    nodes: list[tuple[int, int]] = field(default_factory=list)
    buffers: list[bytes] = field(default_factory=list)

    def add(self, kind: Kind, values: Sequence[Any]) -> Parts:
        """Add a column, whose values in a map are pairs, and in a struct dictionaries."""
        nulls = sum(value is None for value in values)
        self.nodes.append((len(values), nulls))
        if kind.form == "null":
            return self
        self.buffers.append(_bits(value is not None for value in values) if nulls else b"")
        if kind.form == "bit":
            self.buffers.append(_bits(values))
        elif kind.form in ("bytes", "list"):
            self._add_long(kind, values)
        elif kind.form == "fixed_list":
            empty = [None] * kind.width
            items = [item for value in values for item in (empty if value is None else value)]
            self.add(kind.children["item"], items)
        elif kind.form == "record":
            for name, child in kind.children.items():
                self.add(child, [None if value is None else value[name] for value in values])
        else:
            self.buffers.append(b"".join(_plain(kind, value) for value in values))
        return self

    def _add_long(self, kind: Kind, values: Sequence[Any]) -> None:
        present = [_data(value) if kind.form == "bytes" else value or () for value in values]
        at, offsets = 0, [0]
        for value in present:
            at += len(value)
            offsets.append(at)
        form = "q" if kind.width == 8 else "i"
        self.buffers.append(struct.pack(f"<{len(offsets)}{form}", *offsets))
        if kind.form == "bytes":
            self.buffers.append(b"".join(present))
            return
        (child,) = kind.children.values()
        items: list[Any] = [item for value in present for item in value]
        if kind.code == _MAP:
            items = [{"key": key, "value": value} for key, value in items]
        self.add(child, items)


def _bits(values: Iterable[Any]) -> bytes:
    number, count = 0, 0
    for count, value in enumerate(values, 1):
        number |= bool(value) << (count - 1)
    return number.to_bytes((count + 7) // 8, "little")


def _data(value: str | bytes | None) -> bytes:
    return value.encode() if isinstance(value, str) else value or b""


def _plain(kind: Kind, value: Any) -> bytes:
    if kind.form == "whole":
        return int(value or 0).to_bytes(kind.width, "little", signed=True)
    if kind.form == "fixed":
        return bytes(value or bytes(kind.width))
    return struct.pack(f"<{kind.form}", value or 0)


# --- messages -------------------------------------------------------------------------------------


def message(kind: int, header: Flat, body: bytes = b"", size: int | None = None) -> bytes:
    """A message with its body, and with ``size`` as the length of this."""
    slots = {0: ("h", _V5), 1: ("B", kind), 2: header}
    data = packed(Flat({**slots, 3: ("q", len(body) if size is None else size)}))
    return END[:4] + struct.pack("<i", len(data)) + data + body


def _field(name: str, kind: Kind) -> Flat:
    children = [_field(each, child) for each, child in kind.children.items()]
    slots: dict[int, Any] = {
        0: name,
        1: ("B", kind.nullable),
        2: ("B", kind.code),
        3: Flat(kind.slots),
    }
    slots[5] = ("tables", children)
    if kind.dictionary is not None:
        index = Flat({0: ("i", 32), 1: ("B", 1)})
        slots[4] = Flat({0: ("q", kind.dictionary), 1: index})
    if kind.metadata:
        pairs = [Flat({0: key, 1: value}) for key, value in kind.metadata.items()]
        slots[6] = ("tables", pairs)
    return Flat(slots)


def _schema(kinds: Mapping[str, Kind], *, big: bool = False) -> Flat:
    fields = ("tables", [_field(name, kind) for name, kind in kinds.items()])
    return Flat({0: ("h", int(big)), 1: fields})


def schema(kinds: Mapping[str, Kind], *, big: bool = False) -> bytes:
    """The message of a schema."""
    return message(_SCHEMA, _schema(kinds, big=big))


def _header(parts: Parts, compression: str) -> tuple[Flat, bytes]:
    body, places = b"", []
    for number, buffer in enumerate(parts.buffers):
        data = _compressed(buffer, compression, number) if compression and buffer else buffer
        places.append((len(body), len(data)))
        body += data + bytes(-len(data) % 8)
    slots: dict[int, Any] = {0: ("q", parts.rows), 1: ("qq", parts.nodes), 2: ("qq", places)}
    if compression:
        slots[3] = Flat({0: ("b", _CODECS[compression])})
    return Flat(slots), body


def _compressed(buffer: bytes, compression: str, number: int) -> bytes:
    # Each fourth one is as it is.
    if number % 4 == 3:
        return struct.pack("<q", -1) + buffer
    data = lz4.frame.compress(buffer) if compression == "lz4" else zstd.compress(buffer)
    return struct.pack("<q", len(buffer)) + data


def batch(parts: Parts, compression: str = "") -> bytes:
    """The message of a batch."""
    header, body = _header(parts, compression)
    return message(_BATCH, header, body)


def dictionary(
    key: int, kind: Kind, values: Sequence[Any], compression: str = "", *, delta: bool = False
) -> bytes:
    """The message of a dictionary."""
    header, body = _header(Parts(len(values)).add(kind, values), compression)
    return message(_DICTIONARY, Flat({0: ("q", key), 1: header, 2: ("B", delta)}), body)


def rows(kinds: Mapping[str, Kind], columns: Mapping[str, Sequence[Any]]) -> Parts:
    """The parts of a batch; a column with a dictionary has its indices."""
    parts = Parts(max(map(len, columns.values()), default=0))
    for name, kind in kinds.items():
        parts.add(kind if kind.dictionary is None else integer(32), columns[name])
    return parts


def stream(
    kinds: Mapping[str, Kind], *batches: Mapping[str, Sequence[Any]], compression: str = ""
) -> bytes:
    """A stream of batches of columns."""
    messages = [batch(rows(kinds, columns), compression) for columns in batches]
    return schema(kinds) + b"".join(messages) + END


def file(kinds: Mapping[str, Kind], *messages: bytes, listed: Sequence[bytes] = ()) -> bytes:
    """The file format; each of ``messages`` is a batch or a dictionary.

    :param listed: those that the footer lists, if not all.
    """
    data = MAGIC + b"\0\0" + schema(kinds)
    blocks: dict[int, list[tuple[int, ...]]] = {_DICTIONARY: [], _BATCH: []}
    for each in messages:
        length = 8 + int.from_bytes(each[4:8], "little")
        if each in (listed or messages):
            blocks[_kind_of(each)].append((len(data), length, len(each) - length))
        data += each
    slots = {0: ("h", _V5), 1: _schema(kinds)}
    slots |= {2: ("qi4xq", blocks[_DICTIONARY]), 3: ("qi4xq", blocks[_BATCH])}
    footer = packed(Flat(slots))
    return data + END + footer + struct.pack("<i", len(footer)) + MAGIC


def _kind_of(data: bytes) -> int:
    """The kind of a message that this module has made: the second of its values."""
    (root,) = struct.unpack_from("<I", data, 8)
    return data[8 + root + 16]
