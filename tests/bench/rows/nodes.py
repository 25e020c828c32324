"""1 GiB spread over 1, 2, 4 and 8 object-server nodes with equally slow disks, scanned
concurrently.

Each node has a network namespace, a disk, an object server and a separate account, and so a sandbox
(:mod:`tests.bench.storage_nodes`).  Unlike real nodes they share this machine's CPUs, proxy and
sandboxd: so the scan is linear only until the CPUs are saturated, and each figure is shown with the
CPU use.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.bench.bench import Bench, Family
from tests.bench.figures import Figure, quantile
from tests.bench.http import BadAnswer
from tests.bench.node import Node, processes_of
from tests.bench.rows import scan
from tests.bench.site import PLAIN, SMALL, Account, Site, Treatment, own_site, python_code
from tests.bench.storage_nodes import NoNodes, StorageNode, storage_nodes

_COUNTS: Final = (2, 4, 8)
_TREATMENTS: Final = [Treatment(str(count), f"{count} nodes against one") for count in _COUNTS]
_DISK_BYTES_PER_SECOND: Final = 200_000_000
_CONTAINER: Final = "records"
_STORLET: Final = "one_percent.py"
#: Share of all CPUs from which on they are the bottleneck.
_FULL: Final = 0.95
_TITLE: Final = "scan, MB/s a node"


def measure(bench: Bench) -> Iterator[Figure]:
    """MB/s of each node: with several nodes, and ("plain") with one. The ratio is the share of
    linear scaling."""
    try:
        with (
            own_site() as site,
            storage_nodes(site, max(_COUNTS), bench.plan.scan_bytes) as nodes,
        ):
            yield from _figures(
                bench, [_Scanned(site, node, _part(bench, at)) for at, node in enumerate(nodes)]
            )
    except NoNodes as error:
        for treatment in _TREATMENTS:
            yield Figure(
                f"nodes.{treatment.key}", f"{_TITLE}, {treatment.title}", "MB/s", notes=[str(error)]
            )


def _part(bench: Bench, at: int) -> int:
    """Bytes of the object on node ``at``: its part in the smallest configuration with this node."""
    return scan.whole_blocks(
        bench.plan.scan_bytes // next(count for count in (1, *_COUNTS) if at < count)
    )


class _Scanned:
    """A node with an object, and a sandbox that may not read its disk faster than the limit."""

    def __init__(self, site: Site, node: StorageNode, size: int) -> None:
        self.node = node
        self._account: Account = site.new_account(f"{node.policy}-{secrets.token_hex(3)}")
        self._account.get_ready(python_code(_STORLET, "OnePercent"))
        self._account.send("PUT", _CONTAINER, {"X-Storage-Policy": node.policy})
        self._account.send("PUT", f"{_CONTAINER}/part", body=scan.records(size))
        # Read from another disk first, to start the sandbox and to load code before a namespace
        # needs it.
        self._account.send("GET", SMALL, {"X-Run-Storlet": _STORLET})
        sandbox = Node(site.cluster).of(self._account.name)
        if sandbox is None or not sandbox.container:
            raise RuntimeError("the sandbox is gone")
        node.limit_reads(processes_of(sandbox.container), _DISK_BYTES_PER_SECOND)

    def scan(self, size: int) -> None:
        """The first ``size`` bytes of its object."""
        headers = {"X-Run-Storlet": _STORLET, "X-Storlet-Range": f"bytes=0-{size - 1}"}
        kept = self._account.send("GET", f"{_CONTAINER}/part", headers).size
        if kept != size // scan.ONE_OF:
            raise BadAnswer(f"{self.node.policy}: {kept} bytes kept of {size}")


def _figures(bench: Bench, nodes: list[_Scanned]) -> Iterator[Figure]:
    busy: dict[str, list[float]] = {}

    def one(treatment: Treatment) -> float:
        count = 1 if treatment is PLAIN else int(treatment.key)
        size = scan.whole_blocks(bench.plan.scan_bytes // count)
        for scanned in nodes[:count]:
            scanned.node.forget()
        before = Cpus.now()
        list(pool.map(lambda scanned: scanned.scan(size), nodes[:count]))
        after = Cpus.now()
        busy.setdefault(treatment.key, []).append(after.busy_since(before))
        return size / (after.at - before.at) / 1e6

    with ThreadPoolExecutor(max(_COUNTS)) as pool:
        bench.alternate(_TREATMENTS[-1:], 1, one)
        busy.clear()
        samples = bench.alternate(_TREATMENTS, bench.plan.scans, one)
    alone = quantile(sorted(samples[PLAIN.key]), 0.5)
    bench.facts["nodes"] = (
        f"each disk is limited to {_DISK_BYTES_PER_SECOND / 1e6:.0f} MB/s, one node alone scans {alone:.0f} MB/s with "
        f"{quantile(sorted(busy[PLAIN.key]), 0.5):.2f} CPUs busy"
    )
    bench.progress.say(bench.facts["nodes"])
    if alone > 1.1 * _DISK_BYTES_PER_SECOND / 1e6:
        raise RuntimeError(
            f"the limit of {_DISK_BYTES_PER_SECOND} bytes a second does not hold: {alone:.0f} MB/s"
        )
    for figure in Family("nodes", _TITLE, "MB/s", is_rate=True).figures(_TREATMENTS, samples):
        name_limit(figure, quantile(sorted(busy[figure.key.partition(".")[2]]), 0.5))
        yield figure


def name_limit(figure: Figure, busy: float) -> None:
    """The note beside a figure; a figure that was measured with all CPUs busy has another key and
    no promise."""
    cpus = os.cpu_count() or 1
    if busy < _FULL * cpus:
        figure.notes.append(f"{busy:.2f} of {cpus} CPUs busy: the disks are the limit")
    else:
        figure.key += ".full"
        figure.title += ", CPUs full"
        figure.notes.append(f"{busy:.2f} of {cpus} CPUs busy: they are the limit")


@dataclass(frozen=True)
class Cpus:
    """Seconds of all CPUs at a moment."""

    at: float
    busy: float

    @classmethod
    def now(cls) -> Cpus:
        words = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:9]
        user, nice, system, _, _, irq, soft, stolen = (int(word) for word in words)
        return cls(
            time.perf_counter(),
            (user + nice + system + irq + soft + stolen) / os.sysconf("SC_CLK_TCK"),
        )

    def busy_since(self, before: Cpus) -> float:
        """How many CPUs were busy, on average."""
        return (self.busy - before.busy) / (self.at - before.at)
