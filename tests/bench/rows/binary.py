"""``std:records`` with 1% of the records of a large object, against GET and the filter of the row
``scan`` in the client, and against that filter as a storlet.

All copies of the object are in the page cache, as in ``scan``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.bench.bench import Bench, Family
from tests.bench.figures import Figure
from tests.bench.http import Connection
from tests.bench.link import NoLink, connected
from tests.bench.rows.scan import FILTER, Copies, records, scans, whole_blocks
from tests.bench.site import CONTAINER, PLAIN, Treatment
from tests.bench.storlets.one_percent import FLAG_AT, KEEP, RECORD_BYTES

_OBJECT: Final = f"{CONTAINER}/binary"
_MIB: Final = 1 << 20
_REST: Final = RECORD_BYTES - FLAG_AT - len(KEEP)
HEADERS: Final = {
    "X-Run-Storlet": "std:records",
    "X-Storlet-Parameter-1": f"struct:s{FLAG_AT} number, s{len(KEEP)} kind, b{_REST} rest",
    "X-Storlet-Parameter-2": f"where:kind = '{KEEP.decode()}'",
}
_FILTER: Final = Treatment("filter", "the filter of scan", {"X-Run-Storlet": FILTER.name})


def measure(bench: Bench) -> Iterator[Figure]:
    """MB/s of the object's bytes, on either side."""
    body = records(whole_blocks(bench.plan.scan_bytes))
    bench.site.main.send("PUT", _OBJECT, body=body)
    bench.site.main.upload(FILTER)
    yield from _figures(bench, bench.site.main.connection, len(body), "loopback", "loopback")
    try:
        with connected(bench.site) as connection:
            yield from _figures(bench, connection, len(body), "link", "1 Gbit/s")
    except NoLink as error:
        yield Figure("binary.link", "std:records, 1 Gbit/s", "MB/s", notes=[str(error)])


def _figures(
    bench: Bench, connection: Connection, size: int, key: str, title: str
) -> Iterator[Figure]:
    storlet = Treatment(key, title, HEADERS)
    treatments = [storlet, _FILTER]
    scan = scans(bench.site.main, connection, _OBJECT, size, [PLAIN, *treatments])
    copies = Copies.of(bench, size)

    def one(treatment: Treatment) -> float:
        copies.cache()
        return size / scan(treatment) / 1e6

    bench.alternate(treatments, 1, one)
    samples = bench.alternate(treatments, bench.plan.scans, one)
    text = f"std:records, 1% of {size / _MIB:.0f} MiB"
    family = Family("binary", text, "MB/s", is_rate=True)
    yield from family.figures([storlet], samples)
    yield from family.beside(_FILTER, [storlet], samples)
