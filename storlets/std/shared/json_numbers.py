"""Numbers that the engine's writer of JSON lines changes.

It writes a ``DECIMAL`` with all digits at any level, but without a digit before the point if it has
only digits after it, which is no JSON.  It takes a value of the type ``JSON`` apart, and each
number in it with a point or an exponent for a ``DOUBLE``.
"""

from __future__ import annotations

import re

from absent_values import Absent, found
from sql_check import SqlError
from sql_engine import Engine, identifier, literal

#: Decimals without a digit before the point; those of fewer digits are written as a ``DOUBLE``.
FULL = re.compile(r"DECIMAL\((1[6-9]|[23][0-9]),\1\)")
MOST_DIGITS = 38
_TEXT = "CAST({0} AS VARCHAR)"
_WRITTEN = "CAST(json({0}) AS VARCHAR)"
#: Only a value with such a text can have a number that a ``DOUBLE`` does not keep.
_LONG = "'[0-9.]{{16}}|[eE]-[0-9]{{3}}'"
_STRINGS = r"""'"(?:[^"\\]|\\.)*"'"""
_NUMBER = r"'[0-9]+(?:\.[0-9]+(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)'"
#: Digits of a number without the zeros around them.  Of the nearest ``DOUBLE`` they are the same
#: only if it is the number itself.
_DIGITS = "trim(regexp_replace({}, '[eE].*|[-.]', '', 'g'), '0')"
_NUMBERS = f"regexp_extract_all(regexp_replace({_TEXT}, {_STRINGS}, '', 'g'), {_NUMBER})"
_DIFFERENT = f"{_DIGITS.format('n')} <> {_DIGITS.format(_WRITTEN.format('n'))}"
#: The cheap conditions come first: most values are written as they are.
ROUNDED = Absent(
    "numbers with more digits than a DOUBLE has",
    frozenset({"JSON"}),
    f"CASE WHEN {_WRITTEN} = {_TEXT} THEN false WHEN NOT regexp_matches({_TEXT}, {_LONG})"
    f" THEN false ELSE len(list_filter({_NUMBERS}, lambda n: {_DIFFERENT})) > 0 END",
)
_ADVICE = "take another output, or CAST it AS VARCHAR"


def wider(decimal: str) -> str:
    """The type with a digit before the point.

    :raises SqlError: there is none.
    """
    digits = int(decimal.removeprefix("DECIMAL(").partition(",")[0])
    if digits == MOST_DIGITS:
        raise SqlError(f"query: output=jsonl has no exact form of {decimal}: CAST it AS VARCHAR")
    return f"DECIMAL({digits + 1},{digits})"


def checked(engine: Engine, query: str) -> str:
    """The query with an error for each value of ``JSON`` that JSON lines would not keep.

    :raises SqlError: the engine refuses the query, or a column has a type without a name.
    """
    columns = engine.columns(query)
    # The query may give two columns the same name.
    names = [f"column{number}" for number in range(len(columns))]
    values = [
        _checked(engine, name, column, kind) if "JSON" in kind else name
        for name, (column, kind) in zip(names, columns)
    ]
    if values == names:
        return query
    shown = ", ".join(
        f"{value} AS {identifier(column)}" for value, (column, _) in zip(values, columns)
    )
    return f"SELECT {shown} FROM ({query}\n) AS result({', '.join(names)})"  # noqa: S608


def _checked(engine: Engine, name: str, column: str, kind: str) -> str:
    condition = found(ROUNDED, name, engine.type_of_column(column, kind))
    if not condition:
        return name
    message = literal(f"column {column!r}: output=jsonl has no {ROUNDED.name}: {_ADVICE}")
    return f"CASE WHEN coalesce({condition}, false) THEN error({message}) ELSE {name} END"
