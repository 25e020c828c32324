"""The types of the columns of a CSV: from its first rows, and only for columns that are used."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.library.support import LibraryStorlet, shared

SQL = LibraryStorlet("sql")
SAMPLE: Any = shared("sql_pipes").Sample
_PARAMETERS = {"query": "SELECT 1"}
#: Texts of each kind of value; the last two have two readings.
_VALUES = {
    "whole": ["0", "1", "-7", "123456789012345678", " 3", "4 "],
    "number": ["1.5", "2", ".5", "1e3", "0.5", "-0.25", "7."],
    "zeros": ["00", "007", "-01", "0", "01.5", "00.5"],
    "plus": ["+12", "1", "+1.5", "+.5"],
    "truth": ["true", "false", "t", "F"],
    "spaced truth": ["true", " true", "false "],
    "day": ["2024-01-02", "2023-12-31"],
    "moment": ["2024-01-02 10:11:12", "2024-01-02T10:11"],
    "zoned": ["2024-01-02 10:11:12Z", "2024-01-02 10:11:12+02"],
    "time": ["10:11:12", "1:02:03"],
    "text": ["a", "b c", "1x", '"q"', '"1"', '"a,b"'],
    "nothing": [""],
    "European day": ["01/02/2024", "25/12/2024"],
    "American day": ["01/02/2024", "12/25/2024"],
}


@pytest.fixture(scope="module")
def engine() -> Iterator[Any]:
    """The engine for the inference, which keeps nothing of an object in it."""
    with shared("sql_engine").Engine(64) as opened:
        yield opened


@pytest.fixture
def sample() -> Iterator[Any]:
    with SAMPLE() as opened:
        yield opened


def inference(engine: Any, data: bytes, sample: Any, **changes: Any) -> Any:
    form = shared("sql_input").format_of(SQL.values(_PARAMETERS | changes))
    head = shared("sql_input").Head(data, form)
    return shared("sql_input")._Inference(engine, head, None, sample)


@st.composite
def tables(draw: st.DrawFn) -> bytes:
    """Columns of one kind of values, or of two, of which the second one comes later."""
    count = draw(st.integers(4, 30))
    columns = []
    for _ in range(draw(st.integers(2, 4))):
        first, then = draw(st.sampled_from(list(_VALUES))), draw(st.sampled_from(list(_VALUES)))
        change = draw(st.integers(0, count)) if draw(st.booleans()) else count
        columns.append([
            draw(st.sampled_from(_VALUES[first if row < change else then])) for row in range(count)
        ])  # fmt: skip
    names = ",".join(f"c{number}" for number in range(len(columns)))
    return "\n".join([names, *map(",".join, zip(*columns, strict=True)), ""]).encode()


@settings(max_examples=4 * settings().max_examples)
@given(data=tables(), size=st.integers(8, 120))
def test_types_of_the_first_rows_are_those_of_all(engine: Any, data: bytes, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch, SAMPLE() as sample:
        patch.setattr("sql_input.FIRST_BYTES", size)
        found = inference(engine, data, sample)
        by_first = found.by_first_rows()
        assert by_first in ([], found.by_all_rows())


@pytest.mark.parametrize(
    ("late", "is_first"),
    [
        (b"8,x,2024-01-03,\n", True),
        (b"8.5,x,2024-01-03,\n", False),
        (b"8,x,03/01/2024,\n", False),
        (b"8,x,2024-01-03,1\n", False),
        (b"8,x,2024-01-03\n", False),
    ],
)
def test_first_rows_are_enough_if_all_others_have_their_types(
    engine: Any, sample: Any, monkeypatch: pytest.MonkeyPatch, late: bytes, is_first: bool
) -> None:
    monkeypatch.setattr("sql_input.FIRST_BYTES", 60)
    data = b"n,t,d,e\n" + b"7,x,2024-01-02,\n" * 20
    found = inference(engine, data + late, sample)
    assert bool(found.by_first_rows()) is is_first


@pytest.mark.parametrize(
    ("data", "changes"),
    [
        (b"d\n" + b"01/02/2024\n" * 40, {}),
        (b"d\n" + b"2024-01-02\n" * 40, {"columns": '{"d": "date"}'}),
        (b"d\n" + b"2024-01-02\n" * 40, {"types": "text"}),
        (b'"' + b"d" * 90 + b'\n"\n' + b"1\n" * 40, {}),
        (b"d\n" + b"1\n" * 20, {}),
    ],
    ids=["two readings", "given type", "texts", "long name", "few rows"],
)
def test_other_objects_are_left_to_the_inference(
    engine: Any,
    sample: Any,
    monkeypatch: pytest.MonkeyPatch,
    data: bytes,
    changes: dict[str, str],
) -> None:
    monkeypatch.setattr("sql_input.FIRST_BYTES", 40)
    given_types = shared("column_types").types_of(changes.get("columns", ""))
    form = shared("sql_input").format_of(SQL.values(_PARAMETERS | changes), given_types)
    head = shared("sql_input").Head(data, form)
    found = shared("sql_input")._Inference(engine, head, None, sample)
    assert found.by_first_rows() == []
    assert found.by_all_rows()


_DATA = b"a,b,i,value,input\n" + b"".join(
    b"%d,%s,%d.5,2024-01-%02d,%d\n" % (n, b"xy"[n % 2 : n % 2 + 1], n, n + 1, n % 3)
    for n in range(20)
)
#: Queries, and whether they name their columns.
_QUERIES = {
    "SELECT a FROM input": True,
    "SELECT count(*) FROM input": True,
    "SELECT A, \"B\" FROM input WHERE VALUE > '2024-01-03' ORDER BY 1": True,
    "SELECT input.a + t.z FROM input, (SELECT 1 AS z) t": True,
    "SELECT x.a FROM input x JOIN input y USING (a) ORDER BY 1": True,
    "SELECT sum(a) OVER (ORDER BY value) FROM input": True,
    "SELECT b, max(i) FROM input GROUP BY ALL ORDER BY b": True,
    "WITH t AS (SELECT a, b FROM input) SELECT b, sum(a) FROM t GROUP BY b ORDER BY b": True,
    "SELECT a FROM input WHERE EXISTS (SELECT 1 FROM input z WHERE z.a = input.a + 1)": True,
    "SELECT list_transform([a], lambda v: v + i) FROM input": True,
    "SELECT DISTINCT ON (b) b, a FROM input ORDER BY b, a": True,
    "SELECT sum(a) FILTER (WHERE i > 3) FROM input": True,
    "SELECT * FROM input": False,
    "FROM input": False,
    "SELECT input.* FROM input": False,
    "SELECT * EXCLUDE (a) FROM input": False,
    "SELECT COLUMNS('a|i') FROM input": False,
    "SELECT #1, #3 FROM input": False,
    "SELECT x FROM input x": False,
    "SELECT to_json(x) FROM input AS x": False,
    "SELECT q.b FROM input AS q(b, c)": False,
    "SELECT x.a FROM input x NATURAL JOIN input y ORDER BY 1": False,
    "SELECT count(*) FROM (SELECT * FROM input WHERE a > 3)": False,
    "SELECT n, v FROM (UNPIVOT (SELECT a, input FROM input) ON a, input INTO NAME n VALUE v)": False,
    "SELECT a, (SELECT max(i) FROM input) FROM input ORDER BY a": True,
}


@pytest.mark.parametrize("query", _QUERIES)
def test_columns_that_a_query_does_not_name_need_no_type(
    engine: Any, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    has_names = shared("sql_check").names_in(engine.syntax.tree(query)) is not None
    assert has_names is _QUERIES[query]
    ran = SQL.run(_DATA, {"query": query, "output": "jsonl"})
    monkeypatch.setattr("sql_table.names_in", lambda _: None)
    assert ran == SQL.run(_DATA, {"query": query, "output": "jsonl"})
    assert ran.output


def test_value_that_does_not_fit_a_column_that_is_not_named_is_no_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sql_input.HEAD_BYTES", 64)
    data = b"a,b\n" + b"1,2\n" * 40 + b"1,x\n"
    for query in ("SELECT sum(a) AS s FROM input", "SELECT count(*) AS s FROM input"):
        assert json.loads(SQL.run(data, {"query": query, "output": "jsonl"}).output) == {"s": 41}
    with pytest.raises(shared("sql_check").SqlError, match="column 'b': x is no BIGINT"):
        SQL.run(data, {"query": "SELECT sum(a), max(b) FROM input"})
