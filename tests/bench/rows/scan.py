"""A filter that keeps 1% of the records of a large object, at the object node, against GET and the same filter in the client.

Over the loopback device and over a link of 1 Gbit/s.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.bench.bench import Bench, Family
from tests.bench.figures import Figure, quantile
from tests.bench.http import BadAnswer, Connection
from tests.bench.link import Link, NoLink
from tests.bench.node import CpuTimes, names_of
from tests.bench.site import CONTAINER, PLAIN, Treatment, python_code
from tests.bench.storlets.one_percent import DROP, FLAG_AT, KEEP, RECORD_BYTES, Scanner

OBJECT: Final = f"{CONTAINER}/records"
_MBIT: Final = 1000
_STORLET: Final = "one_percent.py"
#: One of so many records is kept.
ONE_OF: Final = 100


def measure(bench: Bench) -> Iterator[Figure]:
    """GB/s of the object's bytes, on either side."""
    account = bench.site.main
    size = _upload(bench)
    account.upload(python_code(_STORLET, "OnePercent"))
    yield _figure(bench, account.connection, size, "loopback", "loopback")
    bench.site.configure({"proxy-server.conf:DEFAULT": {"bind_ip": "0.0.0.0"}})
    try:
        with Link(_MBIT) as link:
            yield _figure(bench, link.connect(account.address[1]), size, "link", "1 Gbit/s")
    except NoLink as error:
        yield Figure("scan.link", "1% of 1 GiB, 1 Gbit/s", "GB/s", notes=[str(error)])
    finally:
        bench.site.configure({})


def _upload(bench: Bench) -> int:
    """Store the object; its size."""
    body = records(whole_blocks(bench.plan.scan_bytes))
    bench.site.main.send("PUT", OBJECT, body=body)
    return len(body)


def whole_blocks(size: int) -> int:
    """The most of ``size`` that is a whole number of blocks of :data:`ONE_OF` records."""
    return size - size % (ONE_OF * RECORD_BYTES)


def records(size: int) -> bytes:
    """``size`` bytes, as :func:`whole_blocks` gives them."""
    kinds = [KEEP if number == ONE_OF // 2 else DROP for number in range(ONE_OF)]
    lines = [b"%0*d%b" % (FLAG_AT, number, kind) for number, kind in enumerate(kinds)]
    block = b"".join(line.ljust(RECORD_BYTES - 1, b".") + b"\n" for line in lines)
    return block * (size // len(block))


def _figure(bench: Bench, connection: Connection, size: int, key: str, title: str) -> Figure:
    account = bench.site.main
    storlet = Treatment(key, title, {"X-Run-Storlet": _STORLET})
    requests = {t.key: account.request("GET", OBJECT, t.headers) for t in (PLAIN, storlet)}
    busiest: dict[str, str] = {}

    def one(treatment: Treatment) -> float:
        scanner, kept = Scanner(), 0

        def take(data: memoryview) -> None:
            nonlocal kept
            kept += len(data) if treatment is storlet else len(scanner.feed(data))

        before = CpuTimes.now()
        timing = connection.exchange(requests[treatment.key], take)
        used = CpuTimes.now().busiest(before, names_of(bench.site.cluster))
        busiest[treatment.key] = ", ".join(f"{name} {share:.0%}" for name, share in used)
        if kept != size // ONE_OF:
            raise BadAnswer(f"{requests[treatment.key].text}: {kept} bytes kept of {size}")
        return size / timing.whole / 1e9

    bench.alternate([storlet], 1, one)
    samples = bench.alternate([storlet], bench.plan.scans, one)
    rate = quantile(sorted(samples[key]), 0.5)
    notes = (
        f"the storlet scans {rate:.2f} GB/s; the busiest were then {busiest[key]} of a CPU; plain: {busiest[PLAIN.key]}",
    )
    size_text = f"{size / (1 << 30):.2g} GiB"
    return Family("scan", f"1% of {size_text}", "GB/s", is_rate=True, notes=notes).figures([storlet], samples)[0]
