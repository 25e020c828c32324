"""Calls of a no-op on 1 KiB by another storlet, against the same requests of a client."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from typing import Final

from tests.bench.bench import Bench, Family
from tests.bench.figures import Figure
from tests.bench.site import PLAIN, SMALL, STORLETS, Code, Treatment

#: Calls of one run, and requests of a client beside it.
BLOCK: Final = 8
_CALL: Final = Treatment("python", "call of a no-op against a client's request")


def measure(bench: Bench) -> Iterator[Figure]:
    """The median of a block of calls in one run, and of a block of requests on one connection."""
    account, client = bench.site.main, bench.site.cluster.client("test:tester")
    code = Code("calling.py", "python", "calling.Calling", (STORLETS / "calling.py").read_bytes())
    headers = {**code.headers(), "X-Object-Meta-Storlet-Services": "call"}
    account.send("PUT", f"storlet/{code.name}", headers, code.data)
    (no_op, _) = bench.site.treatments("python")
    single = account.request("GET", SMALL, no_op.headers)
    parameters = ("count:" + str(BLOCK), "storlet:identity.py", f"path:/{SMALL}")
    calling = {
        "X-Run-Storlet": code.name,
        **{f"X-Storlet-Parameter-{n}": given for n, given in enumerate(parameters)},
    }

    def one(treatment: Treatment) -> float:
        if treatment is PLAIN:
            taken = [account.connection.exchange(single).whole * 1000 for _ in range(BLOCK)]
        else:
            taken = json.loads(client.get(SMALL, calling).body)
        return statistics.median(taken)

    bench.alternate([_CALL], 10, one)
    samples = bench.alternate([_CALL], bench.plan.small // 4, one)
    yield from Family("calls", "GET 1 KiB", "ms", suffix=".p50").figures([_CALL], samples)
