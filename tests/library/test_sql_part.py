"""The parts of ``std:sql-part`` together are the whole object, or a part is an error."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.library.support import LibraryStorlet, shared

PART = LibraryStorlet("sql-part")
SQL, MERGE = LibraryStorlet("sql"), LibraryStorlet("sql-merge")
LINES: Any = shared("csv_lines")
ERROR: Any = shared("sql_check").SqlError
ALL = "SELECT * FROM input"
#: Characters with and without a meaning in CSV; an empty value is NULL.
PLAIN = st.text(st.sampled_from('ab ,;"é'), min_size=1, max_size=6)
LONG = st.text(st.sampled_from('a,"\n'), min_size=1, max_size=30)


def part(data: bytes, first: int, last: int | str = "", query: str = ALL, **given_: str) -> bytes:
    parameters = {"query": query, "scan-range": f"bytes={first}-{last}", **given_}
    return PART.run(data, parameters).output


def rows_of(output: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(output.decode(), newline="")))[1:]


def encoded(rows: Sequence[Sequence[str]], **dialect: Any) -> list[bytes]:
    lines = []
    for row in rows:
        text = io.StringIO()
        csv.writer(text, **dialect).writerow(row)
        lines.append(text.getvalue().encode())
    return lines


def cut(size: int, places: Sequence[int]) -> list[tuple[int, int]]:
    edges = sorted({0, size, *(place % size for place in places)})
    return [(first, end - 1) for first, end in itertools.pairwise(edges)]


TABLES = st.lists(st.tuples(PLAIN, PLAIN, PLAIN), min_size=1, max_size=12)
PLACES = st.lists(st.integers(0, 10_000), max_size=3)


@given(
    table=TABLES,
    places=PLACES,
    line_end=st.sampled_from(["\n", "\r\n"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    has_names=st.booleans(),
    is_open=st.booleans(),
    blanks=st.sampled_from([0, 3]),
)
def test_the_parts_have_each_row_once(
    *, table: list[tuple[str, str, str]], places: list[int], line_end: str, quoting: int,
    has_names: bool, is_open: bool, blanks: int,
) -> None:  # fmt: skip
    names = [("x", "y", "z")] if has_names else []
    lines = encoded([*names, *table], lineterminator=line_end, quoting=quoting)
    if is_open:
        lines[-1] = lines[-1].removesuffix(line_end.encode())
    if blanks and len(lines) > blanks:
        lines.insert(blanks, line_end.encode())
    data = b"".join(lines)
    given_ = {"types": "text", "header": str(has_names).lower()}
    whole = rows_of(SQL.run(data, {"query": ALL, **given_}).output)
    assert whole == [list(row) for row in table]
    starts = list(itertools.accumulate((len(line) for line in lines), initial=0))
    begins = [begin for begin, line in zip(starts, lines, strict=False) if line.strip()]
    begins = begins[len(names) :]
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LINES, "SLACK_BYTES", 0)
        patch.setattr(LINES, "MOST_LINE_BYTES", 100)
        for first, last in cut(len(data), places):
            each = rows_of(part(data, first, last, **given_))
            assert each == [
                row for begin, row in zip(begins, whole, strict=True) if first <= begin <= last
            ]
            found += each
    assert found == whole


@given(
    table=st.lists(st.tuples(LONG, LONG), min_size=1, max_size=12),
    places=PLACES,
    most=st.sampled_from([100, 150]),
)
def test_with_line_ends_in_values_a_part_is_right_or_an_error(
    table: list[tuple[str, str]], places: list[int], most: int
) -> None:
    lines = encoded([("x", "y"), *table], lineterminator="\n")
    data = b"".join(lines)
    assert max(map(len, lines)) <= 130
    starts = list(itertools.accumulate((len(line) for line in lines), initial=0))[1:-1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LINES, "SLACK_BYTES", 30 if most == 100 else 0)
        patch.setattr(LINES, "MOST_LINE_BYTES", most)
        for first, last in cut(len(data), places):
            expected = [
                list(row)
                for begin, row in zip(starts, table, strict=True)
                if first <= begin <= last
            ]
            try:
                found = rows_of(part(data, first, last, types="text"))
            except ERROR as error:
                assert "quote" in str(error)  # noqa: PT017
                assert "std:sql" in str(error)  # noqa: PT017
                continue
            assert found == expected


@pytest.mark.parametrize(
    ("data", "first"),
    [
        (b'x\n"1\n2\n3\n4\n"\n5\n', 8),
        (b'x,y\n"1\n2,2\n3,3\n",4\n', 9),
        (b'x,y\n1,"\n2,2\n3,3\n4,4"\n', 8),
        (b'x,y\n5" a,"\n2,2\n3,3\n4,4"\n', 14),
        (b'"x\ny",z\n1,2\n3,4\n', 12),
        (b'x\n1\n2"\n3\n', 3),
        (b'x\n1\n2"3"\n4\n', 3),
        (b'x,y\n1,2\n"3" ,4\n', 5),
    ],
)
def test_quotes_that_lines_do_not_explain_are_an_error(data: bytes, first: int) -> None:
    with pytest.raises(ERROR, match="query the object with std:sql"):
        part(data, first, types="text")


def test_without_quotes_they_are_data() -> None:
    data = b'x,y\n5" a,"\n2,2\n'
    assert rows_of(part(data, 4, types="text", quote="none")) == [['5" a', '"'], ["2", "2"]]


def test_an_escape_is_refused() -> None:
    with pytest.raises(ERROR, match="escape: a part requires doubled quotes"):
        part(b"x\n1\n2\n", 2, escape="\\")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0-9",
        "bytes=",
        "bytes=-",
        "bytes=a-b",
        "bytes=1-2,4-5",
        "bytes=2-1",
        "bytes=9-",
        "bytes=-0",
    ],
)
def test_a_range_that_is_none_or_has_no_byte_is_an_error(text: str) -> None:
    with pytest.raises(ERROR, match="scan-range: "):
        PART.run(b"x\n1\n2\n3\n", {"query": ALL, "scan-range": text})


def test_an_object_without_bytes_adds_nothing() -> None:
    with pytest.raises(ERROR, match="the object is empty"):
        part(b"", 0)
    empty = part(b"", 0, 0, output="partial")
    other = part(b"x\n1\n", 0, output="partial")
    assert MERGE.run(empty, {"merge-stage": "last"}, further=[other]).output == b"x\n1\n"
    with pytest.raises(ERROR, match="no byte of the object, which has 0"):
        part(b"", 1)


def test_a_byte_order_mark_before_a_quoted_name_is_no_part_of_it() -> None:
    data = b'\xef\xbb\xbf"x"\r\n"1"\r\n"2"\r\n'
    given_ = {"parallel": "false"}
    parts = [part(data, 0, 9, **given_), part(data, 10, **given_)]
    assert b"".join(parts) == b"x\n1\nx\n2\n"


def test_ranges_have_the_forms_of_http() -> None:
    data = b"x\n1\n2\n3\n"
    for text, expected in (
        ("2-3", "1"),
        ("2-4", "12"),
        ("4-", "23"),
        ("-2", "3"),
        ("-99", "123"),
        ("6-999", "3"),
    ):
        output = PART.run(data, {"query": ALL, "scan-range": f"bytes={text}"}).output
        assert "".join(row[0] for row in rows_of(output)) == expected, text


def test_types_are_those_of_the_whole_object() -> None:
    data = b"n,t\n" + b"1,a\n" * 10 + b"2.5,7\n" + b"3,8\n" * 10
    query = "SELECT DISTINCT typeof(n) AS a, typeof(t) AS b FROM input"
    for first, last in cut(len(data), [44, 50]):
        assert rows_of(part(data, first, last, query=query)) == [["DOUBLE", "VARCHAR"]]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT g, count(*) AS c, sum(n) AS s, min(t) AS m FROM input GROUP BY g ORDER BY g",
        "SELECT t FROM input WHERE n > 90 LIMIT 100",
        "SELECT avg(n) AS a, count(*) AS c FROM input",
    ],
)
def test_merged_parts_are_the_result_of_the_whole(query: str) -> None:
    chance = random.Random(1)  # noqa: S311  the same each time
    lines = [f"{chance.randrange(9)},{chance.randrange(-99, 99)},t{n}\n" for n in range(5000)]
    data = ("g,n,t\n" + "".join(lines)).encode()
    whole = SQL.run(data, {"query": query}).output
    for count in (1, 2, 7):
        parts = [
            part(
                data,
                len(data) * n // count,
                len(data) * (n + 1) // count - 1,
                query,
                output="partial",
            )
            for n in range(count)
        ]
        merged = MERGE.run(parts[0], {"merge-stage": "last"}, further=parts[1:]).output
        assert merged == whole, count


def test_a_long_row_is_whole_in_its_part() -> None:
    long = b"x" * 900_000
    data = b"a,b\n1,2\n" + long + b",3\n4,5\n"
    query = "SELECT length(a) AS l, b FROM input"
    assert rows_of(part(data, 4, 8, query, types="text")) == [["1", "2"], ["900000", "3"]]
    assert rows_of(part(data, 9, "", query, types="text")) == [["1", "5"]]
    assert rows_of(part(data, 9, 500_000, query, types="text")) == []


def test_only_the_bytes_of_the_part_are_read() -> None:
    data = b"a,b\n" + b'123456,"some text"\n' * 1_000_000
    mebibyte = 1 << 20
    read: list[int] = []
    lines = LINES.Lines

    class Counting(lines):  # type: ignore[misc]
        def read(self, size: int) -> bytes:
            read.append(self._at)
            return bytes(super().read(size))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LINES, "Lines", Counting)
        output = part(data, 10 * mebibyte, 12 * mebibyte - 1, "SELECT count(*) AS n FROM input")
    ((count,),) = rows_of(output)
    assert abs(int(count) - 2 * mebibyte // 19) <= 1
    assert min(read) >= 8 * mebibyte
    assert max(read) <= 13 * mebibyte


def test_a_compressed_object_has_no_parts() -> None:
    with pytest.raises(ERROR, match="the object is gzip, which has no parts"):
        part(gzip.compress(b"a,b\n1,2\n"), 0)
