"""A figure of the benchmark: samples with a storlet, samples of plain Swift from the same minutes,
and their ratio.

A ratio is that of the two quantiles, or means.  Its spread is a bootstrap: pairs of samples
(neighbours in time) are resampled with replacement some hundred times, and the 2.5th and 97.5th
percentile of the ratios are shown.  Pairs keep common influences, such as a busy moment of the
machine, out of the spread.  Where samples share more than their pair, such as the start of the
server processes, whole blocks are resampled.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any, Final

_DRAWS: Final = 300
#: Ratios of long lists vary little, and resampling them would take minutes.
_DRAWN_MAX: Final = 4000


@dataclass(frozen=True)
class Value:
    """A number and its 95% interval."""

    at: float
    low: float
    high: float

    def text(self, unit: str) -> str:
        """``1.23x (1.20 to 1.27)``."""
        digits = 2 if abs(self.at) < 100 else 0
        tight = "" if unit == "x" else " "
        spread = (
            f" ({self.low:.{digits}f} to {self.high:.{digits}f})" if self.low != self.high else ""
        )
        return f"{self.at:.{digits}f}{tight}{unit}{spread}"


@dataclass
class Figure:
    """One line of the result.

    :param key: ``<row>.<part>...``, the name that promises of ``SPECIFICATION.rst`` use.
    :param unit: of the samples.
    :param plain: samples of plain Swift; empty where the figure is not a ratio.
    :param is_rate: True if more is better.
    :param quantile: the quantile that represents the samples; ``None``: their mean, for figures
        that must add up, or for many samples with a large variance and small differences.
    :param block: the number of consecutive samples that are resampled together.
    :param notes: a remark beside the number.
    """

    key: str
    title: str
    unit: str
    treated: list[float] = field(default_factory=list)
    plain: list[float] = field(default_factory=list)
    is_rate: bool = False
    quantile: float | None = 0.5
    block: int = 1
    notes: list[str] = field(default_factory=list)

    @property
    def is_ratio(self) -> bool:
        return bool(self.plain)

    @property
    def shown_unit(self) -> str:
        """The unit of :meth:`value`."""
        return "x" if self.is_ratio else self.unit

    def value(self) -> Value:
        """The ratio, or the quantile where there are no plain samples."""
        return _value(tuple(self.treated), tuple(self.plain), self.quantile, self.block)

    def sides(self) -> tuple[float, float | None]:
        """The quantile of the treated samples and, where there are any, of the plain ones."""
        own = _representative(self.treated, self.quantile)
        return own, _representative(self.plain, self.quantile) if self.plain else None

    def to_json(self) -> dict[str, Any]:
        """With the raw samples."""
        value = self.value() if self.treated else None
        return asdict(self) | {
            "value": asdict(value) if value else None,
            "shown_unit": self.shown_unit,
        }

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Figure:
        return cls(
            **{name: value for name, value in found.items() if name not in {"value", "shown_unit"}}
        )


# Cached: terminal, verdict, file, table and plots use the same value.
@lru_cache(maxsize=512)
def _value(
    treated: tuple[float, ...], plain: tuple[float, ...], share: float | None, block: int
) -> Value:
    at, draws = _measure(treated, plain, share), sorted(_bootstrap(treated, plain, share, block))
    return Value(at, quantile(draws, 0.025), quantile(draws, 0.975)) if draws else Value(at, at, at)


def _measure(treated: Sequence[float], plain: Sequence[float], share: float | None) -> float:
    own = _representative(treated, share)
    return own / _representative(plain, share) if plain else own


def _representative(samples: Sequence[float], share: float | None) -> float:
    return statistics.fmean(samples) if share is None else quantile(sorted(samples), share)


def _bootstrap(
    treated: Sequence[float], plain: Sequence[float], share: float | None, block: int
) -> list[float]:
    count = len(treated)
    blocks = [range(at, min(at + block, count)) for at in range(0, count, block)]
    if len(blocks) < 2:
        return []
    dice = random.Random(count)  # noqa: S311 - the same report from the same samples
    found = []
    for _ in range(_DRAWS):
        chosen = [
            at for drawn in dice.choices(blocks, k=min(len(blocks), _DRAWN_MAX)) for at in drawn
        ]
        beside = [plain[at] for at in chosen] if len(plain) == count else plain
        found.append(_measure([treated[at] for at in chosen], beside, share))
    return found


def quantile(ordered: Sequence[float], share: float) -> float:
    """The sample below which ``share`` of them lie; ``ordered`` is not empty."""
    if share == 0.5:
        return statistics.median(ordered)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
