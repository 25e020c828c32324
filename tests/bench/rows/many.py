"""SQL over many objects of CSV: ``std:distributed`` with ``std:sql`` and ``std:sql-merge``, against
as many client threads, each of which GETs objects and queries them with DuckDB while they arrive.

Over the loopback device and over a link of 1 Gbit/s.  The client merges the rows of its threads, as
the storlet does those of the objects.
"""

from __future__ import annotations

import csv
import io
import json
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from tests.bench import local_engine, tables
from tests.bench.bench import Bench, Family
from tests.bench.figures import Figure
from tests.bench.http import BadAnswer, Connection, open_tcp
from tests.bench.link import NoLink, opened
from tests.bench.rows.distributed import CLIENTS
from tests.bench.site import PLAIN, Treatment

CONTAINER: Final = "sql-many"
_MIB: Final = 1 << 20
_QUERY: Final = (
    "SELECT city, count(*) AS n, max(price) AS most FROM {}"  # noqa: S608 - of constants
    f" WHERE kind = '{tables.KEPT}' GROUP BY city ORDER BY city"
)

#: Of each city, the number of rows and the highest price.
Result = dict[str, tuple[int, float]]


def measure(bench: Bench) -> Iterator[Figure]:
    """MB/s of the bytes of all objects, on either side."""
    account = bench.site.main
    data = tables.text(bench.plan.many_bytes).data
    names = [f"{CONTAINER}/{number:03}" for number in range(bench.plan.many_objects)]
    account.send("PUT", CONTAINER)
    for name in names:
        account.send("PUT", name, body=data)
    work = _Work(bench, names, len(data), result_of(data, len(names)))
    yield work.figure(lambda: Connection(lambda: open_tcp(account.address)), "loopback", "loopback")
    try:
        with opened(bench.site) as connect:
            yield work.figure(connect, "link", "1 Gbit/s")
    except NoLink as error:
        yield Figure("many.link", work.title, "MB/s", notes=[str(error)])


class _Work:
    """One query over all objects.

    :param wanted: its result.
    """

    def __init__(self, bench: Bench, names: list[str], size: int, wanted: Result) -> None:
        account = bench.site.main
        self._bench = bench
        self._size = size * len(names)
        self._wanted = wanted
        self._gets = [account.request("GET", name) for name in names]
        headers = {"X-Run-Storlet": "std:distributed"}
        self._whole = account.request("POST", "", headers, body())
        self.title = f"SQL over {len(names)} objects of {size / _MIB:.0f} MiB"

    def figure(self, connect: Callable[[], Connection], key: str, title: str) -> Figure:
        """The figure over connections that ``connect`` opens."""
        storlet = Treatment(key, f"{title}, against {CLIENTS} clients")

        def one(treatment: Treatment) -> float:
            began = time.perf_counter()
            run = self._by_clients if treatment is PLAIN else self._by_storlets
            result = run(connect)
            seconds = time.perf_counter() - began
            if result != self._wanted:
                raise BadAnswer(f"{self.title}, {title}, {treatment.title}: {result}")
            return self._size / seconds / 1e6

        self._bench.alternate([storlet], 1, one)
        samples = self._bench.alternate([storlet], self._bench.plan.scans, one)
        return Family("many", self.title, "MB/s", is_rate=True).figures([storlet], samples)[0]

    def _by_storlets(self, connect: Callable[[], Connection]) -> Result:
        got = bytearray()
        with closing(connect()) as connection:
            connection.exchange(self._whole, got.extend)
        rows = csv.DictReader(io.StringIO(got.decode()))
        return {row["city"]: (int(row["n"]), float(row["most"])) for row in rows}

    def _by_clients(self, connect: Callable[[], Connection]) -> Result:
        def rows_of(number: int) -> local_engine.Rows:
            found: local_engine.Rows = []
            with closing(connect()) as connection:
                for request in self._gets[number::CLIENTS]:
                    found += local_engine.over_stream(connection, request, query_of)
            return found

        with ThreadPoolExecutor(CLIENTS) as threads:
            return merged(row for rows in threads.map(rows_of, range(CLIENTS)) for row in rows)


def body() -> bytes:
    """The body of the request that distributes the query."""
    parameters = {"query": _QUERY.format("input"), "output": "partial"}
    return json.dumps({
        "objects": {"container": CONTAINER},
        "split": {"storlet": "std:sql", "parameters": parameters},
        "merge": "std:sql-merge",
        "concurrency": CLIENTS,
    }).encode()  # fmt: skip


def query_of(path: str) -> str:
    """The query over a file of CSV."""
    return _QUERY.format(f"read_csv('{path}')")


def merged(rows: Iterable[tuple[Any, ...]]) -> Result:
    """The result over all objects, from the rows of each."""
    found: Result = {}
    for city, count, most in rows:
        before, highest = found.get(city, (0, most))
        found[city] = (before + count, max(highest, most))
    return found


def result_of(data: bytes, count: int) -> Result:
    """The result over ``count`` objects of ``data``."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "table.csv")
        path.write_bytes(data)
        return merged(local_engine.rows_of(query_of(str(path))) * count)
