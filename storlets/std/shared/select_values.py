"""Values of a query: an expression of the engine's SQL, and its kind.

S3 Select has dynamic types and the engine static ones.  A column of CSV is text until it is cast.
A value of JSON has the kind ``ANY``: the expression that uses it has a case for each type.
A list, a struct or a map of Parquet has the kind ``NESTED``: its expression is its text in JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import select_times
from select_errors import SelectError, quoted, raised

#: Bound of an expression, because nested ones repeat their operands.
MOST_CHARACTERS = 90_000


class Kind(Enum):
    """Types of expressions."""

    NULL = "NULL"
    TEXT = "text"
    BOOL = "a condition"
    INT = "a whole number"
    DECIMAL = "a decimal number"
    FLOAT = "a floating-point number"
    TIME = "a timestamp"
    LOCAL = "a timestamp with its offset"
    ANY = "a value of JSON"
    NESTED = "a nested value"


NUMBERS = (Kind.INT, Kind.DECIMAL, Kind.FLOAT)
#: The engine's types of numbers in JSON.
JSON_NUMBERS = "('BIGINT', 'UBIGINT', 'HUGEINT', 'UHUGEINT', 'DOUBLE')"
JSON_WHOLE = "('BIGINT', 'UBIGINT')"
#: The text of a whole number that fits 128 bits; JSON calls one above 64 bits a ``DOUBLE``.
_HUGE = "-?[0-9]{1,38}"
#: From here on a floating-point number may be another whole number.
_INEXACT = f"{1 << 53}"
UNKNOWN = "CAST(NULL AS BOOLEAN)"


@dataclass(frozen=True)
class Value:
    """One expression.

    :ivar missing: a condition that is true where the record does not have the value.
    :ivar is_whole: whether a decimal is shown with all digits of its scale, and a floating-point
        number also when it is not finite, which elsewhere is an overflow.
    :ivar utc: of a timestamp with its offset, the expression of its moment, if there is a shorter
        one than a field of ``sql``.
    """

    sql: str
    kind: Kind
    missing: str = ""
    is_whole: bool = False
    utc: str = ""

    def __post_init__(self) -> None:
        if len(self.sql) > MOST_CHARACTERS:
            raise SelectError("UnsupportedSqlStructure", "the query is nested too deeply")


def wrong_type(where: str, value: Value, wanted: str) -> SelectError:
    """The error for a value of a kind that an operator or a function does not have."""
    hint = ": use CAST" if value.kind in (Kind.TEXT, Kind.ANY) else ""
    code = "IncorrectSqlFunctionArgumentType"
    return SelectError(code, f"{where}: requires {wanted}, not {value.kind.value}{hint}")


def text(value: Value, where: str) -> str:
    """The expression of a text; a JSON value of another type is NULL.

    :raises SelectError: the kind has no text.
    """
    if value.kind is Kind.TEXT:
        return value.sql
    if value.kind is Kind.NULL:
        return "CAST(NULL AS VARCHAR)"
    if value.kind is Kind.ANY:
        return f"CASE WHEN json_type({value.sql}) = 'VARCHAR' THEN {_unquoted(value.sql)} END"
    raise wrong_type(where, value, "text")


def _unquoted(sql: str) -> str:
    return f"json_extract_string({sql}, '$')"


def condition(value: Value, where: str) -> str:
    """The expression of a condition; a JSON value of another type is unknown."""
    if value.kind is Kind.BOOL:
        return value.sql
    if value.kind is Kind.NULL:
        return UNKNOWN
    if value.kind is Kind.ANY:
        cast = f"CAST({value.sql} AS BOOLEAN)"
        return f"CASE WHEN json_type({value.sql}) = 'BOOLEAN' THEN {cast} END"
    raise wrong_type(where, value, "a condition")


def timestamp(value: Value, where: str) -> str:
    """The expression of a timestamp, in UTC."""
    if value.kind is Kind.LOCAL:
        return value.utc or select_times.field("t", value.sql)
    if value.kind is Kind.TIME:
        return value.sql
    if value.kind is Kind.NULL:
        return "CAST(NULL AS TIMESTAMP)"
    raise wrong_type(where, value, "a timestamp")


def number(value: Value, where: str) -> Value:
    """A number; one of JSON is a floating-point number.

    Other JSON is an error, and so is a whole number that would change.
    """
    if value.kind in NUMBERS:
        return value
    if value.kind is Kind.NULL:
        return Value("CAST(NULL AS BIGINT)", Kind.INT)
    if value.kind is Kind.ANY:
        kind = f"json_type({value.sql})"
        failed = raised("IncorrectSqlFunctionArgumentType", "is no number", value.sql)
        inexact = raised(
            "IntegerOverflow", "is a whole number of 2^53 or more: use CAST", value.sql
        )
        double = f"CAST({value.sql} AS DOUBLE)"
        is_inexact = (
            f"abs({double}) >= {_INEXACT}"
            f" AND regexp_full_match(CAST({value.sql} AS VARCHAR), '-?[0-9]+')"
        )
        return Value(
            f"CASE WHEN {kind} IS NULL OR {kind} = 'NULL' THEN NULL WHEN {kind} IN {JSON_NUMBERS}"
            f" THEN CASE WHEN {is_inexact} THEN {inexact} ELSE {double} END ELSE {failed} END",
            Kind.FLOAT,
        )
    raise wrong_type(where, value, "a number")


def json_sum(value: Value) -> Value:
    """The sum of values of JSON; one of whole numbers is exact, or an error."""
    each = number(value, "SUM").sql
    is_whole = f"bool_and(json_type({value.sql}) <> 'DOUBLE')"
    inexact = raised("IntegerOverflow", "SUM: whole numbers have a sum of 2^53 or more: use CAST")
    return Value(
        f"CASE WHEN sum(abs({each})) >= {_INEXACT} AND {is_whole} THEN {inexact}"
        f" ELSE sum({each}) END",
        Kind.FLOAT,
    )


def present(value: Value) -> str:
    """The expression, with NULL for the null of JSON."""
    if value.kind is not Kind.ANY:
        return value.sql
    return f"CASE WHEN json_type({value.sql}) <> 'NULL' THEN {value.sql} END"


def in_utc(value: Value) -> Value:
    """The value; a timestamp without its offset."""
    if value.kind is not Kind.LOCAL:
        return value
    return Value(timestamp(value, ""), Kind.TIME, value.missing)


def compared(sign: str, left: Value, right: Value) -> str:
    """The condition ``left sign right``; values of JSON of different types give unknown.

    :raises SelectError: the kinds cannot be compared.
    """
    left, right = in_utc(left), in_utc(right)
    kinds = {left.kind, right.kind}
    if Kind.NULL in kinds:
        return UNKNOWN
    if Kind.ANY in kinds:
        return _compared_json(sign, left, right)
    if kinds <= set(NUMBERS):
        if Kind.FLOAT in kinds and len(kinds) > 1:
            return f"(CAST({left.sql} AS DOUBLE) {sign} CAST({right.sql} AS DOUBLE))"
        return f"({left.sql} {sign} {right.sql})"
    if len(kinds) > 1:
        wanted = f"values of one type, not {left.kind.value} and {right.kind.value}"
        raise SelectError("IncorrectSqlFunctionArgumentType", f"{sign} requires {wanted}: use CAST")
    if left.kind is Kind.NESTED or (left.kind is Kind.BOOL and sign not in ("=", "<>")):
        raise wrong_type(sign, left, "numbers, texts or timestamps")
    return f"({left.sql} {sign} {right.sql})"


def _compared_json(sign: str, left: Value, right: Value) -> str:
    other = right if left.kind is Kind.ANY else left
    if other.kind is Kind.TEXT:
        return f"({text(left, sign)} {sign} {text(right, sign)})"
    if other.kind is Kind.BOOL:
        if sign not in ("=", "<>"):
            raise wrong_type(sign, other, "numbers, texts or timestamps")
        return f"({condition(left, sign)} {sign} {condition(right, sign)})"
    if other.kind is Kind.TIME:
        raise SelectError(
            "IncorrectSqlFunctionArgumentType", f"{sign} requires timestamps: use CAST AS TIMESTAMP"
        )
    tests = [_number_test(left), _number_test(right)]
    both = " AND ".join(test for test in tests if test)
    doubles = f"CAST({left.sql} AS DOUBLE) {sign} CAST({right.sql} AS DOUBLE)"
    cases = ""
    if other.kind is not Kind.FLOAT:
        whole = " AND ".join(
            f"json_type({each.sql}) IN {JSON_NUMBERS}"
            f" AND regexp_full_match(CAST({each.sql} AS VARCHAR), '{_HUGE}')"
            for each in (left, right)
            if each.kind is Kind.ANY
        )
        cases = f" WHEN {whole} THEN {_compared_whole(sign, left, right)}"
    cases += f" WHEN {both} THEN {doubles}"
    if other.kind is Kind.ANY:
        cases += (
            f" WHEN json_type({left.sql}) <> json_type({right.sql}) THEN NULL"
            f" WHEN json_type({left.sql}) = 'VARCHAR'"
            f" THEN {_unquoted(left.sql)} {sign} {_unquoted(right.sql)}"
        )
        if sign in ("=", "<>"):
            cases += (
                f" WHEN json_type({left.sql}) <> 'NULL'"
                f" THEN CAST({left.sql} AS VARCHAR) {sign} CAST({right.sql} AS VARCHAR)"
            )
    return f"(CASE{cases} END)"


def _compared_whole(sign: str, left: Value, right: Value) -> str:
    """A comparison of whole numbers of JSON with each other or with another number, exactly."""
    if right.kind is Kind.DECIMAL:
        return _compared_decimal(sign, left, right)
    if left.kind is Kind.DECIMAL:
        return _compared_decimal(_MIRRORED.get(sign, sign), right, left)
    return f"{_huge(left)} {sign} {_huge(right)}"


_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _compared_decimal(sign: str, whole: Value, decimal: Value) -> str:
    """``whole sign decimal`` by the next whole number of the decimal.

    The engine's common type of the two may have fewer digits after the point.
    """
    floor, ceiling = (f"CAST({name}({decimal.sql}) AS HUGEINT)" for name in ("floor", "ceil"))
    if sign in ("=", "<>"):
        same = f"({floor} = {ceiling} AND {_huge(whole)} = {floor})"
        return same if sign == "=" else f"(NOT {same})"
    return f"{_huge(whole)} {sign} {floor if sign in ('<=', '>') else ceiling}"


def _huge(value: Value) -> str:
    return f"CAST({value.sql} AS HUGEINT)"


def _number_test(value: Value) -> str:
    return f"json_type({value.sql}) IN {JSON_NUMBERS}" if value.kind is Kind.ANY else ""


def unified(values: Sequence[Value], where: str) -> tuple[Kind, list[str]]:
    """The expressions of values of which one is the result, with one kind.

    :raises SelectError: the kinds differ.
    """
    kinds = {value.kind for value in values} - {Kind.NULL}
    if Kind.ANY in kinds:
        return Kind.ANY, [as_json(value) for value in values]
    if len(kinds) > 1 and kinds <= set(NUMBERS):
        kind = Kind.FLOAT if Kind.FLOAT in kinds else Kind.DECIMAL
        kinds = {kind}
    if kinds == {Kind.TIME, Kind.LOCAL}:
        return Kind.LOCAL, [_with_offset(value) for value in values]
    if len(kinds) > 1:
        shown = " and ".join(sorted(kind.value for kind in kinds))
        raise SelectError(
            "IncorrectSqlFunctionArgumentType", f"{where} requires values of one type, not {shown}"
        )
    found = next(iter(kinds), Kind.NULL)
    if found is Kind.FLOAT:
        return found, [f"CAST({value.sql} AS DOUBLE)" for value in values]
    return found, [value.sql for value in values]


def _with_offset(value: Value) -> str:
    return select_times.of_utc(value.sql) if value.kind is Kind.TIME else value.sql


def as_json(value: Value) -> str:
    """The expression as a value of JSON; NULL stays NULL."""
    if value.kind is Kind.ANY:
        return value.sql
    if value.kind is Kind.NULL:
        return "CAST(NULL AS JSON)"
    shown = shown_json(value)
    return f"CASE WHEN {value.sql} IS NULL THEN NULL ELSE CAST({shown} AS JSON) END"


def shown_text(value: Value) -> str:
    """The expression of the text that a field of CSV has; NULL stays NULL."""
    if value.kind is Kind.TEXT:
        return value.sql
    if value.kind is Kind.ANY:
        return (
            f"CASE json_type({value.sql}) WHEN 'NULL' THEN NULL"
            f" WHEN 'VARCHAR' THEN {_unquoted(value.sql)} ELSE CAST({value.sql} AS VARCHAR) END"
        )
    if value.kind is Kind.DECIMAL and not value.is_whole:
        whole = f"CAST({value.sql} AS VARCHAR)"
        return (
            f"CASE WHEN contains({whole}, '.') THEN rtrim(rtrim({whole}, '0'), '.')"
            f" ELSE {whole} END"
        )
    if value.kind is Kind.FLOAT:
        shown = f"CAST({value.sql} AS VARCHAR)"
        other = raised("IntegerOverflow", "is out of range", value.sql)
        if value.is_whole:
            other = (
                f"CASE WHEN isnan({value.sql}) THEN 'NaN' WHEN {value.sql} > 0 THEN 'Infinity'"
                f" ELSE '-Infinity' END"
            )
        return (
            f"CASE WHEN NOT isfinite({value.sql}) THEN {other}"
            f" WHEN ends_with({shown}, '.0') THEN left({shown}, length({shown}) - 2)"
            f" ELSE {shown} END"
        )
    if value.kind is Kind.LOCAL:
        return select_times.shown(value.sql)
    if value.kind is Kind.TIME:
        form = "%Y-%m-%dT%H:%M:%S"
        return (
            f"CASE WHEN microsecond({value.sql}) % 1000000 = 0"
            f" THEN strftime({value.sql}, {quoted(form + 'Z')})"
            f" ELSE strftime({value.sql}, {quoted(form + '.%fZ')}) END"
        )
    return f"CAST({value.sql} AS VARCHAR)"


def shown_json(value: Value) -> str:
    """The expression of the text that a value has in JSON."""
    if value.kind is Kind.ANY:
        return f"CAST({value.sql} AS VARCHAR)"
    if value.kind in (Kind.TEXT, Kind.TIME, Kind.LOCAL):
        return f"CAST(to_json({shown_text(value)}) AS VARCHAR)"
    return shown_text(value)
