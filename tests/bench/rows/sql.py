"""SQL at the object node against GET and DuckDB in the client: 1% of the rows of CSV, and the sum
of one column of twenty of Parquet.

Over the loopback device and over a link of 1 Gbit/s.  Over the loopback device the client reads of
Parquet only the ranges that its query needs.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.bench import local_engine, tables
from tests.bench.bench import Bench, Family
from tests.bench.figures import Figure
from tests.bench.http import BadAnswer, Connection
from tests.bench.link import NoLink, connected
from tests.bench.site import CONTAINER, PLAIN, Treatment

_CSV: Final = f"{CONTAINER}/table.csv"
_PARQUET: Final = f"{CONTAINER}/columns.parquet"
_MIB: Final = 1 << 20
_SELECT: Final = f"SELECT id, note FROM {{}} WHERE kind = '{tables.KEPT}'"  # noqa: S608 - of constants
_SUM: Final = f"SELECT sum({tables.COLUMN}) AS total FROM {{}}"  # noqa: S608 - of constants


@dataclass(frozen=True)
class _Work:
    """One query of one object.

    :ivar wanted: the output of the storlet.
    :ivar in_client: whether the client's rows, over a connection, are right.
    """

    key: str
    title: str
    path: str
    size: int
    storlet: Treatment
    wanted: Callable[[bytes], bool]
    in_client: Callable[[Connection], bool]


def measure(bench: Bench) -> Iterator[Figure]:
    """MB/s of the object's bytes, on either side."""
    csv, parquet, ranged = _works(bench)
    account = bench.site.main
    yield _figure(bench, account.connection, csv, "loopback", "loopback")
    yield _figure(bench, account.connection, ranged, "loopback", "loopback, client with ranges")
    try:
        with connected(bench.site) as connection:
            for work in (csv, parquet):
                yield _figure(bench, connection, work, "link", "1 Gbit/s")
    except NoLink as error:
        for work in (csv, parquet):
            yield Figure(f"sql.{work.key}.link", work.title, "MB/s", notes=[str(error)])


def _works(bench: Bench) -> tuple[_Work, _Work, _Work]:
    """CSV, Parquet by a GET of the whole object, and Parquet by ranges; stores the objects."""
    account = bench.site.main
    table = tables.text(bench.plan.scan_bytes)
    account.send("PUT", _CSV, body=table.data)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "columns.parquet")
        total = tables.write_parquet(path, bench.plan.scan_bytes)
        body = path.read_bytes()
    account.send("PUT", _PARQUET, body=body)
    size, count = len(body), table.kept

    def csv_rows(connection: Connection) -> bool:
        request = account.request("GET", _CSV)
        return len(local_engine.over_stream(connection, request, rows_in_csv)) == count

    def whole(connection: Connection) -> bool:
        request = account.request("GET", _PARQUET)
        return local_engine.over_file(connection, request, _sum_in_parquet) == [(total,)]

    def ranges(connection: Connection) -> bool:
        def read(at: int, length: int) -> bytes:
            got = bytearray()
            wanted = {"Range": f"bytes={at}-{at + length - 1}"}
            connection.exchange(account.request("GET", _PARQUET, wanted), got.extend)
            return bytes(got)

        return local_engine.over_ranges(size, read, _sum_in_parquet) == [(total,)]

    def is_sum(got: bytes) -> bool:
        return got == f"total\n{total}\n".encode()

    column = f"1 column of {tables.COLUMNS} of {size / _MIB:.0f} MiB of Parquet"
    of_sum = _storlet("std:sql-parquet", _SUM)
    return (
        _Work(
            "csv",
            f"1% of {len(table.data) / _MIB:.0f} MiB of CSV",
            _CSV,
            len(table.data),
            _storlet("std:sql", _SELECT),
            lambda got: got.count(b"\n") == count + 1,
            csv_rows,
        ),
        _Work("parquet", column, _PARQUET, size, of_sum, is_sum, whole),
        _Work("parquet", column, _PARQUET, size, of_sum, is_sum, ranges),
    )


def rows_in_csv(path: str) -> str:
    """The query of the rows in a file of CSV."""
    return _SELECT.format(f"read_csv('{path}')")


def _sum_in_parquet(path: str) -> str:
    return _SUM.format(f"read_parquet('{path}')")


def _storlet(name: str, query: str) -> Treatment:
    return Treatment(
        name,
        name,
        {"X-Run-Storlet": name, "X-Storlet-Parameter-1": f"query:{query.format('input')}"},
    )


def _figure(bench: Bench, connection: Connection, work: _Work, key: str, title: str) -> Figure:
    storlet = Treatment(key, title, work.storlet.headers)
    request = bench.site.main.request("GET", work.path, storlet.headers)

    def one(treatment: Treatment) -> float:
        began = time.perf_counter()
        if treatment is PLAIN:
            is_right = work.in_client(connection)
        else:
            got = bytearray()
            connection.exchange(request, got.extend)
            is_right = work.wanted(bytes(got))
        seconds = time.perf_counter() - began
        if not is_right:
            raise BadAnswer(f"{work.title}, {title}, {treatment.title}: the result is wrong")
        return work.size / seconds / 1e6

    bench.alternate([storlet], 1, one)
    samples = bench.alternate([storlet], bench.plan.scans, one)
    family = Family(f"sql.{work.key}", work.title, "MB/s", is_rate=True)
    return family.figures([storlet], samples)[0]
