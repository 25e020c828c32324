"""The same storlet and daemon with and without a sandbox, through the same servers, in turn.

One account, one object and one storlet under two names: only the location of the workers differs.
"""

from __future__ import annotations

import functools
import secrets
from collections.abc import Iterator
from typing import Final

from tests.bench.bare import BareNode
from tests.bench.bench import WARM_UP, Bench, Family
from tests.bench.crowd import Crowd
from tests.bench.figures import Figure
from tests.bench.site import LARGE, LARGE_BYTES, PLAIN, SMALL, Account, Code, Treatment, python_code

_SANDBOX: Final = Treatment("sandbox", "sandbox against none")
_INSIDE: Final = python_code("identity.py", "Identity", "inside.py")
_OUTSIDE: Final = python_code("identity.py", "Identity", "outside.py")
_CODES: Final = {_SANDBOX.key: _INSIDE, PLAIN.key: _OUTSIDE}
_CLIENTS: Final = 16
#: Single rates vary by a fifth on both sides: the mean of many shows smaller differences than the
#: median.
_MEAN_RATE: Final = functools.partial(Family, "isolation", is_rate=True, quantile=None)


def measure(bench: Bench) -> Iterator[Figure]:
    """Whole requests: 1 KiB and 100 MiB at the object node.  "Plain" is here the storlet without a
    sandbox."""
    account = bench.site.new_account(f"isolation-{secrets.token_hex(3)}")
    account.get_ready(_INSIDE, _OUTSIDE)
    account.send("PUT", LARGE, body=bytes(LARGE_BYTES))
    _load(account, _INSIDE)
    with BareNode(bench.site.cluster):
        _load(account, _OUTSIDE)
        yield from _pairs(bench, account)


def _load(account: Account, code: Code) -> None:
    """Start its worker group: later runs do not involve sandboxd."""
    for path in (*[SMALL] * WARM_UP, LARGE):
        account.send("GET", path, {"X-Run-Storlet": code.name})


def _pairs(bench: Bench, account: Account) -> Iterator[Figure]:
    small, large = (
        {
            key: account.request("GET", path, {"X-Run-Storlet": code.name})
            for key, code in _CODES.items()
        }
        for path in (SMALL, LARGE)
    )

    def milliseconds(treatment: Treatment) -> float:
        return account.connection.exchange(small[treatment.key]).whole * 1000

    def rate(treatment: Treatment) -> float:
        return LARGE_BYTES / account.connection.exchange(large[treatment.key]).whole / 1e6

    samples = bench.alternate([_SANDBOX], bench.plan.small, milliseconds)
    yield from Family("isolation", "GET 1 KiB p50", "ms", suffix=".latency").figures(
        [_SANDBOX], samples
    )
    samples = bench.alternate([_SANDBOX], bench.plan.isolation_large, rate)
    yield from _MEAN_RATE("GET 100 MiB, mean", "MB/s", suffix=".stream").figures(
        [_SANDBOX], samples
    )
    crowd = Crowd(account.address, _CLIENTS)
    try:
        for request in small.values():
            crowd.run(request, 1.0)  # enough workers for that number of clients
        samples = bench.alternate(
            [_SANDBOX],
            bench.plan.isolation_rounds,
            lambda treatment: crowd.run(small[treatment.key], bench.plan.isolation_seconds).rate,
        )
    finally:
        crowd.close()
    title = f"GET 1 KiB, {_CLIENTS} clients, mean"
    yield from _MEAN_RATE(title, "1/s", suffix=".load").figures([_SANDBOX], samples)
