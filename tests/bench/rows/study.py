"""IBM's performance study of its Storlet Engine, repeated; :mod:`tests.bench.study` describes what
it compares.

There are two clusters, one with the filter and one without, and objects of six sizes in both.  A
point is a condition, a size and a number of clients; it is measured with each treatment in turn.
All points are measured in several rounds, so that a busy minute of the machine affects at most one
sample of each.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from tests.bench.background import Background
from tests.bench.bench import Bench
from tests.bench.clients import Clients
from tests.bench.crowd import Crowded
from tests.bench.figures import Figure
from tests.bench.http import Address, BadAnswer
from tests.bench.relay import relay
from tests.bench.site import Account, Treatment, own_site, python_code
from tests.bench.storlets.fixity import Hashes
from tests.bench.study import (
    BACKGROUND,
    BARE,
    CLIENT,
    CONDITIONS,
    DELAY_SECONDS,
    HAVE_BACKGROUND,
    HAVE_DELAY,
    OBJECT,
    PROXY,
    QUIET,
    STORLET,
    TREATMENTS,
    Seen,
    Study,
    figures,
)

_CONTAINER: Final = "study"
#: Duration of the background without a load.
_IDLE_SECONDS: Final = 3.0
_WARM_CLIENTS: Final = 20


def measure(bench: Bench) -> Iterator[Figure]:
    """Figures of some points; all of them are in ``raw`` of the file, and in the plots."""
    study = Study([])
    with _laboratory(bench) as laboratory:
        laboratory.warm_up()
        points = _points(bench)
        for turn in range(bench.plan.study_rounds):
            for number, point in enumerate(points, turn * len(points)):
                study.seen.extend(laboratory.see(point, number))
                bench.progress.step(number + 1, bench.plan.study_rounds * len(points), str(point))
    bench.raw["study"] = [one.to_json() for one in study.seen]
    yield from figures(study)


@dataclass(frozen=True)
class _Point:
    """Without load where ``clients`` is 0."""

    condition: str
    size: int
    clients: int

    def __str__(self) -> str:
        return f"{self.clients} clients, {self.size // 1000} KB, {CONDITIONS[self.condition]}"


def _points(bench: Bench) -> list[_Point]:
    loads = [(size, clients) for size, counts in bench.plan.study_points for clients in counts]
    return [_Point(BACKGROUND, 0, 0)] + [
        _Point(condition, *load) for condition in CONDITIONS for load in loads
    ]


@dataclass(frozen=True)
class _Side:
    """One of the two clusters: the calling account, its neighbour, and the delaying relay to the
    proxy."""

    account: Account
    neighbour: Account
    far: Address


@dataclass(frozen=True)
class _Laboratory:
    """Use :func:`_laboratory`."""

    clients: Clients
    sizes: list[int]
    seconds: float
    filtered: _Side
    bare: _Side

    def warm_up(self) -> None:
        """Start the workers and read the objects into the page cache."""
        for size in self.sizes:
            for treatment in TREATMENTS:
                self._load(_Point(QUIET, size, _WARM_CLIENTS), treatment)

    def see(self, point: _Point, turn: int) -> list[Seen]:
        """Measure a point with each treatment, in rotating order."""
        if not point.clients:
            return [self._see(point, treatment) for treatment in (CLIENT, BARE)]
        first = turn % len(TREATMENTS)
        return [
            self._see(point, treatment) for treatment in TREATMENTS[first:] + TREATMENTS[:first]
        ]

    def _see(self, point: _Point, treatment: Treatment) -> Seen:
        if point.condition not in HAVE_BACKGROUND:
            return _seen(point, treatment, self._load(point, treatment))
        with Background(self._side(treatment).neighbour) as background:
            done = self._load(point, treatment)
        return _seen(point, treatment, done, background)

    def _load(self, point: _Point, treatment: Treatment) -> Crowded:
        side = self._side(treatment)
        return self.clients.run(
            side.far if point.condition in HAVE_DELAY else side.account.address,
            side.account.request("GET", _path(point.size), treatment.headers),
            point.clients,
            self.seconds if point.clients else _IDLE_SECONDS,
            hashes=not treatment.headers,
        )

    def _side(self, treatment: Treatment) -> _Side:
        return self.bare if treatment is BARE else self.filtered


def _seen(
    point: _Point, treatment: Treatment, done: Crowded, background: Background | None = None
) -> Seen:
    beside = background.latencies if background else {}
    return Seen(
        point.condition,
        point.size,
        point.clients,
        treatment.key,
        done.seconds,
        _milliseconds(done.latencies),
        {method: _milliseconds(seconds) for method, seconds in beside.items()},
        done.errors + (background.errors if background else []),
    )


def _milliseconds(seconds: list[float]) -> list[float]:
    return [round(each * 1000, 3) for each in seconds]


def _path(size: int) -> str:
    return f"{_CONTAINER}/{size}"


@contextmanager
def _laboratory(bench: Bench) -> Iterator[_Laboratory]:
    sizes = [size for size, _ in bench.plan.study_points]
    with ExitStack() as stack:
        other = stack.enter_context(own_site(STORLETS_FILTER="0"))
        sides = []
        for site, account in ((bench.site, bench.site.main), (other, other.account())):
            _store(account, sizes)
            neighbour = site.new_account("neighbour")
            Background.get_ready(neighbour)
            sides.append(
                _Side(
                    account, neighbour, stack.enter_context(relay(account.address, DELAY_SECONDS))
                )
            )
        bench.site.main.upload(python_code(STORLET, "Fixity"))
        _require_the_same(bench.site.main, sizes[0])
        clients = stack.enter_context(Clients())
        yield _Laboratory(clients, sizes, bench.plan.study_seconds, *sides)


def _store(account: Account, sizes: list[int]) -> None:
    account.send("PUT", _CONTAINER)
    block = os.urandom(1_000_000)
    for size in sizes:
        account.send("PUT", _path(size), body=(block * (size // len(block) + 1))[:size])


def _require_the_same(account: Account, size: int) -> None:
    """Require that the storlets' results equal the client's."""
    hashes = Hashes(1)
    account.connection.exchange(
        account.request("GET", _path(size)), lambda data: hashes.feed(bytes(data))
    )
    expected = hashes.finish().encode()
    for treatment in (OBJECT, PROXY):
        said = bytearray()
        account.connection.exchange(
            account.request("GET", _path(size), treatment.headers), said.extend
        )
        if said != expected:
            raise BadAnswer(
                f"{treatment.title} says {bytes(said[:200])!r}, the client {expected!r}"
            )
