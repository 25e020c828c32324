"""The first call of ``std:sql`` in a sandbox that runs, and the sandbox's idle memory after it."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from typing import Final

from tests.bench.bench import Bench
from tests.bench.figures import Figure
from tests.bench.node import Node, processes_of, pss_bytes
from tests.bench.site import CONTAINER, SMALL, python_code

_OBJECT: Final = f"{CONTAINER}/table.csv"
_TABLE: Final = b"city,size\nHaifa,3\nBoston,7\n"
_RUN: Final = {
    "X-Run-Storlet": "std:sql",
    "X-Storlet-Parameter-1": "query:SELECT sum(size) AS total FROM input",
}
_SETTLE_SECONDS: Final = 1.0


def measure(bench: Bench) -> Iterator[Figure]:
    """Seconds to the first byte, and PSS of all processes of the sandbox, in MB."""
    first = Figure("engine.first", "first call of std:sql in a running sandbox", "s")
    memory = Figure("engine.memory", "idle sandbox after std:sql (PSS)", "MB")
    node = Node(bench.site.cluster)
    for number in range(bench.plan.first):
        account = bench.site.new_account(f"engine-{secrets.token_hex(4)}")
        account.get_ready(warm := python_code("identity.py", "Identity"))
        account.send("PUT", _OBJECT, body=_TABLE)
        account.send("GET", SMALL, {"X-Run-Storlet": warm.name})
        time.sleep(0.2)  # no write of the account's set-up may still be in progress
        first.treated.append(account.send("GET", _OBJECT, _RUN).first_byte)
        time.sleep(_SETTLE_SECONDS)
        sandbox = node.of(account.name)
        if sandbox is None:
            raise RuntimeError("the sandbox is gone")
        memory.treated.append(pss_bytes(processes_of(sandbox.container)) / 1e6)
        bench.progress.step(number + 1, bench.plan.first)
    yield first
    yield memory
