"""``std:sql`` gives the rows of a slow reference, and a query reaches nothing but its object."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import sqlite3
import struct
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import lz4.frame
import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from tests.library.support import LibraryStorlet, shared

STORLET = LibraryStorlet("sql")
ENGINE: Any = STORLET.module.Engine
FORMS: Any = shared("sql_input")
LATE_KEYS: Any = shared("late_keys")
LINE_FEEDS: Any = shared("line_feeds")
ERROR: Any = (shared("sql_input").SqlError, shared("packed").PackedError)
#: Characters with and without a meaning in CSV.
TEXTS = st.text(st.sampled_from("ab c,;\t'\"\\\n€שé|0"), max_size=6)
#: A value that is empty is NULL for the engine, and the csv module has no NULL.
VALUES = TEXTS.filter(lambda text: text != "")
ZONED = "TIMESTAMP WITH TIME ZONE"
WHOLE = st.integers(-(10**12), 10**12)


@pytest.fixture(autouse=True)
def no_files(leftovers: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nor does a run leave a file."""
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    yield
    assert list((tmp_path / "scratch").iterdir()) == []


def output(data: bytes, query: str, **parameters: object) -> bytes:
    given = {name.replace("_", "-"): str(value) for name, value in parameters.items()}
    ran = STORLET.run(data, {"query": query, **given})
    kind = ran.metadata["Content-Type"].partition(";")[0]
    wanted = "application/x-ndjson" if parameters.get("output") == "jsonl" else "text/csv"
    assert kind == wanted
    return ran.output


def rows(data: bytes, query: str, **parameters: object) -> list[dict[str, Any]]:
    found = output(data, query, output="jsonl", **parameters)
    return [json.loads(line) for line in found.splitlines()]


def failure(data: bytes, query: str, **parameters: object) -> str:
    with pytest.raises(ERROR) as caught:
        output(data, query, **parameters)
    text = str(caught.value)
    assert "\n" not in text
    return text


def csv_of(table: list[list[Any]], **dialect: Any) -> bytes:
    text = io.StringIO()
    csv.writer(text, **{"lineterminator": "\n", **dialect}).writerows(table)
    return text.getvalue().encode()


# --- right answers --------------------------------------------------------------------------------


@given(
    table=st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=8),
    bound=VALUES,
    delimiter=st.sampled_from([",", ";", "\t", "|"]),
    line_end=st.sampled_from(["\n", "\r\n"]),
)
def test_rows_are_those_of_the_csv_module(
    table: list[tuple[str, str]], bound: str, delimiter: str, line_end: str
) -> None:
    data = csv_of(
        [["a", "b"], *table], delimiter=delimiter, lineterminator=line_end, quoting=csv.QUOTE_ALL
    )
    given = {"types": "text", "delimiter": "tab" if delimiter == "\t" else delimiter}
    literal = bound.replace("'", "''")
    query = f"SELECT b, a FROM input WHERE a >= '{literal}'"  # noqa: S608
    found = rows(data, query, **given)
    _, *read = csv.reader(io.StringIO(data.decode(), newline=""), delimiter=delimiter)
    expected = [{"b": b, "a": a} for a, b in read if a.encode() >= bound.encode()]
    assert found == expected


@given(table=st.lists(st.tuples(st.sampled_from("xyz"), WHOLE), min_size=1, max_size=30))
def test_aggregates_are_those_of_sqlite(table: list[tuple[str, int]]) -> None:
    query = (
        "SELECT k, count(*) AS n, sum(v) AS s, min(v) AS low, max(v) AS high FROM input"
        " GROUP BY k HAVING count(*) > 1 ORDER BY k"
    )
    with sqlite3.connect(":memory:") as reference:
        reference.execute("CREATE TABLE input (k TEXT, v INTEGER)")
        reference.executemany("INSERT INTO input VALUES (?, ?)", table)
        expected = reference.execute(query).fetchall()
    reference.close()
    found = output(csv_of([["k", "v"], *map(list, table)]), query).decode()
    _, *read = csv.reader(io.StringIO(found))
    assert [(row[0], *map(int, row[1:])) for row in read] == expected


@given(table=st.lists(st.tuples(TEXTS, WHOLE), min_size=1, max_size=10))
def test_json_lines_come_back(table: list[tuple[str, int]]) -> None:
    lines = [{"text": text, "number": number} for text, number in table]
    data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    found = rows(data, "SELECT text, number FROM input WHERE number > 0", format="jsonl")
    assert [(str(row["text"]), row["number"]) for row in found] == [
        (text, number) for text, number in table if number > 0
    ]


def test_a_large_object_streams_in_and_out() -> None:
    lines = [f"{number},name {number}\n" for number in range(200_000)]
    data = ("id,name\n" + "".join(lines)).encode()
    assert len(data) > 3 << 20
    assert output(data, "SELECT * FROM input") == data
    assert output(data, "SELECT count(*) AS n, sum(id) AS s FROM input").split() == [
        b"n,s",
        f"200000,{sum(range(200_000))}".encode(),
    ]
    # The engine stops to read, and the rest of the object is left.
    assert output(data, "SELECT name FROM input LIMIT 1") == b"name\nname 0\n"
    assert output(data, "SELECT 1 AS one") == b"one\n1\n"


@pytest.mark.usefixtures("small_head")
def test_a_table_that_is_read_twice_is_kept() -> None:
    data = b"id\n" + b"".join(b"%d\n" % number for number in range(30_000))
    query = "SELECT count(*) AS n FROM input a JOIN input b ON a.id = b.id + 1"
    assert output(data, query) == b"n\n29999\n"
    twice = "WITH t AS (SELECT * FROM input) SELECT (SELECT max(id) FROM t) - min(id) AS d FROM t"
    assert output(data, twice) == b"d\n29999\n"


@pytest.mark.parametrize(
    ("compression", "compress"),
    [
        ("gzip", gzip.compress),
        ("bz2", bz2.compress),
        ("xz", lzma.compress),
        ("zstd", zstd.compress),
        ("lz4", lz4.frame.compress),
    ],
)
@pytest.mark.usefixtures("small_head")
def test_compressed_objects(compression: str, compress: Any) -> None:
    packed = compress(b"a\n" + b"17\n" * 100_000)
    query = "SELECT sum(a) AS s FROM input"
    assert output(packed, query, compression=compression) == b"s\n1700000\n"
    assert output(packed, query) == b"s\n1700000\n"
    cut = failure(packed[: len(packed) // 2], query, compression=compression)
    assert "the object is" in cut
    assert "the object is" in failure(b"a\n1\n", query, compression=compression)


@pytest.mark.parametrize(
    ("start", "text"),
    [
        (b"PAR1\x15\x04", "the object is Parquet: std:sql-parquet"),
        (b"ARROW1\0\0", "the object is Arrow: format=arrow"),
        (gzip.compress(b"a\n1\n", mtime=0), "the object is gzip: compression=gzip"),
    ],
)
def test_an_object_that_is_no_text_is_named(start: bytes, text: str) -> None:
    for form in ("csv", "jsonl"):
        assert text in failure(start, "SELECT 1 FROM input", format=form, compression="none")


def test_a_name_of_a_column_may_be_like_the_start_of_parquet() -> None:
    assert output(b"PAR1,b\n1,2\n", 'SELECT "PAR1" FROM input') == b"PAR1\n1\n"


@pytest.mark.parametrize(
    ("data", "parameters", "expected"),
    [
        (b"1;x\n2;y\n", {"header": "false", "delimiter": ";"}, b"column0,column1\n1,x\n2,y\n"),
        (b"a b\n'x y' 2\n", {"delimiter": "space", "quote": "'"}, b"a,b\nx y,2\n"),
        (b'a\n"x\\"y"\n', {"escape": "\\"}, b'a\n"x""y"\n'),
        (b'a,b\nx"y,2\n', {"quote": "none"}, b'a,b\n"x""y",2\n'),
        (b"a,b\r\n1,\r\n2,x\r\n", {}, b"a,b\n1,\n2,x\n"),
        (b"a,b\n1,2", {}, b"a,b\n1,2\n"),
        ("\ufeffa\né\n".encode(), {}, "a\né\n".encode()),
        (b"day\n2025-06-01\n", {}, b"day\n2025-06-01\n"),
        (b"day\n25/12/2025\n", {}, b"day\n2025-12-25\n"),
    ],
)
def test_dialects(data: bytes, parameters: dict[str, str], expected: bytes) -> None:
    assert output(data, "SELECT * FROM input", **parameters) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["03/04/2026", "12/11/2026"], "VARCHAR"),
        (["03.04.2026 10:00:00", "12.11.2026 10:00:00"], "VARCHAR"),
        (["01-02-26", "03-04-05"], "VARCHAR"),
        (["03/04/2026", ""], "VARCHAR"),
        (["03/04/2026", "13/11/2026"], "DATE"),
        (["03/04/2026", "11/13/2026"], "DATE"),
        (["03.04.2026 10:00:00", "31.11.2026 10:00:00"], "VARCHAR"),
        (["03.04.2026 10:00:00", "30.11.2026 10:00:00"], "TIMESTAMP"),
        (["2026/03/04"], "DATE"),
    ],
)
def test_dates_whose_order_is_not_clear_are_text(values: list[str], expected: str) -> None:
    data = "".join(f"{value},x\n" for value in ["day", *values]).encode()
    query = "SELECT any_value(typeof(day)) AS t FROM input"
    assert output(data, query) == f"t\n{expected}\n".encode()


@pytest.mark.parametrize("names", ["a,A,A_1", "a,a,a_1", 'a,"a",A_1', "a,,column1"])
def test_a_column_does_not_get_the_name_of_another_one(names: str) -> None:
    text = failure(f"{names}\n1,2,3\n".encode(), "SELECT * FROM input")
    assert "which is another column" in text


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("a,A,b", "a,A_1,b"),
        ("a,,", "a,column1,column2"),
        (" a ,b,é", "a,b,é"),
        ("a, ,x", "a,column1,x"),
    ],
)
def test_names_of_columns(names: str, expected: str) -> None:
    first = output(f"{names}\n1,2,3\n".encode(), "SELECT * FROM input").split(b"\n")[0]
    assert first.decode() == expected


# --- records and log lines ------------------------------------------------------------------------

ACCESS = '192.0.2.7 - %s [10/Oct/2000:13:55:36 -0730] "%s" %s %s'


def test_records_have_the_types_of_their_fields() -> None:
    packed = b"".join(struct.pack(">hxd4s", n, n / 2, b"a,%d" % n) for n in range(-2, 500))
    given = {"format": "records", "struct": "> i2 id, x1, f8 half, s4 name"}
    query = (
        "SELECT typeof(id) AS t, sum(id) AS s, max(half) AS h, min(name) AS n FROM input GROUP BY 1"
    )
    assert rows(packed, query, **given) == [{"t": "SMALLINT", "s": 124747, "h": 249.5, "n": "a,-1"}]
    twice = "SELECT count(*) AS n FROM input a JOIN input b ON a.id = b.id + 1"
    assert output(packed, twice, **given) == b"n\n501\n"
    assert output(b"", "SELECT count(*) AS n FROM input", **given) == b"n\n0\n"
    assert "no multiple of 15" in failure(packed[:-1], query, **given)
    assert "struct: is missing" in failure(packed, query, format="records")
    assert "struct: is for format=records" in failure(packed, query, struct="i2 id")
    assert "columns and types" in failure(packed, query, **given, types="text")
    with pytest.raises(shared("structure").StructureError):
        output(packed, query, format="records", struct="q id")


FIELD = st.text(st.sampled_from("abc/?=&é €|,[]'"), min_size=1, max_size=6)


@given(
    lines=st.lists(
        st.tuples(FIELD, st.integers(100, 599), st.integers(0, 10**15), st.none() | FIELD),
        min_size=1,
        max_size=5,
    ),
    compression=st.sampled_from(["none", "gzip"]),
)
def test_lines_of_apache_come_back(
    lines: list[tuple[str, int, int, str | None]], compression: str
) -> None:
    data = "".join(
        ACCESS % ("me", request, status, size)
        + (f' "https://example.org/" "{agent}"\r\n' if agent else "\n")
        for request, status, size, agent in lines
    ).encode()
    given = {"format": "apache", "compression": compression}
    data = gzip.compress(data) if compression == "gzip" else data
    found = rows(data, "SELECT request, status, bytes, agent FROM input", **given)
    assert [tuple(row.values()) for row in found] == lines


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            ACCESS % ("frank", "GET /a?q=1 HTTP/1.0", "200", "2326"),
            {
                "host": "192.0.2.7", "ident": None, "user": "frank",
                "time": "2000-10-10 21:25:36+00", "request": "GET /a?q=1 HTTP/1.0", "method": "GET",
                "path": "/a?q=1", "protocol": "HTTP/1.0", "status": 200, "bytes": 2326,
                "referer": None, "agent": None,
            },
        ),
        (
            ACCESS % ("-", r"\x16\x03", "400", "-") + r' "-" "a \"b\" \\"',
            {
                "user": None, "request": r"\x16\x03", "method": None, "path": None, "bytes": None,
                "referer": None, "agent": r"a \"b\" \\",
            },
        ),
    ],
)  # fmt: skip
def test_lines_of_apache(line: str, expected: dict[str, Any]) -> None:
    [found] = rows(line.encode(), "SELECT * FROM input", format="apache")
    assert found | expected == found


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "<34>1 2003-10-11T22:14:15.003+02:00 host.example su 17 ID47"
            r' [a@1 x="1" y="q\"\]"][b] ' + "\ufeff'su root' failed: é",
            {
                "facility": 4, "severity": 2, "stamp": "2003-10-11T22:14:15.003+02:00",
                "time": "2003-10-11 20:14:15.003+00", "host": "host.example", "app": "su",
                "process": "17", "message_id": "ID47", "data": r'[a@1 x="1" y="q\"\]"][b]',
                "message": "'su root' failed: é",
            },
        ),
        (
            "<191>1 - - - - - -",
            dict.fromkeys(["stamp", "time", "host", "app", "process", "data", "message"])
            | {"facility": 23, "severity": 7},
        ),
        (
            "<13>Oct  1 22:14:15 host su[17]: 'su root' failed",
            {
                "facility": 1, "severity": 5, "stamp": "Oct  1 22:14:15", "time": None,
                "host": "host", "app": "su", "process": "17", "message": "'su root' failed",
            },
        ),
        (
            "Oct 11 22:14:15 host last message repeated 3 times",
            {
                "facility": None, "severity": None, "app": None, "process": None,
                "message": "last message repeated 3 times",
            },
        ),
        (
            "Oct 11 22:14:15 host kernel: [ 12.3] eth0: up",
            {"app": "kernel", "process": None, "message": "[ 12.3] eth0: up"},
        ),
    ],
)  # fmt: skip
def test_lines_of_syslog(line: str, expected: dict[str, Any]) -> None:
    found = rows(f"\n{line}\n{line}".encode(), "SELECT * FROM input", format="syslog")
    assert len(found) == 2
    assert found[1] | expected == found[0]


@pytest.mark.parametrize(
    ("form", "line", "text"),
    [
        ("apache", b"example.org:80 192.0.2.7 - - [10/Oct/2000:13:55:36 -0700]", "want a line of"),
        ("apache", (ACCESS % ("a b", "x", 200, 1)).encode(), "want a line of the common or"),
        ("apache", (ACCESS % ("-", 'x"y', 200, 1)).encode(), "want a line of the common or"),
        ("apache", (ACCESS % ("-", "x", 200, 1)).replace("10/", "32/").encode(), "day is out of"),
        ("apache", (ACCESS % ("-", "x", 200, 1)).replace("Oct", "Okt").encode(), "the month Okt"),
        ("apache", (ACCESS % ("-", "é", 200, 1)).encode("latin-1"), "is no UTF-8"),
        ("apache", (ACCESS % ("-", "\0", 200, 1)).encode(), "a NUL in a line"),
        ("apache", b"x" * 300_000, "has more than 262144 bytes"),
        ("syslog", b"<192>1 - - - - - -", "the priority 192"),
        ("syslog", b"<1>1 2003-02-30T22:14:15Z - - - - -", "day is out of range"),
        ("syslog", b'<1>1 - - - - - [a x="]"]', "want a line of RFC 5424"),
        ("syslog", b"<1>2 - - - - - -", "want a line of RFC 5424"),
        ("syslog", b"2024-05-01T12:00:00+02:00 host app: m", "want a line of RFC 5424"),
    ],
)
def test_a_line_of_another_form_is_an_error_with_its_number(
    form: str, line: bytes, text: str
) -> None:
    good = b"<1>1 - - - - - -" if form == "syslog" else (ACCESS % ("-", "x", 200, 1)).encode()
    found = failure(good + b"\n\n" + line + b"\n", "SELECT count(*) FROM input", format=form)
    assert found.startswith("line 3: ")
    assert text in found


# --- a value that does not fit is never another value ---------------------------------------------

STAMP = "2025-06-01T10:00:00"


@pytest.mark.parametrize(
    ("value", "late"),
    [
        ("1", "2.7"),
        ("1", "1e3"),
        ("1", "1_000"),
        ("1", "99999999999999999999"),
        ("1", "true"),
        ("1.5", "12345678901234567890"),
        ("1.5", "1e400"),
        ("1.5", "x"),
        ("true", "1"),
        ("2025-06-01", "2025-06-02 11:00:00"),
        ("25/12/2025", "2025-06-01"),
        ("10:00:00", "10:00:00+02:00"),
        (STAMP, f"{STAMP}+02:00"),
        (STAMP, f"{STAMP}Z"),
        (STAMP, f"{STAMP}.1234567"),
        (f"{STAMP}+02:00", STAMP),
    ],
)
def test_a_late_value_of_another_type_is_an_error_in_csv(
    small_head: int, value: str, late: str
) -> None:
    count = 1 + small_head // (len(value) + 1)
    data = ("a,b\n" + f"{value},\n" * count + f"{late},\n").encode()
    query = "SELECT count(DISTINCT a) AS n FROM input"
    text = failure(data, query)
    assert text.startswith(f"the object: column 'a': {late} is no ")
    assert "types=text" in text
    assert output(data, query, types="text") == b"n\n2\n"
    # The value is in a column that the query does not read.
    assert output(data, "SELECT count(b) AS n FROM input") == b"n\n0\n"


@pytest.mark.parametrize(
    ("value", "late"),
    [
        ("1", "0.4"),
        ("1", "true"),
        ("1", '"7"'),
        ("1", "99999999999999999999"),
        ("1.5", "12345678901234567890"),
        ("1.5", "Infinity"),
        ("true", "1"),
        ('"2025-06-01"', '"2025-06-02 11:00:00"'),
        (f'"{STAMP}"', f'"{STAMP}+02:00"'),
        ('{"x": 1}', '{"x": 0.4}'),
        ('{"x": [1]}', '{"x": [1, 0.4]}'),
        ('[{"x": {"y": 1}}]', '[{"x": {"y": true}}]'),
        ('{"x": 1}', "[1]"),
        ("[1]", "1"),
    ],
)
def test_a_late_value_of_another_type_is_an_error_in_json(
    small_head: int, value: str, late: str
) -> None:
    count = 1 + small_head // (len(value) + 7)
    data = (f'{{"a": {value}}}\n' * count + f'{{"a": {late}}}\n').encode()
    query = "SELECT count(DISTINCT a) AS n FROM input"
    assert "types=text" in failure(data, query, format="jsonl")
    assert output(data, query, format="jsonl", types="text") == b"n\n2\n"


@pytest.mark.parametrize(
    ("query", "late", "key"),
    [
        ("SELECT * FROM input", '{"a": 1, "b": 2}', "'b'"),
        ("SELECT COLUMNS(*) FROM input", '{"A": 1}', "'A'"),
        ("FROM input", '{"a": 1, "b": null}', "'b'"),
        ("SELECT input FROM input", '{"b": 1}', "'b'"),
        ("SELECT t FROM input AS t", '{"b": 1}', "'b'"),
        ("SELECT c FROM input", '{"c": {"x": 1, "y": 2}}', "'y' of 'c'"),
        ("SELECT c['x'] AS x FROM input", '{"c": {"y": 2}}', "'y' of 'c'"),
        ("SELECT l FROM input", '{"l": [{"z": 1}, {"y": 2}]}', "'y' of 'l'"),
        ("SELECT * FROM input", '{"l": [{"y": 1}]}', "'y' of 'l'"),
        ("SELECT * FROM input", f'{{"b": {"9" * 5000}}}', "'b'"),
        ("SELECT * FROM input", '{"b": "\udcff"}', "'b'"),
    ],
)
@pytest.mark.parametrize("end", ["", "\n", "\n\n"])
def test_a_late_key_that_the_result_would_show_is_an_error(
    small_head: int, query: str, late: str, key: str, end: str
) -> None:
    line = '{"a": 1, "c": {"x": 1}, "l": [{"z": 1}]}\n'
    count = 1 + small_head // len(line)
    data = f"{line * count}{late}{end}".encode("utf-8", "surrogateescape")
    found = failure(data, query, format="jsonl")
    assert found == (
        f"line {count + 1}: the key {key} is not in the first MiB, which has the columns"
    )


@pytest.mark.parametrize(
    ("query", "late", "keys"),
    [
        ("SELECT max(a) FROM input", '{"A": 2}', "'a' and 'A'"),
        ("SELECT max(A) FROM input", '{"\\u0041": 2}', "'a' and 'A'"),
        ("SELECT max(c.x) FROM input", '{"a": 1, "c": {"X": 2}}', "'x' and 'X'"),
        ("SELECT max(l[1].z) FROM input", '{"l": [{"z": 1}, {"Z": 2}]}', "'z' and 'Z'"),
    ],
)
def test_a_late_key_of_a_column_in_another_case_is_an_error(
    small_head: int, query: str, late: str, keys: str
) -> None:
    line = '{"a": 1, "c": {"x": 1}, "l": [{"z": 1}]}\n'
    count = 1 + small_head // len(line)
    found = failure(f"{line * (2 * count)}{late}\n{line}".encode(), query, format="jsonl")
    assert found == f"line {2 * count + 1}: the keys {keys} are one name in SQL"


def test_the_place_of_a_late_key_is_that_after_unchecked_lines(small_head: int) -> None:
    class Rest(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return self.readline()

    line = b'{"a": 1}\n'
    head = line * (small_head // len(line)) + line[:3]
    types = {"a": SimpleNamespace(id="bigint")}
    known = LATE_KEYS.Known(types, (), (), {"a"}, has_all=False)
    watched = LATE_KEYS.Watched(Rest(line[3:] + line + b'{"A": 1}\n'), head, known)
    assert (watched.read(9), watched.read(9)) == (line[3:], line)
    place = len(head) - 3 + 2 * len(line)
    with pytest.raises(ERROR, match=f"after byte {place}, line 1: the keys"):
        watched.read(9)


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "arrow", "partial"])
@pytest.mark.parametrize(
    ("kind", "value"),
    [("decimal(38,0)", "6" + "0" * 37), ("decimal(38,2)", "6" + "0" * 35 + ".50")],
)
def test_a_sum_with_more_digits_than_its_type_is_an_error(form: str, kind: str, value: str) -> None:
    given = {"columns": json.dumps({"v": kind}), "output": form}
    long = f"v\n{value}\n{value}\n".encode()
    query = "SELECT sum(v) AS s FROM input"
    fault = ": a decimal has more than 38 digits: CAST the values AS DOUBLE"
    assert fault in failure(long, query, **given)
    assert STORLET.run(f"v\n{value}\n3\n-{value}\n".encode(), {"query": query, **given}).output
    if form != "partial":
        nested = "SELECT [{'x': sum(v)}] AS s FROM input"
        assert f"column 's'{fault}" in failure(long, nested, **given)


def test_a_sum_of_decimals_without_digits_before_the_point_has_no_other_digits() -> None:
    data = b"v\n" + b"0.%s\n" % (b"4" * 38) * 3
    columns = '{"v": "decimal(38,38)"}'
    for form in ("csv", "parquet", "arrow", "partial"):
        found = failure(data, "SELECT sum(v) AS s FROM input", columns=columns, output=form)
        assert "a decimal has more than 38 digits" in found
    assert output(data[:-41], "SELECT sum(v) AS s FROM input", columns=columns) == (
        b"s\n.%s\n" % (b"8" * 38)
    )


def test_letters_outside_ascii_have_no_case_in_names(small_head: int) -> None:
    line = '{"é": 1, "É": 10, "c": {"é": 1, "É": 10}}\n'
    late = '{"é": 2, "É": 20, "Ö": 5, "c": {"é": 2, "É": 20}}\n'
    query = 'SELECT sum("é") AS a, sum("É") AS b, sum(c."é") AS c, sum(c."É") AS d FROM input'
    data = (line * small_head + late).encode()
    count = small_head + 2
    found = output(data, query, format="jsonl", output="jsonl")
    assert json.loads(found) == {"a": count, "b": 10 * count, "c": count, "d": 10 * count}
    found = output(
        "é,É\n1,10\n2,20\n".encode(), 'SELECT sum("é"), sum("É") FROM input WHERE "É" > 10'
    )
    assert found.splitlines()[1] == b"2,20"


def test_late_texts_and_other_keys_in_another_case(small_head: int) -> None:
    line = '{"a": "a", "b": {"x": 1}}\n'
    late = '{"a": "A", "B": 2, "b": {"X": 1}, "\u00e9\\u0041": "\\u00e9"}\n'
    data = f"{line * small_head}{late}".encode()
    assert output(data, "SELECT max(a) AS a, count(*) AS n FROM input", format="jsonl") == (
        f"a,n\na,{small_head + 1}\n".encode()
    )


@pytest.mark.parametrize("late", ["[1]x", '{"a": 1} {"b": 2}', '{"a": 1,}', '{"a": ' + "[" * 600])
def test_a_late_line_that_cannot_be_checked_is_an_error(small_head: int, late: str) -> None:
    data = '{"a": 1}\n' * small_head + f"{late}\n"
    assert failure(data.encode(), "SELECT * FROM input", format="jsonl").startswith("line 4097: ")


def test_a_query_that_names_its_columns_reads_lines_with_late_keys(small_head: int) -> None:
    line = '{"a": 1, "c": {"x": 1}}\n'
    data = (line * small_head + '{"a": 2, "b": 3, "c": {"x": 4, "y": 5}}\n').encode()
    for query, expected in (
        ("SELECT max(a) AS t FROM input ORDER BY t", b"t\n2\n"),
        ("SELECT max(c.x) AS x FROM input i WHERE i.c.x > 1", b"x\n4\n"),
        ("SELECT count(*) AS n FROM input", b"n\n4097\n"),
    ):
        assert output(data, query, format="jsonl") == expected
    assert '"b" not found' in failure(data, "SELECT b FROM input", format="jsonl")
    found = rows(data, "SELECT c FROM input WHERE a = 2", format="jsonl", types="text")
    assert json.loads(found[0]["c"]) == {"x": 4, "y": 5}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1", "-2", " 3"], ["BIGINT", "1", "-2", "3"]),
        (["0.1", "1.50", "-1e5", "0.30000000000000004"], ["DOUBLE", "0.1", "1.5"]),
        (["18446744073709551617", "1"], ["VARCHAR", "18446744073709551617", "1"]),
        (["0.1", "12345678901234567.89"], ["VARCHAR", "0.1", "12345678901234567.89"]),
        (["true", "FALSE"], ["BOOLEAN", "true", "false"]),
        (["true", "F"], ["VARCHAR", "true", "F"]),
        ([f"{STAMP}.25"], ["TIMESTAMP", "2025-06-01 10:00:00.25"]),
        ([f"{STAMP}Z", f"{STAMP}+02:00"], [ZONED, "2025-06-01 10:00:00+00", "2025-06-01 08"]),
        (["10:00:00.5"], ["TIME", "10:00:00.5"]),
    ],
)
def test_types_of_csv_lose_nothing(values: list[str], expected: list[str]) -> None:
    data = ("a\n" + "".join(f"{value}\n" for value in values)).encode()
    found = output(data, "SELECT typeof(a) AS t, a FROM input").decode().splitlines()[1:]
    assert {line.partition(",")[0] for line in found} == {expected[0]}
    shown = [line.partition(",")[2].strip('"') for line in found]
    assert all(map(str.startswith, shown, expected[1:])), shown


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1", "null"], "BIGINT"),
        (["18446744073709551615"], "HUGEINT"),
        (["18446744073709551617"], "VARCHAR"),
        (["9007199254740993", "0.5"], "VARCHAR"),
        (["0.5", "1"], "DOUBLE"),
        (['"2025-06-01"'], "DATE"),
        ([f'"{STAMP}"'], "TIMESTAMP"),
        ([f'"{STAMP}+02:00"', f'"{STAMP}-05:00"'], ZONED),
        ([f'"{STAMP}"', f'"{STAMP}+02:00"'], "VARCHAR"),
        (['{"x": [1], "y": "2025-06-01"}'], "STRUCT(x BIGINT[], y VARCHAR)"),
        (['{"x": 9007199254740993}', '{"x": 0.5}'], "JSON"),
        (['[{"x": 1.5}, null]'], "STRUCT(x DOUBLE)[]"),
        (['{"k": true, "l": null}'], "STRUCT(k BOOLEAN, l JSON)"),
        (["[" * 60 + "1" + "]" * 60], "JSON" + "[]" * 21),
    ],
)
def test_types_of_json_lose_nothing(values: list[str], expected: str) -> None:
    data = "".join(f'{{"a": {value}}}\n' for value in values).encode()
    query = "SELECT typeof(a) AS t, to_json(a) AS a FROM input"
    found = rows(data, query, format="jsonl")
    assert {row["t"] for row in found} == {expected}
    if STAMP not in values[0]:
        as_json = [row["a"] for row in found]
        given = [json.loads(value) for value in values]
        assert as_json in (given, values)


def test_decimals_of_json_have_the_digits_of_a_double() -> None:
    """As documented; integers keep all theirs."""
    data = b'{"a": 0.12345678901234567890, "b": 123456789012345678901234567890}\n'
    found = output(data, "SELECT * FROM input", format="jsonl", types="text")
    assert found == b"a,b\n0.12345678901234568,123456789012345678901234567890\n"


def test_a_map_of_json_keeps_its_keys() -> None:
    line = '{"a": {%s}}\n'
    parts = [", ".join(f'"k{row}-{key}": {key}' for key in range(9)) for row in range(300)]
    data = "".join(line % part for part in parts).encode()
    query = "SELECT typeof(a) AS t, a['k7-3'] AS v FROM input WHERE a['k7-3'] IS NOT NULL"
    assert rows(data, query, format="jsonl") == [{"t": "MAP(VARCHAR, BIGINT)", "v": 3}]


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (b'{"a": 1, "A": 2}\n', "line 1: the keys 'a' and 'A' are one name in SQL"),
        (b'{"a": 1}\n{"A": 2}\n', "line 2: the keys 'a' and 'A' are one name in SQL"),
        (b'{"a": 1, "a": 2}\n', "the keys 'a' and 'a' are one name"),
        (b'{"a": [{"x": 1}]}\n{"a": [{"X": 1}]}\n', "the keys 'x' and 'X' are one name"),
        (b'{"": 1, "a": 2}\n', "line 1: an empty key"),
        (b'{"a": NaN}\n', "line 1: NaN is no JSON"),
        (b'{"a": "["}\n{"a":' + b"[" * 501 + b"]" * 501 + b"}\n", "line 2: has more than 500"),
        (b'{"a":' + b"[" * 200_000 + b"\n", "line 1: has more than 500"),
    ],
)
def test_keys_and_levels_of_json_that_sql_has_not(data: bytes, part: str) -> None:
    assert part in failure(data, "SELECT * FROM input", format="jsonl")


def test_text_of_json_allows_any_keys_below_the_top_level() -> None:
    data = b'{"a": {"x": 1, "X": 2}}\n'
    query = "SELECT a->>'$.x' AS low, a->>'$.X' AS high FROM input"
    assert output(data, query, format="jsonl", types="text") == b"low,high\n1,2\n"


@pytest.mark.parametrize(
    "query",
    [
        """WITH RECURSIVE t AS (SELECT 0 AS n UNION ALL SELECT n + 1 FROM t, input WHERE n < 2)
        SELECT n, count(*) AS c FROM t GROUP BY n ORDER BY n""",
        """WITH RECURSIVE t(k, n) USING KEY (k) AS (SELECT 0::BIGINT, 0 UNION
        SELECT id, t.n + 1 FROM t, input WHERE t.n < 2)
        SELECT n, count(*) AS c FROM t GROUP BY n ORDER BY n""",
    ],
)
def test_a_recursive_query_reads_the_whole_table_each_time(query: str) -> None:
    twice = query.replace("FROM t GROUP", "FROM t WHERE (SELECT count(*) FROM input) = 3 GROUP")
    data = b"id\n1\n2\n3\n"
    assert output(data, query) == output(data, twice)
    if "KEY" not in query:
        assert output(data, query) == b"n,c\n0,1\n1,3\n2,9\n"


@pytest.mark.parametrize(
    ("compression", "compress"),
    [("gzip", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)],
)
@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_damaged_member_is_an_error(compression: str, compress: Any, at: int) -> None:
    first, second = compress(b"a\n" + b"1\n" * 3000), bytearray(compress(b"2\n" * 1000))
    query = "SELECT sum(a) AS s FROM input"
    assert output(first + second, query, compression=compression) == b"s\n5000\n"
    second[at] ^= 1
    text = failure(first + second, query, compression=compression)
    assert "the object is no valid" in text
    cut = failure(first + compress(b"2\n")[: at + 1], query, compression=compression)
    assert "the object is cut" in cut


def test_padding_of_xz() -> None:
    packed, query = lzma.compress(b"a\n1\n"), "SELECT sum(a) AS s FROM input"
    padded = packed + bytes(8) + lzma.compress(b"2\n") + bytes(100_000)
    assert output(padded, query, compression="xz") == b"s\n3\n"
    for bad in (packed + bytes(3), packed + bytes(2) + packed):
        assert "bytes of padding" in failure(bad, query, compression="xz")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.usefixtures("small_head")
def test_the_head_may_end_within_quotes(end: str) -> None:
    for shift in range(18):  # a row has 17 or 18 bytes
        name = "a" * (shift + 1)
        data = (f"{name},b{end}" + f'1,"a ""line""\nx"{end}' * 1000).encode()
        query = f"SELECT sum({name}) AS s FROM input"  # noqa: S608
        assert output(data, query) == b"s\n1000\n"


@pytest.mark.parametrize("before", [0, 1, 200_000])
def test_a_line_that_is_no_json_is_named(before: int) -> None:
    data = b'{"a": 1}\n' * before + b'{"a": x}\n' + b'{"a": 1}\n' * 3
    text = failure(data, "SELECT sum(a) FROM input", format="jsonl")
    assert f"in line {before + 1}: unexpected character" in text


@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
@pytest.mark.parametrize("output", ["csv", "partial"])
@pytest.mark.parametrize("before", [0, 1, 190_000])
def test_a_quote_without_an_end_is_an_error(
    end: str, output: str, before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine's buffer has 1 MiB, an eighth of that of a run; so has the head."""
    monkeypatch.setattr(FORMS, "BUFFER_BYTES", 1 << 20)
    for name in ("MOST_LINE_BYTES", "HEAD_BYTES"):
        monkeypatch.setattr(FORMS, name, 1 << 17)
    begun = '"x,3' + (end or "\n") + f"4,5{end}"
    data = ("a,b\n" + "1,2\n" * before + begun).encode()
    for more in ({"parallel": "false"}, {"types": "text"} if before < 2 else {}):
        with pytest.raises(ERROR, match=r"quote has no end|[Uu]nterminated|Original Line"):
            STORLET.run(data, {"query": "SELECT count(*) FROM input", "output": output, **more})


@pytest.mark.parametrize("output", ["csv", "partial"])
def test_names_with_a_quote_without_an_end_are_an_error(output: str) -> None:
    with pytest.raises(ERROR):
        STORLET.run(b'a,"b\n1,2\n', {"query": "SELECT count(*) FROM input", "output": output})


@pytest.mark.parametrize(
    ("last", "given"),
    [
        ('4,2"5', {}),  # a quote that is data
        ('4,"2""5"', {}),
        ('4,"2\\"5"', {"escape": "\\"}),
        ('"4"', {}),
    ],
)
def test_quotes_that_have_an_end(last: str, given: dict[str, str]) -> None:
    columns = last.count(",") + 1
    names, first = ("a,b", '"p\nq",1') if columns > 1 else ("a", '"p\nq"')
    data = f"{names}\n{first}\n{last}".encode()
    for end in (b"", b"\n"):
        found = output(data + end, "SELECT count(*) AS n FROM input", **given)
        assert found == b"n\n2\n"


def test_an_escape_may_be_in_two_blocks() -> None:
    form = FORMS.Format(True, True, reader={"delimiter": ",", "quotechar": '"', "escapechar": "\\"})
    for data, is_wrong in ((b'a\n"x\\"y"\n', False), (b'a\n"x\\"\n', True)):
        for at in range(len(data)):
            source = LINE_FEEDS.Ended(io.BytesIO(data[at:]), data[:at], form)
            with pytest.raises(ERROR, match="no end") if is_wrong else nullcontext():
                while source.read(1):
                    pass


@pytest.mark.parametrize(
    ("data", "is_open"),
    [
        ('5" disk\n', False),
        ('5" disk\n"z\n', True),
        ('5" disk\nz"\n', False),
        ('5" disk,   "z\n', True),
        ('5" disk,"a"   ,z\n', False),
        ('5" disk,""\n"a""b",1', False),
        ('5" disk,""\n"a""\n', True),
        ('5" disk\n"a\n,""b","c","d"\n', False),
        ('"a,\n",5" disk\n"b', True),
        ('5" disk,"a\n"', False),
    ],
)
@pytest.mark.parametrize("delimiter", [",", " "])
def test_a_quote_that_is_data_may_be_before_one_without_an_end(
    data: str, is_open: bool, delimiter: str
) -> None:
    form = FORMS.Format(True, True, reader={"delimiter": delimiter, "quotechar": '"'})
    content = data.replace(",", delimiter).encode()
    for at in range(len(content)):
        for size in (1, 4):
            source = LINE_FEEDS.Ended(io.BytesIO(content[at:]), content[:at], form)
            with pytest.raises(ERROR, match="no end") if is_open else nullcontext():
                assert b"".join(iter(lambda: source.read(size), b"")) == content[at:]  # noqa: B023


@pytest.mark.parametrize("first", ['5" disk', '"p\nq"\n5" disk'])
@pytest.mark.parametrize("more", [{}, {"output": "partial"}])
def test_rows_after_a_quote_without_an_end_are_not_lost(first: str, more: dict[str, str]) -> None:
    """The engine alone has one row of these."""
    data = f'a\n{first}\n"z\n'.encode() + b"1\n" * 100
    query = "SELECT count(*) AS n FROM input"
    with pytest.raises(ERROR, match="a quote has no end"):
        STORLET.run(data, {"query": query, **more})
    assert output(data.replace(b'"z', b'z"'), query) == b"n\n%d\n" % (102 + first.count("q"))


@pytest.mark.parametrize("count", [1, 300])
@pytest.mark.parametrize("letters", ["F", "T", "t,f", "f,true", "F,"])
def test_a_single_letter_is_no_truth_value(letters: str, count: int) -> None:
    """A sex that is F in all rows became false."""
    values = letters.split(",") * count
    data = "sex,n\n" + "".join(f"{value},1\n" for value in values)
    expected = "sex\n" + "".join(f"{value}\n" for value in values)
    assert output(data.encode(), "SELECT sex FROM input").decode() == expected
    found = output(b"a,b\ntrue,FALSE\n", "SELECT a AND NOT b AS c FROM input")
    assert found == b"c\ntrue\n"


@pytest.mark.parametrize("output", ["csv", "partial"])
@pytest.mark.parametrize("data", [b'a,b\n1,"x\\', b'a,"b\\', b'a,b\n1,2\n3,"x\\\\\\'])
def test_an_end_behind_an_escape_character_is_an_error(data: bytes, output: str) -> None:
    """Several threads gave the value before it."""
    for more in ({}, {"parallel": "false"}):
        given = {"query": "SELECT * FROM input", "escape": "\\", "output": output, **more}
        with pytest.raises(ERROR, match=r"escape character|no end"):
            STORLET.run(data, given)


def test_an_escape_character_that_is_escaped_is_no_end_of_the_object() -> None:
    form = FORMS.Format(True, True, reader={"delimiter": ",", "quotechar": '"', "escapechar": "\\"})
    for count in range(5):
        data = b"a\n" + b"\\" * count
        for at in range(len(data) + 1):
            source = LINE_FEEDS.EscapeEnd(io.BytesIO(data[at:]), data[:at], form)
            with pytest.raises(ERROR, match="it is cut") if count % 2 else nullcontext():
                while source.read(1):
                    pass


def test_names_with_an_escaped_quote_are_not_all_of_the_object() -> None:
    """The rows were taken for a part of the names, and the object for one without rows."""
    given = {"query": "SELECT count(*) FROM input", "escape": "\\", "output": "partial"}
    with pytest.raises(ERROR):
        STORLET.run(b'a,"b\\"x\n1,2\n3,"4"\n', given)
    for names in (b'a,"b"\n', b'"a","b\\"c"\r\n', b'a,"b\\\\"', b'"a\n",b'):
        found = STORLET.run(names, given).output
        assert b'"has_rows": false' in found


@pytest.mark.parametrize(
    "data", [b"a,b\r1,2\r", b"a,b\r1,2\r3,4\n", b"a\rb\n1\n", b"a,b\n1,2\r3,4\n"]
)
def test_a_cr_that_ends_a_line_is_an_error(data: bytes) -> None:
    assert "CR without LF" in failure(data, "SELECT count(*) FROM input")


@pytest.mark.parametrize("start", [b"\n", b"\r\n", b"  \n", b"\xef\xbb\xbf\n"])
def test_an_empty_line_before_the_names_is_an_error(start: bytes) -> None:
    assert "begins with an empty line" in failure(start + b"a,b\n1,2\n", "SELECT * FROM input")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT sum(n) AS s FROM input", [(2**53 + 3, "DECIMAL(38,0)")]),
        ("SELECT sum(n) AS s, 1 AS s FROM input", [(2**53 + 3, "DECIMAL(38,0)")]),
        ("WITH t AS (SELECT sum(n) AS s FROM input) FROM t -- end", [(2**53 + 3, "DECIMAL(38,0)")]),
        ("SELECT n::HUGEINT AS s FROM input ORDER BY n", [
            (2, "DECIMAL(38,0)"), (2**53 + 1, "DECIMAL(38,0)")]),
        ("SELECT list(n::HUGEINT ORDER BY n) AS s FROM input", [
            ([2, 2**53 + 1], "DECIMAL(38,0)[]")]),
        ("SELECT {'x': 3::UHUGEINT} AS s", [({"x": 3}, "STRUCT(x DECIMAL(38,0))")]),
        ("SELECT map {'x': 3::HUGEINT} AS s", [({"x": 3}, "MAP(VARCHAR, DECIMAL(38,0))")]),
        ("SELECT max(n) AS s FROM input", [(2**53 + 1, "BIGINT")]),
        ("TABLE input", None),
        ("VALUES (1::HUGEINT)", None),
    ],
)  # fmt: skip
def test_sums_are_exact_in_parquet(query: str, expected: Any, tmp_path: Path) -> None:
    data = f"n\n{2**53 + 1}\n2\n".encode()
    ran = STORLET.run(data, {"query": query, "output": "parquet"})
    (tmp_path / "made.parquet").write_bytes(ran.output)
    made = f"FROM read_parquet('{tmp_path}/made.parquet')"
    with duckdb.connect() as connection:
        if expected is None:
            assert connection.execute(f"SELECT count(*) {made}").fetchall() > [(0,)]
        else:
            assert connection.execute(f"SELECT s, typeof(s) {made}").fetchall() == expected


def test_a_whole_number_of_39_digits_is_an_error_in_parquet() -> None:
    with pytest.raises(ERROR, match="DECIMAL"):
        STORLET.run(DATA, {"query": f"SELECT {2**127 - 1}::HUGEINT", "output": "parquet"})


# --- errors ---------------------------------------------------------------------------------------

DATA = b"name,size\nx,1\ny,2\n"


@pytest.mark.parametrize(
    ("query", "parts"),
    [
        ("", ["query: is empty", "want one SELECT"]),
        (" ; ", ["query: is empty"]),
        ("SELECT FROM WHERE", ["query: line 1, column", "syntax error"]),
        ("SELECT name\nFORM input", ["query: line 2, column", "syntax error"]),
        ("SELECT nme FROM input", ["query: line 1, at 'nme FROM input'", '"name"']),
        ("SELECT name,\n  length FROM input", ["query: line 2, at 'length FROM input'"]),
        ("SELECT * FROM inputs", ["column 15: 'inputs': there is no such table", "table input"]),
        ("SELECT nosuch(size) FROM input", ["query: line 1", "nosuch"]),
        ("SELECT sum(name) FROM input", ["query: line 1", "sum"]),
        ("SELECT 1; SELECT 2", ["has 2 statements", "want one SELECT"]),
        ("SELECT size FROM input -- ;", []),
    ],
)
def test_a_bad_query_is_one_clear_error(query: str, parts: list[str]) -> None:
    if not parts:
        assert output(DATA, query) == b"size\n1\n2\n"
        return
    text = failure(DATA, query)
    assert [part for part in parts if part not in text] == [], text


@pytest.mark.parametrize(
    ("data", "parameters", "parts"),
    [
        (b"", {}, ["the object is empty"]),
        (b" \n", {}, ["the object is empty"]),
        (b"x" * (1 << 20) + b"\n1\n", {}, ["the first line has more than 1048576 bytes"]),
        (b"a,b\n1,2\n3\n", {}, ["CSV Error", "3"]),
        (b"a,b\n1,2\n3,4,5\n", {}, ["CSV Error"]),
        (b"a\n\xff\n", {}, [""]),
        (b"a\n1\n", {"delimiter": "ab", "escape": "xy"}, ["delimiter: want", "escape: want"]),
        (b"a\n1\n", {"delimiter": '"'}, ["want different characters"]),
        (b'{"a": 1}\n{"a": \n', {"format": "jsonl"}, ["JSON"]),
        (b"[1]\n", {"format": "jsonl"}, ["JSON"]),
        (b"{}\n{}\n", {"format": "jsonl"}, ["no line of the first MiB has a key"]),
    ],
)
def test_a_bad_object_is_one_clear_error(
    data: bytes, parameters: dict[str, str], parts: list[str]
) -> None:
    require_clear_error(data, parameters, parts)


@pytest.mark.parametrize(
    ("data", "parameters", "parts"),
    [
        (b"a\n" + b"1\n" * 6000 + b"x\n", {}, ["column 'a': x is no BIGINT", "types=text"]),
        (b'{"a": 1}\n' * 2000 + b'{"a": "x"}\n', {"format": "jsonl"}, ["types=text"]),
    ],
)
@pytest.mark.usefixtures("small_head")
def test_a_bad_row_after_the_head_is_one_clear_error(
    data: bytes, parameters: dict[str, str], parts: list[str]
) -> None:
    require_clear_error(data, parameters, parts)


def require_clear_error(data: bytes, parameters: dict[str, str], parts: list[str]) -> None:
    text = failure(data, "SELECT sum(length(a::VARCHAR)) AS s FROM input", **parameters)
    assert [part for part in parts if part not in text] == [], text
    assert len(text) < 1000


def test_an_image_without_duckdb_names_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENGINE.__init__.__globals__, "duckdb", None)
    text = failure(DATA, "SELECT 1")
    assert "std:sql needs the Python package duckdb" in text
    assert "storlets/sandbox-data" in text


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) FROM (SELECT DISTINCT hash(a.range) AS h FROM range(100000000) a)",
        "SELECT a.range FROM range(30000000) a ORDER BY hash(a.range) DESC",
        "SELECT list(a.range) FROM range(100000000) a",
    ],
)
def test_a_query_that_needs_more_memory_is_an_error(query: str) -> None:
    text = failure(DATA, query, memory_mib="64")
    assert "needs more memory than memory-mib=64" in text


class Source(io.BytesIO):
    """An object whose second block cannot be read."""

    def read(self, size: int | None = -1, /) -> bytes:
        if self.tell():
            raise OSError(5, "the storage node has gone")
        return super().read(size)


@pytest.mark.usefixtures("small_head")
def test_an_input_that_fails_is_never_a_shorter_result(tmp_path: Path) -> None:
    big = b"a\n" + b"1\n" * (1 << 16)
    values = STORLET.values({"query": "SELECT count(*) AS n FROM input"})
    with (tmp_path / "out").open("wb") as target:
        wrapped: Any = Target(target)
        with pytest.raises(OSError, match="the storage node has gone"):
            STORLET.module.Sql(None)([Source(big)], [wrapped], values)


class Broken(Source):
    """An object whose second block fails as a pipe does."""

    def read(self, size: int | None = -1, /) -> bytes:
        if self.tell():
            raise BrokenPipeError
        return super().read(size)


@pytest.mark.usefixtures("small_head")
def test_an_input_that_fails_as_a_pipe_is_never_a_shorter_result(tmp_path: Path) -> None:
    values = STORLET.values({"query": "SELECT count(*) AS n FROM input"})
    with (tmp_path / "out").open("wb") as target:
        wrapped: Any = Target(target)
        source = Broken(b"a\n" + b"1\n" * (1 << 16))
        with pytest.raises(BrokenPipeError):
            STORLET.module.Sql(None)([source], [wrapped], values)


class Target:
    """An output; ``write`` can be replaced."""

    def __init__(self, file: Any) -> None:
        self.write = file.write

    def set_metadata(self, _metadata: dict[str, str]) -> None:
        pass


def test_an_output_that_fails_ends_the_query() -> None:
    def write(_data: bytes) -> int:
        raise BrokenPipeError

    target: Any = Target(io.BytesIO())
    target.write = write
    values = STORLET.values({"query": "SELECT * FROM range(100000000000)"})
    with pytest.raises(BrokenPipeError):
        STORLET.module.Sql(None)([io.BytesIO(DATA)], [target], values)


# --- two walls ------------------------------------------------------------------------------------

#: Statements and queries that try to leave the query; ``/tmp`` is a folder of the test.
HOSTILE = [
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_csv_auto('/etc/passwd')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_blob('/proc/self/environ')",
    "SELECT * FROM read_json('/etc/passwd')",
    "SELECT * FROM read_parquet('/etc/passwd')",
    "SELECT * FROM parquet_metadata('/etc/passwd')",
    "SELECT * FROM sniff_csv('/etc/passwd')",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM '/tmp/x.csv'",
    "SELECT * FROM 'https://example.org/x.csv'",
    "SELECT * FROM 's3://bucket/x.parquet'",
    "SELECT * FROM glob('/etc/*')",
    "SELECT (SELECT content FROM read_text('/etc/passwd'))",
    "WITH t AS (SELECT * FROM read_text('/etc/passwd')) SELECT * FROM t",
    "SELECT * FROM input WHERE EXISTS (FROM read_text('/etc/passwd'))",
    "FROM query('SELECT * FROM read_text(''/etc/passwd'')')",
    "FROM query_table(['/etc/passwd'])",
    "SELECT * FROM json_execute_serialized_sql('{}')",
    "COPY input TO '/tmp/sql-hostile'",
    "COPY (SELECT 1) TO '/tmp/sql-hostile' (FORMAT csv)",
    "COPY input FROM '/etc/passwd'",
    "EXPORT DATABASE '/tmp/sql-hostile'",
    "IMPORT DATABASE '/tmp'",
    "ATTACH '/tmp/sql-hostile.db' AS other",
    "ATTACH ':memory:' AS other",
    "INSTALL httpfs",
    "LOAD httpfs",
    "LOAD '/tmp/x.duckdb_extension'",
    "SET enable_external_access = true",
    "SET lock_configuration = false",
    "SET memory_limit = '100GB'",
    "SET threads = 64",
    "SET temp_directory = '/tmp'",
    "SET allowed_paths = ['/etc/passwd']",
    "RESET memory_limit",
    "PRAGMA memory_limit = '100GB'",
    "PRAGMA database_list",
    "CALL pragma_version()",
    "CREATE SECRET s (TYPE s3)",
    "CREATE TABLE t AS SELECT 1",
    "CREATE MACRO m() AS TABLE SELECT * FROM read_text('/etc/passwd')",
    "INSERT INTO input VALUES (1)",
    "UPDATE input SET name = 1",
    "DELETE FROM input",
    "DROP VIEW input",
    "ALTER VIEW input RENAME TO other",
    "VACUUM",
    "CHECKPOINT",
    "BEGIN",
    "PREPARE p AS SELECT 1",
    "EXECUTE p",
    "EXPLAIN SELECT 1",
    "EXPLAIN ANALYZE SELECT 1",
    "DESCRIBE input",
    "SHOW TABLES",
    "SUMMARIZE input",
    "SELECT * FROM (DESCRIBE input)",
    "SELECT * FROM (SHOW ALL TABLES)",
    "SELECT * FROM duckdb_settings()",
    "SELECT * FROM duckdb_secrets()",
    "SELECT * FROM information_schema.tables",
    "SELECT * FROM main.input",
    "SELECT * FROM sqlite_master",
    "SELECT getenv('HOME')",
    "SELECT getvariable('x')",
    "SELECT current_setting('memory_limit')",
    "SELECT nextval('s')",
    "SELECT write_log('x')",
    "SELECT json_serialize_plan('SELECT 1')",
    "SELECT 1) TO '/tmp/sql-hostile' (FORMAT csv); --",
    "SELECT 1; COPY (SELECT 1) TO '/tmp/sql-hostile'",
    "SELECT 1 /* ",
    "SELECT * FROM (WITH \"/etc/passwd\" AS (SELECT 1) SELECT 1), '/etc/passwd'",
    "SELECT * FROM (WITH \"/tmp/x.csv\" AS (SELECT 1) SELECT 1), '/tmp/x.csv'",
    "SELECT * FROM facts",
    "SELECT * FROM DATA",
    "SELECT * FROM (WITH duckdb_settings AS (SELECT 1) SELECT 1), duckdb_settings",
    "SELECT * FROM (WITH pg_tables AS (SELECT 1) SELECT 1), pg_tables",
    "SELECT * FROM (WITH SQLITE_MASTER AS (SELECT 1) SELECT 1), sqlite_master",
]  # fmt: skip


@pytest.mark.parametrize("query", HOSTILE)
def test_a_hostile_query_is_refused(query: str, tmp_path: Path) -> None:
    failure(DATA, query.replace("/tmp", str(tmp_path)))
    assert not list(tmp_path.glob("sql-hostile*"))


#: Statements that the closed engine refuses by itself, without the check of the query.
FOR_THE_ENGINE = [
    query
    for query in HOSTILE
    if any(word in query for word in ("/etc/", "/tmp", "environ", "https:", "s3:", "facts"))
    or query.startswith(("SET", "RESET", "INSTALL", "LOAD", "PRAGMA memory", "CREATE SECRET"))
] + [f"SET {name} = DEFAULT" for name in ("enable_external_access", "lock_configuration")]


@pytest.fixture(scope="module")
def closed() -> Iterator[Any]:
    with ENGINE(64) as engine:
        engine.close_in(["/proc/self/fd/0"])
        yield engine


@pytest.mark.parametrize("statement", FOR_THE_ENGINE)
def test_the_closed_engine_refuses_it_without_the_check(
    closed: Any, statement: str, tmp_path: Path
) -> None:
    (tmp_path / "x.csv").write_text("secret\n1\n")
    with pytest.raises(duckdb.Error):
        closed._connection.execute(statement.replace("/tmp", str(tmp_path))).fetchall()
    assert not list(tmp_path.glob("sql-hostile*"))


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("enable_external_access", False),
        ("lock_configuration", True),
        ("autoinstall_known_extensions", False),
        ("autoload_known_extensions", False),
        ("allow_community_extensions", False),
        ("allow_unsigned_extensions", False),
        ("python_enable_replacements", False),
        ("temp_directory", ""),
        ("memory_limit", "64.0 MiB"),
    ],
)
def test_settings_of_the_closed_engine(closed: Any, setting: str, expected: object) -> None:
    assert closed.rows(f"SELECT current_setting('{setting}')") == [(expected,)]


@pytest.mark.parametrize(
    "query",
    [
        "FROM input",
        "TABLE input",
        "WITH big AS (SELECT * FROM input WHERE size > 1) SELECT name FROM big",
        "WITH RECURSIVE t(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT n FROM t",
        "SELECT i.name, r.range FROM input i, range(2) r",
        "SELECT unnest([1, 2]) AS one",
        "SELECT * FROM unnest([1, 2])",
        "SELECT * FROM (VALUES (1), (2)) v(x)",
        "SELECT name FROM input UNION ALL SELECT 'z'",
        "SELECT name, row_number() OVER (ORDER BY size DESC) AS place FROM input",
        "SELECT regexp_replace(name, '[xy]', 'z') AS name FROM input;",
        'SELECT "Name" FROM INPUT AS i ORDER BY ALL',
        "SELECT * EXCLUDE (size) FROM input",
        "SELECT list_transform([1, 2], x -> x + 1) AS l",
    ],
)
def test_plain_queries_run(query: str) -> None:
    assert output(DATA, query).count(b"\n") > 1


@given(st.text(st.sampled_from("SELECT FROM input();'\"-*/,1a\n$é"), max_size=40))
def test_any_text_ends_in_rows_or_one_error(text: str) -> None:
    with suppress(ERROR):
        output(DATA, text)


@pytest.fixture
def _small_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some kilobytes have several buffers, at each of which a thread of the engine begins."""
    monkeypatch.setattr("sql_input.BUFFER_BYTES", 2000)
    monkeypatch.setattr("sql_input.MOST_LINE_BYTES", 1000)
    monkeypatch.setattr("sql_input.HEAD_BYTES", 3000)


@pytest.mark.usefixtures("_small_buffers")
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("empty", [False, True])
@pytest.mark.parametrize("lines", ["", "one\ntwo", "one\r\ntwo", "\n,"])
def test_line_ends_that_end_no_row_are_read_by_one_thread(
    line_end: str, empty: bool, lines: str
) -> None:
    table = [(str(number), lines or "x", '",') for number in range(4000)]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator=line_end)
    for number, row in enumerate(table):
        writer.writerow(row)
        if empty and number % 10 == 0:
            text.write(line_end)
    found = output(text.getvalue().encode(), "SELECT * FROM input", header="false", types="text")
    assert list(csv.reader(io.StringIO(found.decode(), newline="")))[1:] == [
        list(row) for row in table
    ]


@pytest.mark.usefixtures("_small_buffers")
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("late", ['\n"a\nb",c\n', "\n"])
def test_late_line_ends_that_end_no_row_want_one_thread(line_end: str, late: str) -> None:
    plain, lines = "a,b\n" + "x,y\n" * 3000, late * 3000
    data = (plain + lines).replace("\n", line_end).encode()
    count = 3000 * (1 + late.count("c"))
    wanted = f"n\n{count}\n".encode()
    query = "SELECT count(a) AS n FROM input"
    assert output(data, query, parallel="false") == wanted
    try:
        found = output(data, query).decode()
    except ERROR as error:
        found = str(error)
    assert found == wanted.decode() or "parallel=false" in found


def quoted_if_needed(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if set(text) & set(',"\r\n') else text


@given(
    table=st.lists(
        st.lists(st.text(st.sampled_from('a,"\r\né'), max_size=5), min_size=2, max_size=3),
        min_size=1,
        max_size=6,
    ),
    start=st.sampled_from([b"", b"\xef\xbb\xbf"]),
    head=st.integers(0, 9),
    size=st.integers(1, 9),
)
def test_cr_lf_becomes_lf_outside_of_quotes(
    table: list[list[str]], start: bytes, head: int, size: int
) -> None:
    form = FORMS.format_of(STORLET.values({"query": ""}))
    # Each line end is written twice: the second one is an empty line.
    rows_of = [",".join(map(quoted_if_needed, row)).encode() for row in table]
    data, wanted = (start + b"".join(row + 2 * end for row in rows_of) for end in (b"\r\n", b"\n"))
    at = len(start) + head
    stream = LINE_FEEDS.LineFeeds(io.BytesIO(data[at:]), data[:at], form)
    blocks = list(iter(lambda: stream.read(size), b""))
    assert b"".join(blocks) == wanted
    assert max(map(len, blocks)) <= size


@pytest.mark.parametrize(
    ("data", "given", "text"),
    [
        (b'a\r\n5" pipe\r\n', {}, "has a quote within"),
        (b'a\r\n"x"y\r\n', {}, "continues after its closing"),
        (b'a\r\n "x"\r\n', {}, "has a quote within"),
        (b"a\r\nx\ry\r\n", {}, "a CR outside of quotes"),
        (b"a\r\nx\r", {"quote": "none"}, "a CR outside of quotes"),
        (b'a\r\n"x\\""\r\n', {"escape": "\\"}, "requires doubled quotes"),
    ],
)
@pytest.mark.parametrize("head", [2, 100])
def test_quotes_and_cr_that_are_not_in_their_places(
    data: bytes, given: dict[str, str], text: str, head: int
) -> None:
    form = FORMS.format_of(STORLET.values({"query": "", **given}))

    def converted() -> bytes:
        lines = LINE_FEEDS.LineFeeds(io.BytesIO(data[head:]), data[:head], form)
        return b"".join(iter(lambda: lines.read(3), b""))

    with pytest.raises(ERROR, match=text):
        converted()


def test_an_object_with_other_quotes_is_read_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sql_input.HEAD_BYTES", 1000)
    data = b"a,b\r\n" + b'5" pipe,1\r\n' * 500
    assert output(data, "SELECT sum(b) AS s FROM input") == b"s\n500\n"
    assert "has a quote within" in failure(data, "SELECT sum(b) AS s FROM input", parallel="false")
