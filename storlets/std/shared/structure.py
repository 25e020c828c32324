"""Records of one length, described as ``i4 id, s96 text``; selection and projection.

A description is a list of fields, each with a type and a name.  It may begin with ``<`` (little
endian, the default) or ``>`` (big endian)::

    i1 i2 i4 i8     whole numbers with a sign
    u1 u2 u4 u8     whole numbers without
    f4 f8           floating-point numbers
    sN              text of N bytes in UTF-8; NUL bytes at its end are left out
    bN              N bytes
    xN              N bytes that are left out, without a name

A selection compares fields with values, such as ``id >= 100 and text ^= 'Haifa' or id = 7``.  The
operators are ``= != < <= > >=``, and for text also ``^=`` (begins with) and ``~`` (contains);
``and`` binds more strongly than ``or``.  Numbers are compared exactly: no f4 is 0.1, so that
comparison is an error for ``=`` and ``!=``.

The storlet ``std:records`` and the library of users share this file.
"""

from __future__ import annotations

import contextlib
import mmap
import operator
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain, repeat
from typing import Any, Callable, Union

#: Bounds of one record.
MOST_BYTES = 1 << 20
MOST_FIELDS = 256
MOST_COMPARISONS = 64
_CODES = {
    "i1": "b", "i2": "h", "i4": "i", "i8": "q", "u1": "B", "u2": "H", "u4": "I", "u8": "Q",
    "f4": "f", "f8": "d",
}  # fmt: skip
_SIZED = re.compile(r"([sbx])([1-9][0-9]{0,6})")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<word>[A-Za-z_][A-Za-z0-9_]*)|(?P<operator><=|>=|!=|\^=|=|<|>|~))"
)
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_OF_TEXT: dict[str, Callable[[Any, Any], bool]] = {
    "^=": bytes.startswith,
    "~": operator.contains,
}
#: A needle is searched at the rarest of this number of first and of last bytes; each costs a copy
#: of a column.
SEARCHED_BYTES = 4
#: A byte that fewer than one in this number of records have is rare: no other place is looked at.
RARE = 64
#: A block of whole records.
Block = Union[bytes, bytearray]
#: Whole records of a file, from some byte on.
Mapped = Union[bytes, bytearray, mmap.mmap]
#: Whether each record of a block is selected.
Selection = Callable[[Block], Iterable[bool]]


class StructureError(ValueError):
    """The description or the selection is not valid."""

    #: Its message is enough: see ``refusal`` of the system library.
    hides_traceback = True


@dataclass(frozen=True)
class Field:
    """One field; ``kind`` is ``i``, ``u``, ``f``, ``s`` or ``b``, ``index`` its place among all
    values of a record, and ``offset`` that of its first byte.
    """

    name: str
    kind: str
    code: str
    index: int
    offset: int

    def value(self, packed: Any) -> Any:
        """The value as users see it."""
        return packed.rstrip(b"\0").decode("utf-8", "replace") if self.kind == "s" else packed


@dataclass(frozen=True)
class Structure:
    """The layout of a record."""

    order: str
    fields: tuple[Field, ...]
    packing: struct.Struct

    @property
    def size(self) -> int:
        """Bytes of a record."""
        return self.packing.size

    def column(self, field: Field, block: Block) -> Iterator[Any]:
        """The packed values of one field in a block of whole records."""
        after = self.size - field.offset - struct.calcsize(self.order + field.code)
        alone = struct.Struct(f"{self.order}{field.offset}x{field.code}{after}x")
        return chain.from_iterable(alone.iter_unpack(block))

    def projected(self, names: Sequence[str]) -> Structure:
        """The layout of a record with these fields only, in their order."""
        known = {field.name: field for field in self.fields}
        strange = [name for name in names if name not in known]
        if strange or len(set(names)) != len(names):
            raise StructureError(
                f"fields: {', '.join(strange) or 'a name is given twice'}: want names of"
                f" {', '.join(known)}, each once"
            )
        codes: list[str] = []
        fields: list[Field] = []
        for each in (known[name] for name in names):
            offset = struct.calcsize(self.order + "".join(codes))
            fields.append(Field(each.name, each.kind, each.code, len(fields), offset))
            codes.append(each.code)
        return Structure(self.order, tuple(fields), struct.Struct(self.order + "".join(codes)))

    def as_mapping(self, values: Sequence[Any]) -> dict[str, Any]:
        """The named values of a record."""
        return {field.name: field.value(values[field.index]) for field in self.fields}


@dataclass(frozen=True)
class Needle:
    """``content`` is at ``offset`` of each selected record; ``size`` is that of a record.

    ``is_condition``: a record that has it is selected.
    """

    content: bytes
    offset: int
    size: int
    is_condition: bool = False

    def candidates(self, block: Mapped, start: int = 0, end: int | None = None) -> bytes | None:
        """The records of a block from ``start`` to ``end`` that have the needle, in their order;
        ``None`` if too many may have it.

        The bytes at one place of all records are a string, which is searched for a byte of the
        needle as fast as memory is read.  If a quarter of the records have that byte, to search
        them would take longer than to compare them.
        """
        size, content = self.size, self.content
        between = self._between(block, start, len(block) if end is None else end)
        if between is None:
            return None
        between.pop()
        at = start - size
        if len(content) == 1:
            return b"".join(
                [block[(at := at + (len(other) + 1) * size) : at + size] for other in between]
            )
        starts = [at := at + (len(other) + 1) * size for other in between]
        first, after = self.offset, self.offset + len(content)
        return b"".join(
            [block[at : at + size] for at in starts if block[at + first : at + after] == content]
        )

    def _between(self, block: Mapped, start: int, end: int) -> list[bytes] | list[bytearray] | None:
        """Before, between and after the records that may have the needle: a byte for each record;
        ``None`` if too many may have it.
        """
        records = (end - start) // self.size
        few, least, rarest = records // RARE + 1, records // 4, None
        places = range(len(self.content))
        for place in sorted({*places[:SEARCHED_BYTES], *places[-SEARCHED_BYTES:]}):
            column = block[start + self.offset + place : end : self.size]
            byte = self.content[place : place + 1]
            between = column.split(byte, few)
            if len(between) <= few:
                return between
            count = column.count(byte)
            if count <= least:
                least, rarest = count, (column, byte)
        return rarest and rarest[0].split(rarest[1])


@dataclass(frozen=True)
class Comparison:
    """One comparison of a condition, and the needle that is the same condition, if any."""

    select: Selection
    needle: Needle | None = None


def parse(text: str) -> Structure:
    """The structure of a description.

    :raises StructureError: it is not valid.
    """
    described = text.strip()
    order = described[:1] if described[:1] in ("<", ">") else "<"
    codes: list[str] = []
    fields: list[Field] = []
    offset = 0
    for part in described.lstrip("<>").split(","):
        kind, name, code = _field(part)
        if name:
            if any(field.name == name for field in fields):
                raise StructureError(f"struct: {name} is there twice")
            fields.append(Field(name, kind, code, len(fields), offset))
        codes.append(code)
        offset += struct.calcsize(order + code)
    if not fields:
        raise StructureError("struct: there is no field with a name")
    packing = struct.Struct(order + "".join(codes))
    if packing.size > MOST_BYTES or len(codes) > MOST_FIELDS:
        raise StructureError(
            f"struct: {packing.size} bytes in {len(codes)} fields: at most {MOST_BYTES} in"
            f" {MOST_FIELDS} are allowed"
        )
    return Structure(order, tuple(fields), packing)


def _field(part: str) -> tuple[str, str, str]:
    """Kind, name and code of one field."""
    words = part.split()
    type_, name = words[0] if words else "", " ".join(words[1:])
    sized = _SIZED.fullmatch(type_)
    if type_ not in _CODES and sized is None:
        wanted = f"{', '.join(_CODES)}, sN, bN or xN"
        raise StructureError(f"struct: {part.strip()!r}: want a type and a name: {wanted}")
    if sized and sized[1] == "x":
        if name:
            raise StructureError(f"struct: {part.strip()!r}: bytes that are left out have no name")
        return "x", "", f"{sized[2]}x"
    if not _NAME.fullmatch(name):
        raise StructureError(f"struct: {part.strip()!r}: want a name of letters, digits and '_'")
    return type_[0], name, f"{sized[2]}s" if sized else _CODES[type_]


def selection(where: str, structure: Structure) -> Selection | None:
    """The selection of a condition; ``None`` if it is empty, which selects all.

    A block is compared column by column, without a call of Python for each record.

    :raises StructureError: the condition is not valid.
    """
    groups = _groups(where, structure)
    if not groups:
        return None
    return lambda block: _joined(
        operator.or_,
        [_joined(operator.and_, [each.select(block) for each in group]) for group in groups],
    )


def needles(where: str, structure: Structure) -> list[Needle]:
    """The needles of a condition without ``or``, longer ones first: each selected record has all.

    :raises StructureError: the condition is not valid.
    """
    groups = _groups(where, structure)
    if len(groups) != 1:
        return []
    found = [each.needle for each in groups[0] if each.needle is not None]
    found.sort(key=lambda each: len(each.content), reverse=True)
    return [replace(each, is_condition=len(groups[0]) == 1) for each in found]


def _groups(where: str, structure: Structure) -> list[list[Comparison]]:
    """Alternatives, of each of which all comparisons must hold; empty: no condition."""
    tokens = _tokens(where)
    if not tokens:
        return []
    groups: list[list[Comparison]] = [[]]
    count = 0
    while True:
        groups[-1].append(_comparison(tokens[:3], structure))
        count += 1
        joint, tokens = tokens[3:4], tokens[4:]
        if not joint:
            return groups
        if joint[0] not in (("word", "and"), ("word", "or")) or count >= MOST_COMPARISONS:
            raise StructureError(
                f"where: {joint[0][1]!r}: want 'and' or 'or', at most {MOST_COMPARISONS - 1} times"
            )
        if joint[0][1] == "or":
            groups.append([])


def _joined(
    both: Callable[[bool, bool], bool], columns: Sequence[Iterable[bool]]
) -> Iterable[bool]:
    return reduce(lambda left, right: map(both, left, right), columns)


def _tokens(where: str) -> list[tuple[str, str]]:
    found, at = [], 0
    end = len(where.rstrip())
    while at < end:
        match = _TOKEN.match(where, at)
        if match is None:
            raise StructureError(f"where: {where[at : at + 20]!r}: not a name, operator or value")
        found.append((str(match.lastgroup), match[str(match.lastgroup)]))
        at = match.end()
    return found


def _comparison(tokens: Sequence[tuple[str, str]], structure: Structure) -> Comparison:
    kinds = [kind for kind, _ in tokens]
    if kinds[:2] != ["word", "operator"] or kinds[2:] not in (["text"], ["number"]):
        shown = " ".join(text for _, text in tokens)
        raise StructureError(f"where: {shown!r}: want a comparison such as id >= 100")
    name, sign, given = (text for _, text in tokens)
    known: Mapping[str, Field] = {field.name: field for field in structure.fields}
    field = known.get(name)
    if field is None:
        raise StructureError(f"where: {name}: there is no such field: want {', '.join(known)}")
    is_text = field.kind in ("s", "b")
    if is_text != (kinds[2] == "text"):
        kind = "a text in single quotes" if is_text else "a number"
        raise StructureError(f"where: {name} {sign} {given}: want {kind}")
    compare = _OPERATORS.get(sign) or (_OF_TEXT.get(sign) if is_text else None)
    if compare is None:
        raise StructureError(f"where: {name} {sign} {given}: {sign} is for text only")
    wanted = _value(given, is_text=is_text)
    if field.code == "f" and sign in ("=", "!=") and not _is_float(wanted):
        raise StructureError(
            f"where: {name} {sign} {given}: no f4 has this value exactly: compare with < and >"
        )
    return Comparison(
        _column_compared(field, sign, compare, wanted, structure),
        _needle(field, sign, wanted, structure),
    )


def _is_float(wanted: float) -> bool:
    """Whether four bytes can have the number."""
    try:
        return bool(struct.unpack("f", struct.pack("f", wanted))[0] == wanted)
    except OverflowError:
        return False


def _column_compared(
    field: Field, sign: str, compare: Callable[[Any, Any], bool], wanted: Any, structure: Structure
) -> Selection:
    if field.kind != "s":
        return lambda block: map(compare, structure.column(field, block), repeat(wanted))
    size = struct.calcsize(field.code)
    if sign in ("=", "!=") and len(wanted) <= size and not wanted.endswith(b"\0"):
        # The same result as without the NUL bytes of each value, in half the time.
        padded = wanted.ljust(size, b"\0")
        return lambda block: map(compare, structure.column(field, block), repeat(padded))
    return lambda block: map(compare, _texts(structure.column(field, block)), repeat(wanted))


def _needle(field: Field, sign: str, wanted: Any, structure: Structure) -> Needle | None:
    """The bytes that the values that fit have in common, and no others; ``None``: there are none,
    or a number has several forms.
    """
    size = struct.calcsize(structure.order + field.code)
    content = b""
    if field.kind == "s" and wanted.endswith(b"\0"):
        pass  # the NUL bytes at the end of a value are no part of it
    elif field.kind in ("s", "b"):
        if sign == "=" and field.kind == "s":
            content = wanted.ljust(size, b"\0")
        elif sign == "^=" or (sign == "=" and len(wanted) == size):
            content = wanted
    elif field.kind != "f" and isinstance(wanted, int) and sign == "=":
        with contextlib.suppress(struct.error):
            content = struct.pack(structure.order + field.code, wanted)
    if not 0 < len(content) <= size:
        return None
    return Needle(content, field.offset, structure.size)


def _texts(values: Iterable[bytes]) -> Iterator[bytes]:
    """Values without the NUL bytes at their ends."""
    return map(bytes.rstrip, values, repeat(b"\0"))


def _value(given: str, *, is_text: bool) -> Any:
    if is_text:
        return given[1:-1].replace("''", "'").encode()
    return int(given) if re.fullmatch(r"[+-]?[0-9]+", given) else float(given)
