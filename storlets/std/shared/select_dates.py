"""Functions of dates.  A timestamp with an offset has its parts at that offset."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import select_casts
import select_syntax as tree
import select_times
from select_errors import SelectError, quoted, raised
from select_values import Kind, Value, number, text, timestamp

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
}
#: Symbols of the offset: what is between hours and minutes.
_ZONES = {"x": "", "xx": "", "xxx": ":", "xxxx": "", "xxxxx": ":"}
#: The precision that a part of a date needs.
_PRECISIONS = {
    "YEAR": select_times.YEAR,
    "MONTH": select_times.MONTH,
    "DAY": select_times.DAY,
    "HOUR": select_times.MINUTE,
    "MINUTE": select_times.MINUTE,
    "SECOND": select_times.SECOND,
}


def literal(node: tree.Ion) -> Value:
    """A timestamp in backticks.

    :raises SelectError: it is something else.
    """
    found = select_times.of_literal(node.text)
    if found is None:
        raise SelectError(
            "LexerInvalidIONLiteral", f"`{node.text[:40]}`: only timestamps are supported"
        )
    return Value(found[0], Kind.LOCAL, utc=found[1])


def called(node: tree.Call, values: Sequence[Value], now: str) -> Value:
    """The value of a function of dates.

    :param now: the time of the query, in SQL.
    """
    if node.name == "UTCNOW":
        return Value(now, Kind.TIME)
    if node.name == "TO_TIMESTAMP":
        return select_casts.time_of_text(text(values[0], node.name), "ValueParseFailure")
    if node.name == "TO_STRING":
        return _to_string(node, values[0])
    if node.name == "EXTRACT":
        return _extract(node, values[0])
    if node.name == "DATE_DIFF":
        return _difference(node, *values)
    return _added(node, *values)


def _at_offset(value: Value, name: str, make: Callable[[str, str], str]) -> str:
    """An expression of the moment at the timestamp's offset, and of the offset."""
    if value.kind is not Kind.LOCAL:
        return make(timestamp(value, name), "0")
    offset = f"coalesce({select_times.field('o', 'given')}, 0)"
    return select_times.bound(value.sql, "given", make(select_times.local("given"), offset))


def _difference(node: tree.Call, first: Value, second: Value) -> Value:
    """Whole parts between two timestamps, both at the offset of the first one."""
    moments = [timestamp(value, node.name) for value in (first, second)]
    if first.kind is Kind.LOCAL:
        moments = [f"({each} + {select_times.minutes(first.sql)})" for each in moments]
    return Value(f"date_sub('{node.word.lower()}', {', '.join(moments)})", Kind.INT)


def _added(node: tree.Call, given: Value, value: Value) -> Value:
    """DATE_ADD: the result has the offset, and at least the precision that the part needs."""
    quantity = number(given, node.name)
    if quantity.kind is not Kind.INT:
        if given.kind is not Kind.ANY:
            raise SelectError(
                "IncorrectSqlFunctionArgumentType", "DATE_ADD requires a whole number"
            )
        quantity = select_casts.cast(tree.Cast(node, "INT", (), node.at), given)
    unit = f"to_{node.word.lower()}s(CAST({{}} AS {_QUANTITIES[node.word]}))"
    failed = raised("IntegerOverflow", "DATE_ADD: the year is not 1 to 9999")
    # A variable: the sum is used three times.
    bounded = (
        f"CASE WHEN moment IS NULL THEN NULL WHEN year(moment) BETWEEN 1 AND 9999 THEN {{}}"
        f" ELSE {failed} END"
    )
    if value.kind is not Kind.LOCAL:
        added = f"{timestamp(value, node.name)} + {unit.format(quantity.sql)}"
        return Value(select_times.bound(added, "moment", bounded.format("moment")), Kind.TIME)
    time = select_times.field("time", "given")
    added = f"{select_times.local(time)} + {unit.format(select_times.field('quantity', 'given'))}"
    size = f"greatest({select_times.field('p', time)}, {_PRECISIONS[node.word]})"
    whole = (
        f"{{'t': moment - {select_times.minutes(time)}, 'o': {select_times.field('o', time)},"
        f" 'p': {size}}}"
    )
    found = select_times.bound(added, "moment", bounded.format(whole))
    both = f"{{'time': {value.sql}, 'quantity': {quantity.sql}}}"
    return Value(select_times.bound(both, "given", found), Kind.LOCAL)


#: The types of the engine's functions that make intervals.
_QUANTITIES = {
    "YEAR": "INTEGER",
    "MONTH": "INTEGER",
    "DAY": "INTEGER",
    "HOUR": "BIGINT",
    "MINUTE": "BIGINT",
    "SECOND": "DOUBLE",
}


def _extract(node: tree.Call, value: Value) -> Value:
    def made(moment: str, offset: str) -> str:
        if node.word.startswith("TIMEZONE"):
            sign = "//" if node.word == "TIMEZONE_HOUR" else "%"
            return f"CASE WHEN {moment} IS NOT NULL THEN {offset} {sign} 60 END"
        return f"date_part('{node.word.lower()}', {moment})"

    return Value(_at_offset(value, node.name, made), Kind.INT)


def _to_string(node: tree.Call, value: Value) -> Value:
    pattern = node.arguments[1]
    if not isinstance(pattern, tree.Literal) or not isinstance(pattern.value, str):
        raise SelectError(
            "EvaluatorInvalidTimestampFormatPattern", "TO_STRING requires its format as a literal"
        )
    matches = list(_LETTERS.finditer(pattern.value))

    def made(moment: str, offset: str) -> str:
        pieces = [_piece(match, moment, offset) for match in matches]
        return f"CASE WHEN {moment} IS NOT NULL THEN ({' || '.join(pieces) or quoted('')}) END"

    return Value(_at_offset(value, node.name, made), Kind.TEXT)


def _piece(match: re.Match[str], moment: str, offset: str) -> str:
    """The text of a symbol of a format, or the text between two."""
    symbol = match[0]
    if match[1] is not None:
        return quoted(match[1] or "'")
    if symbol in _SYMBOLS:
        return _SYMBOLS[symbol].format(moment)
    if symbol.lower() in _ZONES:
        text_of = select_times.zone(offset, _ZONES[symbol.lower()], is_short=len(symbol) == 1)
        return (
            f"CASE WHEN {offset} = 0 THEN 'Z' ELSE {text_of} END" if symbol.isupper() else text_of
        )
    if match[2]:
        raise SelectError(
            "EvaluatorInvalidTimestampFormatPatternSymbol",
            f"TO_STRING: {symbol[:20]} is no symbol of a format",
        )
    if symbol == "'":
        raise SelectError(
            "EvaluatorUnterminatedTimestampFormatPatternToken", "TO_STRING: a quote has no end"
        )
    return quoted(symbol)
