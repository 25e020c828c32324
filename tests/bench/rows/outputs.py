"""100 MiB dealt to several objects in one run, against the same run with one output."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.bench.bench import Bench, Family
from tests.bench.figures import Figure
from tests.bench.site import CONTAINER, LARGE, LARGE_BYTES, PLAIN, Treatment, python_code

_STORLET: Final = "deal.py"
#: The storlet runs at the proxy with one output, too.
_HEADERS: Final = {
    "X-Run-Storlet": _STORLET,
    "X-Storlet-Run-On-Proxy": "",
    "Destination": f"{CONTAINER}/output-0",
}


def _treatment(count: int) -> Treatment:
    others = [f"/{CONTAINER}/output-{number}" for number in range(1, count)]
    headers = {**_HEADERS, "X-Storlet-Output": ", ".join(others)}
    return Treatment(str(count), f"{count} outputs against one", headers)


_TREATMENTS: Final = [_treatment(count) for count in (2, 4, 8)]


def measure(bench: Bench) -> Iterator[Figure]:
    """MB/s of the input of a COPY; "plain" is the storlet with one output."""
    account = bench.site.main
    account.upload(python_code(_STORLET, "Deal"))
    requests = {t.key: account.request("COPY", LARGE, t.headers) for t in _TREATMENTS}
    requests[PLAIN.key] = account.request("COPY", LARGE, _HEADERS)

    def one(treatment: Treatment) -> float:
        return LARGE_BYTES / account.connection.exchange(requests[treatment.key]).whole / 1e6

    bench.alternate(_TREATMENTS, 1, one)
    samples = bench.alternate(_TREATMENTS, bench.plan.large, one)
    family = Family("outputs", "COPY 100 MiB", "MB/s", is_rate=True)
    yield from family.figures(_TREATMENTS, samples)
