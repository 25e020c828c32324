"""The comparisons of IBM's study of its Storlet Engine, and the measurements of a run.

The study is *Storlet Engine: Performing Computations in Cloud Storage* by S.  Rabinovici-Cohen, E.
Henis, J.  Marberg and K.  Nagin (IBM Research Report H-0320, 2014).  A client needs the hashes of
an object (fixity): from a storlet at the proxy or at the object node, or it reads the object and
computes them itself, with the filter in Swift's pipelines and without it.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Self

from tests.bench.figures import Figure
from tests.bench.site import Treatment

STORLET: Final = "fixity.py"
#: Each side computes both hashes in one thread; the row ``fixity`` compares numbers of threads.
_RUN: Final = {"X-Run-Storlet": STORLET, "X-Storlet-Parameter-1": "threads:1"}

OBJECT: Final = Treatment("object", "storlet at the object node", _RUN)
PROXY: Final = Treatment("proxy", "storlet at the proxy", {**_RUN, "X-Storlet-Run-On-Proxy": ""})
CLIENT: Final = Treatment("client", "client, filter installed")
BARE: Final = Treatment("bare", "client, no filter")
TREATMENTS: Final = (OBJECT, PROXY, CLIENT, BARE)

QUIET: Final = "quiet"
BACKGROUND: Final = "background"
DELAY: Final = "delay"
BOTH: Final = "both"
CONDITIONS: Final = {
    QUIET: "alone",
    BACKGROUND: "with background",
    DELAY: "100 ms added",
    BOTH: "background, 100 ms",
}
HAVE_BACKGROUND: Final = (BACKGROUND, BOTH)
HAVE_DELAY: Final = (DELAY, BOTH)
#: In each direction: 100 ms for a request and its response.
DELAY_SECONDS: Final = 0.05

#: The filter's overhead on plain requests in IBM's report.
IBM_FILTER: Final = 1.038
#: Larger objects are shown in bytes a second, smaller ones in requests a second.
SMALL_MAX: Final = 1_000_000


@dataclass(frozen=True)
class Seen:
    """One load at one time: ``clients`` in a closed loop, each for the hashes of an object of
    ``size`` bytes.

    :param latencies: milliseconds of each response.
    :param background: of each plain request beside it, by method.
    """

    condition: str
    size: int
    clients: int
    treatment: str
    seconds: float
    latencies: list[float]
    background: dict[str, list[float]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Responses a second."""
        return len(self.latencies) / self.seconds

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Self:
        return cls(**found)


@dataclass(frozen=True)
class Study:
    """All measurements."""

    seen: list[Seen]

    def of(self, condition: str, size: int, clients: int, treatment: str) -> list[Seen]:
        """The rounds of one point."""
        wanted = (condition, size, clients, treatment)
        return [
            one
            for one in self.seen
            if (one.condition, one.size, one.clients, one.treatment) == wanted
        ]

    def sizes(self, *, small: bool) -> list[int]:
        return sorted(
            {one.size for one in self.seen if one.size and (one.size < SMALL_MAX) == small}
        )

    def clients(self, size: int) -> list[int]:
        return sorted({one.clients for one in self.seen if one.size == size})

    def responses(self, condition: str, size: int, clients: int, treatment: str) -> list[float]:
        """The median milliseconds of each round."""
        return [
            statistics.median(one.latencies) for one in self.of(condition, size, clients, treatment)
        ]

    def rates(self, condition: str, size: int, clients: int, treatment: str) -> list[float]:
        """Responses a second of each round."""
        return [one.rate for one in self.of(condition, size, clients, treatment)]

    def filter_ratios(self, size: int, clients: int) -> list[float]:
        """The ratio of the client's response times with and without the filter, of each round."""
        pairs = zip(
            self.responses(QUIET, size, clients, CLIENT.key),
            self.responses(QUIET, size, clients, BARE.key),
            strict=True,
        )
        return [with_it / without for with_it, without in pairs]

    def neighbours(
        self, method: str, condition: str, size: int, clients: int, treatment: str
    ) -> list[float]:
        """Milliseconds of the plain requests beside a load; with 0 ``clients`` without a load."""
        if not clients:
            # There is no load: only the cluster matters.
            condition, size, treatment = (
                BACKGROUND,
                0,
                (BARE if treatment == BARE.key else CLIENT).key,
            )
        return [
            ms
            for one in self.of(condition, size, clients, treatment)
            for ms in one.background[method]
        ]

    def errors(self) -> list[str]:
        return [error for one in self.seen for error in one.errors]


def size_text(size: int) -> str:
    """``10 KB``, ``5 MB``: thousands, as in the report."""
    return f"{size // 1000} KB" if size < SMALL_MAX else f"{size // SMALL_MAX} MB"


def figures(study: Study) -> Iterator[Figure]:
    """Figures of the curves' end points for the middle sizes; the rest is in the plots."""
    for small in (True, False):
        sizes = study.sizes(small=small)
        middle = sizes[len(sizes) // 2]
        counts = study.clients(middle)
        for condition in (QUIET, DELAY):
            for clients in (counts[0], counts[-1]):
                yield from _responses(study, condition, middle, clients)
        yield from _neighbours(study, middle, counts[-1])
        yield _filter(study, sizes)
    errors = study.errors()
    yield Figure(
        "study.errors",
        "errors",
        "errors",
        treated=[float(len(errors))],
        notes=sorted(set(errors))[:3],
    )


def _responses(study: Study, condition: str, size: int, clients: int) -> Iterator[Figure]:
    """Response times of storlets against the client's."""
    for treatment in (OBJECT, PROXY):
        yield Figure(
            f"study.{condition}.{size // 1000}.{clients}.{treatment.key}",
            f"{_load_text(size, clients)}, {CONDITIONS[condition]}: {_short(treatment)}",
            "ms",
            treated=study.responses(condition, size, clients, treatment.key),
            plain=study.responses(condition, size, clients, CLIENT.key),
        )


def _filter(study: Study, sizes: list[int]) -> Figure:
    """The filter's overhead for the client over all numbers of clients: each round's ratio is a
    sample."""
    ratios = [
        each
        for size in sizes
        for clients in study.clients(size)
        for each in study.filter_ratios(size, clients)
    ]
    return Figure(
        f"study.filter.{'small' if sizes[0] < SMALL_MAX else 'large'}",
        f"client with filter / without, {size_text(sizes[0])} to {size_text(sizes[-1])}",
        "x",
        treated=ratios,
        notes=[f"IBM's report: {IBM_FILTER:.3f}x"],
    )


def _neighbours(study: Study, size: int, clients: int) -> Iterator[Figure]:
    """Response times of the background with and without a load."""
    for treatment in TREATMENTS:
        for method in ("GET", "PUT"):
            yield Figure(
                f"study.{BACKGROUND}.{size // 1000}.{clients}.{treatment.key}.{method.lower()}",
                f"a neighbour's {method}, {_load_text(size, clients)}: {_short(treatment)}",
                "ms",
                treated=study.neighbours(method, BACKGROUND, size, clients, treatment.key),
                plain=study.neighbours(method, BACKGROUND, size, 0, treatment.key),
            )


def _load_text(size: int, clients: int) -> str:
    return f"{size_text(size)} x {clients}"


def _short(treatment: Treatment) -> str:
    return treatment.title.replace("storlet at the ", "").replace(", filter installed", "")
