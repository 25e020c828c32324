"""Reads the promises of ``SPECIFICATION.rst`` on speed and checks whether a run keeps them.

A row of the section *Speed* names the row of the benchmark and the figures that it promises::

   * - GET of 1 KiB through a no-op at the object node, median against a plain GET
     - at most 1.20x
     - java 1.31x (short), python 1.18x
     - ``make bench ROWS=latency`` ``latency.*.object.p50``

The number is ``at most``, ``at least`` or ``between A and B``, with ``x`` for a ratio to plain
Swift in the same run, or a unit. The third cell holds the measurements of all machines
(:mod:`tests.bench.publish`). A figure that reaches the promise only with the better end of its
spread is *close*, not missed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from tests.bench.figures import Figure, Value

SPECIFICATION: Final = Path(__file__).resolve().parents[2] / "SPECIFICATION.rst"
SECTION: Final = re.compile(
    r"^Speed\n-+\n(.*?)(?=^\S[^\n]*\n[-=]{4,}\n|\Z)", re.MULTILINE | re.DOTALL
)
ROW: Final = re.compile(
    r"^   \* - (?P<text>.*(?:\n {7}.*)*)\n     - (?P<number>.*?)\n     - (?P<measured>.*(?:\n {7}.*)*)\n     - (?P<shown>[^\n]*)",
    re.MULTILINE,
)
_SHOWN: Final = re.compile(r"``make bench ROWS=([a-z]+)``((?: ``[a-z0-9_.*]+``)+)")
_NUMBER: Final = r"(-?\d+(?:\.\d+)?)"
_RANGE: Final = re.compile(
    rf"(?:(at most|at least) {_NUMBER}|between {_NUMBER} and {_NUMBER}) ?(x|[A-Za-z/]+)$"
)

KEPT: Final = "kept"
CLOSE: Final = "close"
SHORT: Final = "SHORT"
#: The worst is the last.
ORDER: Final = (KEPT, CLOSE, SHORT)


class BadPromise(ValueError):
    """A row of the table that cannot be parsed, and so would not be checked."""


@dataclass(frozen=True)
class Promise:
    """``low`` and ``high`` bound the number; ``patterns`` name the figures."""

    text: str
    number: str
    row: str
    patterns: tuple[str, ...]
    low: float
    high: float
    unit: str

    @property
    def is_fine(self) -> bool:
        """Return True for a promised ratio that two decimals cannot show: close to one, or tiny."""
        bounds = (self.low, self.high)
        return self.unit == "x" and any(abs(each - 1) < 0.02 or 0 < each <= 0.05 for each in bounds)

    def covers(self, key: str) -> bool:
        return any(fnmatchcase(key, pattern) for pattern in self.patterns)

    def judge(self, value: Value) -> str:
        """:data:`KEPT`, :data:`CLOSE` or :data:`SHORT`."""
        if self.low <= value.at <= self.high:
            return KEPT
        return CLOSE if value.low <= self.high and value.high >= self.low else SHORT


@dataclass(frozen=True)
class Verdict:
    """The verdict on a promise about one figure."""

    word: str
    promise: str


def read(text: str) -> list[Promise]:
    """Every promise of the section *Speed*; raises :class:`BadPromise` for an invalid row."""
    section = SECTION.search(text)
    if section is None:
        return []
    rows = [match for match in ROW.finditer(section[1]) if match["text"] != "promise"]
    return [promise_of(match) for match in rows]


def promise_of(row: re.Match[str]) -> Promise:
    """A match of :data:`ROW`; raises :class:`BadPromise`."""
    shown, number = _SHOWN.fullmatch(row["shown"].strip()), _RANGE.fullmatch(row["number"].strip())
    if shown is None or number is None:
        raise BadPromise(
            f"{row['text']!r}: {row['number']!r} or {row['shown']!r} is not of the form that is agreed"
        )
    side, bound, low, high, unit = number.groups()
    least = float(low) if low else float(bound) if side == "at least" else float("-inf")
    most = float(high) if high else float(bound) if side == "at most" else float("inf")
    patterns = tuple(re.findall(r"``([^`]+)``", shown[2]))
    text = " ".join(row["text"].split())
    return Promise(text, row["number"], shown[1], patterns, least, most, unit)


def verdicts(promises: Iterable[Promise], figures: Sequence[Figure]) -> dict[str, Verdict]:
    """Verdicts by key of the figure; the worst one where several promises cover it."""
    found: dict[str, Verdict] = {}
    for promise in promises:
        for figure in figures:
            if not figure.treated or not promise.covers(figure.key):
                continue
            if promise.unit != figure.shown_unit:
                raise BadPromise(
                    f"{promise.text!r} promises {promise.unit}, {figure.key} is in {figure.shown_unit}"
                )
            word = promise.judge(figure.value())
            before = found.get(figure.key)
            if before is None or ORDER.index(word) > ORDER.index(before.word):
                found[figure.key] = Verdict(word, promise.number)
    return found


def unshown(
    promises: Iterable[Promise], figures: Sequence[Figure], rows: Iterable[str]
) -> list[Promise]:
    """Promises of the ``rows`` that were run without a measured figure."""
    keys = [figure.key for figure in figures if figure.treated]
    wanted = set(rows)
    return [
        promise
        for promise in promises
        if promise.row in wanted and not any(map(promise.covers, keys))
    ]
