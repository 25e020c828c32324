"""The parameters of a row, and the loop of most rows: alternating pairs of plain and treated
requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tests.bench.figures import Figure
from tests.bench.plan import Plan
from tests.bench.show import Progress
from tests.bench.site import PLAIN, Site, Treatment

WARM_UP: Final = 30


@dataclass
class Bench:
    """One run: the site, the plan and the progress output."""

    site: Site
    plan: Plan
    progress: Progress
    #: Facts that rows report about the whole run.
    facts: dict[str, str] = field(default_factory=dict)
    #: Other measurements of a row, by its name, for the file and a section of the report.
    raw: dict[str, Any] = field(default_factory=dict)

    def alternate(
        self, treatments: Sequence[Treatment], count: int, measure: Callable[[Treatment], float]
    ) -> dict[str, list[float]]:
        """``measure`` plain Swift and each treatment in turn, ``count`` times; by key of the
        treatment.

        The order rotates by one each time, so that no treatment always follows the same other.
        """
        everyone = [PLAIN, *treatments]
        samples: dict[str, list[float]] = {treatment.key: [] for treatment in everyone}
        for number in range(count):
            start = number % len(everyone)
            for treatment in everyone[start:] + everyone[:start]:
                samples[treatment.key].append(measure(treatment))
            self.progress.step(number + 1, count)
        return samples


@dataclass(frozen=True)
class Family:
    """Figures that differ only in the treatment."""

    row: str
    title: str
    unit: str
    is_rate: bool = False
    quantile: float | None = 0.5
    suffix: str = ""
    notes: tuple[str, ...] = ()

    def figures(
        self, treatments: Iterable[Treatment], samples: dict[str, list[float]]
    ) -> list[Figure]:
        return [
            Figure(
                key=f"{self.row}.{treatment.key}{self.suffix}",
                title=f"{self.title}, {treatment.title}",
                unit=self.unit,
                treated=samples[treatment.key],
                plain=samples[PLAIN.key],
                is_rate=self.is_rate,
                quantile=self.quantile,
                notes=list(self.notes),
            )
            for treatment in treatments
        ]

    def beside(
        self,
        other: Treatment,
        treatments: Iterable[Treatment],
        samples: dict[str, list[float]],
    ) -> list[Figure]:
        """The figures against another treatment of the same run instead of a plain GET."""
        title, suffix = f"{self.title} against {other.title}", f"{self.suffix}.beside_{other.key}"
        against = {**samples, PLAIN.key: samples[other.key]}
        return replace(self, title=title, suffix=suffix).figures(treatments, against)
