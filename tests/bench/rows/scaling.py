"""Word count, grep and AES encryption over 1, 2, 4 and 8 nodes by ``std:distributed``.

The nodes are those of the row ``nodes``: object servers with equally slow disks, which share this
machine's CPUs.  One account has objects on all of them, so one request works on all nodes, with two
objects of each at a time.  Its sandbox reads each disk at the same limited rate.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from tests.bench.bench import Bench, Family
from tests.bench.figures import Figure, quantile
from tests.bench.http import BadAnswer
from tests.bench.node import Node, processes_of
from tests.bench.rows.native import built
from tests.bench.rows.nodes import Cpus, name_limit
from tests.bench.site import PLAIN, SMALL, STORLETS, Account, Code, Site, Treatment, own_site
from tests.bench.storage_nodes import NoNodes, StorageNode, storage_nodes

COUNTS: Final = (1, 2, 4, 8)
#: Objects of a distribution over any number of nodes.
_OBJECTS: Final = 16
_ENCRYPTION: Final = "aes.so"
_LINE: Final = b"2026-07-01 INFO  a line of a log without anything to find in it ........\n"
#: Of each disk, in KiB: 0.04 s of the slowest one. ``docs/benchmark/method.rst`` has the reason.
_READ_AHEAD: Final = 128
#: Further workers than the default: each of eight nodes has two runs.
_OPTIONS: Final = {
    "storlet.conf:invocation": {"workers_python": 16, "workers_native": 16},
}


@dataclass(frozen=True)
class _Work:
    """A kind of work; ``rate`` is that of each disk, so low that eight of them need few CPUs."""

    key: str
    title: str
    rate: int
    document: dict[str, Any]

    def object_bytes(self, seconds: int) -> int:
        """Bytes of each object: one disk reads all objects in ``seconds``."""
        return self.rate * seconds // _OBJECTS

    @property
    def treatments(self) -> list[Treatment]:
        return [
            Treatment(f"{self.key}.{count}", f"{count} nodes against one") for count in COUNTS[1:]
        ]


WORKS: Final = (
    _Work("words", "word count", 3_000_000, {"split": "std:wordcount", "merge": "std:sum"}),
    _Work(
        "grep", "grep", 4_000_000,
        {"split": {"storlet": "std:grep", "parameters": {"pattern": "WARN"}}, "merge": "concat"},
    ),
    _Work("aes", "AES encryption", 4_000_000, {"split": _ENCRYPTION}),
)  # fmt: skip


def objects_on(at: int) -> int:
    """Objects of each kind of work on node ``at``: as many as the smallest distribution with it
    needs."""
    return _OBJECTS // next(count for count in COUNTS if at < count)


def bytes_on(at: int, seconds: int) -> int:
    """Bytes of the objects of all kinds of work on node ``at``, which stay there."""
    return sum(objects_on(at) * work.object_bytes(seconds) for work in WORKS)


def encryption() -> Code:
    """The shared object; its instructions are those of x86-64."""
    data = built(STORLETS / "native/aes.c", "-maes")
    return Code(_ENCRYPTION, "native", f"{_ENCRYPTION}:aes", data)


def measure(bench: Bench) -> Iterator[Figure]:
    """MB/s of each node: with several nodes, and ("plain") with one. The ratio is the share of
    linear scaling."""
    seconds = bench.plan.scaling_seconds
    try:
        with (
            own_site() as site,
            storage_nodes(site, COUNTS[-1], bytes_on(0, seconds), _OPTIONS) as nodes,
        ):
            for node in nodes:
                node.limit_read_ahead(_READ_AHEAD)
            for work in WORKS:
                yield from _figures(bench, _Spread(site, nodes, work, seconds))
    except NoNodes as error:
        for work in WORKS:
            for treatment in work.treatments:
                title = f"{work.title}, MB/s a node, {treatment.title}"
                yield Figure(f"scaling.{treatment.key}", title, "MB/s", notes=[str(error)])


class _Spread:
    """The objects of one kind of work on the nodes, and the account that has them."""

    def __init__(self, site: Site, nodes: list[StorageNode], work: _Work, seconds: int) -> None:
        self.work = work
        self._nodes = nodes
        size = work.object_bytes(seconds)
        self._object = (_LINE * (size // len(_LINE) + 1))[:size]
        self._account: Account = site.new_account(f"scaling-{work.key}")
        self._account.get_ready(encryption())
        for at, node in enumerate(nodes):
            self._account.send("PUT", node.policy, {"X-Storage-Policy": node.policy})
            for number in range(objects_on(at)):
                self._account.send("PUT", f"{node.policy}/{number:02}", body=self._object)
        # From another disk: the sandbox starts, and the code is loaded.
        split = work.document["split"]
        name = split if isinstance(split, str) else split["storlet"]
        parameter = {"X-Storlet-Parameter-1": "pattern:x"} if name == "std:grep" else {}
        self._account.send("GET", SMALL, {"X-Run-Storlet": name, **parameter})
        sandbox = Node(site.cluster).of(self._account.name)
        if sandbox is None or not sandbox.container:
            raise RuntimeError("the sandbox is gone")
        for node in nodes:
            node.limit_reads(processes_of(sandbox.container), work.rate)

    @property
    def size(self) -> int:
        return _OBJECTS * len(self._object)

    def forget(self, count: int) -> None:
        """Drop the objects of the first ``count`` nodes from memory."""
        for node in self._nodes[:count]:
            node.forget()

    def work_on(self, count: int) -> None:
        """All objects, which are on the first ``count`` nodes."""
        paths = [
            f"/{node.policy}/{number:02}"
            for number in range(_OBJECTS // count)
            for node in self._nodes[:count]
        ]
        document = {**self.work.document, "objects": paths, "concurrency": 2 * count}
        headers = {"X-Run-Storlet": "std:distributed"}
        body = json.dumps(document).encode()
        timing = self._account.send("POST", "", headers, body)
        if not timing.size and self.work.key != "grep":
            raise BadAnswer(f"{self.work.title}: an empty answer")


def _figures(bench: Bench, spread: _Spread) -> Iterator[Figure]:
    work, busy = spread.work, dict[str, list[float]]()

    def one(treatment: Treatment) -> float:
        count = 1 if treatment is PLAIN else int(treatment.key.rpartition(".")[2])
        spread.forget(count)
        before = Cpus.now()
        spread.work_on(count)
        after = Cpus.now()
        busy.setdefault(treatment.key, []).append(after.busy_since(before))
        return spread.size / count / (after.at - before.at) / 1e6

    bench.alternate(work.treatments[-1:], 1, one)
    busy.clear()
    samples = bench.alternate(work.treatments, bench.plan.distributions, one)
    alone = quantile(sorted(samples[PLAIN.key]), 0.5)
    if alone > 1.1 * work.rate / 1e6:
        raise RuntimeError(f"the limit of {work.rate} bytes a second does not hold: {alone} MB/s")
    family = Family("scaling", f"{work.title}, MB/s a node", "MB/s", is_rate=True)
    for figure in family.figures(work.treatments, samples):
        name_limit(figure, quantile(sorted(busy[figure.key.partition(".")[2]]), 0.5))
        yield figure
