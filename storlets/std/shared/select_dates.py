"""Functions of dates.  All timestamps are in UTC, with microseconds."""

from __future__ import annotations

import re
from collections.abc import Sequence

import select_casts
import select_syntax as tree
from select_errors import SelectError, quoted, raised
from select_values import Kind, Value, number, text, timestamp

_ION = re.compile(
    r"\d{4}T|\d{4}-\d\dT|\d{4}-\d\d-\d\dT?"
    r"|\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)",
    re.ASCII,
)
_LETTERS = re.compile(r"'([^']*)'|([A-Za-z])\2*|(.)", re.DOTALL)
#: The SQL of each symbol of a format; ``{0}`` is the timestamp.
_SYMBOLS = {
    "yyyy": "strftime({0}, '%Y')",
    "y": "CAST(year({0}) AS VARCHAR)",
    "yy": "strftime({0}, '%y')",
    "MM": "strftime({0}, '%m')",
    "M": "CAST(month({0}) AS VARCHAR)",
    "MMM": "strftime({0}, '%b')",
    "MMMM": "strftime({0}, '%B')",
    "MMMMM": "left(strftime({0}, '%B'), 1)",
    "dd": "strftime({0}, '%d')",
    "d": "CAST(day({0}) AS VARCHAR)",
    "a": "strftime({0}, '%p')",
    "hh": "strftime({0}, '%I')",
    "h": "CAST((hour({0}) + 11) % 12 + 1 AS VARCHAR)",
    "HH": "strftime({0}, '%H')",
    "H": "CAST(hour({0}) AS VARCHAR)",
    "mm": "strftime({0}, '%M')",
    "m": "CAST(minute({0}) AS VARCHAR)",
    "ss": "strftime({0}, '%S')",
    "s": "CAST(second({0}) AS VARCHAR)",
    "S": "left(strftime({0}, '%f'), 1)",
    "SS": "left(strftime({0}, '%f'), 2)",
    "SSS": "left(strftime({0}, '%f'), 3)",
    "SSSSSS": "strftime({0}, '%f')",
    "n": "CAST(microsecond({0}) % 1000000 * 1000 AS VARCHAR)",
    **dict.fromkeys(("X", "XX", "XXX", "XXXX", "XXXXX"), "'Z'"),
    "x": "'+00'",
    **dict.fromkeys(("xx", "xxxx"), "'+0000'"),
    **dict.fromkeys(("xxx", "xxxxx"), "'+00:00'"),
}


def literal(node: tree.Ion) -> Value:
    """A timestamp in backticks.

    :raises SelectError: it is something else.
    """
    if not _ION.fullmatch(node.text):
        raise SelectError(
            "LexerInvalidIONLiteral", f"`{node.text[:40]}`: only timestamps are supported"
        )
    sql = quoted(node.text)
    failed = select_casts.or_error(
        sql, select_casts.moment(sql), "LexerInvalidIONLiteral", "timestamp"
    )
    return Value(failed, Kind.TIME)


def called(node: tree.Call, values: Sequence[Value], now: str) -> Value:
    """The value of a function of dates.

    :param now: the time of the query, in SQL.
    """
    if node.name == "UTCNOW":
        return Value(now, Kind.TIME)
    if node.name == "TO_TIMESTAMP":
        given = text(values[0], node.name)
        found = select_casts.moment(given)
        return Value(
            select_casts.or_error(given, found, "ValueParseFailure", "timestamp"), Kind.TIME
        )
    if node.name == "TO_STRING":
        return _to_string(node, timestamp(values[0], node.name))
    if node.name == "EXTRACT":
        return _extract(node, timestamp(values[0], node.name))
    if node.name == "DATE_DIFF":
        first, second = (timestamp(value, node.name) for value in values)
        return Value(f"date_sub('{node.word.lower()}', {first}, {second})", Kind.INT)
    quantity = number(values[0], node.name)
    if quantity.kind is not Kind.INT:
        if values[0].kind is not Kind.ANY:
            raise SelectError("IncorrectSqlFunctionArgumentType", "DATE_ADD requires a whole number")
        quantity = select_casts.cast(tree.Cast(node, "INT", (), node.at), values[0])
    moment = timestamp(values[1], node.name)
    sum_of = f"{moment} + to_{node.word.lower()}s(CAST({quantity.sql} AS {_QUANTITIES[node.word]}))"
    failed = raised("IntegerOverflow", "DATE_ADD: the year is not 1 to 9999")
    is_shown = "moment IS NULL OR year(moment) BETWEEN 1 AND 9999"
    # A variable: the sum is used three times.
    bound = f"lambda moment: CASE WHEN {is_shown} THEN moment ELSE {failed} END"
    return Value(f"list_transform([{sum_of}], {bound})[1]", Kind.TIME)


#: The types of the engine's functions that make intervals.
_QUANTITIES = {
    "YEAR": "INTEGER",
    "MONTH": "INTEGER",
    "DAY": "INTEGER",
    "HOUR": "BIGINT",
    "MINUTE": "BIGINT",
    "SECOND": "DOUBLE",
}


def _extract(node: tree.Call, moment: str) -> Value:
    if node.word.startswith("TIMEZONE"):
        return Value(f"CASE WHEN {moment} IS NULL THEN NULL ELSE 0 END", Kind.INT)
    return Value(f"date_part('{node.word.lower()}', {moment})", Kind.INT)


def _to_string(node: tree.Call, moment: str) -> Value:
    pattern = node.arguments[1]
    if not isinstance(pattern, tree.Literal) or not isinstance(pattern.value, str):
        raise SelectError(
            "EvaluatorInvalidTimestampFormatPattern", "TO_STRING requires its format as a literal"
        )
    pieces = []
    for match in _LETTERS.finditer(pattern.value):
        symbol = match[0]
        if match[1] is not None:
            pieces.append(quoted(match[1] or "'"))
        elif symbol in _SYMBOLS:
            pieces.append(_SYMBOLS[symbol].format(moment))
        elif match[2]:
            raise SelectError(
                "EvaluatorInvalidTimestampFormatPatternSymbol",
                f"TO_STRING: {symbol[:20]} is no symbol of a format",
            )
        elif symbol == "'":
            raise SelectError(
                "EvaluatorUnterminatedTimestampFormatPatternToken", "TO_STRING: a quote has no end"
            )
        else:
            pieces.append(quoted(symbol))
    if not pieces:
        return Value(f"CASE WHEN {moment} IS NULL THEN NULL ELSE '' END", Kind.TEXT)
    return Value(f"({' || '.join(pieces)})", Kind.TEXT)
