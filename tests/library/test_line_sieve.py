"""Lines that a query cannot select are dropped before the engine reads them, and no others."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.library import test_s3_select as select
from tests.library import test_sql as sql
from tests.library.support import LibraryStorlet, shared

pytestmark = pytest.mark.usefixtures("leftovers")

SIEVE: Any = shared("line_sieve")
NEEDLES: Any = shared("needles")
OF_SQL: Any = shared("sql_needles")
OF_SELECT: Any = shared("select_needles")
PART = LibraryStorlet("sql-part")
COLUMNS = {
    "id_text": "VARCHAR",
    "id": "BIGINT",
    "kind": "VARCHAR",
    "note": "VARCHAR",
    "Kind2": "VARCHAR",
}
#: Each example sets what it needs.
UNSAFE = [HealthCheck.function_scoped_fixture]
CHARACTERS = 'kep,"\n\r €='
VALUES = st.one_of(st.sampled_from(["keep", "kee", "k"]), st.text(CHARACTERS, max_size=6))
TABLES = st.lists(st.tuples(VALUES, VALUES, VALUES), max_size=12)
#: Lines that a writer of CSV makes, and some that it does not.
RAW = st.text(CHARACTERS, max_size=120).map(lambda text: text.encode())


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A head of some bytes, blocks of some more, and a sieve that looks at each line."""
    monkeypatch.setattr("sql_input.HEAD_BYTES", 16)
    monkeypatch.setattr("select_tables.HEAD_BYTES", 16)
    monkeypatch.setattr("sql_pipes.BLOCK_BYTES", 11)
    monkeypatch.setattr("select_streams.BLOCK_BYTES", 11)
    monkeypatch.setattr("select_parts.BLOCK_BYTES", 11)
    monkeypatch.setattr(SIEVE, "FREE_LINES", 1000)
    return monkeypatch


def text_of(table: list[Any], line_end: str, quoting: Any = csv.QUOTE_MINIMAL) -> bytes:
    return sql.csv_of(table, lineterminator=line_end, quoting=quoting)


# --- the sieve ------------------------------------------------------------------------------------


class Blocks:
    """A file that gives blocks of one size."""

    def __init__(self, data: bytes, size: int) -> None:
        self._file, self._size = io.BytesIO(data), size

    def read(self, size: int) -> bytes:
        return self._file.read(min(size, self._size))


def sieved(data: bytes, needles: set[bytes], head: int = 0, block: int = 7, **other: Any) -> bytes:
    """The head, and the rest without lines that have no needle."""
    given = {"line_end": b"\n", "delimiter": b",", "quote": b'"'} | other
    most = given.pop("most", 1 << 20)
    found = frozenset(NEEDLES.Needle(each) for each in needles)
    file = SIEVE.Sieved(Blocks(data[head:], block), data[:head], SIEVE.Sieve(found, **given), most)
    parts = [data[:head]]
    while part := file.read(1 << 18):
        parts.append(part)
    assert file.read(1 << 18) == b""
    return b"".join(parts)


def read_by_csv(data: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(data.decode(), newline="")))


@given(
    table=TABLES,
    line_end=st.sampled_from(["\n", "\r\n"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    head=st.integers(0, 40),
    block=st.integers(1, 40),
)
def test_rows_with_a_needle_stay_and_no_row_changes(
    table: list[Any], line_end: str, quoting: Any, head: int, block: int
) -> None:
    data = text_of(table, line_end, quoting)
    left = sieved(data, {b"ee", b"p="}, head, block, line_end=line_end.encode())
    kept, everything = read_by_csv(left), read_by_csv(data)
    # Each row that is left is one of the object, in its order; the iterator continues after it.
    later = iter(everything)
    assert all(row in later for row in kept)
    assert with_needle(kept) == with_needle(everything)


def with_needle(table: list[list[str]]) -> list[list[str]]:
    return [row for row in table if any("ee" in each or "p=" in each for each in row)]


def test_lines_without_a_needle_are_dropped() -> None:
    lines = [
        b"%d,%s\n" % (number, b"keep" if number % 50 == 7 else b"drop") for number in range(999)
    ]
    data = b"id,kind\n" + b"".join(lines)
    expected = b"id,kind\n" + b"".join(lines[7::50])
    assert sieved(data, {b"keep"}, 8, 4000) == expected
    # The reader has the start of the first line already.
    assert sieved(data, {b"keep"}, 10, 4000) == expected.replace(b"id,kind\n", b"id,kind\n0,drop\n")


QUOTED = [
    pytest.param(b'1,"drop"\n2,"ke""ep"\n', b'2,"ke""ep"\n', {b"ep"}, id="around whole values"),
    pytest.param(b'1,"a\nb"\n2,drop\n', b'1,"a\nb"\n2,drop\n', {b"keep"}, id="a line end within"),
    pytest.param(b'1,5" x 6"\n2,drop\n', b'1,5" x 6"\n2,drop\n', {b"keep"}, id="within a value"),
    pytest.param(b'1,"a" \n2,drop\n', b'1,"a" \n2,drop\n', {b"keep"}, id="not at the end"),
    pytest.param(b'1,a"b,"c\n2,d"\n', b'1,a"b,"c\n2,d"\n', {b"keep"}, id="two that hide a third"),
    pytest.param(b"1,\xe9\n2,drop\n", b"1,\xe9\n2,drop\n", {"é".encode()}, id="no UTF-8"),
    pytest.param(b"1,\xe9\n2,keep\n", b"2,keep\n", {b"keep"}, id="a needle of ASCII"),
]


@pytest.mark.parametrize(("data", "left", "needles"), QUOTED)
def test_quotes(data: bytes, left: bytes, needles: set[bytes]) -> None:
    assert sieved(data, needles, block=100) == left


def test_the_start_of_a_value_is_after_a_delimiter_or_a_quote() -> None:
    data = b"1,a\n2,ba\n3,c\n"
    found = frozenset([NEEDLES.Needle(b"a", is_start=True)])
    sieve = SIEVE.Sieve(found, b"\n", b",", b'"')
    assert sieve.kept(data, 0, len(data)) == b"1,a\n"
    data += b'4,"a"\n'
    assert sieve.kept(data, 0, len(data)) == b'1,a\n2,ba\n4,"a"\n'


@given(
    lines=st.lists(RAW.filter(lambda line: b"\n" not in line), max_size=6),
    skipped=st.integers(0, 3),
)
def test_only_a_part_of_the_data_counts(lines: list[bytes], skipped: int) -> None:
    lines = [line + b"\n" for line in lines]
    data = b"".join(lines)
    start = len(b"".join(lines[:skipped]))
    for needle in (b"k", b"ee", "é€".encode()):
        sieve = SIEVE.Sieve(frozenset([NEEDLES.Needle(needle)]), b"\n", b",", b'"')
        for after in (b"", b"k", b'"', b"\xe2\x82", b"keep\n"):
            part, place = data[start:], (start, len(data))
            assert sieve.kept(data + after, *place) == sieve.kept(part, 0, len(part))
            assert sieve.has_rows(data + after, *place) == sieve.has_rows(part, 0, len(part))


def test_after_a_doubtful_line_nothing_is_dropped() -> None:
    data = b'1,drop\n2,"a\n3,drop\n4,"\n5,drop\n'
    assert sieved(data, {b"keep"}, block=7) == data.removeprefix(b"1,drop\n")


@pytest.mark.parametrize("start", [b"", codecs.BOM_UTF8])
@pytest.mark.parametrize(("head", "left"), [
    (b"id,kind\n1,drop\n2,keep\n3,dr", b"id,kind\n2,keep\n3,dr"),
    (b"1,drop\n2,drop\n", b"1,drop\n"),
    (b"1,dr", b"1,dr"),
    (b'1,"a\n2,drop\n3,dr', b'1,"a\n2,drop\n3,dr'),
])  # fmt: skip
def test_a_checked_head_has_its_first_line_and_those_with_a_needle(
    start: bytes, head: bytes, left: bytes
) -> None:
    sieve = SIEVE.Sieve(frozenset([NEEDLES.Needle(b"keep")]), b"\n", b",", b'"')
    file = SIEVE.Sieved(Blocks(b"op\n4,keep\n", 7), start + head, sieve, 1 << 20)
    assert file.kept_head() == start + left


@given(
    data=st.text(st.sampled_from("ek\r\n"), max_size=30).map(str.encode),
    head=st.integers(0, 8),
    size=st.integers(1, 5),
)
def test_lines_are_those_of_all_blocks_together(data: bytes, head: int, size: int) -> None:
    given_ = {"line_end": b"\r\n"}
    whole = sieved(data, {b"k"}, head, len(data) + 1, **given_)
    assert sieved(data, {b"k"}, head, size, **given_) == whole


def test_a_long_line_reaches_the_reader() -> None:
    data = b"1,drop\n" + b"x" * 300 + b"\n3,drop\n"
    assert sieved(data, {b"keep"}, block=50, most=100) == data.removeprefix(b"1,drop\n")


def test_many_lines_with_a_needle_or_a_quote_reach_the_reader() -> None:
    many = b"1,keep\n2,drop\n" * 100
    assert sieved(many, {b"keep"}, block=len(many)) == many
    quoted = b'1,"a"\n2,drop\n' * 100
    assert sieved(quoted, {b"keep"}, block=len(quoted)) == quoted


# --- conditions -----------------------------------------------------------------------------------

WHERE = [
    ("kind = 'keep'", {"^keep"}),
    ("'keep' = KIND", {"^keep"}),
    ("t.kind = 'keep' AND id > 5", {"^keep"}),
    ("kind = 'keep' AND note = 'longer'", {"^longer"}),
    ("kind = 'a' OR note = 'b'", {"^a", "^b"}),
    ("kind = 'a' OR id = 5", set()),
    ("kind IN ('a', 'b') AND id = 1", {"^a", "^b"}),
    ("kind IN ('a', 'b', NULL)", set()),
    ("kind NOT IN ('a', 'b')", set()),
    ("NOT kind = 'a'", set()),
    ("kind <> 'a'", set()),
    ("kind IN ('1', '2', '3', '4', '5', '6', '7', '8', '9')", set()),
    ("kind = 'say \"hi\" to all'", {" to all"}),
    ("kind = e'one\\r\\ntwo of'", {"two of"}),
    ("kind = ''", set()),
    ("kind LIKE 'ab%cdef_g'", {"cdef"}),
    ("kind LIKE '%'", set()),
    ("kind LIKE 'a!%b' ESCAPE '!'", set()),
    ("kind ILIKE 'abc%'", set()),
    ("starts_with(kind, 'abc') AND contains(kind, 'defgh')", {"defgh"}),
    ("ends_with(kind, 'abc')", {"abc"}),
    ("Id_text = 'abc'", {"abc"}),
    ("kind LIKE 'abcd%ef'", {"^abcd"}),
    ("kind ^@ 'abc'", {"^abc"}),
    ("kind IS NOT DISTINCT FROM 'abc'", {"^abc"}),
    ("kind = 'é€'", {"^é€"}),
    ("id = 5", set()),
    ("id = '5'", set()),
    ("kind = 5", set()),
    ("lower(kind) = 'abc'", set()),
    ("kind || '' = 'abc'", set()),
    ("kind COLLATE NOCASE = 'abc'", set()),
    ("kind = 'abc' COLLATE NOCASE", set()),
    ("coalesce(kind, 'abc') = 'abc'", set()),
    ("CASE WHEN kind = 'abc' THEN false ELSE true END", set()),
    ("kind2 = 'x'", {"^x"}),
]


@pytest.fixture(scope="module")
def syntax() -> Iterator[Any]:
    """The syntax of queries, which needs an engine and no object."""
    with sql.ENGINE(100) as engine:
        yield engine.syntax


def of_sql(syntax: Any, query: str) -> set[str]:
    found = OF_SQL.of_query(syntax.tree(syntax.checked(query)), COLUMNS, '"')
    return set(map(shown, found))


def shown(needle: Any) -> str:
    """A needle with ``^`` before the start of a value."""
    return "^" * needle.is_start + str(needle.content.decode())


@pytest.mark.parametrize(("condition", "expected"), WHERE)
def test_needles_of_conditions(syntax: Any, condition: str, expected: set[str]) -> None:
    assert of_sql(syntax, f"SELECT id FROM input t WHERE {condition}") == expected  # noqa: S608
    nested = f"WITH w AS (SELECT * FROM input t WHERE {condition}) SELECT count(*) FROM w LIMIT 1"  # noqa: S608
    assert of_sql(syntax, nested.removesuffix(" LIMIT 1")) == expected
    assert of_sql(syntax, nested) == set()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id FROM input",
        "SELECT id FROM input WHERE kind = 'keep' LIMIT 5",
        "SELECT id FROM input WHERE kind = 'keep' USING SAMPLE 10%",
        "SELECT id FROM input TABLESAMPLE 10% WHERE kind = 'keep'",
        "SELECT a FROM input AS t(a, kind, c) WHERE kind = 'keep'",
        "SELECT id FROM input, input AS b WHERE input.kind = 'keep'",
        "SELECT id FROM input JOIN (VALUES (1)) AS v(n) ON n = id WHERE kind = 'keep'",
        "SELECT id FROM input WHERE kind = 'keep' AND id = (SELECT max(id) FROM input)",
        "WITH input AS (SELECT 'keep' AS kind) SELECT * FROM input WHERE kind = 'keep'",
        "SELECT kind AS x FROM input WHERE x = 'keep'",
        "SELECT count(*) FROM input HAVING count(*) > 1",
    ],
)
def test_queries_without_needles(syntax: Any, query: str) -> None:
    assert of_sql(syntax, query) == set()


def test_a_column_and_not_an_alias_is_compared(syntax: Any) -> None:
    assert of_sql(syntax, "SELECT 'x' AS kind, note FROM input WHERE kind = 'keep'") == {"^keep"}
    with duckdb.connect() as engine:
        found = engine.execute(
            "SELECT note AS kind FROM (VALUES ('keep', 'n'), ('drop', 'keep')) AS t(kind, note)"
            " WHERE kind = 'keep'"
        ).fetchall()
    assert found == [("n",)]


OF_S3 = [
    ("s.kind = 'keep'", {"^keep"}),
    ("'keep' = s._2 AND s.id = 'longer'", {"longer"}),
    ("s.kind = 'a' OR s.kind IN ('b', 'c')", {"^a", "^b", "^c"}),
    ("s.kind LIKE 'ab%cdef'", {"cdef"}),
    ("s.kind LIKE 'ab!%cde' ESCAPE '!'", set()),
    ("CAST(s.id AS INT) = 5", set()),
    ("LOWER(s.kind) = 'a'", set()),
    ("NOT s.kind = 'a'", set()),
    ("s._9 = 'a'", set()),
    ("s.kind = s.id", set()),
]


@pytest.mark.parametrize(("condition", "expected"), OF_S3)
def test_needles_of_conditions_of_s3(condition: str, expected: set[str]) -> None:
    tree = shared("select_parser").parsed(f"SELECT * FROM S3Object s WHERE {condition}")  # noqa: S608
    schema = shared("select_schema").CsvSchema(3, ["id", "kind", "note"], "s")
    found = OF_SELECT.Conditions(schema, '"').needles(tree.where)
    assert set(map(shown, found)) == expected


# --- the same results as without ------------------------------------------------------------------

CONDITIONS = [
    "b = 'keep'",
    "b = 'keep' OR c = 'ke'",
    "b IN ('k', 'kee') AND c <> 'x'",
    "c LIKE '%ke_p%'",
    "a = 'k\"e'",
    "starts_with(a, 'k')",
    "b = e'k\\ne'",
    "b = '€'",
]


def outcome(run: Any) -> Any:
    try:
        return run()
    except sql.ERROR as error:
        return f"error: {error}"


def same(patch: pytest.MonkeyPatch, place: Any, name: str, run: Any) -> tuple[Any, Any]:
    """The outcomes of a run with the sieve, and without it."""
    with_sieve = outcome(run)
    with patch.context() as inner:
        inner.setattr(place, name, lambda *_: NEEDLES.UNKNOWN)
        return with_sieve, outcome(run)


@settings(suppress_health_check=UNSAFE)
@given(
    data=st.one_of(
        RAW,
        st.builds(
            text_of,
            TABLES,
            st.sampled_from(["\n", "\r\n"]),
            st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
        ),
    ),
    condition=st.sampled_from(CONDITIONS),
    storlet=st.sampled_from([sql.STORLET, PART]),
)
def test_rows_of_sql_are_the_same(
    small: pytest.MonkeyPatch, data: bytes, condition: str, storlet: Any
) -> None:
    given = {"query": f"SELECT * FROM input WHERE {condition}", "types": "text"}  # noqa: S608
    if storlet is PART:
        given["scan-range"] = "bytes=0-"
    whole = b"a,b,c\nx,y,z\n\n1,2,3\n" + data
    found, wanted = same(small, OF_SQL, "of_query", lambda: storlet.run(whole, given).output)
    # A line that is wrong and has no needle is no error any more.
    assume(not isinstance(wanted, str))
    assert found == wanted


@settings(suppress_health_check=UNSAFE)
@given(
    data=st.one_of(RAW, st.builds(text_of, TABLES, st.sampled_from(["\n", "\r\n"]))),
    condition=st.sampled_from(["s.b = 'keep'", "s._3 LIKE 'k%e'", "s.b IN ('k', 'kee')"]),
    source=st.sampled_from(
        [
            {"header": "USE"},
            {"header": "USE", "quoted_records": True},
            {"header": "USE", "comment": "k"},
        ]
    ),
    star=st.sampled_from(["*", "COUNT(*)"]),
)
def test_records_of_s3_select_are_the_same(
    small: pytest.MonkeyPatch, data: bytes, condition: str, source: dict[str, Any], star: str
) -> None:
    query = f"SELECT {star} FROM S3Object s WHERE {condition}"  # noqa: S608
    whole = b"a,b,c\nx,y,z\n1,2,3\n" + data

    def run() -> Any:
        frames = select.run(whole, query, source)
        return frames[-1][0], b"".join(part for kind, part in frames if kind == "R")

    found, wanted = same(small, OF_SELECT.Conditions, "needles", run)
    assume(wanted[0] == "S")
    assert found == wanted


def test_only_lines_with_a_needle_reach_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    written = list[bytes]()
    write = shared("sql_pipes").Feeder._written
    monkeypatch.setattr(
        "sql_pipes.Feeder._written",
        lambda self, data: written.append(data) or write(self, data),
    )
    lines = [f"{number},{'keep' if number % 1000 == 7 else 'drop'}\n" for number in range(300_000)]
    data = ("id,kind\n" + "".join(lines)).encode()
    query = "SELECT count(*) AS n, sum(id) AS s FROM input WHERE kind = 'keep'"
    assert sql.rows(data, query) == [{"n": 300, "s": sum(range(7, 300_000, 1000))}]
    assert 0 < sum(map(len, written)) < 10_000
    # A head whose rows only the inference of all types has read reaches the engine whole.
    written.clear()
    assert sql.rows(data, query, columns='{"id": "int64"}') == [
        {"n": 300, "s": sum(range(7, 300_000, 1000))}
    ]
    assert len(written[0]) == 1 << 20


# --- faults ---------------------------------------------------------------------------------------


def test_faults_of_lines_with_a_needle_are_errors_without_a_number(small: Any) -> None:
    good = b"a,b\n" + b"1,drop\n" * 9
    query = "SELECT a FROM input WHERE b = 'keep'"
    fault = sql.failure(good + b"1,keep,3\n", query)
    assert "Expected Number of Columns: 2 Found: 3" in fault
    assert "on Line" not in fault
    # Without a needle, no reading of a line is a row that the query requires.
    assert sql.rows(good + b"1,drop,3\n" + b"1,keep\n", query) == [{"a": 1}]
    assert "on Line: 11" in sql.failure(good + b"1,drop,3\n", "SELECT a FROM input WHERE b <> 'x'")


def test_a_quote_without_an_end_is_an_error(small: Any) -> None:
    data = b"a,b\n" + b"1,drop\n" * 9 + b'1,"drop\n' + b"2,drop\n" * 9
    assert """Original Line: 1,"drop 2,drop""" in sql.failure(
        data, "SELECT a FROM input WHERE b = 'keep'"
    )


def test_a_value_of_another_type_is_an_error_where_it_is_compared(small: Any) -> None:
    data = b"a,b\n" + b"1,drop\n" * 9 + b"x,keep\n"
    assert "'a'" in sql.failure(data, "SELECT a FROM input WHERE b = 'keep'")
    assert "'a'" in sql.failure(data.replace(b"keep", b"drop"), "SELECT b FROM input WHERE a = 1")


def test_faults_of_records_without_a_needle_are_no_errors_of_s3(small: Any) -> None:
    data = b"a,b\n" + b"1,drop\n" * 9 + b"1,drop,3\n2,keep\n"
    use = {"header": "USE"}
    assert select.result(data, "SELECT s.a FROM S3Object s WHERE s.b = 'keep'", use) == "2\n"
    for query in (
        "SELECT s.a FROM S3Object s WHERE s.b <> 'x'",
        "SELECT s.a FROM S3Object s WHERE s.b = 'drop'",
    ):
        assert select.code(data, query, use) == "CSVParsingError"
    quotes = data.replace(b"2,keep", b'2,"keep')
    assert select.code(quotes, "SELECT s.a FROM S3Object s WHERE s.b = 'none'", use)
