"""The SELECT of all columns, as an output can keep them.

CSV has no nested values, and JSON has neither NaN nor numbers of more than 15 digits with a point:
its readers take these for a ``DOUBLE``.  A ``FLOAT`` is written as the ``DOUBLE`` that it is: its
own shortest digits are another ``DOUBLE``.  Bytes are hexadecimal digits.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from absent_values import Absent, found
from json_numbers import ROUNDED
from sql_check import SqlError
from sql_engine import Engine, identifier, literal
from sql_errors import OBJECT

#: Digits of a decimal that each ``DOUBLE`` keeps.
DOUBLE_DIGITS = 15
VARIANT = "VARIANT"
_DECIMAL = re.compile(r"DECIMAL\(([0-9]+),[0-9]+\)")


_NOT_FINITE = Absent("NaN or infinity", frozenset({"DOUBLE", "FLOAT"}), "NOT isfinite({})")


def select_for(engine: Engine, output: str, table: str, columns: Sequence[tuple[str, str]]) -> str:
    """The SELECT for an output of ``csv``, ``jsonl``, ``parquet`` or ``arrow``.

    :param columns: names and types in SQL.
    :raises SqlError: the output does not keep a type, or JSON a part of a nested one.
    """
    change = {"csv": _for_csv, "jsonl": _for_json}.get(output, _unchanged)
    for name, kind in columns:
        if kind == VARIANT and change is not _unchanged:
            # A number and a text of digits are alike in its text.
            raise SqlError(f"{OBJECT}: column {name!r}: {output} has no exact form of {kind}")
    shown = ", ".join(
        f"{change(engine, name, kind)} AS {identifier(name)}" for name, kind in columns
    )
    return f"SELECT {shown} FROM {table}"  # noqa: S608


def is_nested(kind: str) -> bool:
    """Whether values of the type have parts."""
    return kind == "JSON" or kind.startswith(("STRUCT(", "MAP(")) or kind.endswith("]")


def json_of(engine: Engine, name: str, kind: str) -> str:
    """The JSON of a nested value; one of the type ``JSON`` stays as it is.

    :raises SqlError: it does not keep a part of it.
    """
    column = identifier(name)
    if kind == "JSON":
        return column
    parts = engine.type_of_column(name, kind)
    if lost := _lost(parts):
        raise SqlError(
            f"{OBJECT}: column {name!r}: nested JSON has no {lost}: want parquet or arrow"
        )
    cases = ""
    for absent in (_NOT_FINITE, ROUNDED):
        if condition := found(absent, column, parts):
            text = literal(f"{OBJECT}: column {name!r}: JSON has no {absent.name}")
            cases += f" WHEN coalesce({condition}, false) THEN error({text})"
    made = f"to_json({column})"
    return f"CASE{cases} ELSE {made} END" if cases else made


def _lost(kind: Any) -> str:
    """The first type in ``kind`` whose values nested JSON changes, or nothing."""
    text = str(kind)
    decimal = _DECIMAL.fullmatch(text)
    if text in ("HUGEINT", "BLOB", VARIANT) or (decimal and int(decimal[1]) > DOUBLE_DIGITS):
        return text
    if kind.id in ("list", "array"):
        return _lost(kind.children[0][1])
    if kind.id in ("struct", "map"):
        return next(filter(None, (_lost(each) for _, each in kind.children)), "")
    return ""


def _unchanged(_engine: Engine, name: str, _kind: str) -> str:
    return identifier(name)


def _for_csv(engine: Engine, name: str, kind: str) -> str:
    column = identifier(name)
    if kind == "FLOAT":
        return f"CAST({column} AS DOUBLE)"
    if kind == "BLOB":
        return f"lower(hex({column}))"
    if not is_nested(kind):
        return column
    made = json_of(engine, name, kind)
    return f"CASE WHEN {column} IS NULL THEN NULL ELSE CAST({made} AS VARCHAR) END"


def _for_json(engine: Engine, name: str, kind: str) -> str:
    column = identifier(name)
    decimal = _DECIMAL.fullmatch(kind)
    if kind == "HUGEINT" or (decimal and int(decimal[1]) > DOUBLE_DIGITS):
        return f"CAST({column} AS VARCHAR)"
    if kind == "BLOB":
        return f"lower(hex({column}))"
    if kind in ("DOUBLE", "FLOAT"):
        text = literal(f"{OBJECT}: column {name!r}: JSON has no number ")
        failed = f"error({text} || CAST({column} AS VARCHAR))"
        value = f"CAST({column} AS DOUBLE)"
        return f"CASE WHEN isfinite({column}) OR {column} IS NULL THEN {value} ELSE {failed} END"
    if is_nested(kind):
        return f"CASE WHEN {column} IS NULL THEN NULL ELSE {json_of(engine, name, kind)} END"
    return column
