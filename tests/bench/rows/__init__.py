"""The rows, each a module or one of its functions; :data:`ROWS` is the table, in running order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from tests.bench.bench import Bench
from tests.bench.figures import Figure
from tests.bench.rows import (
    binary,
    breakdown,
    bundles,
    calls,
    count,
    distributed,
    driver,
    engine,
    first,
    fixity,
    follow,
    isolation,
    latency,
    library,
    load,
    many,
    memory,
    native,
    nodes,
    outputs,
    ranges,
    records,
    rules,
    s3_select,
    scaling,
    scan,
    seek,
    services,
    sql,
    stream,
    study,
    tenants,
    traffic,
)


@dataclass(frozen=True)
class Row:
    """``name`` is the value for ``ROWS=``.

    :param seconds: estimated duration on two cores, rounded up.
    :param quick_seconds: the same with :data:`tests.bench.plan.QUICK`; 0: not in ``make
        bench-quick``.
    :param only_named: runs only if named, because it takes as long as all other rows together, or
        needs an index of Python packages.
    """

    name: str
    title: str
    measure: Callable[[Bench], Iterator[Figure]]
    seconds: int
    quick_seconds: int = 0
    only_named: bool = False

    def about(self, *, quick: bool) -> int:
        """Estimated seconds. A row that is not in the quick plan has the estimate of the full
        plan."""
        return (self.quick_seconds if quick else 0) or self.seconds


ROWS: Final = (
    Row("driver", "the benchmark's client against an empty server", driver.measure, 12, 3),
    # First: PSS divides shared memory, and sandboxes of other rows would reduce it.
    Row("memory", "memory of an idle sandbox", memory.measure, 12, 12),
    Row("latency", "GET of 1 KiB through a no-op", latency.measure, 30, 10),
    Row("breakdown", "stages of a GET of 1 KiB", breakdown.measure, 20),
    Row("count", "Python calls of a GET of 1 KiB", count.measure, 6),
    Row("stream", "GET of 100 MiB through identity", stream.get, 15, 12),
    Row("put", "PUT of 100 MiB through identity", stream.put, 30, 15),
    Row("copy", "COPY of 100 MiB through identity", stream.copy, 50, 30),
    Row("calls", "calls of a no-op by another storlet", calls.measure, 30, 10, only_named=True),
    Row("services", "reads by a running storlet", services.measure, 45, 20, only_named=True),
    Row("native", "programs and shared objects", native.measure, 45, only_named=True),
    Row("load", "requests a second with 16 and 64 clients", load.measure, 125, 35),
    Row("first", "first calls", first.measure, 60, 35),
    Row("bundle", "a bundle with numpy", bundles.measure, 90, only_named=True),
    Row("isolation", "storlets with and without a sandbox", isolation.measure, 110),
    Row("fixity", "MD5 and SHA-256 of 100 MiB", fixity.measure, 12),
    Row("scan", "a filter that keeps 1% of an object", scan.measure, 110),
    Row(
        "seek",
        "1% of a Parquet file, which a storlet seeks",
        seek.measure,
        120,
        60,
        only_named=True,
    ),
    Row("ranges", "1 KiB of a compressed object", ranges.measure, 90, 30, only_named=True),
    Row("sql", "SQL over CSV and Parquet", sql.measure, 240, 75, only_named=True),
    Row("select", "S3 Select of 1% of CSV", s3_select.measure, 45, 20, only_named=True),
    Row("engine", "first call of std:sql", engine.measure, 45, 15, only_named=True),
    Row("binary", "1% of an object with std:records", binary.measure, 190, 60, only_named=True),
    Row("library", "grep, SHA-256 and zstd on the node", library.measure, 270, 70, only_named=True),
    Row("distributed", "a storlet on many objects", distributed.measure, 180, 25, only_named=True),
    Row("tiny", "10,000 objects in a request", distributed.tiny, 600, 60, only_named=True),
    Row("many", "SQL over many objects", many.measure, 240, 40, only_named=True),
    Row("scaling", "three kinds of work over 8 nodes", scaling.measure, 600, 120, only_named=True),
    Row("outputs", "several outputs of a run", outputs.measure, 60, 20, only_named=True),
    Row("nodes", "a scan spread over 1, 2, 4 and 8 nodes", nodes.measure, 90),
    Row("traffic", "plain requests with the filter in the pipelines", traffic.measure, 300),
    Row("rules", "plain GETs of accounts with 0 to 1,000 rules", rules.measure, 40),
    Row("records", "records of all, of failed and of no runs", records.measure, 76),
    Row(
        "follow",
        "a storlet while another account is followed",
        follow.measure,
        330,
        150,
        only_named=True,
    ),
    Row("tenants", "more tenants than sandboxes", tenants.measure, 80),
    Row("study", "IBM's study of its Storlet Engine", study.measure, 870, 80, only_named=True),
)

NAMES: Final = tuple(row.name for row in ROWS)
#: Rows that run only if named.
APART: Final = tuple(row.name for row in ROWS if row.only_named)
#: Start and stop of the benchmark's cluster, when everything has been built before.
CLUSTER_SECONDS: Final = 20


def chosen(names: Collection[str], *, quick: bool) -> list[Row]:
    """The rows of a run: those of ``names``, or those of the plan."""
    if names:
        return [row for row in ROWS if row.name in names]
    return [row for row in ROWS if not row.only_named and (row.quick_seconds or not quick)]


def estimate(rows: Iterable[Row], *, quick: bool) -> int:
    """Estimated seconds of a run of ``rows``."""
    return CLUSTER_SECONDS + sum(row.about(quick=quick) for row in rows)
