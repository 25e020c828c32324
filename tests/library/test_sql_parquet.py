"""``std:sql-parquet`` gives the right rows, and reads the columns that a query needs."""

from __future__ import annotations

import csv
import io
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import pytest

from storlet_daemon.author import StorletLogger
from storlet_daemon.author.seekable import SeekableFile
from tests.library.parquet_objects import WIDE_DECIMAL, in_utc
from tests.library.support import LibraryStorlet, Target, filled, shared

STORLET = LibraryStorlet("sql-parquet")
ERROR: Any = STORLET.module.Engine.rows.__globals__["SqlError"]


def parquet(tmp_path: Path, query: str, options: str = "") -> bytes:
    """A Parquet file with the rows of ``query``."""
    path = tmp_path / "made.parquet"
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet{options})")
    return path.read_bytes()


def output(data: bytes, query: str, **parameters: str) -> bytes:
    return STORLET.run(data, {"query": query, **parameters}).output


def failure(data: bytes, query: str) -> str:
    with pytest.raises(ERROR) as caught:
        output(data, query)
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Three groups of rows; the column ``small`` has a small part of the bytes."""
    query = (
        "SELECT range AS small, md5(range::VARCHAR) AS a, md5((range + 1)::VARCHAR) AS b"
        " FROM range(25000)"
    )
    return parquet(tmp_path_factory.mktemp("wide"), query, ", ROW_GROUP_SIZE 10240")


def test_rows_and_aggregates(wide: bytes) -> None:
    query = "SELECT small, a FROM input WHERE small % 5000 = 7 ORDER BY small DESC"
    _, *rows = csv.reader(io.StringIO(output(wide, query).decode()))
    assert [int(row[0]) for row in rows] == [20007, 15007, 10007, 5007, 7]
    assert all(len(row[1]) == 32 for row in rows)
    assert output(wide, "SELECT sum(small) AS s FROM input") == b"s\n312487500\n"
    twice = "SELECT count(*) AS n FROM input x JOIN input y ON x.a = y.b"
    assert output(wide, twice) == b"n\n24999\n"


def test_only_the_columns_of_the_query_are_read(wide: bytes) -> None:
    source = SeekableFile({}, filled(wide), len(wide))
    target: Any = Target()
    values = STORLET.values({"query": "SELECT sum(small) AS s FROM input"})
    try:
        STORLET.module.SqlParquet(StorletLogger("", None))([source], [target], values)
        assert bytes(target.data) == b"s\n312487500\n"
        assert source.bytes_read < len(wide) // 4
    finally:
        source.close()


@pytest.mark.parametrize("keep", [0, 3, 100, -1, -9])
def test_an_object_that_is_cut_is_an_error(wide: bytes, keep: int) -> None:
    assert "object" in failure(wide[:keep], "SELECT * FROM input")


def test_other_formats_are_an_error() -> None:
    text = failure(b"a,b\n1,2\n" * 100, "SELECT * FROM input")
    assert "the object is no valid Parquet" in text


@pytest.mark.parametrize("seed", range(20))
def test_changed_bytes_end_in_rows_or_one_error(wide: bytes, seed: int) -> None:
    data = bytearray(wide)
    at = len(data) - 1 - (seed * 37) % 700
    data[at] ^= 1 << seed % 8
    with suppress(ERROR):
        output(bytes(data), "SELECT count(*), max(a) FROM input")


def test_a_footer_that_points_beyond_the_end_is_an_error(tmp_path: Path) -> None:
    """The engine would repeat the read without end, or take the bytes of another read."""
    data = parquet(tmp_path, "SELECT range AS id FROM range(9000)", ", ROW_GROUP_SIZE 2048")
    ends = 0
    # Numbers of the footer, which other bytes follow.
    for back in range(10, 108, 3):
        changed = bytearray(data)
        changed[-back] ^= 0x40
        try:
            output(bytes(changed), "SELECT * FROM input")
        except ERROR as error:
            ends += "it ends before byte" in str(error)
    assert ends


def test_sums_are_exact_in_parquet(tmp_path: Path) -> None:
    data = parquet(tmp_path, f"SELECT {2**53 + 1} AS n")
    made = output(data, "SELECT sum(n) AS s FROM input", output="parquet")
    assert output(made, "SELECT s, typeof(s) AS t FROM input") == (
        b's,t\n9007199254740993,"DECIMAL(38,0)"\n'
    )


def test_decimals_that_the_engine_reads_as_other_numbers_are_refused() -> None:
    expected = "the object: column d: decimals of over 38 digits are refused"
    assert failure(WIDE_DECIMAL, "SELECT id FROM input") == expected


def test_nanoseconds_of_timestamps_in_utc_are_an_error_where_they_are_read(tmp_path: Path) -> None:
    times = [f"'2026-01-02 03:04:05.{part}'::TIMESTAMP_NS" for part in ("123456", "123456789")]
    query = f"SELECT 7 AS id, {times[0]} AS a, [{times[1]}] AS b"
    data = in_utc(parquet(tmp_path, query))
    assert output(data, "SELECT id, a, typeof(a) AS t FROM input") == (
        b"id,a,t\n7,2026-01-02 03:04:05.123456+00,TIMESTAMP WITH TIME ZONE\n"
    )
    assert "column 'b': has nanoseconds" in failure(data, "SELECT b FROM input")


def test_nanoseconds_of_one_column_have_one_meaning(tmp_path: Path) -> None:
    time = "'2026-01-02 03:04:05'::TIMESTAMP_NS"
    query = f"SELECT {{'a': {time}, 'b': {time}}} AS s, {time} AS c"
    kind = b"\x12\x1c\x3c\0\0\0\0"
    data = parquet(tmp_path, query)
    mixed = data.replace(b"\x8c" + kind, b"\x8c\x11" + kind[1:], 1)
    assert "column 's': has timestamps with nanoseconds in UTC and local" in (
        failure(mixed, "SELECT c FROM input")
    )


def test_nanoseconds_in_a_footer_that_only_the_engine_reads_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared("parquet_object"), "MOST_FOOTER_BYTES", 8)
    query = "SELECT 7 AS id, '03:04:05'::TIME_NS AS a, '2026-01-02 03:04:05'::TIMESTAMP_NS AS b"
    for data in (local := parquet(tmp_path, query), in_utc(local)):
        assert "unusual encoding" in failure(data, "SELECT id FROM input")
    assert output(parquet(tmp_path, "SELECT 7 AS id"), "SELECT id FROM input") == b"id\n7\n"


def test_a_short_read_is_an_error() -> None:
    parquet_object: Any = shared("parquet_object")
    handle = parquet_object.Handle(Sized(b"abc"), threading.Lock(), parquet_object.no_report)
    assert handle.read(2) == b"ab"
    with pytest.raises(ERROR, match="ends before byte 4"):
        handle.read(2)
    handle.seek(1)
    assert handle.read() == b"bc"


@pytest.mark.parametrize("start", [0, 2, 5, 6])
def test_the_footer_is_read_in_place_of_that_of_the_object(start: int) -> None:
    parquet_object: Any = shared("parquet_object")
    expected = b"abcdef"[:start] + b"ABCDEF"[start:]
    footer = parquet_object.Footer(start, expected[start:])
    source = Sized(b"abcdef")
    handle = parquet_object.Handle(source, threading.Lock(), parquet_object.no_report, footer)
    for place in range(7):
        for size in [*range(7 - place), None]:
            handle.seek(place)
            assert handle.read(size) == expected[place:][:size]


def test_a_footer_of_any_length_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    time = "'2026-01-02 03:04:05.123456789'::TIMESTAMP_NS"
    data = in_utc(parquet(tmp_path, f"SELECT 'a' AS a, {time} AS b"))
    for size in (8, 9, 100, 1 << 20):
        monkeypatch.setattr("parquet_object.TAIL_BYTES", size)
        assert output(data, "SELECT a FROM input") == b"a\na\n"
        assert "column 'b': has nanoseconds" in failure(data, "SELECT b FROM input")


class Sized(io.BytesIO):
    size = 3


def test_an_image_without_fsspec_names_what_is_missing(
    wide: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    assert "needs the Python package fsspec" in failure(wide, "SELECT 1")
    monkeypatch.setitem(STORLET.module.Engine.__init__.__globals__, "duckdb", None)
    assert "std:sql-parquet needs the Python package duckdb" in failure(wide, "SELECT 1")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_parquet('/etc/passwd')",
        "SELECT * FROM read_parquet('object://input')",
        "SELECT * FROM read_text('object://input')",
        "COPY input TO '/tmp/sql-hostile'",
        "SELECT * FROM parquet_metadata('object://input')",
    ],
)
def test_a_hostile_query_is_refused(wide: bytes, query: str) -> None:
    failure(wide, query)
    assert not Path("/tmp/sql-hostile").exists()
