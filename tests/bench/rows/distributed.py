"""A storlet on many objects of 1 MiB: ``std:distributed`` against the same GETs, sent by as many
client threads as the server works on objects at the same time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from tests.bench.bench import Bench, Family
from tests.bench.figures import Figure
from tests.bench.http import BadAnswer, Connection, open_tcp
from tests.bench.site import PLAIN, Treatment

#: The default of ``[library] distributed_concurrency``.
CLIENTS: Final = 16
CONTAINER: Final = "many"
_OBJECT_BYTES: Final = 1 << 20
_LINE: Final = b"2026-07-01 INFO  a line of a log without anything to find in it ........\n"
_FOUND: Final = b"2026-07-01 WARN  the only line of an object that is found ..............\n"
_STORLET: Final = {"X-Run-Storlet": "std:grep", "X-Storlet-Parameter-1": "pattern:WARN"}
_DISTRIBUTED: Final = Treatment("std", "std:distributed against 16 clients")


def measure(bench: Bench) -> Iterator[Figure]:
    """Seconds for all objects."""
    names = [f"{CONTAINER}/{number:04}" for number in range(bench.plan.objects)]
    account = bench.site.main
    account.send("PUT", CONTAINER)
    for name in names:
        account.send("PUT", name, body=content())
    body = json.dumps({
        "objects": {"container": CONTAINER},
        "split": {"storlet": "std:grep", "parameters": {"pattern": "WARN"}},
        "merge": "concat",
        "concurrency": CLIENTS,
    }).encode()  # fmt: skip
    whole = account.request("POST", "", {"X-Run-Storlet": "std:distributed"}, body)
    singles = [account.request("GET", name, _STORLET) for name in names]
    wanted = len(_FOUND) * len(names)

    def by_clients(number: int) -> int:
        connection = Connection(lambda: open_tcp(account.address))
        try:
            return sum(connection.exchange(one).size for one in singles[number::CLIENTS])
        finally:
            connection.close()

    def one(treatment: Treatment) -> float:
        began = time.perf_counter()
        if treatment is PLAIN:
            with ThreadPoolExecutor(CLIENTS) as threads:
                size = sum(threads.map(by_clients, range(CLIENTS)))
        else:
            size = account.connection.exchange(whole).size
        if size != wanted:
            raise BadAnswer(f"{treatment.title}: {size} bytes of {wanted}")
        return time.perf_counter() - began

    bench.alternate([_DISTRIBUTED], 1, one)
    samples = bench.alternate([_DISTRIBUTED], bench.plan.distributions, one)
    title = f"grep in {len(names)} objects of 1 MiB"
    yield from Family("distributed", title, "s").figures([_DISTRIBUTED], samples)


def content() -> bytes:
    """The lines of one object, of which one is found."""
    half = _LINE * (_OBJECT_BYTES // len(_LINE) // 2)
    return half + _FOUND + half
