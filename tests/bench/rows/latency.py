"""GET of 1 KiB through a no-op storlet, both languages, both placements."""

from __future__ import annotations

from collections.abc import Iterator

from tests.bench.bench import WARM_UP, Bench, Family
from tests.bench.figures import Figure
from tests.bench.site import PLAIN, SMALL, Treatment


def measure(bench: Bench) -> Iterator[Figure]:
    """One client, one connection."""
    account, treatments = bench.site.main, bench.site.treatments()
    requests = {t.key: account.request("GET", SMALL, t.headers) for t in [PLAIN, *treatments]}

    def one(treatment: Treatment) -> float:
        return account.connection.exchange(requests[treatment.key]).whole * 1000

    bench.alternate(treatments, WARM_UP, one)
    samples = bench.alternate(treatments, bench.plan.latency, one)
    yield from Family("latency", "GET 1 KiB p50", "ms", suffix=".p50").figures(treatments, samples)
    yield from Family("latency", "GET 1 KiB p99", "ms", quantile=0.99, suffix=".p99").figures(
        treatments, samples
    )
