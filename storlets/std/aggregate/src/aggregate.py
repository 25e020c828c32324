"""Count, minimum, maximum, sum, mean, percentiles, distinct values and histogram of a column.

The object is read once.  Percentiles and the number of distinct values keep each different value
once, and more of these than ``MOST_VALUES`` are an error: no figure is an estimate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from columns import AggregateError, Compound, csv_values, json_values
from exact_json import Number
from figures import MEAN, Figure, Histogram, Total, json_text, number_of, percentile
from histogram_picture import svg_of
from histogram_png import png_of
from parameters import shown
from wanted import Wanted, wanted_of

#: Bounds of the different values that percentiles and distinct values keep.
MOST_VALUES = 100_000
MOST_VALUE_CHARACTERS = 8 << 20
#: The content type of each output, and the output of a report.
OUTPUTS: dict[str, tuple[str, Callable[[dict[str, Any]], bytes]]] = {
    "json": ("application/json", lambda facts: json_text(facts).encode() + b"\n"),
    "svg": ("image/svg+xml", lambda facts: svg_of(facts).encode() + b"\n"),
    "png": ("image/png", png_of),
}


class Aggregate:
    """See the README for the parameters."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        source, target = in_files[0], out_files[0]
        wanted = wanted_of(params)
        kind, write = OUTPUTS[wanted.output]
        target.set_metadata({"Content-Type": kind})
        report = TextColumn(wanted) if wanted.is_text else NumberColumn(wanted)
        for value in values_of(source, wanted, report.skipped):
            report.add(value)
        target.write(write(report.facts()))


def values_of(source: Any, wanted: Wanted, skipped: dict[str, int]) -> Iterator[Any]:
    """The values; the others are an error, or counted."""
    rows = (
        csv_values(source, wanted.column, wanted.has_header, wanted.dialect)
        if wanted.is_csv
        else json_values(source, wanted.column)
    )
    kind = "text" if wanted.is_text else "number"
    for line, text in rows:
        if text is None or (wanted.is_csv and not text and not wanted.is_text):
            fault = "missing"
        elif isinstance(text, Compound):
            fault = "invalid"
        elif wanted.is_text:
            yield str(text)
            continue
        else:
            # A string of JSON is no number, also if its text is.
            value = number_of(text) if wanted.is_csv or isinstance(text, Number) else None
            if value is not None:
                yield value
                continue
            fault = "invalid"
        if fault not in wanted.skips:
            column = shown(wanted.column)
            what = f"{column}: {shown(text)}: is no {kind}" if text else f"has no value in {column}"
            raise AggregateError(f"line {line}: {what}")
        skipped[fault] += 1


class Values:
    """The different values, if percentiles or distinct values are wanted."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self.skipped = {"missing": 0, "invalid": 0}
        self.count = 0
        self.least: Any = None
        self.most: Any = None
        self._is_kept = wanted.is_distinct or bool(wanted.percentiles)
        self._kept: Counter[Any] = Counter()
        self._size = 0

    def add(self, value: Any) -> None:
        if not self.count:
            self.least = self.most = value
        elif value < self.least:
            self.least = value
        elif value > self.most:
            self.most = value
        self.count += 1
        if self._is_kept:
            self._keep(value)

    def _keep(self, value: Any) -> None:
        self._kept[value] += 1
        if self._kept[value] > 1:
            return
        if len(self._kept) > MOST_VALUES:
            raise AggregateError(f"distinct, percentiles: more than {MOST_VALUES} different values")
        if isinstance(value, str):
            self._size += len(value)
            if self._size > MOST_VALUE_CHARACTERS:
                most = MOST_VALUE_CHARACTERS
                raise AggregateError(f"distinct: the values have more than {most} characters")

    def facts(self) -> dict[str, Any]:
        """The report, with ``null`` for figures of no values."""
        facts = {"column": self._wanted.column, "count": self.count}
        facts |= {"min": self.least, "max": self.most}
        facts |= self._figures()
        if self._wanted.percentiles:
            ranked = sorted(self._kept.items())
            facts["percentiles"] = {
                name: percentile(ranked, self.count, percent) if ranked else None
                for name, percent in self._wanted.percentiles.items()
            }
        if self._wanted.is_distinct:
            facts["distinct"] = len(self._kept)
        if self._wanted.skips:
            facts["skipped"] = {name: self.skipped[name] for name in self._wanted.skips}
        return facts

    def _figures(self) -> dict[str, Any]:
        return {}


class TextColumn(Values):
    """Values that are compared as text, by the code points of their characters."""


class NumberColumn(Values):
    """Values that are numbers."""

    def __init__(self, wanted: Wanted) -> None:
        super().__init__(wanted)
        self._total = Total()
        self._histogram = Histogram(wanted.edges) if wanted.edges else None

    def add(self, value: Figure) -> None:
        super().add(value)
        self._total.add(value)
        if self._histogram is not None:
            self._histogram.add(value)

    def _figures(self) -> dict[str, Any]:
        total = self._total.value()
        figures: dict[str, Any] = {"sum": total}
        figures["mean"] = MEAN.divide(total, self.count) if self.count else None
        if self._histogram is not None:
            figures["histogram"] = self._histogram.report()
        return figures
