"""A storlet on many objects: ``std:distributed`` against the same GETs, sent by as many client
threads as the server works on objects at the same time.

``distributed`` has objects of 1 MiB; ``tiny`` has as many objects as a request may have, of one
line each.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from tests.bench.bench import Bench, Family
from tests.bench.figures import Figure
from tests.bench.http import BadAnswer, Connection, Request, open_tcp
from tests.bench.site import PLAIN, Account, Treatment

#: The default of ``[library] distributed_concurrency``.
CLIENTS: Final = 16
CONTAINER: Final = "many"
_TINY: Final = "tiny"
#: Pairs of measurements, each of some minutes on a busy machine.
_TINY_PAIRS: Final = 2
_OBJECT_BYTES: Final = 1 << 20
_LINE: Final = b"2026-07-01 INFO  a line of a log without anything to find in it ........\n"
_FOUND: Final = b"2026-07-01 WARN  the only line of an object that is found ..............\n"
_STORLET: Final = {"X-Run-Storlet": "std:grep", "X-Storlet-Parameter-1": "pattern:WARN"}
_DISTRIBUTED: Final = Treatment("std", "std:distributed against 16 clients")


def measure(bench: Bench) -> Iterator[Figure]:
    """Seconds for all objects of 1 MiB."""
    plan = bench.plan
    title = f"grep in {plan.objects} objects of 1 MiB"
    family = Family("distributed", title, "s")
    names = [f"{CONTAINER}/{number:04}" for number in range(plan.objects)]
    yield from _figures(bench, family, names, content(), plan.distributions)


def tiny(bench: Bench) -> Iterator[Figure]:
    """Seconds for all objects of one line."""
    names = [f"{_TINY}/{number:04}" for number in range(bench.plan.tiny_objects)]
    family = Family(_TINY, f"grep in {len(names)} objects of {len(_FOUND)} bytes", "s")
    yield from _figures(bench, family, names, _FOUND, _TINY_PAIRS)


def _figures(
    bench: Bench, family: Family, names: Sequence[str], body: bytes, pairs: int
) -> list[Figure]:
    """Figures of all objects of a container, each with ``body``, in which one line is found."""
    account, container = bench.site.main, names[0].partition("/")[0]
    account.send("PUT", container)
    _by_clients(account, [account.request("PUT", name, body=body) for name in names])
    document = json.dumps({
        "objects": {"container": container},
        "split": {"storlet": "std:grep", "parameters": {"pattern": "WARN"}},
        "merge": "concat",
        "concurrency": CLIENTS,
    }).encode()  # fmt: skip
    whole = account.request("POST", "", {"X-Run-Storlet": "std:distributed"}, document)
    singles = [account.request("GET", name, _STORLET) for name in names]
    wanted = len(_FOUND) * len(names)

    def one(treatment: Treatment) -> float:
        began = time.perf_counter()
        if treatment is PLAIN:
            size = _by_clients(account, singles)
        else:
            # Idle since the last distribution, the server may have closed it.
            account.reconnect()
            size = account.connection.exchange(whole).size
        if size != wanted:
            raise BadAnswer(f"{treatment.title}: {size} bytes of {wanted}")
        return time.perf_counter() - began

    bench.alternate([_DISTRIBUTED], 1, one)
    samples = bench.alternate([_DISTRIBUTED], pairs, one)
    return family.figures([_DISTRIBUTED], samples)


def _by_clients(account: Account, requests: Sequence[Request]) -> int:
    """Send the requests with :data:`CLIENTS` threads; the bytes of all answers."""

    def some(number: int) -> int:
        connection = Connection(lambda: open_tcp(account.address))
        try:
            return sum(connection.exchange(one).size for one in requests[number::CLIENTS])
        finally:
            connection.close()

    with ThreadPoolExecutor(CLIENTS) as threads:
        return sum(threads.map(some, range(CLIENTS)))


def content() -> bytes:
    """The lines of one object, of which one is found."""
    half = _LINE * (_OBJECT_BYTES // len(_LINE) // 2)
    return half + _FOUND + half
