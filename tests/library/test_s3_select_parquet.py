"""``std:s3-select-parquet`` gives exact values, reads what it needs, and fails with S3's codes."""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storlet_daemon.author import StorletLogger
from storlet_daemon.author.seekable import SeekableFile
from tests.library.parquet_objects import INT96, WIDE_DECIMAL, in_utc
from tests.library.support import LibraryStorlet, Target, filled, shared

STORLET = LibraryStorlet("s3-select-parquet")
HEAD = struct.Struct(">cI")
COUNTS = struct.Struct(">QQ")
JSON_OUT = {"record": "\n"}
CSV_OUT = {"quotes": "ASNEEDED"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("parquet")


@pytest.fixture(scope="module")
def groups(folder: Path) -> bytes:
    """Five groups of rows; the column ``id`` has a small part of the bytes."""
    query = "SELECT range AS id, md5(range::VARCHAR) AS text FROM range(10000)"
    return parquet(folder, query, ", ROW_GROUP_SIZE 2048")


def parquet(folder: Path, query: str, options: str = "") -> bytes:
    """A Parquet file with the rows of ``query``."""
    path = folder / "made.parquet"
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet{options})")
    return path.read_bytes()


def run(
    data: bytes, query: str, target: dict[str, Any] = JSON_OUT, **more: Any
) -> list[tuple[str, bytes]]:
    request = {"expression": query, "input": {}, "output": target, **more}
    return frames(STORLET.run(data, {"request": json.dumps(request)}).output)


def frames(data: bytes) -> list[tuple[str, bytes]]:
    found = []
    while data:
        kind, size = HEAD.unpack_from(data)
        found.append((kind.decode(), data[HEAD.size : HEAD.size + size]))
        data = data[HEAD.size + size :]
    return found


def result(data: bytes, query: str, target: dict[str, Any] = JSON_OUT, **more: Any) -> str:
    """The records of a query that succeeds."""
    *found, last = run(data, query, target, **more)
    assert last[0] == "S", last
    return b"".join(data for kind, data in found if kind == "R").decode()


def code(data: bytes, query: str, **more: Any) -> str:
    """The code of a query that fails."""
    kind, last = run(data, query, **more)[-1]
    assert kind == "E", (kind, last)
    fault = json.loads(last)
    assert fault["text"], fault
    return str(fault["code"])


# --- types ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("18446744073709551615::UBIGINT", "18446744073709551615"),
        ("CAST('-9223372036854775808' AS BIGINT)", "-9223372036854775808"),
        ("7::UTINYINT", "7"),
        ("true", "true"),
        ("0.1::REAL", "0.1"),
        ("0.1::DOUBLE + 0.2::DOUBLE", "0.30000000000000004"),
        ("'nan'::DOUBLE", "NaN"),
        ("'-inf'::REAL", "-Infinity"),
        ("1.50::DECIMAL(10, 2)", "1.50"),
        (
            "12345678901234567890123456.789012345678::DECIMAL(38, 12)",
            "12345678901234567890123456.789012345678",
        ),
        ("DATE '2026-11-26'", '"2026-11-26T00:00:00Z"'),
        ("TIMESTAMP '2026-11-26 01:02:03.000004'", '"2026-11-26T01:02:03.000004Z"'),
        ("TIMESTAMPTZ '2026-11-26 01:02:03+02'", '"2026-11-25T23:02:03Z"'),
        ("TIMESTAMP_NS '2026-11-26 01:02:03.000004000'", '"2026-11-26T01:02:03.000004Z"'),
        ("TIME '01:02:03.5'", '"01:02:03.5"'),
        ("'\\xC3\\xA9'::BLOB", '"é"'),
        ("'{\"a\": 1}'::JSON", '"{\\"a\\": 1}"'),
        ("NULL::INTEGER", "null"),
        ("[1.50::DECIMAL(9, 2), NULL]", "[1.50,null]"),
        ("[]::INTEGER[]", "[]"),
        ("NULL::INTEGER[]", "null"),
        (
            "{'a': 9007199254740993, 'b': [{'c': 'q\"'}]}",
            '{"a":9007199254740993,"b":[{"c":"q\\""}]}',
        ),
        ("MAP {'k': DATE '2026-11-26', 'j': NULL}", '{"k":"2026-11-26T00:00:00Z","j":null}'),
        ("MAP {1: [0.1::REAL]}", '{"1":[0.1]}'),
    ],
)
def test_values_are_those_of_the_object(folder: Path, sql: str, expected: str) -> None:
    data = parquet(folder, f"SELECT {sql} AS v")
    assert result(data, "SELECT * FROM S3Object") == f'{{"v":{expected}}}\n'
    assert result(data, "SELECT s.v FROM S3Object s") == f'{{"v":{expected}}}\n'


def test_a_nested_value_is_one_field_of_csv(folder: Path) -> None:
    data = parquet(folder, "SELECT 1 AS n, [1, 2] AS list, NULL AS empty")
    assert result(data, "SELECT * FROM S3Object", CSV_OUT) == '1,"[1,2]",\n'


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT s.st.a FROM S3Object s", '{"a":1.25}'),
        ("SELECT s.ST.list[1].k FROM S3Object s", '{"k":"z"}'),
        ("SELECT s.st.list[7] AS v FROM S3Object s", "{}"),
        ("SELECT st.list[0] AS v FROM S3Object", '{"v":{"k":"y"}}'),
        ("SELECT s.m.k, s.m.x FROM S3Object s", '{"k":5}'),
        ("SELECT s.st.a + 1 AS v FROM S3Object s WHERE s.m.k = 5", '{"v":2.25}'),
        ("SELECT COUNT(s.st) AS v FROM S3Object s WHERE s.st.none IS MISSING", None),
        (
            "SELECT CAST(s.st.list AS STRING) AS v FROM S3Object s",
            r'{"v":"[{\"k\":\"y\"},{\"k\":\"z\"}]"}',
        ),
    ],
)
def test_parts_of_nested_values(folder: Path, query: str, expected: str | None) -> None:
    struct_ = "{'a': 1.25::DECIMAL(9, 2), 'list': [{'k': 'y'}, {'k': 'z'}]}"
    data = parquet(folder, f"SELECT {struct_} AS st, MAP {{'k': 5}} AS m")
    if expected is None:
        assert code(data, query) == "ParseInvalidPathComponent"
    else:
        assert result(data, query) == expected + "\n"


@pytest.mark.parametrize(
    ("condition", "count"),
    [
        ("s.d = 0.30", 1),
        ("s.d > 0.1 AND s.d < 0.3000000001", 1),
        ("s.day < CAST('2026-11-26T00:00:01Z' AS TIMESTAMP)", 2),
        ("s.big = 9007199254740993", 1),
        ("s.big IN (9007199254740992, 1)", 1),
        ("s.name LIKE 'x%'", 1),
        ("s.name IS NULL", 1),
        ("EXTRACT(YEAR FROM s.day) = 2026 AND s.ok", 1),
    ],
)
def test_conditions_have_the_types_of_the_object(folder: Path, condition: str, count: int) -> None:
    data = parquet(
        folder,
        "SELECT 0.30::DECIMAL(9, 2) AS d, DATE '2026-11-26' AS day, 9007199254740993 AS big,"
        " 'xy' AS name, true AS ok"
        " UNION ALL SELECT 7, DATE '2025-01-01', 9007199254740992, NULL, false",
    )
    query = f"SELECT COUNT(*) AS n FROM S3Object s WHERE {condition}"  # noqa: S608
    assert result(data, query) == f'{{"n":{count}}}\n'


@pytest.mark.parametrize(
    ("sql", "query", "expected"),
    [
        ("'\\xFF'::BLOB", "SELECT s.v FROM S3Object s", "UnsupportedParquetType"),
        ("INTERVAL 1 DAY", "SELECT * FROM S3Object", "UnsupportedParquetType"),
        (
            "TIMESTAMP_NS '2026-11-26 01:02:03.000000001'",
            "SELECT s.v FROM S3Object s",
            "UnsupportedParquetType",
        ),
        ("[1]", "SELECT s.v FROM S3Object s WHERE s.v = s.v", "IncorrectSqlFunctionArgumentType"),
        ("[1]", "SELECT SUM(s.v) FROM S3Object s", "IncorrectSqlFunctionArgumentType"),
        ("'7'", "SELECT s.v FROM S3Object s WHERE s.v = 7", "IncorrectSqlFunctionArgumentType"),
        ("'x'", "SELECT CAST(s.v AS INT) FROM S3Object s", "CastFailed"),
        ("1", "SELECT s.w FROM S3Object s", "EvaluatorBindingDoesNotExist"),
        ("1", "SELECT s._1 FROM S3Object s", "EvaluatorBindingDoesNotExist"),
        ("1", "SELECT s.v[0] FROM S3Object s", "ParseInvalidPathComponent"),
        ("1", "SELECT s.v FROM S3Object.v s", "ParseInvalidPathComponent"),
        ("1e308::DOUBLE", "SELECT s.v * 10 FROM S3Object s", "IntegerOverflow"),
        ("9223372036854775807", "SELECT s.v + 1 FROM S3Object s", "IntegerOverflow"),
    ],
)
def test_a_result_without_an_exact_value_is_an_error(
    folder: Path, sql: str, query: str, expected: str
) -> None:
    assert code(parquet(folder, f"SELECT {sql} AS v"), query) == expected


def test_decimals_that_the_engine_reads_as_other_numbers_are_refused() -> None:
    assert code(WIDE_DECIMAL, "SELECT s.d FROM S3Object s") == "UnsupportedParquetType"
    assert code(WIDE_DECIMAL, "SELECT * FROM S3Object") == "UnsupportedParquetType"
    assert result(WIDE_DECIMAL, "SELECT s.id FROM S3Object s") == '{"id":1}\n'


def test_timestamps_of_int96_have_microseconds() -> None:
    expected = '{"t":"2020-01-02T03:04:05.123456Z"}\n'
    assert result(INT96, "SELECT * FROM S3Object") == expected


def test_nanoseconds_of_timestamps_in_utc_are_an_error(folder: Path) -> None:
    time = "'2026-01-02 03:04:05.123456{}'::TIMESTAMP_NS"
    data = in_utc(parquet(folder, f"SELECT {time.format('')} AS a, {time.format('789')} AS b"))
    expected = '{"a":"2026-01-02T03:04:05.123456Z"}\n'
    assert result(data, "SELECT s.a FROM S3Object s") == expected
    assert code(data, "SELECT s.b FROM S3Object s") == "UnsupportedParquetType"


def test_nanoseconds_in_a_footer_that_only_the_engine_reads_are_an_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared("parquet_object"), "MOST_FOOTER_BYTES", 8)
    data = in_utc(parquet(folder, "SELECT 7 AS a, '2026-01-02 03:04:05'::TIMESTAMP_NS AS b"))
    assert code(data, "SELECT s.a FROM S3Object s") == "ParquetParsingError"
    assert result(parquet(folder, "SELECT 7 AS a"), "SELECT * FROM S3Object") == '{"a":7}\n'


def test_names_that_differ_in_case_only_are_two_columns(folder: Path) -> None:
    # The engine writes no such object.
    data = parquet(folder, "SELECT 1 AS FIRST, 2 AS other").replace(b"FIRST", b"OTHER")
    assert result(data, 'SELECT s."other" FROM S3Object s') == '{"other":2}\n'
    assert result(data, "SELECT * FROM S3Object") == '{"OTHER":1,"other":2}\n'
    assert code(data, "SELECT s.other FROM S3Object s") == "AmbiguousFieldName"


@given(
    st.lists(
        st.tuples(
            st.none() | st.integers(-(2**63), 2**63 - 1),
            st.none() | st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=9),
            st.none() | st.floats(allow_nan=False, allow_infinity=False),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_rows_are_those_that_were_written(folder: Path, rows: list[tuple[Any, ...]]) -> None:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (i BIGINT, s VARCHAR, f DOUBLE)")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
        connection.execute(f"COPY t TO '{folder}/rows' (FORMAT parquet)")
    text = result((folder / "rows").read_bytes(), "SELECT * FROM S3Object")
    assert [tuple(json.loads(line).values()) for line in text.split("\n")[:-1]] == rows


# --- reads ----------------------------------------------------------------------------------------


def test_only_the_columns_of_the_query_are_read(folder: Path) -> None:
    made = "SELECT range AS id, md5(range::VARCHAR) AS text FROM range(60000)"
    data = parquet(folder, made, ", ROW_GROUP_SIZE 30720")
    query = "SELECT SUM(s.id) AS n FROM S3Object s"
    request = json.dumps({"expression": query, "input": {}, "output": JSON_OUT})
    source = SeekableFile({}, filled(data), len(data))
    target: Any = Target()
    storlet = STORLET.module.S3SelectParquet(StorletLogger("", None))
    try:
        storlet([source], [target], STORLET.values({"request": request}))
        *_, records, (kind, counts) = frames(bytes(target.data))
        assert (records[1], kind) == (b'{"n":1799970000}\n', "S")
        assert COUNTS.unpack(counts) == (source.bytes_read, source.bytes_read)
        assert 0 < source.bytes_read < len(data) // 3
    finally:
        source.close()


@settings(max_examples=settings().max_examples // 3)
@given(st.lists(st.integers(1, 500_000), max_size=4, unique=True))
def test_ranges_have_each_group_of_rows_once(groups: bytes, cuts: list[int]) -> None:
    starts = [0, *sorted(cuts)]
    ends = [start - 1 for start in starts[1:]]
    found = ""
    for start, end in zip(starts, [*ends, None], strict=True):
        query = "SELECT s.id FROM S3Object s WHERE s.id % 1000 = 7"
        found += result(groups, query, CSV_OUT, start=start, end=end)
    assert found.split() == [str(number) for number in range(7, 10_000, 1000)]


def test_a_range_has_the_groups_that_begin_in_it(groups: bytes) -> None:
    count = "SELECT COUNT(*), MIN(s.id) FROM S3Object s"
    assert result(groups, count, CSV_OUT, start=0, end=4) == "2048,0\n"
    assert result(groups, count, CSV_OUT, start=0, end=3) == "0,\n"
    assert result(groups, count, CSV_OUT, start=5) == "7952,2048\n"


def test_a_range_needs_the_name_of_the_readers_column(folder: Path) -> None:
    data = parquet(folder, "SELECT 5 AS file_row_number")
    assert result(data, "SELECT * FROM S3Object") == '{"file_row_number":5}\n'
    assert code(data, "SELECT * FROM S3Object", start=1) == "UnsupportedScanRangeInput"


def test_hundreds_of_columns(folder: Path) -> None:
    columns = ", ".join(f"{number} + 0.5::DOUBLE AS c{number}" for number in range(300))
    data = parquet(folder, f"SELECT {columns}")
    expected = ",".join(f"{number}.5" for number in range(300)) + "\n"
    assert result(data, "SELECT * FROM S3Object", CSV_OUT) == expected


# --- faults ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [0, 3, 100, -1, -9])
def test_an_object_that_is_cut_is_an_error(groups: bytes, keep: int) -> None:
    assert code(groups[:keep], "SELECT * FROM S3Object") == "ParquetParsingError"


def test_other_formats_are_an_error() -> None:
    assert code(b"a,b\n1,2\n" * 100, "SELECT * FROM S3Object") == "ParquetParsingError"


@pytest.mark.parametrize("seed", range(12))
def test_changed_bytes_end_in_rows_or_one_error(groups: bytes, seed: int) -> None:
    data = bytearray(groups)
    data[len(data) - 1 - (seed * 37) % 700] ^= 1 << seed % 8
    kind, last = run(bytes(data), "SELECT COUNT(*), MAX(CHAR_LENGTH(s.text)) FROM S3Object s")[-1]
    assert kind == "S" or json.loads(last)["code"].isalpha()


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"input": {"header": "NONE"}}, "InvalidDataSource"),
        ({"input": {"type": "LINES"}}, "InvalidDataSource"),
        ({"compression": "GZIP"}, "InvalidCompressionFormat"),
    ],
)
def test_other_requests_are_refused(more: dict[str, Any], expected: str) -> None:
    assert code(b"", "SELECT * FROM S3Object", **more) == expected


@pytest.mark.parametrize("package", ["fsspec", "duckdb"])
def test_an_image_without_a_package_names_it(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    scope = sys.modules
    if package == "duckdb":
        scope = STORLET.module.Engine.__init__.__globals__
    monkeypatch.setitem(scope, package, None)
    kind, last = run(b"", "SELECT * FROM S3Object")[-1]
    assert kind == "E"
    text = json.loads(last)["text"]
    assert f"std:s3-select-parquet needs the Python package {package}" in text
