"""Cost of records of runs: GET of 1 KiB through a no-op with each choice of the account, against
``none``; and of encoding a record, which the writer does later.

The account has one choice at a time, so short blocks of requests alternate, each after a POST of
the account.  The writer's work falls on all blocks alike.  The proxy's CPU time resolves less
than the time of a request does, on a machine that does other work, too.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from storlet_middleware.records.record import Record, StorletRef
from tests.bench.bench import WARM_UP, Bench
from tests.bench.figures import Figure
from tests.bench.site import SMALL

_WISH: Final = "X-Account-Meta-Storlet-Records"
_NONE: Final = "none"
_CHOICES: Final = (_NONE, "failures", "all")
#: Requests of a block: some two tenths of a second.
BLOCK: Final = 40
#: Requests after a POST, which removes Swift's cached facts of the account.
_FIRST: Final = 4
#: Records of a batch that is encoded.
_BATCH: Final = 500


def measure(bench: Bench) -> Iterator[Figure]:
    """One client, one connection, the storlet in Python at the object node."""
    account = bench.site.main
    (treatment, _) = bench.site.treatments("python")
    request = account.request("GET", SMALL, treatment.headers)
    proxy = bench.site.cluster.process("proxy").pid
    if proxy is None:
        raise RuntimeError("the proxy is down")
    cpu: dict[str, list[float]] = {choice: [] for choice in _CHOICES}
    samples: dict[str, list[float]] = {choice: [] for choice in _CHOICES}
    for _ in range(WARM_UP):
        account.connection.exchange(request)
    rounds = 2 * bench.plan.latency // BLOCK
    try:
        for number in range(rounds):
            start = number % len(_CHOICES)
            for choice in _CHOICES[start:] + _CHOICES[:start]:
                account.send("POST", "", {_WISH: choice})
                for _ in range(_FIRST):
                    account.connection.exchange(request)
                began = cpu_seconds(proxy)
                samples[choice] += [
                    account.connection.exchange(request).whole * 1000 for _ in range(BLOCK)
                ]
                cpu[choice].append((cpu_seconds(proxy) - began) / BLOCK * 1000)
            bench.progress.step(number + 1, rounds)
    finally:
        account.send("POST", "", {_WISH: ""})
    for choice in _CHOICES[1:]:
        for suffix, title, quantile in (("p50", "median", 0.5), ("mean", "mean", None)):
            yield Figure(
                f"records.{choice}.{suffix}",
                f"GET 1 KiB, records of {choice} against none, {title}",
                "ms",
                samples[choice],
                samples[_NONE],
                quantile=quantile,
                block=BLOCK,
            )
    for choice in _CHOICES[1:]:
        title = f"CPU time of the proxy, records of {choice} against none"
        yield Figure(f"records.{choice}.cpu", title, "ms", cpu[choice], cpu[_NONE])
    yield Figure("records.encode", "encoding one record", "us", _encoding(bench))


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
