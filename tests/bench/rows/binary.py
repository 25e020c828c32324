"""``std:records`` with 1% of the records of a large object, against GET and the filter of the row
``scan`` in the client.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from tests.bench.bench import Bench, Family
from tests.bench.figures import Figure
from tests.bench.http import BadAnswer, Connection
from tests.bench.link import NoLink, connected
from tests.bench.rows.scan import ONE_OF, records, whole_blocks
from tests.bench.site import CONTAINER, PLAIN, Treatment
from tests.bench.storlets.one_percent import FLAG_AT, KEEP, RECORD_BYTES, Scanner

_OBJECT: Final = f"{CONTAINER}/binary"
_MIB: Final = 1 << 20
_REST: Final = RECORD_BYTES - FLAG_AT - len(KEEP)
HEADERS: Final = {
    "X-Run-Storlet": "std:records",
    "X-Storlet-Parameter-1": f"struct:s{FLAG_AT} number, s{len(KEEP)} kind, b{_REST} rest",
    "X-Storlet-Parameter-2": f"where:kind = '{KEEP.decode()}'",
}


def measure(bench: Bench) -> Iterator[Figure]:
    """MB/s of the object's bytes, on either side."""
    body = records(whole_blocks(bench.plan.table_bytes))
    bench.site.main.send("PUT", _OBJECT, body=body)
    yield _figure(bench, bench.site.main.connection, len(body), "loopback", "loopback")
    try:
        with connected(bench.site) as connection:
            yield _figure(bench, connection, len(body), "link", "1 Gbit/s")
    except NoLink as error:
        yield Figure("binary.link", "std:records, 1 Gbit/s", "MB/s", notes=[str(error)])


def _figure(bench: Bench, connection: Connection, size: int, key: str, title: str) -> Figure:
    account = bench.site.main
    storlet = Treatment(key, title, HEADERS)
    requests = {t.key: account.request("GET", _OBJECT, t.headers) for t in (PLAIN, storlet)}

    def one(treatment: Treatment) -> float:
        scanner, kept = Scanner(), 0

        def take(data: memoryview) -> None:
            nonlocal kept
            kept += len(data) if treatment is storlet else len(scanner.feed(data))

        began = time.perf_counter()
        connection.exchange(requests[treatment.key], take)
        seconds = time.perf_counter() - began
        if kept != size // ONE_OF:
            raise BadAnswer(f"{requests[treatment.key].text}: {kept} bytes kept of {size}")
        return size / seconds / 1e6

    bench.alternate([storlet], 1, one)
    samples = bench.alternate([storlet], bench.plan.scans, one)
    text = f"std:records, 1% of {size / _MIB:.0f} MiB"
    return Family("binary", text, "MB/s", is_rate=True).figures([storlet], samples)[0]
