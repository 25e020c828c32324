"""Requests a second of 16 and 64 clients, 1 KiB through a no-op."""

from __future__ import annotations

from collections.abc import Iterator

from tests.bench.bench import Bench, Family
from tests.bench.crowd import Crowd
from tests.bench.figures import Figure
from tests.bench.site import PLAIN, SMALL, Treatment


def measure(bench: Bench) -> Iterator[Figure]:
    """A closed loop: every client sends its next request after the last response."""
    for clients in (16, 64):
        yield from _with_clients(bench, clients)


def _with_clients(bench: Bench, clients: int) -> Iterator[Figure]:
    account, treatments = bench.site.main, bench.site.treatments()
    requests = {t.key: account.request("GET", SMALL, t.headers) for t in [PLAIN, *treatments]}
    crowd = Crowd(account.address, clients)
    errors: dict[str, list[str]] = {t.key: [] for t in [PLAIN, *treatments]}
    p99: dict[str, list[float]] = {t.key: [] for t in [PLAIN, *treatments]}

    def one(treatment: Treatment) -> float:
        seen = crowd.run(requests[treatment.key], bench.plan.load_seconds)
        errors[treatment.key] += seen.errors
        p99[treatment.key].append(sorted(seen.latencies)[len(seen.latencies) * 99 // 100] * 1000)
        return seen.rate

    try:
        bench.alternate(treatments, 1, one)
        samples = bench.alternate(treatments, bench.plan.load_rounds, one)
    finally:
        crowd.close()
    yield from Family(
        "load", f"GET 1 KiB, {clients} clients", "1/s", is_rate=True, suffix=f".{clients}"
    ).figures(treatments, samples)
    warm = bench.plan.load_rounds
    tails = {key: values[-warm:] for key, values in p99.items()}
    yield from Family("load", f"p99, {clients} clients", "ms", suffix=f".{clients}.p99").figures(
        treatments, tails
    )
    for treatment in treatments:
        seen_errors = errors[treatment.key]
        yield Figure(
            f"load.{treatment.key}.{clients}.errors", f"errors, {clients} clients, {treatment.title}", "errors",
            treated=[float(len(seen_errors))], notes=sorted(set(seen_errors))[:3],
        )  # fmt: skip
