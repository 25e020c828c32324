"""``std:sql-merge`` gives what one query over all objects together gives."""

from __future__ import annotations

import csv
import io
import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.library.support import LibraryStorlet, shared

SQL = LibraryStorlet("sql")
PARQUET = LibraryStorlet("sql-parquet")
STORLET = LibraryStorlet("sql-merge")
ERROR: Any = shared("sql_check").SqlError
NAMES = ["k", "v", "d", "f", "t", "s"]
COLUMNS = json.dumps(
    {"k": "text", "v": "integer", "d": "decimal(12,2)", "f": "number", "t": "date", "s": "text"}
)
VALUES = st.tuples(
    st.sampled_from(["", "a", "b", "c"]),
    st.one_of(st.just(""), st.integers(-(10**15), 10**15).map(str)),
    st.one_of(st.just(""), st.integers(-(10**9), 10**9).map(lambda n: f"{n / 100:.2f}")),
    st.sampled_from(["", "0.5", "-1.25", "3.0", "1e10"]),
    st.sampled_from(["", "2024-02-29", "1999-12-31", "2024-03-01"]),
    st.sampled_from(["", "x,y", 'q"', "l\nm", "\\N", "NULL", "é"]),
)
OBJECTS = st.lists(st.lists(VALUES, max_size=6), min_size=1, max_size=4)
#: Queries whose ``ORDER BY`` has no ties, or that have none.
QUERIES = [
    "SELECT k, count(*), avg(v), sum(v), sum(d), min(t), max(s), avg(d), sum(f) FROM input GROUP BY k",
    "SELECT count(*) AS n, count(v) AS c, sum(v) AS s, min(d) AS low, mean(f) AS m FROM input",
    (
        "SELECT i.k AS kk, count(*) FILTER (WHERE v > 1) AS n, avg(v) + sum(v) FROM input i"
        " WHERE v <> 1 AND kk <> 'b' GROUP BY 1, upper(s) HAVING n >= 0"
        " ORDER BY 2 DESC NULLS FIRST, kk, upper(s) LIMIT 5 OFFSET 1"
    ),
    "SELECT k, v, s FROM input ORDER BY v DESC, lower(k), s LIMIT 3 OFFSET 1",
    "SELECT * FROM input ORDER BY v * 2, k, d, f, t, s LIMIT 3",
    "SELECT * FROM input WHERE s IS NOT NULL",
    "SELECT * REPLACE (-v AS v) FROM input ORDER BY 2, 1, 3, 4, 5, 6 LIMIT 3",
    "SELECT DISTINCT k, v % 3 AS m FROM input ORDER BY m, k LIMIT 4",
    "SELECT k, s, sum(v) AS total FROM input GROUP BY k, s ORDER BY s NULLS FIRST, k DESC LIMIT 2",
    "SELECT sum(v) FROM input WHERE k = 'x'",
    "SELECT nullif(sum(v), 0) / count(*) AS q, sum(v) > 0 AS p FROM input",
    "SELECT k AS g, max(d)::VARCHAR || 'x' AS h, h || g FROM input GROUP BY g ORDER BY g",
    (
        "SELECT CASE WHEN sum(v) > 0 THEN 'p' END AS sign, bool_and(v > 0), bool_or(f > 1) AS o"
        " FROM input GROUP BY k IS NULL"
    ),
    "SELECT date_trunc('year', t) AS y, max(f) AS m FROM input GROUP BY y ORDER BY y",
    "SELECT DISTINCT count(*) AS n FROM input GROUP BY k ORDER BY n",
    "SELECT 1 AS one FROM input HAVING count(*) > 3",
    "SELECT 5 AS five FROM input GROUP BY ()",
    "SELECT k FROM input GROUP BY k ORDER BY sum(v) DESC, k LIMIT 2",
    (
        "SELECT k AS g, {'k': g, 'of': {'sum': sum(v), 'n': count(*)}, '1': 1e3}::VARCHAR AS o"
        " FROM input GROUP BY g HAVING {'n': count(*)}.n > 0 ORDER BY {'g': g}.g"
    ),
    "SELECT k, sum(v) AS v FROM input GROUP BY k HAVING sum(v) > 1 ORDER BY max(v) DESC, k LIMIT 2",
    "SELECT -v AS v, count(*) AS n FROM input GROUP BY input.v HAVING sum(v) > 0 ORDER BY min(v)",
    "SELECT NULL AS x, 1, CASE WHEN count(*) > 1 THEN max(k) ELSE NULL END AS m FROM input GROUP BY x, 2",
]


def csv_of(rows: list[tuple[str, ...]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows([NAMES, *rows])
    return text.getvalue().encode()


def part(data: bytes, query: str, **given: str) -> bytes:
    ran = SQL.run(data, {"query": query, "output": "partial", **given})
    assert ran.metadata["Content-Type"] == "application/x-storlet-sql-partial"
    return ran.output


def merged(parts: list[bytes], stage: str = "last", output: str = "jsonl") -> bytes:
    given = {"output": output, "merge-stage": stage}
    return STORLET.run(parts[0], given, further=parts[1:]).output


def rows(data: bytes, query: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in data.splitlines()]
    return found if "ORDER BY" in query else sorted(found, key=json.dumps)


#: An example runs the query over each object, and merges several times.
FEWER = settings(max_examples=settings().max_examples // 3)


def is_same(found: Any, wanted: Any) -> bool:
    """Equal, but for the last digits of a quotient or a sum of floating-point numbers."""
    if isinstance(found, float) and isinstance(wanted, float):
        return math.isclose(found, wanted, rel_tol=1e-13)
    return type(found) is type(wanted) and bool(found == wanted)


@FEWER
@given(query=st.sampled_from(QUERIES), objects=OBJECTS)
def test_the_result_is_that_of_one_query_over_all_objects(
    query: str, objects: list[list[tuple[str, ...]]]
) -> None:
    require_result(query, objects)


@pytest.mark.parametrize("query", QUERIES)
def test_each_kind_of_query(query: str) -> None:
    table = [
        ("a", "3", "1.25", "0.5", "2024-02-29", "x,y"),
        ("", "-1", "", "-1.25", "", ""),
        ("b", "", "7.10", "", "1999-12-31", "\\N"),
        ("a", "1000000000000", "-0.01", "3.0", "2024-03-01", "l\nm"),
        ("c", "5", "2.00", "1e10", "2024-02-29", 'q"'),
    ]
    require_result(query, [table[:3], [], table[3:], table[1:2]])


def require_result(query: str, objects: list[list[tuple[str, ...]]]) -> None:
    """Assert that the result is that of the query over all rows in one object."""
    together = csv_of([row for each in objects for row in each])
    whole = SQL.run(together, {"query": query, "columns": COLUMNS, "output": "jsonl"}).output
    parts = [part(csv_of(each), query, columns=COLUMNS) for each in objects]
    inner = [merged(parts[:2], "inner"), *parts[2:]]
    wanted = rows(whole, query)
    for found in (rows(merged(parts), query), rows(merged(inner), query)):
        assert [list(row) for row in found] == [list(row) for row in wanted]
        for one, other in zip(found, wanted, strict=True):
            assert all(is_same(one[name], other[name]) for name in one), (one, other)


def test_only_the_first_rows_of_an_object_leave_it() -> None:
    data = b"k,v\n" + b"".join(b"%d,%d\n" % (n, n % 7) for n in range(500))

    def count(query: str) -> int:
        return part(data, query).count(b"\n") - 1

    assert count("SELECT k FROM input LIMIT 3") == 3
    assert count("SELECT k FROM input ORDER BY v DESC LIMIT 3 OFFSET 4") == 7
    assert count("SELECT k, sum(v) FROM input GROUP BY k ORDER BY k LIMIT 2") == 2
    # A group that is cut at one object could be one of the first ones together with others.
    assert count("SELECT v, sum(k) FROM input GROUP BY v ORDER BY 2 LIMIT 2") == 7
    assert count("SELECT v, k FROM input GROUP BY v, k ORDER BY v LIMIT 2") == 500
    assert count("SELECT v FROM input GROUP BY v HAVING sum(k) > 1 ORDER BY v LIMIT 2") == 7


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("SELECT count(DISTINCT k) FROM input", "count(DISTINCT ...) is refused over many objects"),
        ("SELECT median(v) FROM input", "median is refused: an aggregate over many objects is"),
        ("SELECT geomean(v) FROM input", "geomean is refused"),
        ("SELECT first(k) FROM input", "first is refused"),
        ("SELECT min(v, 2) FROM input", "min with these arguments is refused"),
        ("SELECT row_number() OVER () FROM input", "line 1, column 8: a window function"),
        ("SELECT k FROM input WHERE v > (SELECT 1)", "line 1, column 31: a subquery"),
        ("SELECT a.k FROM input a JOIN input b ON a.k = b.k", "FROM has the table input alone"),
        ("SELECT 1 FROM range(3)", "FROM has the table input alone"),
        ("WITH t AS (SELECT 1) SELECT k FROM input", "WITH is refused"),
        ("SELECT k FROM input UNION SELECT 1", "UNION, EXCEPT and INTERSECT are refused"),
        ("SELECT k, sum(v) FROM input GROUP BY ALL", "GROUP BY ALL is refused"),
        ("SELECT k, sum(v) FROM input GROUP BY ROLLUP (k)", "ROLLUP, CUBE and GROUPING SETS"),
        ("SELECT k FROM input ORDER BY ALL", "ORDER BY ALL is refused"),
        ("SELECT DISTINCT ON (k) k FROM input", "DISTINCT ON is refused"),
        ("SELECT DISTINCT k FROM input ORDER BY upper(k)", "ORDER BY names a column of the result"),
        ("SELECT k FROM input LIMIT 10%", "a LIMIT in percent is refused"),
        ("SELECT * REPLACE (-v AS v) FROM input ORDER BY v LIMIT 1", "ORDER BY has numbers of"),
        ("SELECT * RENAME (k AS w) FROM input ORDER BY w", "ORDER BY has numbers of columns"),
        ("SELECT -COLUMNS('v') FROM input ORDER BY v", "ORDER BY has numbers of columns"),
        ("SELECT k FROM input LIMIT 1.5", "want a whole number after LIMIT"),
        ("SELECT k FROM input ORDER BY 2", "ORDER term out of range"),
        ("SELECT k FROM input LIMIT 1 + 1", "want a whole number after LIMIT"),
        ("SELECT k FROM input USING SAMPLE 1", "samples and other names of columns are refused"),
        ("SELECT max(COLUMNS('v')) FROM input", "* beside aggregates is refused"),
        ("SELECT k, sum(v) AS v FROM input GROUP BY k ORDER BY v", "'v' is a column of the object"),
        ("SELECT k COLLATE nocase FROM input", "COLLATE is refused"),
        ("SELECT [k] FROM input", "a column of the type VARCHAR[] is refused over many objects"),
        ("SELECT weight FROM input", "weight"),
    ],
)
def test_a_query_that_cannot_be_split_is_refused_by_name(query: str, text: str) -> None:
    with pytest.raises(ERROR) as caught:
        part(b"k,v\na,1\n", query)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


#: Queries over lines that may lack each key but ``id``.
KEYED = [
    (
        "SELECT id, sum(v) AS s, avg(v) AS m, count(v) AS n, min(t) AS t, bool_or(b) AS b, max(v) AS x"
        " FROM input GROUP BY id ORDER BY id"
    ),
    "SELECT id, v, t FROM input WHERE v IS NULL OR v > 1 OR b = true ORDER BY v, t, id LIMIT 5",
    "SELECT v AS w, count(*) AS n FROM input GROUP BY w ORDER BY w NULLS FIRST",
    "SELECT max(v) FILTER (WHERE v <> 2) AS m, coalesce(sum(v), 0) AS s, count(*) AS n FROM input",
    "SELECT DISTINCT coalesce(CAST(v AS INTEGER), -9) AS w FROM input ORDER BY w",
    "SELECT count(*) AS n FROM input WHERE v BETWEEN 1 AND 2 OR v IN (3, 4) OR t = 'x' OR b IS NULL",
    "SELECT i.id AS k, sum(i.v) AS v FROM input i WHERE NOT i.v < 0 GROUP BY 1 ORDER BY 1",
    "SELECT t, v FROM input WHERE current_date > DATE '2000-01-01' ORDER BY t DESC, v",
    "SELECT list_sum(list_transform([id, 2], x -> x + 1)) AS l, V FROM input ORDER BY l, V",
]
LINES = st.fixed_dictionaries(
    {"id": st.integers(0, 3)},
    optional={"v": st.integers(0, 5), "t": st.sampled_from(["x", "y"]), "b": st.booleans()},
)


def json_of(lines: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def json_part(lines: list[dict[str, Any]], query: str, **given: str) -> bytes:
    return part(json_of(lines), query, format="jsonl", **given)


@FEWER
@given(
    query=st.sampled_from(KEYED),
    objects=st.lists(st.lists(LINES, max_size=4), min_size=1, max_size=4),
)
def test_a_key_that_an_object_lacks_is_null_as_in_one_object(
    query: str, objects: list[list[dict[str, Any]]]
) -> None:
    require_keyed_result(query, objects)


@pytest.mark.parametrize("query", KEYED)
@pytest.mark.parametrize(
    "objects",
    [
        [[{"id": 1, "v": 3, "t": "x", "b": True}], [{"id": 1}, {"id": 2}], [{"id": 0, "t": "y"}]],
        # No object has all keys.
        [[{"id": 1}], [{"b": False, "id": 3}], [{"id": 2, "v": 2}, {"id": 2}], [{"id": 1, "t": "x"}]],
    ],
)  # fmt: skip
def test_each_kind_of_query_over_objects_that_lack_keys(
    query: str, objects: list[list[dict[str, Any]]]
) -> None:
    require_keyed_result(query, objects)


def require_keyed_result(query: str, objects: list[list[dict[str, Any]]]) -> None:
    """Assert that the result is that of the query over all lines in one object."""
    together = json_of([line for each in objects for line in each])
    parts = [json_part(each, query) for each in objects]
    first, last = merged(parts[:2], "inner"), merged(parts[-2:], "inner")
    ways = [parts, [first, *parts[2:]], [*parts[:-2], last]]
    try:
        whole = SQL.run(together, {"query": query, "format": "jsonl", "output": "jsonl"}).output
    except ERROR:
        for way in ways:
            with pytest.raises(ERROR, match="no object has"):
                merged(way)
        return
    for way in ways:
        assert rows(merged(way), query) == rows(whole, query)


def test_a_key_that_all_objects_lack_is_an_error_with_the_nearest_one() -> None:
    query = "SELECT k, sum(size_mb) AS s FROM input GROUP BY k"
    parts = [json_part([{"k": "a"}], query), json_part([{"k": "b", "size_mib": 3}], query)]
    for way in (parts, [merged(parts, "inner")], [merged(parts[:1], "inner"), parts[1]]):
        with pytest.raises(ERROR) as caught:
            merged(way)
        text = str(caught.value)
        assert text == "no object has the key 'size_mb' (the nearest one is 'size_mib')"
    # A given type does not change that.
    parts = [json_part([{"k": "a"}], query, columns='{"size_mb": "integer"}')]
    with pytest.raises(ERROR, match="no object has the key 'size_mb'"):
        merged(parts)


def test_a_given_type_of_a_key_that_all_objects_lack_is_an_error() -> None:
    query, given = "SELECT k FROM input ORDER BY k", '{"w": "text"}'
    parts = [json_part([{"k": "a"}], query, columns=given)] * 2
    with pytest.raises(ERROR, match="no object has the key 'w'"):
        merged(parts)
    parts[1] = json_part([{"k": "b", "w": "x"}], query, columns=given)
    assert rows(merged(parts), query) == [{"k": "a"}, {"k": "b"}]
    with pytest.raises(ERROR, match="there is no 'w'"):
        SQL.run(b'{"k": "a"}', {"query": query, "format": "jsonl", "columns": given})
    with pytest.raises(ERROR, match="there is no 'K'"):
        json_part([{"k": "a"}], query, columns='{"K": "text"}')


@pytest.mark.parametrize(
    "use",
    [
        "typeof(v)",
        "coalesce(v, 1)",
        "v || 'x'",
        "lower(v)",
        "[v]",
        "v.x",
        "v IS DISTINCT FROM 1",
        "k IN (v, 'a')",
        "CASE WHEN k = 'a' THEN v END",
        "count(*) FILTER (WHERE coalesce(v, 1) = 1)",
        "sum(v + 1)",
        "v AS w, typeof(w)",
    ],
)
def test_a_missing_key_whose_type_counts_is_an_error(use: str) -> None:
    with pytest.raises(ERROR) as caught:
        json_part([{"k": "a", "vv": 1}], f"SELECT {use} AS u FROM input")  # noqa: S608
    text = str(caught.value)
    assert "line 1, column " in text
    assert "the object has no key '" in text
    assert "columns" in text


def test_a_missing_key_with_a_given_type_may_be_anywhere() -> None:
    query = "SELECT k, coalesce(v, 1) AS c, typeof(v) AS t FROM input ORDER BY k"
    objects: list[list[dict[str, Any]]] = [[{"k": "a"}], [{"k": "b", "v": 5}]]
    parts = [json_part(each, query, columns='{"v": "int8"}') for each in objects]
    wanted: list[dict[str, Any]] = [
        {"k": "a", "c": 1, "t": "TINYINT"},
        {"k": "b", "c": 5, "t": "TINYINT"},
    ]
    assert rows(merged(parts), query) == wanted
    query = query.replace("1)", "'1')")
    parts = [json_part(each, query, types="text") for each in objects]
    wanted = [{"k": "a", "c": "1", "t": "VARCHAR"}, {"k": "b", "c": "5", "t": "VARCHAR"}]
    assert rows(merged(parts), query) == wanted


def test_all_columns_of_objects_with_different_keys_are_refused() -> None:
    with pytest.raises(ERROR, match=r"has no key 'v': with \* over many objects"):
        json_part([{"k": "a"}], "SELECT * FROM input WHERE v > 1")
    query = "SELECT * FROM input"
    parts = [json_part([{"k": "a"}], query), json_part([{"k": "a", "v": 1}], query)]
    with pytest.raises(ERROR, match="reads other columns in one object"):
        merged(parts)


def test_a_name_of_the_result_that_is_a_column_in_one_object_is_an_error() -> None:
    query = "SELECT upper(k) AS v FROM input WHERE v = 'A'"
    parts = [json_part([{"k": "a"}], query), json_part([{"k": "a", "v": "A"}], query)]
    with pytest.raises(ERROR, match="reads other columns in one object"):
        merged(parts)


def test_columns_may_have_another_order_in_each_object() -> None:
    query = "SELECT k, sum(v) AS s FROM input GROUP BY k"
    parts = [part(b"k,v\na,1\n", query), part(b"v,k\n2,a\n", query)]
    assert merged(parts) == b'{"k":"a","s":3}\n'


def test_a_missing_column_of_csv_is_an_error() -> None:
    with pytest.raises(ERROR, match='"v" not found'):
        part(b"k\na\n", "SELECT k, sum(v) AS s FROM input GROUP BY k")


def test_a_missing_key_that_a_late_line_has_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared("sql_input"), "HEAD_BYTES", 4096)
    query = "SELECT count(*) AS n, sum(v) AS s FROM input"
    lines: list[dict[str, Any]] = [{"k": "a"}] * 1000
    parts = [json_part(lines, query), json_part([{"v": 2}], query)]
    assert merged(parts) == b'{"n":1001,"s":2}\n'
    for late in ("v", "V"):
        with pytest.raises(ERROR, match=f"line 1001: the key '{late}' is not in the first MiB"):
            json_part([*lines, {"k": "a", late: 1}], query)


def test_types_in_a_hostile_partial_result_run_no_sql() -> None:
    query = "SELECT sum(v) AS s, sum(w) AS t FROM input"
    parts = [json_part([{"v": 1}], query), json_part([{"w": 2}], query)]
    assert merged(parts) == b'{"s":1,"t":2}\n'
    for kind in (b"BIGINT) AS v, (SELECT 7", b"nosuch", b""):
        with pytest.raises(ERROR):
            merged([parts[0].replace(b'"BIGINT"', b'"%s"' % kind), parts[1]])


def test_a_name_in_another_case_in_one_object_is_an_error() -> None:
    query = "SELECT sum(v) AS s FROM input"
    parts = [part(b"k,v\na,1\n", query), part(b"K,V\na,1\n", query)]
    with pytest.raises(ERROR, match="the column 'v' of one object is 'V' in another one"):
        merged(parts)


def test_a_column_with_another_type_in_one_object_is_an_error() -> None:
    query = "SELECT k, max(v) AS v FROM input GROUP BY k"
    parts = [part(b"k,v,other\na,1,x\n", query), part(b"k,v,other\na,1.5,2\n", query)]
    for stage in ("inner", "last"):
        with pytest.raises(ERROR) as caught:
            merged(parts, stage)
        text = str(caught.value)
        assert "the column 'v' is BIGINT in one object and DOUBLE in another one" in text
        assert "columns" in text
    typed = '{"v": "number"}'
    parts = [part(data, query, columns=typed) for data in (b"k,v\na,1\n", b"k,v\na,1.5\n")]
    assert merged(parts) == b'{"k":"a","v":1.5}\n'
    # The query does not read the column of another type.
    parts = [part(data, query) for data in (b"k,v,o\na,1,x\n", b"k,v,o\na,2,3\n")]
    assert merged(parts) == b'{"k":"a","v":2}\n'


def test_objects_without_rows_add_nothing() -> None:
    query = "SELECT count(*) AS n, sum(v) AS s FROM input"
    empty = [part(b"", query), part(b"k,v\n", query)]
    assert merged([*empty, part(b"k,v\na,1\n", query)]) == b'{"n":1,"s":1}\n'
    assert merged([merged(empty, "inner"), part(b"k,v\na,1\n", query)]) == b'{"n":1,"s":1}\n'
    count = "SELECT count(*) AS n FROM input"
    assert merged([part(b"", count), part(b"k,v\n", count)]) == b'{"n":0}\n'
    assert merged([merged([part(b"k,v\n", count)] * 2, "inner")]) == b'{"n":0}\n'
    with pytest.raises(ERROR, match="no object has a row"):
        merged(empty)
    typed = '{"k": "text", "v": "integer"}'
    assert merged([part(b"k,v\n", query, columns=typed)]) == b'{"n":0,"s":null}\n'


def test_a_result_in_each_format() -> None:
    query = "SELECT k, sum(v) AS s FROM input GROUP BY k ORDER BY k"
    parts = [part(b"k,v\na,1\n", query), part(b"k,v\na,2\nb,3\n", query)]
    assert merged(parts, output="csv") == b"k,s\na,3\nb,3\n"
    data = merged(parts, output="parquet")
    again = PARQUET.run(data, {"query": "SELECT k, s FROM input"}).output
    assert again == b"k,s\na,3\nb,3\n"
    back = PARQUET.run(data, {"query": query.replace("v)", "s)"), "output": "partial"}).output
    assert merged([back, back], output="csv") == b"k,s\na,6\nb,6\n"


def test_names_of_columns_differ_as_in_the_engine() -> None:
    query = 'SELECT sum("ß") AS a, sum(SS) AS b, sum("É") AS c, sum("é") AS d FROM input'
    lines: list[dict[str, Any]] = [
        {"ß": 1, "ss": 10, "É": 100, "é": 1000},
        {"ß": 2, "ss": 20, "É": 200, "é": 2000},
        {"ß": 3, "É": 300},
    ]
    for objects in ([lines[:2], lines[2:]], [lines[2:], lines[:1], lines[1:2]]):
        parts = [json_part(each, query) for each in objects]
        assert rows(merged(parts), query) == [{"a": 6, "b": 30, "c": 600, "d": 3000}]
    # The same names in one group by and one result.
    data = "ß,ss\n1,2\n1,3\n".encode()
    with pytest.raises(ERROR, match="must appear in the GROUP BY clause"):
        part(data, 'SELECT ss FROM input GROUP BY "ß"')


@pytest.mark.parametrize(
    "query",
    [
        "SELECT sum(v) * 1e3 AS s FROM input",
        "SELECT sum(d * 1e-3) AS s, 1e0 FROM input",
        "SELECT v * 1e3 AS g, typeof(g) AS t, sum(d) AS s FROM input GROUP BY g ORDER BY g",
        "SELECT 1e20::VARCHAR AS t, v FROM input WHERE d < 1e400 ORDER BY v / 1e2",
    ],
)
def test_a_constant_with_an_exponent_keeps_its_type(query: str) -> None:
    table = [("a", str(n), f"{n}.25", "", "", "") for n in range(4)]
    require_result(query, [table[:1], table[1:], table[2:]])


def test_an_input_that_is_no_partial_result_is_refused() -> None:
    query = "SELECT k FROM input"
    good = part(b"k\na\n", query)
    for wrong in (b"", b"k\na\n", b"{}\n", b'{"std:sql": 1}\n', good.replace(b"VARCHAR", b"BLOB")):
        with pytest.raises(ERROR, match="input 2 is no partial result"):
            merged([good, wrong])
    with pytest.raises(ERROR, match="different queries"):
        merged([good, part(b"k\na\n", "SELECT upper(k) AS k FROM input")])
    hostile = good.replace(b"SELECT k FROM input", b"SELECT content FROM read_text('/etc/passwd')")
    with pytest.raises(ERROR, match="read_text"):
        merged([hostile])
    # A row that does not fit its types.
    with pytest.raises(ERROR):
        merged([part(b"k\n1\n", query) + b'"x"\n'])
