"""Plain requests with the filter in the proxy's and the object servers' pipelines against the same
without it.

One percent is less than the difference between two equal processes, which comes from their memory
layout. So there are two clusters side by side, and requests alternate between them. After each
round the filter changes sides, with a restart of the processes.  Over all rounds each cluster is on
each side equally often, and each side is started first equally often, because requests of the first
one take one percent longer.  The effect of a start on all of its requests shows only in other
starts, so there are many starts, and the spread is that of starts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Final

from tests.bench.bench import WARM_UP, Bench
from tests.bench.figures import Figure
from tests.bench.http import Request
from tests.bench.site import (
    CONTAINER,
    LARGE,
    LARGE_BYTES,
    SMALL,
    SMALL_BYTES,
    Account,
    Site,
    own_site,
)

#: The subject of this row.
_TO_BE_SEEN: Final = 0.01
#: GETs for each PUT: they take a quarter of its time, and vary more in proportion.
_GETS: Final = 4
_KINDS: Final = {
    "get.small": "GET 1 KiB",
    "put.small": "PUT 1 KiB",
    "get.large": "GET 100 MiB",
    "put.large": "PUT 100 MiB",
}


def measure(bench: Bench) -> Iterator[Figure]:
    """Milliseconds; the spread shows whether one percent could be detected."""
    figures = {
        key: Figure(
            f"traffic.{key}",
            f"plain {title}, with against without the filter",
            "ms",
            block=_count(bench, key),
        )
        for key, title in _KINDS.items()
    }
    swaps = bench.plan.traffic_swaps
    with own_site() as first, own_site(STORLETS_FILTER="0") as second:
        sides = [_Side(first), _Side(second)]
        for swap in range(swaps):
            if swap:
                sides.reverse()
                switches = [(sides[0], "1"), (sides[1], "0")]
                for side, switch in reversed(switches) if swap // 2 % 2 else switches:
                    side.set_filter(switch)
            for key, figure in figures.items():
                _pairs(bench, sides, key, figure)
                bench.progress.step(swap + 1, swaps, key)
    for figure in figures.values():
        value = figure.value()
        if value.high - value.low > 2 * _TO_BE_SEEN:
            figure.notes.append(f"the spread is too wide to tell {_TO_BE_SEEN:.0%}")
        yield figure


class _Side:
    """One of the two clusters."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.account: Account = site.account()
        self.account.send("PUT", CONTAINER)
        self.account.send("PUT", SMALL, body=b"x" * SMALL_BYTES)
        self._large = memoryview(os.urandom(1 << 20) * (LARGE_BYTES >> 20))
        self.account.send("PUT", LARGE, body=self._large)

    def set_filter(self, switch: str) -> None:
        environment = {**self._site.cluster.environment, "STORLETS_FILTER": switch}
        self._site.cluster.environment = environment
        self._site.cluster.run("up")
        self.account.reconnect()

    def request(self, key: str) -> Request:
        verb, size = key.split(".")
        if verb == "get":
            return self.account.request("GET", SMALL if size == "small" else LARGE)
        body = memoryview(b"y" * SMALL_BYTES) if size == "small" else self._large
        return self.account.request("PUT", f"{CONTAINER}/put-{size}", body=body)


def _pairs(bench: Bench, sides: list[_Side], key: str, figure: Figure) -> None:
    """``sides[0]`` has the filter."""
    calls: list[tuple[list[float], Callable[[], float]]] = []
    for side, samples in zip(sides, (figure.treated, figure.plain), strict=True):
        calls.append((samples, _timed(side, side.request(key))))
    for _ in range(WARM_UP if key.endswith("small") else 1):
        for _, call in calls:
            call()
    for number in range(_count(bench, key)):
        for samples, call in calls if number % 2 else reversed(calls):
            samples.append(call())


def _count(bench: Bench, key: str) -> int:
    """Pairs of requests after one start."""
    verb, size = key.split(".")
    puts = bench.plan.traffic_small if size == "small" else bench.plan.traffic_large
    return puts * _GETS if verb == "get" else puts


def _timed(side: _Side, request: Request) -> Callable[[], float]:
    connection = side.account.connection
    return lambda: connection.exchange(request).whole * 1000
