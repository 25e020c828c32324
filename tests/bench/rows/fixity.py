"""MD5 and SHA-256 of 100 MiB: by a storlet, and by a client that reads the object; each with its
best number of threads."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from tests.bench.bench import Bench, Family
from tests.bench.figures import Figure, quantile
from tests.bench.site import LARGE, LARGE_BYTES, PLAIN, Treatment, python_code
from tests.bench.storlets.fixity import Hashes

_THREADS: Final = (1, 2)
_STORLET: Final = "fixity.py"


def measure(bench: Bench) -> Iterator[Figure]:
    """MB/s of the object's bytes."""
    account = bench.site.main
    account.upload(python_code(_STORLET, "Fixity"))
    sides = [
        Treatment(
            f"{side}.{threads}", side, {"X-Run-Storlet": _STORLET} if side == "storlet" else {}
        )
        for side in ("storlet", "client")
        for threads in _THREADS
        if (side, threads) != ("client", 1)  # that is the plain side
    ]

    def one(treatment: Treatment) -> float:
        threads = int(treatment.key[-1]) if treatment is not PLAIN else 1
        began = time.perf_counter()
        if treatment.headers:
            account.send("GET", f"{LARGE}?threads={threads}", treatment.headers)
        else:
            hashes = Hashes(threads)
            account.connection.exchange(
                account.request("GET", LARGE), lambda data: hashes.feed(bytes(data))
            )
            hashes.finish()
        return LARGE_BYTES / (time.perf_counter() - began) / 1e6

    bench.alternate(sides, 1, one)
    samples = bench.alternate(sides, bench.plan.large, one)
    own, other = (_best(samples, side) for side in ("storlet", "client"))
    threads = [2 if key.endswith("2") else 1 for key in (own, other)]
    notes = (
        f"best: the storlet with {threads[0]} thread(s) for the hashes, the client with {threads[1]}",
    )
    family = Family("fixity", "MD5 + SHA-256 of 100 MiB", "MB/s", is_rate=True, notes=notes)
    against = Treatment("storlet", "storlet against client")
    yield from family.figures([against], {against.key: samples[own], PLAIN.key: samples[other]})


def _best(samples: dict[str, list[float]], side: str) -> str:
    """The key of a side's fastest number of threads."""
    keys = [
        key for key in samples if key.startswith(side) or (side == "client" and key == PLAIN.key)
    ]
    return max(keys, key=lambda key: quantile(sorted(samples[key]), 0.5))
