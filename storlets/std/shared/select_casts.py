"""``CAST``: no value changes to fit its type, with two exceptions.

A whole number has no fraction, and a decimal with sizes is rounded to its digits after the point.
"""

from __future__ import annotations

from dataclasses import replace

import select_syntax as tree
import select_times
from select_errors import SelectError, quoted, raised
from select_values import JSON_NUMBERS, JSON_WHOLE, Kind, Value, shown_text, text

#: The most digits of a decimal.
MOST_DIGITS = 38
#: Digits after the point of a decimal without sizes.
FREE_SCALE = 10
_WHOLE = "[+-]?[0-9]+"
_DECIMAL = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)"
_FLOAT = rf"{_DECIMAL}([eE][+-]?[0-9]+)?"
#: A text that may be a decimal; larger exponents fit none.
_DIGITS = rf"{_DECIMAL}([eE][+-]?[0-9]{{1,4}})?"


def cast(node: tree.Cast, value: Value) -> Value:
    """The value as the type of the cast.

    :raises SelectError: there is no such cast.
    """
    if value.kind is Kind.ANY:
        return _from_json(node, value)
    result = _CASTS[node.type](node, value)
    # A value that is not there has no cast either.
    return replace(result, missing=value.missing)


def or_error(sql: str, tried: str, code: str, wanted: str) -> str:
    """``tried``, or the error that ``sql`` does not fit; NULL stays NULL."""
    failed = raised(code, f"is no {wanted}", sql)
    return f"CASE WHEN {sql} IS NULL THEN NULL ELSE coalesce({tried}, {failed}) END"


def time_of_text(sql: str, code: str) -> Value:
    """The timestamp in a text, or the error with ``code``."""
    utc = or_error(sql, select_times.moment(sql), code, "timestamp")
    return Value(select_times.of_text(sql, code), Kind.LOCAL, utc=utc)


def _shaped(sql: str, shape: str, kind: str, wanted: str) -> str:
    tried = (
        f"CASE WHEN regexp_full_match({sql}, {quoted(shape)}) THEN TRY_CAST({sql} AS {kind}) END"
    )
    return or_error(sql, tried, "CastFailed", wanted)


def _fitting(sql: str, kind: str, wanted: str) -> str:
    return or_error(sql, f"TRY_CAST({sql} AS {kind})", "CastFailed", wanted)


def _to_int(_node: tree.Cast, value: Value) -> Value:
    wanted = "whole number of 64 bits"
    if value.kind is Kind.TEXT:
        return Value(_shaped(value.sql, _WHOLE, "BIGINT", wanted), Kind.INT)
    if value.kind in (Kind.DECIMAL, Kind.FLOAT):
        return Value(_fitting(f"trunc({value.sql})", "BIGINT", wanted), Kind.INT)
    _require(value, "INT", Kind.INT, Kind.BOOL, Kind.NULL)
    return Value(f"CAST({value.sql} AS BIGINT)", Kind.INT)


def _to_decimal(node: tree.Cast, value: Value) -> Value:
    digits, scale = _sizes(node)
    kind, wanted = f"DECIMAL({digits}, {scale})", f"DECIMAL({digits}, {scale})"
    is_whole = bool(node.sizes)
    if value.kind is Kind.FLOAT:
        # The engine's own cast adds digits: 9876543.21 would be 9876543.2100000016.
        made = _to_decimal(node, Value("digits", Kind.TEXT))
        # A variable: the text is used many times, and the value may be long.
        bound = f"list_transform([CAST({value.sql} AS VARCHAR)], lambda digits: {made.sql})[1]"
        return Value(bound, made.kind, is_whole=made.is_whole)
    if value.kind is Kind.TEXT:
        sql = _shaped(value.sql, _DIGITS, kind, wanted)
        if not is_whole:
            sql = _exact(value.sql, sql)
        return Value(sql, Kind.DECIMAL, is_whole=is_whole)
    _require(value, "DECIMAL", Kind.INT, Kind.DECIMAL, Kind.NULL)
    return Value(_fitting(value.sql, kind, wanted), Kind.DECIMAL, is_whole=is_whole)


def _exact(sql: str, number: str) -> str:
    """A decimal without sizes, or the error that it would lose digits."""
    parts = f"string_split(lower({sql}), 'e')"
    after = f"length(rtrim(split_part({parts}[1], '.', 2), '0'))"
    places = f"{after} - coalesce(TRY_CAST({parts}[2] AS INTEGER), 0)"
    fault = f"has more than {FREE_SCALE} digits after the point: give DECIMAL its sizes"
    failed = raised("CastFailed", fault, sql)
    return f"CASE WHEN {sql} IS NULL OR {places} <= {FREE_SCALE} THEN {number} ELSE {failed} END"


def _sizes(node: tree.Cast) -> tuple[int, int]:
    """Digits of a decimal, and those after the point."""
    if not node.sizes:
        return MOST_DIGITS, FREE_SCALE
    digits, scale = (*node.sizes, 0)[:2]
    if not 1 <= digits <= MOST_DIGITS or scale > digits:
        raise SelectError(
            "ParseInvalidTypeParam",
            f"DECIMAL requires 1 to {MOST_DIGITS} digits, and no larger scale",
        )
    return digits, scale


def _to_float(_node: tree.Cast, value: Value) -> Value:
    if value.kind is Kind.TEXT:
        return Value(_shaped(value.sql, _FLOAT, "DOUBLE", "number"), Kind.FLOAT)
    _require(value, "FLOAT", Kind.INT, Kind.DECIMAL, Kind.FLOAT, Kind.NULL)
    return Value(f"CAST({value.sql} AS DOUBLE)", Kind.FLOAT)


def _to_text(_node: tree.Cast, value: Value) -> Value:
    if value.kind is Kind.NULL:
        return Value("CAST(NULL AS VARCHAR)", Kind.TEXT)
    return Value(shown_text(value), Kind.TEXT)


def _to_bool(_node: tree.Cast, value: Value) -> Value:
    if value.kind is Kind.TEXT:
        return Value(_shaped(value.sql, "(?i:true|false)", "BOOLEAN", "true or false"), Kind.BOOL)
    _require(value, "BOOL", Kind.INT, Kind.BOOL, Kind.NULL)
    return Value(f"CAST({value.sql} AS BOOLEAN)", Kind.BOOL)


def _to_time(_node: tree.Cast, value: Value) -> Value:
    if value.kind is Kind.TEXT:
        return time_of_text(value.sql, "CastFailed")
    if value.kind is Kind.LOCAL:
        return value
    _require(value, "TIMESTAMP", Kind.TIME, Kind.NULL)
    return Value(f"CAST({value.sql} AS TIMESTAMP)", Kind.TIME)


_CASTS = {
    "BOOL": _to_bool,
    "DECIMAL": _to_decimal,
    "FLOAT": _to_float,
    "INT": _to_int,
    "STRING": _to_text,
    "TIMESTAMP": _to_time,
}


def _require(value: Value, wanted: str, *kinds: Kind) -> None:
    if value.kind not in kinds:
        raise SelectError("InvalidCast", f"CAST: {value.kind.value} is never {wanted}")


def _from_json(node: tree.Cast, value: Value) -> Value:
    """A cast that looks at the type of each value: text as text, a number as a number."""
    if node.type == "STRING":
        return Value(shown_text(value), Kind.TEXT, value.missing)
    of_text = _CASTS[node.type](node, Value(text(value, "CAST"), Kind.TEXT))
    kind = f"json_type({value.sql})"
    branches = [(f"{kind} = 'VARCHAR'", of_text.sql)]
    # The text of a number has all its digits.
    digits = Value(f"CAST({value.sql} AS VARCHAR)", Kind.TEXT)
    if node.type == "DECIMAL":
        branches.append((f"{kind} IN {JSON_NUMBERS}", _CASTS[node.type](node, digits).sql))
    if node.type in ("INT", "BOOL"):
        wholes = Value(f"CAST({value.sql} AS BIGINT)", Kind.INT)
        whole = wholes if node.type == "BOOL" else digits
        branches.append((f"{kind} IN {JSON_WHOLE}", _CASTS[node.type](node, whole).sql))
    if node.type in ("INT", "FLOAT"):
        double = Value(f"CAST({value.sql} AS DOUBLE)", Kind.FLOAT)
        branches.append((f"{kind} IN {JSON_NUMBERS}", _CASTS[node.type](node, double).sql))
    if node.type in ("INT", "BOOL"):
        flag = Value(f"CAST({value.sql} AS BOOLEAN)", Kind.BOOL)
        branches.append((f"{kind} = 'BOOLEAN'", _CASTS[node.type](node, flag).sql))
    cases = " ".join(f"WHEN {test} THEN {result}" for test, result in branches)
    failed = raised("CastFailed", f"is no {node.type}", value.sql)
    return Value(
        f"CASE WHEN {kind} IS NULL OR {kind} = 'NULL' THEN NULL {cases} ELSE {failed} END",
        of_text.kind,
        value.missing,
        of_text.is_whole,
    )
