"""Numbers that the engine's writer of JSON lines changes.

It writes a ``DECIMAL`` with all digits at any level, but without a digit before the point if it has
only digits after it, which is no JSON.  It takes a value of the type ``JSON`` apart, and each
number in it with a point or an exponent for a ``DOUBLE``.
"""

from __future__ import annotations

import re

from absent_values import Absent
from sql_check import SqlError

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
FAULT = f"output=jsonl has no {ROUNDED.name}: take another output, or CAST it AS VARCHAR"


def wider(decimal: str) -> str:
    """The type with a digit before the point.

    :raises SqlError: there is none.
    """
    digits = int(decimal.removeprefix("DECIMAL(").partition(",")[0])
    if digits == MOST_DIGITS:
        raise SqlError(f"query: output=jsonl has no exact form of {decimal}: CAST it AS VARCHAR")
    return f"DECIMAL({digits + 1},{digits})"
