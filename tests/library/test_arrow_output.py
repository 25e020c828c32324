"""``output=arrow`` keeps each value of a result as it is, in batches, or is an error."""

from __future__ import annotations

import csv
import gc
import io
import json
import os
import re
import struct
import subprocess
import sys
import warnings
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import duckdb
import nanoarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nanoarrow.ipc import InputStream
from nanoarrow.iterator import PyIterator

from storlet_daemon.author import StorletInputFile, StorletLogger
from tests.library.support import LibraryStorlet, Target, filled, in_use, shared

SQL = LibraryStorlet("sql")
CONVERT = LibraryStorlet("convert")
PARQUET = LibraryStorlet("sql-parquet")
MERGE = LibraryStorlet("sql-merge")
ARROW: Any = shared("arrow_output")
ERROR: Any = shared("sql_check").SqlError
KIND = "application/vnd.apache.arrow.stream"
#: The mark of the end of a stream: a continuation and a length of zero.
END = b"\xff\xff\xff\xff\0\0\0\0"
ONE = b"n\n1\n"
PAGE = Path(__file__).resolve().parents[2] / "docs/user/library/how-to.rst"


@pytest.fixture(autouse=True, scope="module")
def signed_decimals() -> Iterator[None]:
    """The reader of the package takes a negative decimal for a positive one."""

    def decimals(self: Any, offset: int, length: int) -> Iterator[Decimal | None]:
        exponent, context = -self._schema_view.decimal_scale, Context(prec=38)
        for item in self._primitive_iter(offset, length):
            whole = None if item is None else int.from_bytes(item, "little", signed=True)
            yield None if whole is None else Decimal(whole).scaleb(exponent, context)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PyIterator, "_decimal_iter", decimals)
        yield


def made(query: str, data: bytes = ONE, **parameters: str) -> bytes:
    ran = SQL.run(data, {"query": query, "output": "arrow", **parameters})
    assert ran.metadata["Content-Type"] == KIND
    assert ran.output.endswith(END)
    return ran.output


def of(expression: str) -> str:
    return f"SELECT {expression} FROM input"  # noqa: S608


def rows_of(data: bytes) -> list[dict[str, Any]]:
    with warnings.catch_warnings():
        # JSON is an extension of text, which nanoarrow shows as the text.
        warnings.simplefilter("ignore")
        found = nanoarrow.ArrayStream.from_readable(data).read_all().to_pylist()
    return list(found)


def batches(data: bytes) -> list[int]:
    with nanoarrow.c_array_stream(InputStream.from_readable(data)) as stream:
        return [batch.length for batch in stream]


def fields(data: bytes) -> list[str]:
    with nanoarrow.c_array_stream(InputStream.from_readable(data)) as stream:
        return [child.format for child in stream.get_schema().children]


def failure(query: str, data: bytes = ONE, **parameters: str) -> str:
    with pytest.raises(ERROR) as caught:
        made(query, data, **parameters)
    text = str(caught.value)
    assert "\n" not in text
    return text


# --- types ----------------------------------------------------------------------------------------

NINES = "9" * 28 + "." + "9" * 10
#: An expression of SQL, the type's name in Arrow's C interface, and the value in Python.
TYPES = [
    ("true", "b", True),
    ("(-128)::TINYINT", "c", -128),
    ("(-32768)::SMALLINT", "s", -32768),
    ("2147483647::INTEGER", "i", 2**31 - 1),
    ("(-9223372036854775807)::BIGINT", "l", 1 - 2**63),
    ("255::UTINYINT", "C", 255),
    ("65535::USMALLINT", "S", 65535),
    ("4294967295::UINTEGER", "I", 2**32 - 1),
    ("18446744073709551615::UBIGINT", "L", 2**64 - 1),
    ("0.1::FLOAT", "f", struct.unpack("f", struct.pack("f", 0.1))[0]),
    ("0.1::DOUBLE", "g", 0.1),
    ("'-inf'::DOUBLE", "g", float("-inf")),
    ("1.50::DECIMAL(4,2)", "d:4,2", Decimal("1.50")),
    ("(-123456789012.345)::DECIMAL(18,3)", "d:18,3", Decimal("-123456789012.345")),
    (f"'{NINES}'::DECIMAL(38,10)", "d:38,10", Decimal(NINES)),
    ("'שלום'", "u", "שלום"),
    ("''", "u", ""),
    (r"'\x00\xFF'::BLOB", "z", b"\0\xff"),
    ("'{\"a\": 1.50}'::JSON", "u", '{"a": 1.50}'),
    ("'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'::UUID", "u", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    ("DATE '0001-01-01'", "tdD", date(1, 1, 1)),
    ("TIME '23:59:59.999999'", "ttu", time(23, 59, 59, 999999)),
    ("TIMESTAMP '2026-02-28 10:00:00.000001'", "tsu:",
     datetime.fromisoformat("2026-02-28 10:00:00.000001")),
    ("TIMESTAMPTZ '2026-02-28 10:00:00.5+02:00'", "tsu:UTC",
     datetime(2026, 2, 28, 8, 0, 0, 500000, UTC)),
    ("'1969-12-31 23:59:59'::TIMESTAMP_S", "tss:", datetime.fromisoformat("1969-12-31 23:59:59")),
    ("'2026-02-28 10:00:00.123'::TIMESTAMP_MS", "tsm:",
     datetime.fromisoformat("2026-02-28 10:00:00.123")),
    ("[1, NULL, 3]", "+l", [1, None, 3]),
    ("[[1.5::DECIMAL(3,1)], NULL, []]", "+l", [[Decimal("1.5")], None, []]),
    ("array_value(1.0::FLOAT, 2.0::FLOAT)", "+w:2", [1.0, 2.0]),
    ("{'a': 1, 'b': ['x', NULL], 'c': {'d': DATE '2026-01-01'}}", "+s",
     {"a": 1, "b": ["x", None], "c": {"d": date(2026, 1, 1)}}),
    ("NULL::DECIMAL(9,2)", "d:9,2", None),
    ("NULL::TIMESTAMPTZ[]", "+l", None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "form", "value"), TYPES, ids=[row[0] for row in TYPES])
def test_each_type_is_exact(text: str, form: str, value: Any) -> None:
    data = made(of(f"{text} AS x, n"))
    assert fields(data) == [form, "l"]
    assert rows_of(data) == [{"x": value, "n": 1}]


def storage(data: bytes, *path: int) -> Any:
    """The integers of the column that ``path`` leads to, in the first batch."""
    with nanoarrow.c_array_stream(InputStream.from_readable(data)) as stream:
        batch = stream.get_next()  # owns the memory of the view
        view: Any = batch.view()
        for child in path:
            view = view.child(child)
        return list(memoryview(view.buffer(1)))


def test_nanoseconds_are_exact() -> None:
    data = made("SELECT '2026-02-28 10:00:00.123456789'::TIMESTAMP_NS AS x FROM input")
    assert fields(data) == ["tsn:"]
    moment = datetime(2026, 2, 28, 10, tzinfo=UTC)
    assert storage(data, 0) == [int(moment.timestamp()) * 10**9 + 123456789]


def test_maps_are_exact() -> None:
    data = made("SELECT map {2: DATE '1970-01-03', 1: NULL} AS x FROM input")
    assert fields(data) == ["+m"]
    assert storage(data, 0, 0, 0) == [2, 1]
    assert storage(data, 0, 0, 1)[0] == 2


def test_whole_numbers_above_64_bits_are_decimals_or_errors() -> None:
    most = "9" * 38
    for text, value in (
        (f"{most}::HUGEINT", Decimal(most)),
        (f"-{most}::HUGEINT", Decimal(f"-{most}")),
        (f"{most}::UHUGEINT", Decimal(most)),
        ("sum(9007199254740993)", Decimal(2**53 + 1)),
    ):
        data = made(of(f"{text} AS x"))
        assert fields(data) == ["d:38,0"]
        assert rows_of(data) == [{"x": value}]
    data = made(of(f"[{{'a': {most}::HUGEINT}}] AS x"))
    assert rows_of(data) == [{"x": [{"a": Decimal(most)}]}]
    for wide in (f"{2**127 - 1}::HUGEINT", f"{2**128 - 1}::UHUGEINT", f"[{10**38}::HUGEINT]"):
        assert "DECIMAL(38,0)" in failure(of(f"{wide} AS x"))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("INTERVAL 1 MONTH", "INTERVAL"),
        ("TIMETZ '10:00:00+02:00'", "TIME WITH TIME ZONE"),
        ("'101'::BIT", "BIT"),
        ("'a'::ENUM ('a', 'b')", "ENUM"),
        ("union_value(a := 1)", "UNION"),
        ("[INTERVAL 1 MONTH]", "INTERVAL"),
        ("{'a': [{'b': '101'::BIT}]}", "BIT"),
        ("map {'a': TIMETZ '10:00:00+02:00'}", "TIME WITH TIME ZONE"),
    ],
)
def test_a_type_without_an_exact_form_is_an_error(text: str, kind: str) -> None:
    found = failure(of(f"n, {text} AS it"))
    assert found.startswith(f"query: column 'it': output=arrow has no exact form of {kind}")
    assert "CAST it AS VARCHAR" in found
    if "[" not in text and "{" not in text:
        assert fields(made(of(f"({text})::VARCHAR AS it"))) == ["u"]


def require_refused(expression: str, absent: str) -> None:
    """The error for a value that Arrow does not have names the column, also of two of one name."""
    found = failure(of(f"1 AS it, {expression} AS it"))
    assert f"column 'it': Arrow has no {absent}: CAST it AS VARCHAR" in found


@pytest.mark.parametrize(
    "text",
    [
        "'infinity'::DATE",
        "'-infinity'::TIMESTAMP",
        "'infinity'::TIMESTAMPTZ",
        "[DATE '2026-01-01', NULL, '-infinity'::DATE]",
        "{'a': 1, 'b': [['infinity'::TIMESTAMP]]}",
        "map {'a': 'infinity'::DATE}",
        "map {'infinity'::DATE: 1}",
        "array_value(DATE '2026-01-01', 'infinity'::DATE)",
    ],
)
def test_an_infinite_date_is_an_error(text: str) -> None:
    require_refused(text, "infinite dates")


@pytest.mark.parametrize(
    "text",
    [
        "TIME '24:00:00'",
        "[TIME '10:00:00', NULL, TIME '24:00:00']",
        "{'a': 1, 'b': [[TIME '24:00:00']]}",
        "map {'a': TIME '24:00:00'}",
        "map {TIME '24:00:00': 1}",
        "array_value(TIME '10:00:00', TIME '24:00:00')",
        "{'a': DATE '2026-01-01', 'b': TIME '24:00:00'}",
        "[{'a': TIME '10:00:00', 'b': TIME '24:00:00'}]",
    ],
)
def test_the_end_of_a_day_is_an_error(text: str) -> None:
    """Readers of Arrow take it for the start of the day."""
    require_refused(text, "time of 24:00")


def test_the_end_of_a_day_in_a_csv_is_an_error() -> None:
    given = {"output": "arrow", "columns": '{"t": "time"}'}
    with pytest.raises(ERROR, match="column 't': Arrow has no time of 24:00"):
        CONVERT.run(b"t\n10:00:00\n24:00:00\n", given)


@pytest.mark.parametrize("text", ["row(1, 2)", "[row(1, 2)]", "row(1::HUGEINT, 2)"])
def test_fields_without_names_are_an_error_that_names_the_column(text: str) -> None:
    found = failure(of(f"n, {text} AS it"))
    assert found.startswith("query: column 'it': this output has no exact form of STRUCT(")
    assert found.endswith(": CAST it AS VARCHAR")
    assert fields(made(of(f"({text})::VARCHAR AS it"))) == ["u"]


CELLS = st.tuples(
    st.integers(-(2**63), 2**63 - 1),
    st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0\r"), min_size=1),
    st.integers(1 - 10**30, 10**30 - 1),
    st.datetimes(),
)


@given(table=st.lists(CELLS, min_size=1, max_size=8))
def test_rows_of_csv_come_back(table: list[tuple[int, str, int, datetime]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerow(["i", "t", "d", "s"])
    rows = [(i, t, Decimal(d).scaleb(-5), s) for i, t, d, s in table]
    writer.writerows((i, t, f"{d:f}", s.isoformat(" ")) for i, t, d, s in rows)
    columns = {"i": "integer", "t": "text", "d": "decimal(38,5)", "s": "timestamp"}
    given = {"output": "arrow", "columns": json.dumps(columns)}
    ran = CONVERT.run(text.getvalue().encode(), given)
    assert ran.metadata["Content-Type"] == KIND
    assert fields(ran.output) == ["l", "u", "d:38,5", "tsu:"]
    assert [tuple(row.values()) for row in rows_of(ran.output)] == rows


def test_each_storlet_of_tables_has_this_output(tmp_path: Path) -> None:
    lines = b'{"a": {"b": [1, null]}, "c": "2026-01-02"}\n{"a": null, "c": null}\n'
    found = CONVERT.run(lines, {"format": "jsonl", "output": "arrow"}).output
    wanted = [{"a": {"b": [1, None]}, "c": date(2026, 1, 2)}, {"a": None, "c": None}]
    assert rows_of(found) == wanted
    packed = struct.pack("<hf", 1, 0.5)
    given = {"format": "records", "struct": "i2 id, f4 x", "output": "arrow"}
    assert rows_of(CONVERT.run(packed, given).output) == [{"id": 1, "x": 0.5}]
    assert rows_of(SQL.run(packed, {**given, "query": "SELECT id FROM input"}).output) == [
        {"id": 1}
    ]
    with duckdb.connect() as connection:
        path = tmp_path / "made.parquet"
        connection.sql("SELECT range AS r FROM range(20000)").write_parquet(str(path))
    ran = PARQUET.run(path.read_bytes(), {"query": "SELECT r FROM input", "output": "arrow"})
    assert [row["r"] for row in rows_of(ran.output)] == list(range(20000))
    query = "SELECT n, count(*) AS c FROM input GROUP BY n"
    part = SQL.run(b"n\n3\n3\n", {"query": query, "output": "partial"}).output
    assert rows_of(MERGE.run(part, {"output": "arrow"}).output) == [{"n": 3, "c": 2}]


# --- batches --------------------------------------------------------------------------------------


def test_an_object_larger_than_the_pipes_streams_in_order() -> None:
    """The feeder needs the interpreter's lock while the engine waits for more of the object."""
    count = 150_000
    data = b"n,t\n" + b"".join(b"%d,text %d\n" % (n, n) for n in range(count))
    found = made("SELECT n, t FROM input", data)
    sizes = batches(found)
    assert sum(sizes) == count
    assert max(sizes) == ARROW.LONG_ROWS
    rows = rows_of(found)
    assert rows == [{"n": n, "t": f"text {n}"} for n in range(count)]
    twice = "SELECT count(*) AS c FROM input a JOIN input b USING (n)"
    assert rows_of(made(twice, data)) == [{"c": count}]


def test_a_result_without_rows_has_its_columns() -> None:
    found = made("SELECT n, 'x' AS t, n AS n FROM input WHERE n > 1")
    assert (batches(found), fields(found)) == ([], ["l", "u", "l"])
    with nanoarrow.c_array_stream(InputStream.from_readable(found)) as stream:
        assert [child.name for child in stream.get_schema().children] == ["n", "t", "n"]


def test_batches_of_many_columns_have_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ARROW, "BATCH_VALUES", 1000)
    columns = ", ".join(f"r + {n} AS c{n}" for n in range(300))
    found = made(f"SELECT {columns} FROM range(10) t(r)")  # noqa: S608
    assert batches(found) == [3, 3, 3, 1]
    assert rows_of(found)[9]["c299"] == 308
    monkeypatch.setattr(ARROW, "BATCH_VALUES", 1)
    assert batches(made("SELECT r FROM range(3) t(r)")) == [1, 1, 1]


@pytest.mark.parametrize(
    "text",
    ["'x'", "'x'::BLOB", "'{}'::JSON", "[r]", "{'a': r}", "map {r: r}", "array_value(r, r)"],
)
def test_batches_with_values_of_any_size_have_few_rows(text: str) -> None:
    query = f"SELECT r, {text} AS x FROM range(150) t(r)"  # noqa: S608
    assert batches(made(query)) == [64, 64, 22]


def test_batches_with_short_values_have_many_rows() -> None:
    unique = "'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'::UUID"
    query = f"SELECT r, 1.5 AS d, {unique} AS u, DATE '2026-01-01' AS t FROM range(9000) t(r)"  # noqa: S608
    assert batches(made(query)) == [8192, 808]


#: Prints how much the memory of a process grows by a run with the query of its argument.
GROWTH = """
import resource, sys
from storlet_daemon.author import StorletInputFile, StorletLogger
from tests.library.support import LibraryStorlet, filled

class Counted:
    size = 0
    def write(self, data):
        self.size += len(data)
    def set_metadata(self, metadata):
        pass

storlet = LibraryStorlet("sql")
def run(query):
    target = Counted()
    values = storlet.values({"query": query, "output": "arrow", "memory-mib": "64"})
    source = StorletInputFile({}, filled(b"n\\n1\\n"))
    storlet.module.Sql(StorletLogger("", None))([source], [target], values)
    return target.size

run("SELECT 1 AS x")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
size = run(sys.argv[1])
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(size, (after - before) * 1024)
"""


@pytest.mark.parametrize(
    ("each", "rows", "most_mib"),
    # The engine itself keeps some parts of 2048 rows: each has 40 MB of the long values.
    [(200, 1_000_000, 64), (20_000, 12_000, 192), (20_000, 24_000, 192)],
)
def test_memory_is_that_of_some_batches(each: int, rows: int, most_mib: int) -> None:
    query = f"SELECT r, repeat('x', {each}) AS t FROM range({rows}) t(r)"  # noqa: S608
    ran = subprocess.run(
        [sys.executable, "-c", GROWTH, query],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    size, growth = map(int, ran.stdout.split())
    assert size > each * rows
    assert growth < most_mib << 20


# --- errors ---------------------------------------------------------------------------------------


def fails_into(target: Target, data: bytes, query: str) -> str:
    source = StorletInputFile({}, filled(data))
    values = SQL.values({"query": query, "output": "arrow"})
    storlet = SQL.module.Sql(StorletLogger("", None))
    try:
        with pytest.raises((ERROR, OSError)) as caught:
            storlet([source], [target], values)
    finally:
        source.close()
    return str(caught.value)


def left() -> tuple[int, list[str]]:
    gc.collect()
    return in_use()


def test_a_result_that_fails_late_has_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared("sql_input"), "HEAD_BYTES", 4096)
    data = b"n\n" + b"1\n" * 200_000 + b"2.7\n"
    fails_into(Target(), data, "SELECT n FROM input")
    before = left()
    target = Target()
    text = fails_into(target, data, "SELECT n FROM input")
    assert text.startswith("the object: column 'n': 2.7 is no BIGINT")
    assert target.data.startswith(END[:4])
    assert not target.data.endswith(END)
    late = (
        "SELECT CASE WHEN r = 300000 THEN error('at last') ELSE r END AS x FROM range(400000) t(r)"
    )
    target = Target()
    assert "at last" in fails_into(target, ONE, late)
    assert not target.data.endswith(END)
    assert fails_into(Target(1 << 20), ONE, "SELECT r FROM range(900000) t(r)") == (
        "the output is closed"
    )
    assert left() == before
    assert "pyarrow" not in sys.modules


def test_the_check_of_the_page_detects_a_cut_stream(tmp_path: Path) -> None:
    """A reader of Arrow may give the rows of a cut stream without an error."""
    check = re.search(r"^   END=.*\n   test .*\n", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert check is not None
    whole = made("SELECT r FROM range(20000) t(r)")
    before_end = whole[: -len(END)]
    between = whole[: len(made("SELECT r FROM range(16384) t(r)")) - len(END)]
    assert len(rows_of(before_end)) == 20000
    assert len(rows_of(between)) == 16384
    for data, said in (
        (whole, "rows.arrows is whole\n"),
        (before_end, ""),
        (between, ""),
        (whole[:-1], ""),
    ):
        (tmp_path / "rows.arrows").write_bytes(data)
        ran = subprocess.run(
            ["bash", "-c", check[0]], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (ran.stdout, ran.stderr) == (said, "")


def test_a_query_that_needs_too_much_memory_says_so() -> None:
    query = "SELECT r, repeat('x', 100) AS t FROM range(9000000) t(r) ORDER BY t, r % 7919"
    text = failure(query, **{"memory-mib": "64"})
    assert "needs more memory than memory-mib=64" in text


def test_a_failed_import_closes_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """The main thread reads the output until it is closed."""
    monkeypatch.delattr("nanoarrow.ipc.StreamWriter")
    reader, writer = os.pipe()
    try:
        os.set_blocking(reader, False)
        with pytest.raises(ImportError):
            ARROW.write(None, "", writer)
        assert os.read(reader, 1) == b""
    finally:
        os.close(reader)
    with pytest.raises(ImportError):
        made("SELECT 1 AS x")


@pytest.mark.parametrize("absent", [["nanoarrow", "nanoarrow.ipc"], ["nanoarrow.ipc"]])
@pytest.mark.parametrize("storlet", [SQL, CONVERT])
def test_an_image_without_the_package_says_so(
    storlet: LibraryStorlet, absent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in absent:
        monkeypatch.setitem(sys.modules, name, None)
    query = {"query": "SELECT 1"} if storlet is SQL else {}
    with pytest.raises(shared("packages").PackageError) as caught:
        storlet.run(ONE, {**query, "output": "arrow"})
    text = str(caught.value)
    assert "with output=arrow needs the Python package nanoarrow" in text
    assert "storlets/sandbox-data" in text
    assert storlet.run(ONE, {**query, "output": "csv"}).output


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_the_object_is_read_while_a_batch_is_made(form: str) -> None:
    """The engine waits for the object within a batch, and the object for the interpreter's lock."""
    row, start = {
        "csv": (b"1," + b"x" * 20 + b"\n", b"a,b\n"),
        "jsonl": (b'{"a":1,"b":"' + b"x" * 20 + b'"}\n', b""),
    }[form]
    count = (24 << 20) // len(row)
    query = "SELECT a FROM input WHERE a > 1"
    data = start + row * count + row.replace(b"1", b"2", 1)
    assert rows_of(made(query, data, format=form)) == [{"a": 2}]
