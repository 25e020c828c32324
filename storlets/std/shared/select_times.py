"""SQL of timestamps that keep the offset and the precision of their text.

A timestamp in a column of Parquet is in UTC, and is a ``TIMESTAMP`` of the engine.  One that the
query or a text has written is a struct of three fields::

    t    the moment in UTC
    o    the offset in minutes; NULL: unknown, written as -00:00
    p    the precision: 1 year, 2 month, 3 day, 4 minute, 5 second, 6 and more: digits of the second
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

from select_errors import quoted, raised

#: Precisions; a digit of the fraction of a second adds one to the last.
YEAR, MONTH, DAY, MINUTE, SECOND = range(1, 6)
_LITERAL = re.compile(
    r"(\d{4})(?:T|-(\d\d)(?:T|-(\d\d)(?:T?|T(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?"
    r"(Z|([+-])(\d\d):(\d\d)))))",
    re.ASCII,
)
#: The engine has a year 0.
_YEARS = "([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
_DAYS = f"{_YEARS}-[0-9]{{2}}-[0-9]{{2}}"
#: Hours and minutes: the engine also reads 24:00, and zones of more hours.
_CLOCK = "([01][0-9]|2[0-3]):[0-5][0-9]"
_ZONE = f"(Z|[+-]{_CLOCK})"
_MINUTES = f"{_DAYS}T{_CLOCK}{_ZONE}"
_MOMENT = rf"{_DAYS}T{_CLOCK}:[0-9]{{2}}(\.[0-9]{{1,6}})?{_ZONE}"
#: A longer expression that is used many times becomes a variable.
_SHORT = 100


def moment(sql: str) -> str:
    """The timestamp in a text, in UTC; NULL if it has none."""
    return (
        f"CASE WHEN regexp_full_match({sql}, {quoted(_MOMENT)})"
        f" THEN CAST(TRY_CAST({sql} AS TIMESTAMP WITH TIME ZONE) AS TIMESTAMP)"
        f" WHEN regexp_full_match({sql}, {quoted(_MINUTES)}) THEN CAST(TRY_CAST(left({sql}, 16)"
        f" || ':00' || substring({sql}, 17) AS TIMESTAMP WITH TIME ZONE) AS TIMESTAMP)"
        f" WHEN regexp_full_match({sql}, '{_DAYS}T?') THEN TRY_CAST(left({sql}, 10) AS TIMESTAMP)"
        f" WHEN regexp_full_match({sql}, '{_YEARS}-[0-9]{{2}}T')"
        f" THEN TRY_CAST(left({sql}, 7) || '-01' AS TIMESTAMP)"
        f" WHEN regexp_full_match({sql}, '{_YEARS}T')"
        f" THEN TRY_CAST(left({sql}, 4) || '-01-01' AS TIMESTAMP) END"
    )


def of_text(sql: str, code: str) -> str:
    """The struct of a text, or the error with ``code``; NULL stays NULL."""
    if len(sql) > _SHORT:
        return bound(sql, "written", of_text("written", code))
    failed = raised(code, "is no timestamp", sql)
    return (
        f"CASE WHEN {sql} IS NOT NULL THEN {{'t': coalesce({moment(sql)}, {failed}),"
        f" 'o': {_offset(sql)}, 'p': {_precision(sql)}}} END"
    )


def of_utc(sql: str) -> str:
    """The struct of a timestamp in UTC; NULL stays NULL."""
    digits = f"CASE WHEN microsecond({sql}) % 1000000 = 0 THEN {SECOND} ELSE {SECOND + 6} END"
    return f"CASE WHEN {sql} IS NOT NULL THEN {{'t': {sql}, 'o': 0, 'p': {digits}}} END"


def of_literal(text: str) -> tuple[str, str] | None:
    """The struct of a literal, and its moment in UTC; ``None``: it is no timestamp."""
    match = _LITERAL.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, zone, sign, hours, minutes = match.groups()
    try:
        away = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
        found = datetime(
            int(year),
            int(month or 1),
            int(day or 1),
            int(hour or 0),
            int(minute or 0),
            int(second or 0),
            int((fraction or "").ljust(6, "0")),
            timezone(-away if sign == "-" else away),
        ).astimezone(timezone.utc)
    except (OverflowError, ValueError):
        return None
    parts = [each for each in (year, month, day, hour, second) if each is not None]
    size = len(parts) + len(fraction or "")
    is_known = zone is not None and zone != "-00:00"
    offset = str(away // timedelta(minutes=-1 if sign == "-" else 1)) if is_known else _UNKNOWN
    sql = f"TIMESTAMP '{found.replace(tzinfo=None).isoformat(' ')}'"
    return f"{{'t': {sql}, 'o': {offset}, 'p': {size}}}", sql


_UNKNOWN = "CAST(NULL AS INTEGER)"


def _offset(sql: str) -> str:
    """The offset in a text that is a timestamp."""
    zone = f"right({sql}, 6)"
    hours, minutes = (
        f"TRY_CAST({part} AS INTEGER)" for part in (f"left({zone}, 3)", f"{zone}[5:]")
    )
    negative = f"CASE WHEN {zone}[1] = '-' THEN -{minutes} ELSE {minutes} END"
    return (
        f"CASE WHEN length({sql}) < 16 OR {zone} = '-00:00' THEN NULL"
        f" WHEN right({sql}, 1) = 'Z' THEN 0 ELSE {hours} * 60 + {negative} END"
    )


def _precision(sql: str) -> str:
    """The precision of a text that is a timestamp."""
    digits = rf"length(regexp_extract({sql}, '\.([0-9]+)', 1))"
    return (
        f"CASE WHEN length({sql}) = 5 THEN {YEAR} WHEN length({sql}) = 8 THEN {MONTH}"
        f" WHEN length({sql}) < 16 THEN {DAY} WHEN {sql}[17] <> ':' THEN {MINUTE}"
        f" ELSE {SECOND} + {digits} END"
    )


def bound(sql: str, name: str, expression: str) -> str:
    """``expression``, in which the variable ``name`` is ``sql``."""
    return f"list_transform([{sql}], lambda {name}: {expression})[1]"


def field(name: str, of: str) -> str:
    """A field of a struct."""
    return f"struct_extract({of}, '{name}')"


def minutes(of: str) -> str:
    """The offset of a struct as an interval; an unknown one is 0."""
    return f"to_minutes(CAST(coalesce({field('o', of)}, 0) AS BIGINT))"


def local(of: str) -> str:
    """The moment of a struct at its offset."""
    return f"({field('t', of)} + {minutes(of)})"


def zone(offset: str, colon: str, *, is_short: bool = False) -> str:
    """The text of an offset: hours and minutes; a short one has only minutes other than 0."""
    hours, rest = (f"lpad(CAST(abs({offset}) {way} 60 AS VARCHAR), 2, '0')" for way in ("//", "%"))
    after = f"{quoted(colon)} || {rest}"
    if is_short:
        after = f"CASE WHEN {offset} % 60 = 0 THEN '' ELSE {rest} END"
    return f"CASE WHEN {offset} < 0 THEN '-' ELSE '+' END || {hours} || {after}"


def shown(sql: str) -> str:
    """The text of a struct; NULL stays NULL."""
    offset, size = field("o", "shown"), field("p", "shown")
    whole = f"strftime({local('shown')}, '%Y-%m-%dT%H:%M:%S.%f')"
    place = (
        f"CASE WHEN {offset} IS NULL THEN '-00:00' WHEN {offset} = 0 THEN 'Z'"
        f" ELSE {zone(offset, ':')} END"
    )
    return bound(
        sql,
        "shown",
        f"CASE WHEN shown IS NULL THEN NULL ELSE CASE {size} WHEN {YEAR} THEN left({whole}, 4) || 'T'"
        f" WHEN {MONTH} THEN left({whole}, 7) || 'T' WHEN {DAY} THEN left({whole}, 10)"
        f" WHEN {MINUTE} THEN left({whole}, 16) || {place} WHEN {SECOND}"
        f" THEN left({whole}, 19) || {place}"
        f" ELSE left({whole}, CAST({size} + 15 AS BIGINT)) || {place} END END",
    )
