"""Conditions in SQL for values that an output does not have, at any level of a type."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sql_engine import Engine, identifier, literal

#: The type of a sum of decimals, to which the engine adds also what has more digits.
_LONGEST = re.compile(r"DECIMAL\(38,([0-9]+)\)")
_MOST_DIGITS = 38


class Absent(NamedTuple):
    """Values of some types, which ``condition`` finds; its ``{}`` is the value."""

    name: str
    types: frozenset[str]
    condition: str


def long_decimals(kinds: Sequence[str]) -> list[Absent]:
    """Decimals with more digits than their type has; of one with 38 after the point, the engine
    writes other digits.

    :param kinds: the types of a result.
    """
    scales = sorted({int(scale) for kind in kinds for scale in _LONGEST.findall(kind)})
    return [
        Absent(
            f"decimals with more than {_MOST_DIGITS} digits",
            frozenset({f"DECIMAL({_MOST_DIGITS},{scale})"}),
            f"{{}} NOT BETWEEN -{_most(scale)} AND {_most(scale)}",
        )
        for scale in scales
    ]


def _most(scale: int) -> str:
    """The largest decimal with ``scale`` digits after the point."""
    digits = f"{'9' * (_MOST_DIGITS - scale)}.{'9' * scale}"
    return f"CAST('{digits}' AS DECIMAL({_MOST_DIGITS},{scale}))"


def checked(engine: Engine, query: str, faults: Mapping[Absent, str]) -> str:
    """The query with an error for each absent value of its result.

    :param faults: the text of the error for each kind of values.
    :raises SqlError: the engine refuses the query, or a column has a type without a name.
    """
    columns = engine.columns(query)
    # The query may give two columns the same name.
    names = [f"column{number}" for number in range(len(columns))]
    values = [
        _checked(engine, name, column, kind, faults)
        for name, (column, kind) in zip(names, columns)
    ]
    if values == names:
        return query
    shown = ", ".join(
        f"{value} AS {identifier(column)}" for value, (column, _) in zip(values, columns)
    )
    return f"SELECT {shown} FROM ({query}\n) AS result({', '.join(names)})"  # noqa: S608


def _checked(
    engine: Engine, name: str, column: str, kind: str, faults: Mapping[Absent, str]
) -> str:
    cases = ""
    for absent, fault in faults.items():
        if not any(each in kind for each in absent.types):
            continue
        if condition := found(absent, name, engine.type_of_column(column, kind)):
            message = literal(f"column {column!r}: {fault}")
            cases += f" WHEN coalesce({condition}, false) THEN error({message})"
    return f"CASE{cases} ELSE {name} END" if cases else name


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
