"""Cost of records of runs: GET of 1 KiB through a no-op with each choice of a storlet, against
``none``; and of encoding a record, which the writer does later.

Each choice is that of a storlet of its own, with the same code: requests of all choices alternate,
and a busy moment of the machine falls on all of them.  The storlets have a worker process each, of
which one can be some percent faster than another, so there are new ones for each part of the
rounds.  The writer's work falls on all choices alike.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from storlet_middleware.records.record import Record, StorletRef
from tests.bench.bench import WARM_UP, Bench
from tests.bench.figures import Figure
from tests.bench.http import Request
from tests.bench.site import SMALL, Account, python_code

_WISH: Final = "X-Object-Meta-Storlet-Records"
_NONE: Final = "none"
CHOICES: Final = (_NONE, "failures", "all")
#: Each choice follows each other one equally often.
_ORDERS: Final = tuple(itertools.permutations(CHOICES))
#: Parts of the rounds, with new storlets each.
_PARTS: Final = 3
#: Records of a batch that is encoded.
_BATCH: Final = 500


def measure(bench: Bench) -> Iterator[Figure]:
    """One client, one connection, the storlet in Python at the object node."""
    account = bench.site.main
    proxy = bench.site.cluster.process("proxy").pid
    if proxy is None:
        raise RuntimeError("the proxy is down")
    cpu: dict[str, list[float]] = {choice: [] for choice in CHOICES}
    samples: dict[str, list[float]] = {choice: [] for choice in CHOICES}
    rounds = 2 * bench.plan.latency // _PARTS
    for part in range(_PARTS):
        requests = _requests(account, part)
        for number in range(rounds):
            for choice in _ORDERS[number % len(_ORDERS)]:
                began = cpu_seconds(proxy)
                timing = account.connection.exchange(requests[choice])
                samples[choice].append(timing.whole * 1000)
                cpu[choice].append((cpu_seconds(proxy) - began) * 1000)
            bench.progress.step(part * rounds + number + 1, _PARTS * rounds)
    for choice in CHOICES[1:]:
        for suffix, title, quantile in (("p50", "median", 0.5), ("mean", "mean", None)):
            yield Figure(
                f"records.{choice}.{suffix}",
                f"GET 1 KiB, records of {choice} against none, {title}",
                "ms",
                samples[choice],
                samples[_NONE],
                quantile=quantile,
            )
    for choice in CHOICES[1:]:
        title = f"CPU time of the proxy, records of {choice} against none"
        yield Figure(f"records.{choice}.cpu", title, "ms", cpu[choice], cpu[_NONE])
    yield Figure("records.encode", "encoding one record", "us", _encoding(bench))


def _requests(account: Account, part: int) -> Mapping[str, Request]:
    """Requests of each choice, of new storlets whose workers are warm."""
    requests = {}
    for choice in CHOICES:
        code = python_code("identity.py", "Identity", f"records_{choice}_{part}.py")
        account.send("PUT", f"storlet/{code.name}", {**code.headers(), _WISH: choice}, code.data)
        requests[choice] = account.request("GET", SMALL, {"X-Run-Storlet": code.name})
    for request in [*requests.values()] * WARM_UP:
        account.connection.exchange(request)
    return requests


def cpu_seconds(pid: int) -> float:
    """CPU time of a server and of its worker processes."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    pids = [str(pid), *children]
    times = (Path(f"/proc/{each}/schedstat").read_text(encoding="ascii") for each in pids)
    return sum(int(text.split()[0]) for text in times) / 1e9


def _encoding(bench: Bench) -> list[float]:
    """Microseconds for a record, in batches."""
    record = Record(
        id="tx0af7651916cd43dd8448e-006b049e3a-21629",
        time=time.time(),
        account=bench.site.main.name,
        storlets=(StorletRef("identity.py", "5f" * 32),),
        caller="test:tester",
        method="GET",
        object=SMALL,
        placement="object",
        why="default",
        node="node-1",
        code="ok",
        auth_seconds=0.000912,
        queue_seconds=0.0,
        cold_start_seconds=0.000112,
        worker_seconds=0.000163,
        first_byte_seconds=0.003456,
        total_seconds=0.004567,
        cpu_seconds=0.000195,
        peak_memory_bytes=14139392,
        bytes_in=1024,
        bytes_out=1024,
    )
    samples = []
    for _ in range(bench.plan.small // 10):
        began = time.perf_counter()
        for _ in range(_BATCH):
            record.as_line()
        samples.append((time.perf_counter() - began) / _BATCH * 1e6)
    return samples
