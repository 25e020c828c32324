"""The store for a running storlet: 100 MiB by ``open`` against the same bytes as the input of the
same storlet at the proxy, and ``stat`` against HEAD requests of a client.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from typing import Final

from tests.bench.bench import WARM_UP, Bench, Family
from tests.bench.figures import Figure
from tests.bench.http import BadAnswer
from tests.bench.site import LARGE, LARGE_BYTES, PLAIN, SMALL, Account, Treatment, python_code

#: Operations of one run, and requests of a client beside it.
BLOCK: Final = 8
_STORLET: Final = "asking.py"
_OPEN: Final = Treatment("open", "open in a storlet against its input")
_STAT: Final = Treatment("stat", "stat in a storlet against a client's HEAD")


def measure(bench: Bench) -> Iterator[Figure]:
    """MB/s of ``open``, and the median of a block of ``stat``."""
    account = bench.site.main
    code = python_code(_STORLET, "Asking")
    headers = {**code.headers(), "X-Object-Meta-Storlet-Services": "read"}
    account.send("PUT", f"storlet/{code.name}", headers, code.data)
    yield from _rates(bench, account)
    yield from _medians(bench, account)


def _given(**parameters: str) -> dict[str, str]:
    """The headers of a request with the storlet."""
    given = {
        f"X-Storlet-Parameter-{number}": f"{key}:{value}"
        for number, (key, value) in enumerate(parameters.items())
    }
    return {"X-Run-Storlet": _STORLET, **given}


def _rates(bench: Bench, account: Account) -> Iterator[Figure]:
    requests = {
        PLAIN.key: account.request("GET", LARGE, _given(do="read")),
        _OPEN.key: account.request("GET", SMALL, _given(do="open", path=f"/{LARGE}")),
    }

    def rate(treatment: Treatment) -> float:
        got = bytearray()
        timing = account.connection.exchange(requests[treatment.key], got.extend)
        if bytes(got) != str(LARGE_BYTES).encode():
            raise BadAnswer(f"{treatment.title}: {bytes(got)!r} bytes of {LARGE_BYTES}")
        return LARGE_BYTES / timing.whole / 1e6

    bench.alternate([_OPEN], 1, rate)
    samples = bench.alternate([_OPEN], bench.plan.large, rate)
    family = Family("services", "100 MiB", "MB/s", is_rate=True)
    yield from family.figures([_OPEN], samples)


def _medians(bench: Bench, account: Account) -> Iterator[Figure]:
    head = account.request("HEAD", SMALL)
    asked = account.request("GET", SMALL, _given(do="stat", path=f"/{SMALL}", count=str(BLOCK)))

    def milliseconds(treatment: Treatment) -> float:
        if treatment is PLAIN:
            taken = [account.connection.exchange(head).whole * 1000 for _ in range(BLOCK)]
        else:
            got = bytearray()
            account.connection.exchange(asked, got.extend)
            taken = json.loads(bytes(got))
        return statistics.median(taken)

    bench.alternate([_STAT], WARM_UP // BLOCK + 1, milliseconds)
    samples = bench.alternate([_STAT], bench.plan.small // 4, milliseconds)
    family = Family("services", "metadata of 1 KiB", "ms", suffix=".p50")
    yield from family.figures([_STAT], samples)
