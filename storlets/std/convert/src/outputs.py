"""The SELECT of all columns, as an output can keep them.

CSV has no nested values, and JSON has neither NaN nor numbers of more than 15 digits with a point:
its readers take these for a ``DOUBLE``.  A ``FLOAT`` is written as the ``DOUBLE`` that it is: its
own shortest digits are another ``DOUBLE``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sql_engine import OBJECT, identifier, literal

#: Digits of a decimal that each ``DOUBLE`` keeps.
DOUBLE_DIGITS = 15
_DECIMAL = re.compile(r"DECIMAL\(([0-9]+),[0-9]+\)")


def select_for(output: str, table: str, columns: Sequence[tuple[str, str]]) -> str:
    """The SELECT for an output of ``csv``, ``jsonl``, ``parquet`` or ``arrow``.

    :param columns: names and types in SQL.
    """
    change = {"csv": _for_csv, "jsonl": _for_json}.get(output, _unchanged)
    shown = ", ".join(f"{change(name, kind)} AS {identifier(name)}" for name, kind in columns)
    return f"SELECT {shown} FROM {table}"  # noqa: S608


def is_nested(kind: str) -> bool:
    """Whether values of the type have parts."""
    return kind == "JSON" or kind.startswith(("STRUCT(", "MAP(")) or kind.endswith("]")


def _unchanged(name: str, _kind: str) -> str:
    return identifier(name)


def _for_csv(name: str, kind: str) -> str:
    column = identifier(name)
    if kind == "FLOAT":
        return f"CAST({column} AS DOUBLE)"
    if not is_nested(kind):
        return column
    return f"CASE WHEN {column} IS NULL THEN NULL ELSE CAST(to_json({column}) AS VARCHAR) END"


def _for_json(name: str, kind: str) -> str:
    column = identifier(name)
    decimal = _DECIMAL.fullmatch(kind)
    if kind == "HUGEINT" or (decimal and int(decimal[1]) > DOUBLE_DIGITS):
        return f"CAST({column} AS VARCHAR)"
    if kind in ("DOUBLE", "FLOAT"):
        text = literal(f"{OBJECT}: column {name!r}: JSON has no number ")
        failed = f"error({text} || CAST({column} AS VARCHAR))"
        value = f"CAST({column} AS DOUBLE)"
        return f"CASE WHEN isfinite({column}) OR {column} IS NULL THEN {value} ELSE {failed} END"
    return column
