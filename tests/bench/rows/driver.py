"""Cost of the benchmark's client, measured against a server that does nothing."""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.bench.bench import WARM_UP, Bench
from tests.bench.crowd import Crowd
from tests.bench.figures import Figure
from tests.bench.http import Address, Connection, make_request, open_tcp
from tests.bench.site import LARGE_BYTES
from tests.support.cluster import CHECKOUT


def measure(bench: Bench) -> Iterator[Figure]:
    """Client and empty server together: an upper bound for the client."""
    small, large = make_request("GET", "/small", {}), make_request("GET", "/large", {})
    with _null_server() as address:
        connection = Connection(lambda: open_tcp(address))
        times = [
            connection.exchange(small).whole * 1000 for _ in range(WARM_UP + bench.plan.small)
        ][WARM_UP:]
        rates = [
            LARGE_BYTES / connection.exchange(large).whole / 1e6 for _ in range(bench.plan.large)
        ]
        crowd = Crowd(address, 16)
        loads = [
            crowd.run(small, bench.plan.load_seconds).rate for _ in range(bench.plan.load_rounds)
        ]
        connection.close()
        crowd.close()
    bench.facts["driver"] = (
        f"the client and a server that does nothing need {statistics.median(times):.3f} ms for a request, exchange "
        f"{statistics.median(loads):.0f} requests/s with 16 clients and {statistics.median(rates):.0f} MB/s"
    )
    bench.progress.say(bench.facts["driver"])
    yield Figure("driver.request", "a request to a server that does nothing", "ms", treated=times)
    yield Figure("driver.load", "the same, 16 clients", "1/s", treated=loads, is_rate=True)
    yield Figure(
        "driver.stream",
        "100 MiB from a server that does nothing",
        "MB/s",
        treated=rates,
        is_rate=True,
    )


@contextmanager
def _null_server() -> Iterator[Address]:
    command = [sys.executable, "-m", "tests.bench.null_server"]
    with subprocess.Popen(
        command, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        try:
            if server.stdout is None or server.stdin is None:
                raise RuntimeError("no pipes to the null server")
            yield "127.0.0.1", int(server.stdout.readline())
        finally:
            server.terminate()
