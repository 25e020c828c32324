"""Types of columns that lose nothing: each value is read as text and has to fit its type.

DuckDB's own readers cast what they find: to them a late 2.7 in a column of integers is a 3.  So
the reader gives the text, and an expression in the view checks its shape before it casts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sql_check import SqlError
from sql_engine import Engine, identifier, literal
from sql_errors import OBJECT

_DATE = "[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
_TIME = r"[0-9]{1,2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?"
_STAMP = rf"{_DATE}[ T][0-9]{{1,2}}:[0-9]{{2}}(:[0-9]{{2}}(\.[0-9]{{1,6}})?)?"
ZONED = "TIMESTAMP WITH TIME ZONE"
#: The engine takes more hours, and adds them.
_OFFSET = "[+-]([01][0-9]|2[0-3])(:?[0-5][0-9])?"
_NUMBER = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
#: The texts of each type that its cast reads without loss.
SHAPES = {
    "BIGINT": "[+-]?[0-9]+",
    "UBIGINT": "[0-9]+",
    "HUGEINT": "[+-]?[0-9]+",
    "DOUBLE": _NUMBER,
    "BOOLEAN": "(?i:true|false|t|f)",
    "DATE": _DATE,
    "TIME": _TIME,
    "TIMESTAMP": _STAMP,
    ZONED: rf"{_STAMP} ?(Z|{_OFFSET})",
}
#: The shapes of the inference: a column with F in each row may be the sex, and stays text.
_INFERRED = {**SHAPES, "BOOLEAN": "(?i:true|false)"}
#: Short numbers, which fit their types in any case.
_PLAIN = {"BIGINT": "-?(0|[1-9][0-9]{0,14})", "DOUBLE": r"-?(0|[1-9][0-9]{0,7})(\.[0-9]{1,5})?"}
#: Integers whose ranges only a given type has.
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER")
_DECIMAL = re.compile(r"DECIMAL\([0-9]+,([0-9]+)\)")
#: Digits of a decimal that JSON keeps: the engine's parser takes it for a ``DOUBLE``.
_JSON_DIGITS = 15
#: Numbers of JSON have no quotes, which only the text of the JSON value shows.
_RAW = ("BIGINT", "UBIGINT", "HUGEINT", "DOUBLE", "BOOLEAN")
#: Deeper values stay JSON.
MOST_LEVELS = 20
_SHOWN = 40
#: The parts of a date in a format, and the orders in which they are written.
_PART = re.compile("%[dmyY]")
_ORDERS = {
    "%Y": (("%d", "%m", "%Y"), ("%m", "%d", "%Y")),
    "%y": (("%y", "%m", "%d"), ("%d", "%m", "%y"), ("%m", "%d", "%y")),
}
#: The reason for a type, in messages.
INFERRED = "as the values in the first MiB are (types=text reads all columns as text)"
GIVEN = "its type in the parameter columns"


@dataclass(frozen=True)
class Way:
    """One way to read a column.

    :ivar declared: the type that the reader gives.
    :ivar value: the expression of the value, which is an error if it does not fit.
    :ivar fits: true if it does; empty: only ``value`` shows it.
    :ivar doubts: aggregates of which none may be true: all dates fit another order of their parts.
    :ivar name: of a column whose type is given, and may be in doubt.
    """

    declared: str
    value: str
    fits: str = ""
    doubts: tuple[str, ...] = ()
    name: str = ""


def ways(name: str, kind: Any, formats: Mapping[str, str], is_csv: bool) -> list[Way]:
    """The ways to read a column whose type was inferred, the best first; the last always works."""
    column, text = identifier(name), str(kind)
    plain = Way("VARCHAR", column)
    if text in SHAPES:
        raw = "JSON" if not is_csv and text in _RAW else "VARCHAR"
        kinds = [text, ZONED] if text == "TIMESTAMP" else [text]
        tries = [
            (each, _tried(column, each, formats.get(each, ""), is_csv, _INFERRED)) for each in kinds
        ]
        typed = [
            Way(
                raw,
                _or_error(column, tried, name, each),
                f"{column} IS NULL OR {tried} IS NOT NULL",
                _doubts(column, formats.get(each, "")),
            )
            for each, tried in tries
        ]
        return [*typed, plain]
    if text == "JSON":
        return [Way(text, column)]
    if not isinstance(kind, str) and kind.id in ("struct", "list", "map"):
        declared, value = _nested(column, kind, name, 0)
        return [Way(declared, value), Way("JSON", column)]
    return [plain]


def given_way(name: str, kind: str, formats: Mapping[str, str], is_csv: bool) -> Way:
    """The way to read a column whose type is given: a value without it is an error."""
    column = identifier(name)
    if kind == "VARCHAR":
        return Way("VARCHAR", column)
    if kind.startswith("DECIMAL"):
        raw = "VARCHAR" if is_csv else "JSON"
        return Way(raw, _or_error(column, _decimal(column, kind, is_csv), name, kind, GIVEN))
    raw = "JSON" if not is_csv and kind in (*_RAW, *_WHOLE) else "VARCHAR"
    form = formats.get(kind, "")
    tried = _tried(column, kind, form, is_csv)
    value = _or_error(column, tried, name, kind, GIVEN)
    return Way(raw, value, doubts=_doubts(column, form), name=name)


def _decimal(column: str, kind: str, is_csv: bool) -> str:
    """The expression of a decimal, or NULL if it has more digits than the type."""
    fraction = re.fullmatch(_DECIMAL, kind)
    if fraction is None:
        raise AssertionError(kind)
    raw = f"CAST({column} AS VARCHAR)"
    text = raw if is_csv else f"trim({raw}, '\"')"
    most = fraction[1]
    # As in a number, digits before the point may be missing.
    only = r"\.0+" if most == "0" else rf"\.[0-9]{{1,{most}}}0*"
    shape = rf" *[+-]?([0-9]+(\.[0-9]{{0,{most}}}0*)?|{only}) *"
    condition = f"regexp_full_match({text}, {literal(shape)})"
    if not is_csv:
        # A text of JSON has all digits that were written.
        condition += f" AND (starts_with({raw}, '\"') OR length({_digits(raw)}) <= {_JSON_DIGITS})"
    return f"CASE WHEN {condition} THEN TRY_CAST({text} AS {kind}) END"


def plain(name: str, kind: str) -> str:
    """The aggregate that is false unless all values are short numbers of the type; empty: there
    are none of the type.

    They pass :func:`certain`, which the engine needs as long to prepare as to read a MiB.
    """
    shape = _PLAIN.get(kind)
    return f"bool_and(regexp_full_match({identifier(name)}, {literal(shape)}))" if shape else ""


def certain(name: str, kind: str, way: Way) -> str:
    """The aggregate that is false unless the inference would give all values the type of a way.

    It takes numbers with a plus or with zeros before them, and truth values with spaces, for texts.
    """
    column = identifier(name)
    pattern = "^ *([+]|-?0[0-9])|^ *[a-zA-Z]+ +$|^ +[a-zA-Z]"
    doubt = f"regexp_matches({column}, {literal(pattern)})"
    check = f"({way.fits}) AND {doubt} IS NOT TRUE"
    if kind in _PLAIN:
        # Most values need one match and no cast.
        shape = f"regexp_full_match({column}, {literal(_PLAIN[kind])})"
        check = f"CASE WHEN {shape} THEN true ELSE {check} END"
    return f"bool_and({check})"


def chosen(
    engine: Engine, columns: Sequence[tuple[str, list[Way]]], reader: Any
) -> list[tuple[str, Way]]:
    """For each column the first way that fits all values of the sample.

    :param reader: gives the call that reads the sample, for the declared types.
    """
    call = reader([(name, each[0].declared) for name, each in columns])
    checks = [_check(way) for _, each in columns for way in each if way.fits or way.doubts]
    found: list[bool | None] = []
    if checks:
        found = list(engine.rows(f"SELECT {', '.join(checks)} FROM {call}")[0])
    answers = iter(found)
    result = []
    for name, each in columns:
        # A column without values has no answer, and the inferred type.
        fitting = [way for way in each if (way.fits or way.doubts) and next(answers) is not False]
        if each[0].name and each[0].doubts and not fitting:
            raise SqlError(
                f"{OBJECT}: column {name!r}: the order of day, month and year is not clear: want"
                " dates such as 2026-01-31, or text, its type in the parameter columns"
            )
        nested = not each[0].fits and len(each) > 1
        if nested:
            fitting = each[:1] if _runs(engine, each[0].value, call) else []
        result.append((name, (fitting or each[-1:])[0]))
    return result


def _check(way: Way) -> str:
    """The aggregate that is false if the way does not fit."""
    fits = [f"bool_and({way.fits})"] if way.fits else []
    return " AND ".join([*fits, *(f"NOT coalesce({doubt}, false)" for doubt in way.doubts)])


def _doubts(column: str, form: str) -> tuple[str, ...]:
    """Aggregates that are true if all dates of a format fit one with another order, too.

    The inference of the engine takes the first of them: 03/04/2026 is the third of April for it,
    also in an object of a country where it is the fourth of March.
    """
    parts = tuple(_PART.findall(form))
    others = []
    for orders in _ORDERS.values():
        if parts in orders:
            others = [order for order in orders if order != parts]
    found = []
    for order in others:
        given = iter(order)
        other = literal(_PART.sub(lambda _, given=given: next(given), form))
        fits = f"bool_and(try_strptime({column}, {other}) IS NOT NULL)"
        found.append(f"{fits} FILTER (WHERE {column} IS NOT NULL)")
    return tuple(found)


def _runs(engine: Engine, value: str, call: str) -> bool:
    try:
        engine.rows(f"SELECT count({value}) FROM {call}")
    except SqlError:
        return False
    return True


def _tried(
    value: str, kind: str, form: str, is_csv: bool, shapes: Mapping[str, str] = SHAPES
) -> str:
    """The expression of the value, or NULL if it does not fit."""
    if form and (kind, form) != ("DATE", "%Y-%m-%d"):
        return f"CAST(try_strptime({value}, {literal(form)}) AS {kind})"
    text = f"CAST({value} AS VARCHAR)"
    shape = shapes["BIGINT" if kind in _WHOLE else kind]
    if is_csv:
        shape = f" *{shape} *"
    condition = f"regexp_full_match({text}, {literal(shape)})"
    if kind == "DOUBLE":
        short = f"length({text}) <= 15 AND NOT contains(lower({text}), 'e')"
        cast = f"CAST(TRY_CAST({text} AS DOUBLE) AS VARCHAR)"
        condition += f" AND ({short} OR {_digits(text)} = {_digits(cast)})"
    return f"CASE WHEN {condition} THEN TRY_CAST({text} AS {kind}) END"


def _digits(text: str) -> str:
    """The digits of a number that count: the same before and after a cast that loses nothing."""
    # No regular expressions: the engine would compile these for each column.  And not split_part,
    # which the engine replaces by four functions.
    return f"trim(translate(string_split(lower({text}), 'e')[1], '+-. ', ''), '0')"


def _or_error(value: str, tried: str, name: str, kind: str, why: str = INFERRED) -> str:
    before = literal(f"{OBJECT}: column {name!r}: ")
    after = literal(f" is no {kind}, {why}")
    failed = f"error({before} || left(CAST({value} AS VARCHAR), {_SHOWN}) || {after})"
    return f"CASE WHEN {value} IS NULL THEN NULL ELSE coalesce({tried}, {failed}) END"


def _nested(value: str, kind: Any, name: str, level: int) -> tuple[str, str]:
    """The declared type and the expression for a value of JSON within another one."""
    text = str(kind)
    if text in _RAW:
        return "JSON", _or_error(value, f"({_tried(value, text, '', False)})", name, text)
    if text == "JSON" or level > MOST_LEVELS:
        return "JSON", value
    if kind.id == "list":
        item = f"item{level}"
        declared, inner = _nested(item, kind.children[0][1], name, level + 1)
        return f"{declared}[]", _mapped(value, item, inner)
    if kind.id == "map":
        item = f"item{level}"
        declared, inner = _nested(item, kind.children[1][1], name, level + 1)
        changed = _mapped(f"map_values({value})", item, inner)
        if inner == item:
            return f"MAP(VARCHAR, {declared})", value
        return (
            f"MAP(VARCHAR, {declared})",
            f"CASE WHEN {value} IS NULL THEN NULL ELSE map(map_keys({value}), {changed}) END",
        )
    if kind.id == "struct":
        types, values, is_same = [], [], True
        for key, each in kind.children:
            part = f"struct_extract({value}, {literal(key)})"
            declared, inner = _nested(part, each, name, level + 1)
            is_same &= inner == part
            types.append(f"{identifier(key)} {declared}")
            values.append(f"{literal(key)}: {inner}")
        packed = f"CASE WHEN {value} IS NULL THEN NULL ELSE {{{', '.join(values)}}} END"
        return f"STRUCT({', '.join(types)})", value if is_same else packed
    return "VARCHAR", value


def _mapped(value: str, item: str, inner: str) -> str:
    return value if inner == item else f"list_transform({value}, lambda {item}: {inner})"
