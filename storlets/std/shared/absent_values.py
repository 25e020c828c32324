"""Conditions in SQL for values that an output does not have, at any level of a type."""

from __future__ import annotations

from typing import Any, NamedTuple

from sql_engine import literal


class Absent(NamedTuple):
    """Values of some types, which ``condition`` finds; its ``{}`` is the value."""

    name: str
    types: frozenset[str]
    condition: str


def found(absent: Absent, value: str, kind: Any, level: int = 0) -> str:
    """The condition that ``value`` has an absent one, or nothing if its type has none."""
    if str(kind) in absent.types:
        return absent.condition.format(value)
    parts = []
    if kind.id in ("list", "array"):
        parts = [_any(absent, value, kind.children[0][1], level)]
    elif kind.id == "map":
        (_, keys), (_, values) = kind.children
        parts = [
            _any(absent, f"map_keys({value})", keys, level),
            _any(absent, f"map_values({value})", values, level),
        ]
    elif kind.id == "struct":
        parts = [
            found(absent, f"struct_extract({value}, {literal(key)})", each, level)
            for key, each in kind.children
        ]
    return " OR ".join(filter(None, parts))


def _any(absent: Absent, value: str, kind: Any, level: int) -> str:
    item = f"item{level}"
    inner = found(absent, item, kind, level + 1)
    return f"len(list_filter({value}, lambda {item}: {inner})) > 0" if inner else ""
