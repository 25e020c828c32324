"""S3 Select of 1% of the rows of CSV, against DuckDB that reads the same file locally, with as many
threads.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.bench import local_engine, tables
from tests.bench.bench import Bench, Family
from tests.bench.figures import Figure
from tests.bench.http import BadAnswer
from tests.bench.rows.scan import Copies
from tests.bench.site import CONTAINER, PLAIN, Treatment
from tests.functional.s3 import S3V4

_USER: Final = "test:tester"
_KEY: Final = f"{CONTAINER}/select.csv"
_MIB: Final = 1 << 20
_QUERY: Final = f"SELECT s.id, s.note FROM S3Object s WHERE s.kind = '{tables.KEPT}'"  # noqa: S608 - of constants
_DOCUMENT: Final = f"""\
<SelectObjectContentRequest xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
<Expression>{_QUERY}</Expression><ExpressionType>SQL</ExpressionType>
<InputSerialization><CSV><FileHeaderInfo>USE</FileHeaderInfo></CSV></InputSerialization>
<OutputSerialization><CSV></CSV></OutputSerialization>
</SelectObjectContentRequest>
"""
_STORLET: Final = Treatment("csv", "against DuckDB on the file")


def measure(bench: Bench) -> Iterator[Figure]:
    """MB/s of the object's bytes, on either side."""
    table = tables.text(bench.plan.scan_bytes)
    bench.site.main.send("PUT", _KEY, body=table.data)
    path = file_of(bench, len(table.data))
    cluster = bench.site.cluster
    key = cluster.description["users"][_USER]
    client = S3V4(cluster.auth_url.rpartition("/auth")[0], _USER, key)
    local = (
        f"SELECT id, note FROM read_csv('{path}', header = true, all_varchar = true)"  # noqa: S608
        f" WHERE kind = '{tables.KEPT}'"
    )

    def one(treatment: Treatment) -> float:
        began = time.perf_counter()
        if treatment is PLAIN:
            rows = len(local_engine.rows_of(local))
        else:
            rows = records_of(_selected(client)).count(b"\n")
        seconds = time.perf_counter() - began
        if rows != table.kept:
            raise BadAnswer(f"{treatment.title}: {rows} rows of {table.kept}")
        return len(table.data) / seconds / 1e6

    bench.alternate([_STORLET], 1, one)
    samples = bench.alternate([_STORLET], bench.plan.scans, one)
    notes = (f"both with {local_engine.THREADS} threads",)
    title = f"S3 Select of 1% of {len(table.data) / _MIB:.0f} MiB of CSV"
    yield from Family("select", title, "MB/s", is_rate=True, notes=notes).figures(
        [_STORLET], samples
    )


def file_of(bench: Bench, size: int) -> Path:
    """A copy of the object with ``size`` bytes on a disk of the node, in the page cache."""
    disks = [Path(disk["path"]) for disk in bench.site.cluster.description["disks"]]
    copies = Copies(disks, size)
    copies.cache()
    return copies.files[0]


def _selected(client: S3V4) -> bytes:
    answer: Any = client.request(
        "POST", _KEY, query="select=&select-type=2", body=_DOCUMENT.encode()
    )
    if answer.status != 200:
        raise BadAnswer(f"S3 Select: {answer.status} {answer.body[:500]!r}")
    return bytes(answer.body)


def records_of(stream: bytes) -> bytes:
    """The records in an event stream.

    :raises BadAnswer: it has no last message, or an error.
    """
    found, at, last = [], 0, b""
    while at < len(stream):
        total, headers = (int.from_bytes(stream[at + n : at + n + 4], "big") for n in (0, 4))
        last = stream[at + 12 : at + 12 + headers]
        if b"Records" in last:
            found.append(stream[at + 12 + headers : at + total - 4])
        at += total
    if b"End" not in last:
        raise BadAnswer(f"S3 Select: the last message is {last!r}")
    return b"".join(found)
