"""The same storlet in a sandbox and in the same daemon without one, through the same servers, in turn."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Final

from tests.bench.bare import BareNode
from tests.bench.bench import WARM_UP, Bench, Family
from tests.bench.crowd import Crowd
from tests.bench.figures import Figure
from tests.bench.http import Request
from tests.bench.site import LARGE_BYTES, PLAIN, SMALL, Account, Treatment, python_code

_LARGE: Final = "bench/large"
_SANDBOX: Final = Treatment("sandbox", "sandbox against none")
_CLIENTS: Final = 16


def measure(bench: Bench) -> Iterator[Figure]:
    """Whole requests: 1 KiB and 100 MiB at the object node.  "Plain" is here the storlet without a sandbox."""
    run = secrets.token_hex(3)
    inside, outside = (bench.site.new_account(f"{side}-{run}") for side in ("inside", "outside"))
    accounts = {_SANDBOX.key: inside, PLAIN.key: outside}
    _get_ready(inside)
    with BareNode(bench.site.cluster):
        _get_ready(outside)
        for account in accounts.values():
            account.send("GET", SMALL, {"X-Run-Storlet": "identity.py"})
        yield from _pairs(bench, accounts)


def _get_ready(account: Account) -> None:
    """And have its worker group started: from then on nobody asks sandboxd."""
    code = python_code("identity.py", "Identity")
    account.get_ready(code)
    account.send("PUT", _LARGE, body=bytes(LARGE_BYTES))
    for _ in range(WARM_UP):
        account.send("GET", SMALL, {"X-Run-Storlet": code.name})


def _pairs(bench: Bench, accounts: dict[str, Account]) -> Iterator[Figure]:
    small, large = (
        {key: account.request("GET", path, {"X-Run-Storlet": "identity.py"}) for key, account in accounts.items()}
        for path in (SMALL, _LARGE)
    )

    def seconds(requests: dict[str, Request], treatment: Treatment) -> float:
        return accounts[treatment.key].connection.exchange(requests[treatment.key]).whole

    samples = bench.alternate([_SANDBOX], bench.plan.small, lambda t: seconds(small, t) * 1000)
    yield from Family("isolation", "GET 1 KiB p50", "ms", suffix=".latency").figures([_SANDBOX], samples)
    samples = bench.alternate([_SANDBOX], bench.plan.large, lambda t: LARGE_BYTES / seconds(large, t) / 1e6)
    yield from Family("isolation", "GET 100 MiB", "MB/s", is_rate=True, suffix=".stream").figures([_SANDBOX], samples)
    crowd = Crowd(accounts[PLAIN.key].address, _CLIENTS)
    try:
        samples = bench.alternate(
            [_SANDBOX], bench.plan.load_rounds, lambda t: crowd.run(small[t.key], bench.plan.load_seconds).rate
        )
    finally:
        crowd.close()
    family = Family("isolation", f"GET 1 KiB, {_CLIENTS} clients", "1/s", is_rate=True, suffix=".load")
    yield from family.figures([_SANDBOX], samples)
