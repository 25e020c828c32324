"""100 MiB through an identity storlet: GET, PUT and COPY."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.bench.bench import Bench, Family
from tests.bench.figures import Figure
from tests.bench.http import Request
from tests.bench.site import CONTAINER, LARGE, LARGE_BYTES, PLAIN, SMALL, Treatment


def get(bench: Bench) -> Iterator[Figure]:
    """Object node and proxy; the cost of plain Swift's MD5 is also measured."""
    account, treatments = bench.site.main, bench.site.treatments()
    family = Family("stream", "GET 100 MiB", "MB/s", is_rate=True)
    yield from _rates(bench, family, treatments, lambda t: account.request("GET", LARGE, t.headers))
    yield from _without_md5(bench)


def put(bench: Bench) -> Iterator[Figure]:
    """A PUT always runs at the proxy."""
    account, body = bench.site.main, memoryview(os.urandom(1 << 20) * (LARGE_BYTES >> 20))
    family = Family("put", "PUT 100 MiB", "MB/s", is_rate=True)
    name = f"{CONTAINER}/put"
    yield from _rates(
        bench, family, _by_language(bench), lambda t: account.request("PUT", name, t.headers, body)
    )


def copy(bench: Bench) -> Iterator[Figure]:
    """COPY within a container."""
    account, treatments = bench.site.main, bench.site.treatments()
    target = {"Destination": f"{CONTAINER}/copied"}
    family = Family("copy", "COPY 100 MiB", "MB/s", is_rate=True)
    yield from _rates(
        bench, family, treatments, lambda t: account.request("COPY", LARGE, {**target, **t.headers})
    )


def _by_language(bench: Bench) -> list[Treatment]:
    at_object = [t for t in bench.site.treatments() if t.key.endswith(".object")]
    return [
        replace(t, key=t.key.partition(".")[0], title=t.title.partition(",")[0]) for t in at_object
    ]


def _rates(
    bench: Bench, family: Family, treatments: list[Treatment], make: Callable[[Treatment], Request]
) -> Iterator[Figure]:
    connection = bench.site.main.connection
    requests = {t.key: make(t) for t in [PLAIN, *treatments]}

    def one(treatment: Treatment) -> float:
        return LARGE_BYTES / connection.exchange(requests[treatment.key]).whole / 1e6

    bench.alternate(treatments, 1, one)
    yield from family.figures(treatments, bench.alternate(treatments, bench.plan.large, one))


def _without_md5(bench: Bench) -> Iterator[Figure]:
    """Swift's reader computes an MD5 over whole objects and not over ranges: a range without the
    last byte avoids it."""
    connection, account = bench.site.main.connection, bench.site.main
    account.connection.exchange(account.request("GET", SMALL))
    ranged = Treatment(
        "plain_without_md5", "plain Swift without its MD5", {"Range": f"bytes=1-{LARGE_BYTES}"}
    )
    requests = {t.key: account.request("GET", LARGE, t.headers) for t in (PLAIN, ranged)}

    def one(treatment: Treatment) -> float:
        return LARGE_BYTES / connection.exchange(requests[treatment.key]).whole / 1e6

    note = "this part of a storlet's gain at the object node is Swift's MD5, which its auditor computes as well"
    family = Family("stream", "GET 100 MiB", "MB/s", is_rate=True, notes=(note,))
    yield from family.figures([ranged], bench.alternate([ranged], bench.plan.large, one))
