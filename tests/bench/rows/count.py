"""Calls of Python functions of a GET of 1 KiB, through a no-op and plain.

The servers are separate from the cluster's (:mod:`tests.bench.probed`).  The number depends on
neither the machine nor its load, so a test holds it, too.
"""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Iterator
from typing import Final

from tests.bench.bench import Bench, Family
from tests.bench.figures import Figure
from tests.bench.http import Request
from tests.bench.probed import ProbedServers, probed_servers
from tests.bench.site import PLAIN, SMALL, Account, Treatment, java_identity, python_code

#: Requests that start the workers and fill the caches.  Their times do not matter.
_WARM_UP: Final = 10
_ROUNDS: Final = 2
#: Requests of a round.
_REQUESTS: Final = 20
#: After each request, for the servers' work after an answer.
_PAUSE_SECONDS: Final = 0.01


def measure(bench: Bench) -> Iterator[Figure]:
    """Calls of a request, of the proxy and the object servers together."""
    account = bench.site.new_account(f"count-{secrets.token_hex(4)}")
    account.get_ready(python_code("identity.py", "Identity"), java_identity(bench.site.java_dir))
    treatments = bench.site.treatments()
    by_file: dict[str, dict[str, float]] = {}
    with probed_servers(bench.site) as servers:
        own = servers.account(account)
        requests = {
            each.key: own.request("GET", SMALL, each.headers) for each in (PLAIN, *treatments)
        }

        def one(treatment: Treatment) -> float:
            by_file[treatment.key] = counted = _counted(servers, own, requests[treatment.key])
            return sum(counted.values())

        def warm_up(treatment: Treatment) -> float:
            return own.connection.exchange(requests[treatment.key]).whole

        try:
            bench.alternate(treatments, _WARM_UP, warm_up)
            samples = bench.alternate(treatments, _ROUNDS, one)
        finally:
            account.reconnect()
            own.reconnect()
    bench.raw["count"] = by_file
    # Calls that every request makes would make the ratios smaller.
    title = "Python calls of a GET of 1 KiB"
    yield Figure("count.plain", f"{title}, plain Swift", "calls", samples[PLAIN.key])
    yield from Family("count", title, "calls").figures(treatments, samples)


def _counted(servers: ProbedServers, account: Account, request: Request) -> dict[str, float]:
    """The calls of one request by file, the mean of a round."""
    servers.count_calls()
    for _ in range(_REQUESTS):
        account.connection.exchange(request)
        time.sleep(_PAUSE_SECONDS)
    calls = Counter(servers.counted_calls())
    return {file: number / _REQUESTS for file, number in calls.most_common()}
