"""Figures of the selected records: ``count, sum(value), min(id)``.

Sums are exact until they are written.  Whole numbers are Python's; the sum of floating-point
numbers is kept as a few of them, each of which is what the ones before leave over.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any

from refusal import Refusal
from structure import Block, Field, Structure, StructureError

MOST_FIGURES = 64
_WANTED = re.compile(r"(\w+)\s*(?:\(\s*(\w+)\s*\))?")
_NUMBERS = "iuf"


class Count:
    """The number of records."""

    def __init__(self) -> None:
        self._count = 0

    def add(self, values: Sequence[Any]) -> None:
        self._count += len(values)

    def value(self) -> Any:
        return self._count


class Extreme:
    """The smallest or the largest value."""

    def __init__(self, choose: Callable[[Iterable[Any]], Any]) -> None:
        self._choose = choose
        self._best: tuple[Any, ...] = ()

    def add(self, values: Sequence[Any]) -> None:
        self._best = (self._choose([*self._best, self._choose(values)]),)

    def value(self) -> Any:
        return self._best[0] if self._best else None


class Total:
    """The exact sum, as that of ``_whole`` and of ``_parts``."""

    def __init__(self) -> None:
        self._whole = 0
        self._parts: list[float] = []
        self._is_float = False
        self._count = 0

    def add(self, values: Sequence[Any]) -> None:
        self._count += len(values)
        if not isinstance(values[0], float):
            self._whole += sum(values)
            return
        self._is_float = True
        rest = [*self._parts, *values]
        self._parts = []
        # The rest after a rounded sum has a sum of its own, until it is zero.
        while part := math.fsum(rest):
            self._parts.append(part)
            rest.append(-part)

    def value(self) -> Any:
        return math.fsum(self._parts) if self._is_float else self._whole


class Mean(Total):
    """The sum divided by the number of values, rounded once."""

    def value(self) -> Any:
        if not self._count:
            return None
        total = sum(map(Fraction, self._parts), Fraction(self._whole))
        return float(total / self._count)


_KINDS: dict[str, Callable[[], Any]] = {
    "count": Count,
    "sum": Total,
    "min": lambda: Extreme(min),
    "max": lambda: Extreme(max),
    "mean": Mean,
}
_OF_FIELDS = tuple(kind for kind in _KINDS if kind != "count")


class Figures:
    """All figures of a run.

    :param text: such as ``count, sum(value)``.
    :raises StructureError: with every fault of ``text``.
    """

    def __init__(self, text: str, layout: Structure) -> None:
        self._layout = layout
        self._fields = {field.name: field for field in layout.fields}
        #: Each figure by its name in the output, with the field that it is of.
        self._figures: dict[str, tuple[Field | None, Any]] = {}
        faults = [fault for part in text.split(",") if (fault := self._begin(part.strip()))]
        if len(self._figures) > MOST_FIGURES:
            faults.append(f"{len(self._figures)} figures: want at most {MOST_FIGURES}")
        if faults:
            raise StructureError(f"aggregate: {'; '.join(faults)}")

    def _begin(self, part: str) -> str:
        """Begin one figure; the fault of ``part``, or nothing."""
        match = _WANTED.fullmatch(part)
        kind, name = match.groups() if match else ("", None)
        if kind not in _KINDS or (kind == "count") != (name is None):
            return f"{part!r}: want count, or one of {', '.join(_OF_FIELDS)}, such as sum(value)"
        field = self._fields.get(name) if name else None
        key = f"{kind}({name})" if name else kind
        if name and field is None:
            return f"{key}: there is no such field: want {', '.join(self._fields)}"
        if field and field.kind not in _NUMBERS and kind in ("sum", "mean"):
            return f"{key}: is for numbers only"
        if key in self._figures:
            return f"{key}: is there twice"
        self._figures[key] = field, _KINDS[kind]()
        return ""

    def add(self, records: Block) -> None:
        """Add whole records.

        :raises ValueError: a floating-point number is NaN or infinite, or a sum is too large.
        """
        if not records:
            return
        columns: dict[str, list[Any]] = {}
        for key, (field, figure) in self._figures.items():
            if field is None:
                figure.add(range(len(records) // self._layout.size))
                continue
            if field.name not in columns:
                columns[field.name] = self._values(field, records)
            try:
                figure.add(columns[field.name])
            except OverflowError:
                raise Refusal(f"{key}: the sum is too large") from None

    def _values(self, field: Field, records: Block) -> list[Any]:
        values = list(self._layout.column(field, records))
        if field.kind == "s":
            return [value.rstrip(b"\0") for value in values]
        if field.kind == "f" and not all(map(math.isfinite, values)):
            raise Refusal(
                f"{field.name}: a selected record has no finite number: a condition such as"
                f" {field.name} < 1e308 and {field.name} > -1e308 leaves it out"
            )
        return values

    def line(self) -> bytes:
        """The output: JSON in one line."""
        facts = {
            key: shown(figure.value(), field) for key, (field, figure) in self._figures.items()
        }
        return json.dumps(facts, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def shown(value: Any, field: Field | None) -> Any:
    """A value as JSON has it: bytes are hexadecimal digits.

    :raises ValueError: a text is not UTF-8, so JSON would have another one.
    """
    if field is None or not isinstance(value, bytes):
        return value
    if field.kind != "s":
        return value.hex()
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise Refusal(f"{field.name}: a text is not UTF-8: a field bN has bytes") from None
