"""Exact figures of numbers: no sum is rounded, for any order of the numbers.

Whole numbers are Python's, others are ``decimal.Decimal``.  The bounds of numbers make all sums fit
into the precision of ``EXACT``, which fails instead of rounding.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from decimal import (
    Clamped,
    Context,
    Decimal,
    DivisionByZero,
    Inexact,
    InvalidOperation,
    Overflow,
    Subnormal,
)
from fractions import Fraction
from typing import Any, Union

Figure = Union[int, Decimal]

#: Bounds of a number: characters, and its power of ten.
MOST_CHARACTERS = 120
MOST_POWER = 400
NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
WHOLE = re.compile(r"[+-]?[0-9]+")
#: 400 digits before the point, 520 after it, and 19 for the number of values.
EXACT = Context(
    prec=1000, traps=[Inexact, Clamped, InvalidOperation, DivisionByZero, Overflow, Subnormal]
)
#: Of a mean, which may have no end.
MEAN = Context(prec=34)
#: Whole figures with more digits are written with an exponent.
MOST_PLAIN_DIGITS = 40


def number_of(text: str) -> Figure | None:
    """The number, or None if it is none or out of bounds."""
    text = text.strip()
    if len(text) > MOST_CHARACTERS or NUMBER.fullmatch(text) is None:
        return None
    if WHOLE.fullmatch(text):
        return int(text)
    value = Decimal(text)
    return value if abs(value.adjusted()) <= MOST_POWER else None


class Total:
    """An exact sum."""

    def __init__(self) -> None:
        self._whole = 0
        self._other = Decimal(0)

    def add(self, value: Figure) -> None:
        if isinstance(value, int):
            self._whole += value
        else:
            self._other = EXACT.add(self._other, value)

    def value(self) -> Decimal:
        return EXACT.add(EXACT.create_decimal(self._whole), self._other)


class Histogram:
    """Numbers between edges: each bin has its lower edge, and the last one also its upper edge."""

    def __init__(self, edges: list[Figure]) -> None:
        self._edges = edges
        self._counts = [0] * (len(edges) + 1)

    def add(self, value: Figure) -> None:
        place = bisect_right(self._edges, value)
        if value == self._edges[-1]:
            place -= 1
        self._counts[place] += 1

    def report(self) -> dict[str, Any]:
        below, *inside, above = self._counts
        bins = [
            {"from": low, "to": high, "count": count}
            for low, high, count in zip(self._edges, self._edges[1:], inside)
        ]
        return {"below": below, "bins": bins, "above": above}


def percentile(ranked: list[tuple[Any, int]], count: int, percent: Figure) -> Figure:
    """The smallest value such that ``percent`` of all are not above it (the nearest rank)."""
    rank = math.ceil(Fraction(percent) * count / 100)
    seen = 0
    for value, times in ranked:
        seen += times
        if seen >= rank:
            return value
    raise AssertionError("the rank is above the number of values")


def json_text(value: Any) -> str:
    """JSON without rounding; equal numbers have one form, so 1.0 is written as 1."""
    if isinstance(value, dict):
        pairs = (f"{json_text(name)}: {json_text(item)}" for name, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(json_text(item) for item in value) + "]"
    if isinstance(value, (int, Decimal)):
        return plain(EXACT.create_decimal(value))
    return json.dumps(value)


def plain(value: Decimal) -> str:
    """The shortest digits: 1, 20 and 0.5, and with an exponent what is very large or small."""
    if not value:
        return "0"
    value = EXACT.normalize(value)
    if abs(value.adjusted()) < MOST_PLAIN_DIGITS:
        return f"{value:f}"
    return str(value)
