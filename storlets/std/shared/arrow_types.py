"""Columns of Arrow as columns of the engine: each value is exact, or its column is refused.

The schema for the engine has the type in which a value is stored, such as a whole number for a date
and bytes for a text, and an expression in the view makes the value of it.  So the engine's own
conversions, some of which round, cut or do not look at all, have no part in it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from parameters import shown
from sql_check import SqlError, folded_name
from sql_engine import identifier, literal
from sql_errors import OBJECT

#: Deeper types are refused.
MOST_LEVELS = 20
_EXTENSION = b"ARROW:extension:name"
#: Types that have the same values in the engine, with the bits of one.
_SAME = {
    "b": 1, "c": 8, "C": 8, "s": 16, "S": 16, "i": 32, "I": 32, "l": 64, "L": 64, "f": 32, "g": 64,
}  # fmt: skip
#: Bytes of an offset of texts and bytes.
_OFFSETS = {"z": 4, "Z": 8, "u": 4, "U": 8}
_BYTES = {"u": "z", "U": "Z"}
_DECIMAL = re.compile(r"d:([0-9]+),(-?[0-9]+)(?:,128)?")
_FIXED = re.compile(r"w:([0-9]+)")
_LIST = re.compile(r"\+w:([0-9]+)")
_STAMP = re.compile(r"ts([smun]):(.*)", re.DOTALL)
_MOST_DIGITS = 38
#: Units of a second, in microseconds.
_MICROS = {"s": 1_000_000, "m": 1000, "u": 1}
_DAY_MILLIS = 86_400_000
#: The first moment of the engine, and days from 1970 to its last and first dates.
_FIRST_MICROS = -9_223_372_022_400_000_000
_MOST_DAYS = 2_147_483_646
#: The names that users know, by the first characters of the format.
_NAMES = {
    "e": "half float", "vu": "string view", "vz": "binary view", "tD": "duration",
    "ti": "interval", "+u": "union", "+r": "run-end encoding", "+v": "list view",
    "+l": "list", "+L": "large list", "+w": "list of one length", "+s": "struct", "+m": "map",
    "d:": "decimal", "w:": "bytes of one length",
}  # fmt: skip


@dataclass(frozen=True)
class Node:
    """The buffers of one node of a batch, in this order.

    :ivar validity: whether it has a bitmap of the rows with values.
    :ivar offsets: bytes of an offset.
    :ivar bits: bits of a value.
    :ivar has_data: the length of a last buffer depends on the offsets.
    :ivar is_inner: it is within a list or a map, so its length is not that of the batch.
    :ivar is_top: it is a column, whose length is that of the batch.
    """

    validity: bool = True
    offsets: int = 0
    bits: int = 0
    has_data: bool = False
    is_inner: bool = False
    is_top: bool = False


@dataclass(frozen=True)
class Column:
    """One column.

    :ivar declared: its schema for the engine.
    :ivar value: the expression of its value.
    :ivar nodes: its nodes in a batch.
    :ivar dictionary: the node of its dictionary, if it has one.
    """

    name: str
    declared: Any
    value: str
    nodes: tuple[Node, ...]
    dictionary: Node | None = None


def column_of(schema: Any, declared_name: str) -> Column:
    """The column with a schema of ``nanoarrow``, which has ``declared_name`` in the engine.

    :raises SqlError: its type is refused.
    """
    walk = _Walk(str(schema.name))
    value = identifier(declared_name)
    dictionary = None
    if schema.dictionary is None:
        declared, value = walk.found(schema, value, 0, is_inner=False)
    else:
        declared, value, dictionary = walk.encoded(schema, value)
    declared = declared.modify(name=declared_name)
    first, *others = walk.nodes
    nodes = (Node(**{**vars(first), "is_top": True}), *others)
    return Column(walk.name, declared, value, nodes, dictionary)


class _Walk:
    """The way down the type of one column."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.nodes: list[Node] = []

    def refused(self, form: str, more: str = "") -> SqlError:
        known = next((name for start, name in _NAMES.items() if form.startswith(start)), form)
        return refusal(self.name, more or known)

    def encoded(self, schema: Any, value: str) -> tuple[Any, str, Node]:
        """A column with a dictionary: declared type, value, and the node of the dictionary."""
        items = schema.dictionary
        if items.n_children or items.dictionary is not None or schema.format not in _SAME:
            raise refusal(self.name, "a dictionary of nested values")
        index, _ = self.found(schema, value, 0, is_inner=False, is_index=True)
        inner = _Walk(self.name)
        declared, changed = inner.found(items, value, 0, is_inner=False)
        return index.modify(dictionary=declared), changed, inner.nodes[0]

    def found(
        self, schema: Any, value: str, level: int, *, is_inner: bool, is_index: bool = False
    ) -> tuple[Any, str]:
        """The declared type and the expression of a value; ``value`` is that of the stored one."""
        form = schema.format
        if schema.dictionary is not None and not is_index:
            raise refusal(self.name, "a dictionary within a nested type")
        if level > MOST_LEVELS:
            raise refusal(self.name, f"a type of more than {MOST_LEVELS} levels")
        if form.startswith("+"):
            return self._nested(schema, value, level, is_inner)
        name = extension_of(schema)
        node, stored, changed = self._flat(form, value, name)
        self.nodes.append(Node(**{**vars(node), "is_inner": is_inner}))
        return bare(schema, stored), changed

    def _flat(self, form: str, value: str, extension: str) -> tuple[Node, str, str]:
        """The node, the stored format and the expression of a value without parts."""
        if extension:
            return self._extended(form, value, extension)
        if form == "n":
            return Node(validity=False), form, f"CAST({value} AS VARCHAR)"
        if form in _SAME:
            return Node(bits=_SAME[form]), form, value
        if form in _OFFSETS:
            node = Node(offsets=_OFFSETS[form], has_data=True)
            if form not in _BYTES:
                return node, form, value
            return (
                node,
                _BYTES[form],
                self._checked(value, "", f"TRY(decode({value}))", "is no UTF-8"),
            )
        if (fixed := _FIXED.fullmatch(form)) and int(fixed[1]):
            return Node(bits=8 * int(fixed[1])), form, value
        if decimal := _DECIMAL.fullmatch(form):
            return self._decimal(value, int(decimal[1]), int(decimal[2]))
        return self._moment(form, value)

    def _extended(self, form: str, value: str, extension: str) -> tuple[Node, str, str]:
        if extension == "arrow.json" and form in _BYTES:
            node = Node(offsets=_OFFSETS[form], has_data=True)
            made = f"TRY(CAST(decode({value}) AS JSON))"
            return node, _BYTES[form], self._checked(value, "", made, "is no JSON")
        if extension == "arrow.uuid" and form == "w:16":
            return Node(bits=128), form, f"CAST(hex({value}) AS UUID)"
        if extension == "arrow.bool8" and form == "c":
            return Node(bits=8), form, f"({value} <> 0)"
        raise refusal(
            self.name, f"the extension {shown(extension)}", "write the type of its storage"
        )

    def _decimal(self, value: str, digits: int, scale: int) -> tuple[Node, str, str]:
        if not (0 < digits <= _MOST_DIGITS and 0 <= scale <= digits):
            raise refusal(self.name, f"decimal({digits},{scale})")
        kind = f"DECIMAL({digits},{scale})"
        most = "9" * (digits - scale) + ("." + "9" * scale if scale else "")
        # The engine does not look whether a value has as many digits as its type.
        wide = f"DECIMAL({_MOST_DIGITS},{scale})"
        fits = f"{value} BETWEEN CAST('-{most}' AS {wide}) AND CAST('{most}' AS {wide})"
        changed = self._checked(value, fits, f"CAST({value} AS {kind})", f"is no {kind}")
        return Node(bits=128), f"d:{_MOST_DIGITS},{scale}", changed

    def _moment(self, form: str, value: str) -> tuple[Node, str, str]:
        """A date, a time or a moment, of the whole number that is stored."""
        if form == "tdD":
            fits = f"{value} BETWEEN -{_MOST_DAYS} AND {_MOST_DAYS}"
            made = f"DATE '1970-01-01' + {value}"
            return Node(bits=32), "i", self._checked(value, fits, made, "is no DATE, in days")
        if form == "tdm":
            fits = f"{value} % {_DAY_MILLIS} = 0 AND {value} // {_DAY_MILLIS} BETWEEN -{_MOST_DAYS} AND {_MOST_DAYS}"
            made = f"DATE '1970-01-01' + CAST({value} // {_DAY_MILLIS} AS INTEGER)"
            return Node(bits=64), "l", self._checked(value, fits, made, "is no DATE, in ms")
        if form in ("tts", "ttm", "ttu", "ttn"):
            return self._time(form[2], value)
        if stamp := _STAMP.fullmatch(form):
            return self._stamp(stamp[1], stamp[2], value)
        raise self.refused(form)

    def _time(self, unit: str, value: str) -> tuple[Node, str, str]:
        is_short = unit in "sm"
        whole = f"CAST({value} AS BIGINT)"
        if unit == "n":
            day, micros, rest = 86_400_000_000_000, f"({whole} // 1000)", f" AND {whole} % 1000 = 0"
        else:
            day, micros, rest = 86_400_000_000 // _MICROS[unit], f"({whole} * {_MICROS[unit]})", ""
        fits = f"{whole} >= 0 AND {whole} < {day}{rest}"
        made = f"TIME '00:00:00' + to_microseconds({micros})"
        why = f"is no TIME, in {'' if unit == 's' else unit}s"
        stored = ("i", 32) if is_short else ("l", 64)
        return Node(bits=stored[1]), stored[0], self._checked(value, fits, made, why)

    def _stamp(self, unit: str, zone: str, value: str) -> tuple[Node, str, str]:
        why = f"is no TIMESTAMP, in {'' if unit == 's' else unit}s"
        if unit == "n" and not zone:
            # The last values stand for an infinite moment.
            fits = f"{value} > -9223372036854775807 AND {value} < 9223372036854775807"
            made = f"make_timestamp_ns({value})"
        else:
            if unit == "n":
                fits, micros = f"{value} % 1000 = 0", f"({value} // 1000)"
            else:
                times = _MICROS[unit]
                first, last = -(-_FIRST_MICROS // times), (2**63 - 2) // times
                fits, micros = f"{value} BETWEEN {first} AND {last}", f"({value} * {times})"
            made = f"make_timestamp({micros})"
            if zone:
                # The zone of the session is UTC: the moment stays the same.
                made = f"CAST({made} AS TIMESTAMPTZ)"
        return Node(bits=64), "l", self._checked(value, fits, made, why)

    def _checked(self, value: str, fits: str, made: str, why: str) -> str:
        """``made``, or an error if the stored value does not fit."""
        failed = f"error({literal(f'{OBJECT}: column {self.name!r}: a value {why}')})"
        if not fits:
            return f"CASE WHEN {value} IS NULL THEN NULL ELSE coalesce({made}, {failed}) END"
        return f"CASE WHEN {value} IS NULL THEN NULL WHEN {fits} THEN {made} ELSE {failed} END"

    def _nested(self, schema: Any, value: str, level: int, is_inner: bool) -> tuple[Any, str]:
        form, children = schema.format, list(schema.children)
        if extension := extension_of(schema):
            raise refusal(
                self.name, f"the extension {shown(extension)}", "write the type of its storage"
            )
        if form == "+s":
            self.nodes.append(Node(is_inner=is_inner))
            return self._struct(schema, children, value, level, is_inner)
        fixed = _LIST.fullmatch(form)
        if form in ("+l", "+L") or (fixed and 0 < int(fixed[1]) <= 100_000):
            offsets = 0 if fixed else 8 if form == "+L" else 4
            self.nodes.append(Node(offsets=offsets, is_inner=is_inner))
            item = f"item{level}"
            declared, inner = self.found(children[0], item, level + 1, is_inner=True)
            return bare(schema, form, [declared]), mapped(value, item, inner)
        if form == "+m" and len(children) == 1 and children[0].n_children == 2:
            return self._map(schema, children[0], value, level, is_inner)
        raise self.refused(form)

    def _struct(
        self, schema: Any, children: list[Any], value: str, level: int, is_inner: bool
    ) -> tuple[Any, str]:
        names = [str(each.name) for each in children]
        if not names or "" in names or len({folded_name(name) for name in names}) < len(names):
            raise refusal(self.name, "a struct without fields, or without different names of them")
        types, values, is_same = [], [], True
        for name, child in zip(names, children):
            part = f"struct_extract({value}, {literal(name)})"
            declared, inner = self.found(child, part, level + 1, is_inner=is_inner)
            types.append(declared)
            values.append(f"{literal(name)}: {inner}")
            is_same &= inner == part
        packed = unless_null(value, f"{{{', '.join(values)}}}")
        return bare(schema, "+s", types), value if is_same else packed

    def _map(
        self, schema: Any, entries: Any, value: str, level: int, is_inner: bool
    ) -> tuple[Any, str]:
        self.nodes += [Node(offsets=4, is_inner=is_inner), Node(is_inner=True)]
        item = f"item{level}"
        kinds, parts = [], []
        for child, part in zip(entries.children, ("map_keys", "map_values")):
            declared, inner = self.found(child, item, level + 1, is_inner=True)
            kinds.append(declared)
            parts.append((f"{part}({value})", inner))
        declared = bare(schema, "+m", [bare(entries, "+s", kinds)])
        if all(inner == item for _, inner in parts):
            return declared, value
        keys, values = (mapped(part, item, inner) for part, inner in parts)
        return declared, unless_null(value, f"map({keys}, {values})")


def unless_null(value: str, made: str) -> str:
    """``made``, or NULL where ``value`` is: CASE has no values with lists of a fixed size."""
    return f"list_extract([{made}], CASE WHEN {value} IS NULL THEN 2 ELSE 1 END)"


def mapped(value: str, item: str, inner: str) -> str:
    """The list ``value`` with each item changed."""
    return value if inner == item else f"list_transform({value}, lambda {item}: {inner})"


def bare(schema: Any, form: str, children: list[Any] | None = None) -> Any:
    """The schema with another format, and without metadata, which the engine would act on."""
    from nanoarrow._schema import CSchemaBuilder

    builder = CSchemaBuilder.allocate()
    builder.set_format(form)
    builder.set_name(schema.name or "")
    builder.set_flags(schema.flags)
    if children:
        builder.allocate_children(len(children))
        for number, child in enumerate(children):
            builder.set_child(number, None, child)
    return builder.finish()


def extension_of(schema: Any) -> str:
    """The name of the extension that a type is, or nothing."""
    metadata = schema.metadata
    if metadata is None or _EXTENSION not in metadata:
        return ""
    return bytes(metadata[_EXTENSION]).decode(errors="replace")


def refusal(column: str, what: str, way: str = "write the column with another type") -> SqlError:
    """The error for a column whose values would not be exact."""
    return SqlError(f"{OBJECT}: column {shown(column)}: {what} is refused: {way}")
