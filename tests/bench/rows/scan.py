"""A filter that keeps 1% of the records of a large object, at the object node, against GET and the
same filter in the client.

Over the loopback device and over a link of 1 Gbit/s, each time with all copies of the object in the
page cache; and over the loopback device with an empty page cache.  The kernel charges the pages
that a worker reads from a disk to its sandbox, whose memory is smaller than the object, so the next
scan finds none of them; pages that other processes have read stay.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from tests.bench.bench import Bench, Family
from tests.bench.figures import Figure, quantile
from tests.bench.http import BadAnswer, Connection
from tests.bench.link import NoLink, connected
from tests.bench.node import CpuTimes, names_of
from tests.bench.site import CONTAINER, PLAIN, Account, Treatment, python_code
from tests.bench.storlets.one_percent import DROP, FLAG_AT, KEEP, RECORD_BYTES, Scanner

OBJECT: Final = f"{CONTAINER}/records"
FILTER: Final = python_code("one_percent.py", "OnePercent")
#: One record in this number is kept.
ONE_OF: Final = 100
_READ_BYTES: Final = 1 << 20


def measure(bench: Bench) -> Iterator[Figure]:
    """GB/s of the object's bytes, on either side."""
    account = bench.site.main
    size = _upload(bench)
    account.upload(FILTER)
    copies = Copies.of(bench, size)
    yield _figure(bench, account.connection, size, "loopback", "loopback", copies.cache)
    yield _figure(bench, account.connection, size, "disk", "loopback, from the disk", copies.forget)
    try:
        with connected(bench.site) as connection:
            yield _figure(bench, connection, size, "link", "1 Gbit/s", copies.cache)
    except NoLink as error:
        yield Figure("scan.link", "1% of 1 GiB, 1 Gbit/s", "GB/s", notes=[str(error)])


class Copies:
    """The files of an object, found by their length.

    :param disks: Swift's data directories of all policies.
    :param size: of the object, in bytes.
    """

    def __init__(self, disks: list[Path], size: int) -> None:
        data = (path for disk in disks for path in disk.glob("objects*/**/*.data"))
        self.files = [path for path in data if path.stat().st_size == size]
        if not self.files:
            raise BadAnswer(f"no file of {size} bytes on {', '.join(map(str, disks))}")

    @classmethod
    def of(cls, bench: Bench, size: int) -> Copies:
        """Those of the object of ``size`` on the cluster's disks."""
        return cls([Path(disk["path"]) for disk in bench.site.cluster.description["disks"]], size)

    def forget(self) -> None:
        """Drop the object from the page cache."""
        for path in self.files:
            with path.open("rb") as data:
                os.fsync(data.fileno())
                os.posix_fadvise(data.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def cache(self) -> None:
        """Read all of the object into the page cache, charged to no sandbox."""
        self.forget()
        buffer = bytearray(_READ_BYTES)
        for path in self.files:
            with path.open("rb", buffering=0) as data:
                while data.readinto(buffer):
                    pass


def _upload(bench: Bench) -> int:
    """Store the object; return its size."""
    body = records(whole_blocks(bench.plan.scan_bytes))
    bench.site.main.send("PUT", OBJECT, body=body)
    return len(body)


def whole_blocks(size: int) -> int:
    """``size`` rounded down to whole blocks of :data:`ONE_OF` records."""
    return size - size % (ONE_OF * RECORD_BYTES)


def records(size: int) -> bytes:
    """``size`` bytes of records, for a size from :func:`whole_blocks`."""
    kinds = [KEEP if number == ONE_OF // 2 else DROP for number in range(ONE_OF)]
    lines = [b"%0*d%b" % (FLAG_AT, number, kind) for number, kind in enumerate(kinds)]
    block = b"".join(line.ljust(RECORD_BYTES - 1, b".") + b"\n" for line in lines)
    return block * (size // len(block))


def scans(
    account: Account, connection: Connection, path: str, size: int, treatments: list[Treatment]
) -> Callable[[Treatment], float]:
    """A function that scans the object once and returns the seconds.

    It raises :class:`BadAnswer` for another number of kept bytes.
    """
    requests = {each.key: account.request("GET", path, each.headers) for each in treatments}

    def scan(treatment: Treatment) -> float:
        scanner, kept = Scanner(), 0

        def take(data: memoryview) -> None:
            nonlocal kept
            kept += len(scanner.feed(data)) if treatment is PLAIN else len(data)

        timing = connection.exchange(requests[treatment.key], take)
        if kept != size // ONE_OF:
            raise BadAnswer(f"{requests[treatment.key].text}: {kept} bytes kept of {size}")
        return timing.whole

    return scan


def _figure(
    bench: Bench,
    connection: Connection,
    size: int,
    key: str,
    title: str,
    make_ready: Callable[[], None],
) -> Figure:
    storlet = Treatment(key, title, {"X-Run-Storlet": FILTER.name})
    scan = scans(bench.site.main, connection, OBJECT, size, [PLAIN, storlet])
    busiest: dict[str, str] = {}

    def one(treatment: Treatment) -> float:
        make_ready()
        before = CpuTimes.now()
        seconds = scan(treatment)
        used = CpuTimes.now().busiest(before, names_of(bench.site.cluster))
        busiest[treatment.key] = ", ".join(f"{name} {share:.0%}" for name, share in used)
        return size / seconds / 1e9

    bench.alternate([storlet], 1, one)
    samples = bench.alternate([storlet], bench.plan.scans, one)
    rate = quantile(sorted(samples[key]), 0.5)
    notes = (
        f"the storlet scans {rate:.2f} GB/s; the busiest were then {busiest[key]} of a CPU; plain: {busiest[PLAIN.key]}",
    )
    size_text = f"{size / (1 << 30):.2g} GiB"
    return Family("scan", f"1% of {size_text}", "GB/s", is_rate=True, notes=notes).figures(
        [storlet], samples
    )[0]
