"""Tables, the client's engine and the outputs that the rows of the system library compare."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from storlet_middleware.s3select import event_stream
from tests.bench import local_engine, tables
from tests.bench.http import BadAnswer, Request
from tests.bench.rows import binary, library, many, s3_select
from tests.bench.rows.scan import ONE_OF, records, whole_blocks
from tests.bench.rows.sql import rows_in_csv
from tests.library.support import LibraryStorlet


def test_one_percent_of_the_rows_of_the_text_is_kept(tmp_path: Path) -> None:
    text = tables.text(1)
    path = tmp_path / "table.csv"
    path.write_bytes(text.data)
    assert text.kept == (text.data.count(b"\n") - 1) // tables.ONE_OF
    assert len(local_engine.rows_of(rows_in_csv(str(path)))) == text.kept


def test_the_sum_of_a_column_is_the_same_by_ranges(tmp_path: Path) -> None:
    path = tmp_path / "columns.parquet"
    total = tables.write_parquet(path, 4 << 20)
    data, taken = path.read_bytes(), 0

    def read(at: int, length: int) -> bytes:
        nonlocal taken
        taken += length
        return data[at : at + length]

    query = f"SELECT sum({tables.COLUMN}) FROM read_parquet('{{}}')"  # noqa: S608 - of constants
    assert local_engine.over_ranges(len(data), read, query.format) == [(total,)]
    assert taken < len(data) / 5


class _Sent:
    """A connection whose answer is known."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def exchange(self, _request: Request, sink: local_engine.Sink) -> None:
        for at in range(0, len(self._body), 1000):
            sink(memoryview(self._body)[at : at + 1000])


def test_the_engine_reads_a_response_that_arrives() -> None:
    text, request = tables.text(1), Request(b"")
    found = local_engine.over_stream(_Sent(text.data), request, rows_in_csv)
    assert len(found) == text.kept


def test_a_query_that_fails_ends_a_response_that_arrives() -> None:
    sent, request = _Sent(tables.text(1).data), Request(b"")
    with pytest.raises(RuntimeError, match="no_such_function"):
        local_engine.over_stream(sent, request, "SELECT no_such_function('{}')".format)


def test_records_of_a_complete_event_stream() -> None:
    stream = event_stream.records(b"1,a\n") + event_stream.stats(9, 9, 4) + event_stream.end()
    assert s3_select.records_of(stream) == b"1,a\n"
    with pytest.raises(BadAnswer):
        s3_select.records_of(event_stream.records(b"1,a\n"))
    with pytest.raises(BadAnswer):
        s3_select.records_of(event_stream.error("InternalError", "cut"))


def test_a_storlet_and_its_program_have_outputs_of_the_same_size(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(tables.text(1).data)
    for work in library.WORKS:
        own = LibraryStorlet(work.name).run(path.read_bytes(), work.parameters).output
        assert work.has_size(len(own), library.output_bytes(work, path)), work.name


def test_the_merge_of_the_clients_is_that_of_the_storlets() -> None:
    data = tables.text(1).data
    split = json.loads(many.body())["split"]
    part = LibraryStorlet(split["storlet"].removeprefix("std:")).run(data, split["parameters"])
    found = LibraryStorlet("sql-merge").run(part.output, {}, further=[part.output] * 2).output
    rows = csv.DictReader(io.StringIO(found.decode()))
    result = {row["city"]: (int(row["n"]), float(row["most"])) for row in rows}
    assert result == many.result_of(data, 3)
    assert sum(count for count, _ in result.values()) == 3 * tables.text(1).kept


def test_the_records_that_are_kept_are_those_of_the_filter() -> None:
    data = records(whole_blocks(1 << 20))
    parts = (value.partition(":") for name, value in binary.HEADERS.items() if "Param" in name)
    given = {name: value for name, _, value in parts}
    assert len(LibraryStorlet("records").run(data, given).output) == len(data) // ONE_OF
