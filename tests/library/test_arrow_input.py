"""``format=arrow`` keeps each value of the object, or is an error that names the column."""

from __future__ import annotations

import io
import json
import os
import random
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import nanoarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.library import arrow_objects as made
from tests.library.arrow_samples import LZ4_STREAM, STREAM, ZSTD_FILE
from tests.library.support import LibraryStorlet, shared

SQL = LibraryStorlet("sql")
CONVERT = LibraryStorlet("convert")
MERGE = LibraryStorlet("sql-merge")
INPUT: Any = shared("arrow_input")
MESSAGES: Any = shared("arrow_messages")
ERROR: Any = shared("sql_check").SqlError
ALL = "SELECT * FROM input"
ROOT = Path(__file__).resolve().parents[2]
INT = made.integer(32)
ONE = {"x": [1, None, 3]}


def rows(data: bytes, query: str = ALL, **parameters: str) -> list[dict[str, Any]]:
    ran = SQL.run(data, {"query": query, "format": "arrow", "output": "jsonl", **parameters})
    return [json.loads(line) for line in ran.output.splitlines()]


def texts(kind: made.Kind, *values: Any) -> list[list[Any]]:
    """Type and text of each value of a column."""
    data = made.stream({"x": kind}, {"x": values})
    query = "SELECT typeof(x) AS t, CAST(x AS VARCHAR) AS v FROM input"
    return [[row["t"], row["v"]] for row in rows(data, query)]


def failure(data: bytes, query: str = ALL, **parameters: str) -> str:
    with pytest.raises(ERROR) as caught:
        rows(data, query, **parameters)
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 1000
    return text


# --- types ----------------------------------------------------------------------------------------

NINES = int("9" * 38)
TYPES = [
    (made.BOOL, True, "BOOLEAN", "true"),
    (made.integer(8), -128, "TINYINT", "-128"),
    (made.integer(16), -(2**15), "SMALLINT", "-32768"),
    (INT, 2**31 - 1, "INTEGER", "2147483647"),
    (made.integer(64), -(2**63), "BIGINT", "-9223372036854775808"),
    (made.integer(8, signed=False), 255, "UTINYINT", "255"),
    (made.integer(16, signed=False), 2**16 - 1, "USMALLINT", "65535"),
    (made.integer(32, signed=False), 2**32 - 1, "UINTEGER", "4294967295"),
    (made.integer(64, signed=False), 2**64 - 1, "UBIGINT", "18446744073709551615"),
    (made.real(32), 0.1, "FLOAT", "0.1"),
    (made.real(64), 0.1, "DOUBLE", "0.1"),
    (made.real(64), float("-inf"), "DOUBLE", "-inf"),
    (made.TEXT, "שלום", "VARCHAR", "שלום"),
    (made.TEXT, "a\0b", "VARCHAR", "a\0b"),
    (made.LARGE_TEXT, "", "VARCHAR", ""),
    (made.BYTES, b"\0\xffa", "BLOB", r"\x00\xFFa"),
    (made.LARGE_BYTES, b"", "BLOB", ""),
    (made.fixed(3), b"ab\xff", "BLOB", r"ab\xFF"),
    (made.decimal(4, 2), 150, "DECIMAL(4,2)", "1.50"),
    (made.decimal(38, 0), -NINES, "DECIMAL(38,0)", str(-NINES)),
    (made.decimal(38, 38), NINES, "DECIMAL(38,38)", "." + "9" * 38),
    (made.date(), -719162, "DATE", "0001-01-01"),
    (made.date("ms"), -86_400_000, "DATE", "1969-12-31"),
    (made.time("s"), 86399, "TIME", "23:59:59"),
    (made.time("ms"), 1, "TIME", "00:00:00.001"),
    (made.time("us"), 86_399_999_999, "TIME", "23:59:59.999999"),
    (made.time("ns"), 1000, "TIME", "00:00:00.000001"),
    (made.timestamp("s"), -1, "TIMESTAMP", "1969-12-31 23:59:59"),
    (made.timestamp("ms"), 1500, "TIMESTAMP", "1970-01-01 00:00:01.5"),
    (made.timestamp("us"), 1, "TIMESTAMP", "1970-01-01 00:00:00.000001"),
    (made.timestamp("ns"), 123456789, "TIMESTAMP_NS", "1970-01-01 00:00:00.123456789"),
    (made.timestamp("ns"), -1, "TIMESTAMP_NS", "1969-12-31 23:59:59.999999999"),
    (made.timestamp("s", "Europe/Zurich"), 0, "TIMESTAMP WITH TIME ZONE", "1970-01-01 00:00:00+00"),
    (made.timestamp("us", "+02:00"), -1, "TIMESTAMP WITH TIME ZONE",
     "1969-12-31 23:59:59.999999+00"),
    (made.timestamp("ns", "UTC"), 1000, "TIMESTAMP WITH TIME ZONE",
     "1970-01-01 00:00:00.000001+00"),
    (made.listed(made.TEXT), ["a", None, ""], "VARCHAR[]", "[a, NULL, '']"),
    (made.listed(INT, large=True), [], "INTEGER[]", "[]"),
    (made.fixed_list(INT, 2), [1, None], "INTEGER[2]", "[1, NULL]"),
    (made.record(a=INT, b=made.TEXT), {"a": None, "b": "x"}, "STRUCT(a INTEGER, b VARCHAR)",
     "{'a': NULL, 'b': x}"),
    (made.mapping(made.TEXT, made.date()), [("k", 0), ("l", None)], "MAP(VARCHAR, DATE)",
     "{k=1970-01-01, l=NULL}"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "value", "sql", "text"), TYPES, ids=range(len(TYPES)))
def test_each_type_is_exact(kind: made.Kind, value: Any, sql: str, text: str) -> None:
    assert texts(kind, value, None, value) == [[sql, text], [sql, None], [sql, text]]


def extended(kind: made.Kind, name: str) -> made.Kind:
    return replace(kind, metadata={"ARROW:extension:name": name, "ARROW:extension:metadata": ""})


def test_extensions_that_have_one_meaning_are_exact() -> None:
    json_text = extended(made.TEXT, "arrow.json")
    assert texts(json_text, '{"a": 1.50}') == [["JSON", '{"a": 1.50}']]
    unique = bytes(range(16))
    text = "00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert texts(extended(made.fixed(16), "arrow.uuid"), unique, None) == [
        ["UUID", text], ["UUID", None]
    ]  # fmt: skip
    assert texts(extended(made.integer(8), "arrow.bool8"), 0, -1) == [
        ["BOOLEAN", "false"], ["BOOLEAN", "true"]
    ]  # fmt: skip
    data = made.stream({"x": json_text}, {"x": ["{"]})
    assert "column 'x': a value is no JSON" in failure(data)


def test_a_column_without_type_is_all_null() -> None:
    assert texts(made.NULL, None, None) == [["VARCHAR", None]] * 2


def deep(levels: int) -> made.Kind:
    kind = INT
    for _ in range(levels):
        kind = made.listed(kind)
    return kind


REFUSED = [
    (made.real(16), "half float"),
    (made.decimal(5, 2, 32), "decimal"),
    (made.decimal(50, 2, 256), "decimal"),
    (made.decimal(5, -2), "decimal(5,-2)"),
    (made.decimal(5, 6), "decimal(5,6)"),
    (made.Kind(18, "q", {0: ("h", 1)}), "duration"),
    (made.Kind(11, "i", {0: ("h", 0)}), "interval"),
    (made.Kind(14, "record", {0: ("h", 0)}, {"a": INT}), "union"),
    (made.Kind(22, "record", {}, {"run_ends": INT, "values": INT}), "run-end encoding"),
    (made.Kind(23, "bytes", width=4), "binary view"),
    (made.Kind(24, "bytes", width=4), "string view"),
    (made.Kind(25, "list", {}, {"item": INT}, 4), "list view"),
    (made.listed(made.Kind(24, "bytes", width=4)), "string view"),
    (made.listed(made.record(a=made.real(16))), "half float"),
    (made.record(), "a struct without fields"),
    (made.record(a=INT, A=INT), "without different names"),
    (made.listed(replace(made.TEXT, dictionary=1)), "a dictionary within a nested type"),
    (replace(made.listed(INT), dictionary=1), "a dictionary of nested values"),
    (extended(made.BYTES, "geoarrow.wkb"), "the extension 'geoarrow.wkb'"),
    (extended(made.record(a=INT), "my.point"), "the extension 'my.point'"),
    (deep(30), "a type of more than 20 levels"),
]


@pytest.mark.parametrize(("kind", "what"), REFUSED, ids=[row[1] for row in REFUSED])
def test_a_type_that_is_not_exact_is_refused_by_the_name_of_its_column(
    kind: made.Kind, what: str
) -> None:
    data = made.schema({"n": INT, "it": kind}) + made.END
    assert failure(data).startswith("the object: column 'it': ")
    assert what in failure(data)


WRONG = [
    (made.TEXT, b"\xff", "is no UTF-8"),
    (made.listed(made.TEXT), ["a", b"\xc3"], "is no UTF-8"),
    (made.decimal(4, 2), 10_000, "is no DECIMAL(4,2)"),
    (made.decimal(38, 0), 10**38, "is no DECIMAL(38,0)"),
    (made.date(), 2**31 - 1, "is no DATE"),
    (made.date("ms"), 1, "is no DATE"),
    (made.date("ms"), 2**62, "is no DATE"),
    (made.time("s"), 86400, "is no TIME"),
    (made.time("us"), -1, "is no TIME"),
    (made.time("ns"), 1, "is no TIME, in ns"),
    (made.timestamp("s"), 2**62, "is no TIMESTAMP"),
    (made.timestamp("us"), 2**63 - 1, "is no TIMESTAMP"),
    (made.timestamp("us"), -(2**63) + 1, "is no TIMESTAMP"),
    (made.timestamp("ns"), 2**63 - 1, "is no TIMESTAMP"),
    (made.timestamp("ns", "UTC"), 1, "is no TIMESTAMP, in ns"),
    (made.record(a=made.record(b=made.time("s"))), {"a": {"b": -1}}, "is no TIME"),
    (made.mapping(made.TEXT, made.date("ms")), [("k", 1)], "is no DATE"),
]


@pytest.mark.parametrize(("kind", "value", "why"), WRONG, ids=range(len(WRONG)))
def test_a_value_that_the_engine_would_change_is_an_error(
    kind: made.Kind, value: Any, why: str
) -> None:
    text = failure(made.stream({"it": kind}, {"it": [None, value]}))
    assert text.startswith(f"the object: column 'it': a value {why}")


def test_keys_of_a_map_that_are_not_unique_are_an_error() -> None:
    kind = made.mapping(INT, INT)
    text = failure(made.stream({"x": kind}, {"x": [[(1, 1), (1, 2)]]}))
    assert "duplicate key" in text


@pytest.mark.parametrize(
    ("names", "why"),
    [(["a", "A"], "two columns 'A'"), ([""], "a column has no name"), (["a\0b"], "NUL")],
)
def test_names_that_a_query_cannot_use_are_an_error(names: list[str], why: str) -> None:
    kinds = [made._field(name, INT) for name in names]
    head = made.message(1, made.Flat({0: ("h", 0), 1: ("tables", kinds)}))
    assert why in failure(head + made.END)


# --- a slow reference -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A type, its values as they are stored, and what JSON has for one."""

    kind: made.Kind
    values: st.SearchStrategy[Any]
    shown: Callable[[Any], Any] = lambda value: value


EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001
SECONDS = st.integers(-62_135_596_800, 253_402_300_799)


def stamp(micros: int) -> str:
    text = (EPOCH + timedelta(microseconds=micros)).isoformat(" ")
    return text.rstrip("0") if "." in text else text


def blob(data: bytes) -> str:
    plain = (chr(byte) for byte in data)
    return "".join(
        each if " " <= each <= "~" and each not in "\\'\"" else f"\\x{ord(each):02X}"
        for each in plain
    )


FLAT = [
    Case(made.BOOL, st.booleans()),
    Case(made.integer(8), st.integers(-128, 127)),
    Case(made.integer(64, signed=False), st.integers(0, 2**64 - 1)),
    Case(made.real(64), st.floats(allow_nan=False, allow_infinity=False)),
    Case(made.TEXT, st.text(max_size=20)),
    Case(made.LARGE_TEXT, st.text(max_size=20)),
    Case(made.BYTES, st.binary(max_size=20), blob),
    Case(made.fixed(3), st.binary(min_size=3, max_size=3), blob),
    Case(made.decimal(15, 3), st.integers(1 - 10**15, 10**15 - 1), lambda x: float(Decimal(x) / 1000)),
    Case(made.date(), st.integers(-719162, 2932896), lambda x: str(date(1970, 1, 1) + timedelta(x))),
    Case(made.timestamp("s"), SECONDS, lambda x: stamp(x * 10**6)),
    Case(made.timestamp("ms", "Asia/Tokyo"), SECONDS, lambda x: stamp(x * 1000) + "+00"),
    Case(made.time("s"), st.integers(0, 86399), lambda x: stamp(x * 10**6)[11:]),
    Case(made.NULL, st.none()),
]  # fmt: skip


def optional(case: Case) -> st.SearchStrategy[Any]:
    return st.none() | case.values


def maybe(case: Case, value: Any) -> Any:
    return None if value is None else case.shown(value)


def nested(inner: st.SearchStrategy[Case]) -> st.SearchStrategy[Case]:
    def of_list(case: Case, large: bool) -> Case:
        values = st.lists(optional(case), max_size=4)
        return Case(
            made.listed(case.kind, large=large), values, lambda x: [maybe(case, y) for y in x]
        )

    def of_pair(case: Case) -> Case:
        values = st.lists(optional(case), min_size=2, max_size=2)
        return Case(made.fixed_list(case.kind, 2), values, lambda x: [maybe(case, y) for y in x])

    def of_record(cases: Sequence[Case]) -> Case:
        named = {f"f{number}": case for number, case in enumerate(cases)}
        kind = made.record(**{name: case.kind for name, case in named.items()})
        values = st.fixed_dictionaries({name: optional(case) for name, case in named.items()})
        return Case(kind, values, lambda x: {name: maybe(named[name], y) for name, y in x.items()})

    def of_map(case: Case) -> Case:
        pairs = st.tuples(st.text("abc", max_size=3), optional(case))
        values = st.lists(pairs, max_size=3, unique_by=lambda pair: pair[0])
        kind = made.mapping(made.TEXT, case.kind)
        return Case(kind, values, lambda x: {key: maybe(case, y) for key, y in x})

    return (
        st.builds(of_list, inner, st.booleans())
        | st.builds(of_pair, inner)
        | st.builds(of_record, st.lists(inner, min_size=1, max_size=3))
        | st.builds(of_map, inner)
    )


CASES = st.recursive(st.sampled_from(FLAT), nested, max_leaves=4)


@st.composite
def tables(draw: st.DrawFn) -> tuple[bytes, list[dict[str, Any]]]:
    """An object, and the rows that it has."""
    cases = {
        f"c{number}": case
        for number, case in enumerate(draw(st.lists(CASES, min_size=1, max_size=3)))
    }
    kinds = {name: case.kind for name, case in cases.items()}
    parts, expected = [], []
    compression = draw(st.sampled_from(["", "lz4", "zstd"]))
    for _ in range(draw(st.integers(0, 3))):
        count = draw(st.integers(0, 6))
        columns = {
            name: draw(st.lists(optional(case), min_size=count, max_size=count))
            for name, case in cases.items()
        }
        parts.append(made.batch(made.rows(kinds, columns), compression))
        expected += [
            {name: maybe(case, columns[name][row]) for name, case in cases.items()}
            for row in range(count)
        ]
    if draw(st.booleans()):
        return made.file(kinds, *parts), expected
    return made.schema(kinds) + b"".join(parts) + made.END, expected


def test_a_list_of_fixed_size_beside_a_changed_field() -> None:
    inner = made.record(f=made.listed(made.BOOL), g=made.fixed_list(made.BOOL, 2))
    kinds = {"s": inner, "m": made.mapping(made.TEXT, inner)}
    record = {"f": [True], "g": [False, None]}
    columns = {"s": [record, None], "m": [[("k", record)], None]}
    data = made.schema(kinds) + made.batch(made.rows(kinds, columns), "") + made.END
    assert rows(data) == [{"s": record, "m": {"k": record}}, {"s": None, "m": None}]


@given(tables())
def test_random_tables_have_the_values_of_a_slow_reference(
    table: tuple[bytes, list[dict[str, Any]]],
) -> None:
    data, expected = table
    assert rows(data) == expected


def many(kind: made.Kind, each: Callable[[random.Random], Any], count: int) -> list[Any]:
    chance = random.Random(1)  # noqa: S311
    return [None if chance.random() < 0.2 else each(chance) for _ in range(count)]


@pytest.mark.parametrize("compression", ["", "zstd"])
def test_batches_of_many_rows_have_the_values_of_a_slow_reference(compression: str) -> None:
    """The engine takes 2048 rows at a time, and so begins within a batch."""
    word = made.listed(made.TEXT)
    kinds = {
        "b": made.BOOL,
        "t": made.TEXT,
        "l": word,
        "s": made.record(a=made.fixed_list(made.BOOL, 3), b=made.listed(made.BOOL)),
        "n": made.listed(made.record(x=word, y=made.decimal(5, 2))),
        "m": made.mapping(made.TEXT, made.fixed_list(made.TEXT, 2)),
        "f": made.fixed_list(word, 2),
    }

    def text(chance: random.Random) -> str | None:
        return chance.choice([None, "", "a", "é", "a long text " * 3])

    def words(chance: random.Random) -> Any:
        return chance.choice([None, [text(chance) for _ in range(chance.randrange(4))]])

    def bits(chance: random.Random, count: int) -> list[bool | None]:
        return [chance.choice([None, True, False]) for _ in range(count)]

    columns = {
        "b": many(kinds["b"], lambda c: c.random() < 0.5, 5000),
        "t": many(kinds["t"], text, 5000),
        "l": many(kinds["l"], words, 5000),
        "s": many(kinds["s"], lambda c: {"a": bits(c, 3), "b": bits(c, c.randrange(20))}, 5000),
        "n": many(
            kinds["n"],
            lambda c: [{"x": words(c), "y": c.randrange(9999)} for _ in range(c.randrange(3))],
            5000,
        ),
        "m": many(
            kinds["m"],
            lambda c: [(f"k{n}", [text(c), text(c)]) for n in range(c.randrange(3))],
            5000,
        ),
        "f": many(kinds["f"], lambda c: [words(c), words(c)], 5000),
    }
    found = rows(made.stream(kinds, columns, columns, compression=compression))
    expected = [
        {
            "b": columns["b"][row],
            "t": columns["t"][row],
            "l": columns["l"][row],
            "s": columns["s"][row],
            "n": columns["n"][row]
            and [{"x": each["x"], "y": each["y"] / 100} for each in columns["n"][row]],
            "m": None if columns["m"][row] is None else dict(columns["m"][row]),
            "f": columns["f"][row],
        }
        for row in range(5000)
    ]
    assert found == expected * 2


# --- streams, files and dictionaries --------------------------------------------------------------


@pytest.mark.parametrize("data", [STREAM, LZ4_STREAM, ZSTD_FILE], ids=["stream", "lz4", "file"])
def test_objects_of_another_writer_are_read(data: bytes) -> None:
    whole = [
        {"id": 1, "name": "a", "kind": "x", "price": 1.5, "day": "2026-02-28",
         "at": "1970-01-01 00:00:00.001+00", "tags": ["p", None], "more": {"a": 1, "b": [True]},
         "keys": {"k": 1}},
        {"id": None, "name": "é", "kind": None, "price": None, "day": None, "at": None,
         "tags": None, "more": None, "keys": {}},
        {"id": 3, "name": None, "kind": "y", "price": -0.05, "day": "1969-12-31",
         "at": "1969-12-31 23:59:59.999+00", "tags": [], "more": {"a": None, "b": None},
         "keys": None},
    ]  # fmt: skip
    assert rows(data) == whole + whole[1:]


CODED = replace(made.TEXT, dictionary=7)


def coded(*values: int | None, name: str = "x", compression: str = "") -> bytes:
    return made.batch(made.rows({name: CODED}, {name: values}), compression)


@pytest.mark.parametrize("compression", ["", "lz4", "zstd"])
def test_dictionaries_are_exact_also_when_they_are_replaced(compression: str) -> None:
    first = made.dictionary(7, made.TEXT, ["a", None, "c"], compression)
    second = made.dictionary(7, made.TEXT, ["long text " * 9, "é"], compression)
    batches = [coded(0, 1, 2, None, compression=compression), coded(1, 0, compression=compression)]
    data = made.schema({"x": CODED}) + first + batches[0] + second + batches[1] + made.END
    values = ["a", None, "c", None, "é", "long text " * 9]
    assert [row["x"] for row in rows(data)] == values


@pytest.mark.parametrize("compression", ["", "lz4"])
def test_dictionaries_of_numbers_are_exact(compression: str) -> None:
    kind = replace(made.decimal(9, 2), dictionary=3)
    numbers = list(range(-500, 500))
    values = [n % 1000 if n % 7 else None for n in range(5000)]
    head = made.schema({"x": kind}) + made.dictionary(3, made.decimal(9, 2), numbers, compression)
    data = head + made.batch(made.rows({"x": kind}, {"x": values}), compression) + made.END
    expected = [None if n is None else numbers[n] / 100 for n in values]
    assert [row["x"] for row in rows(data)] == expected


def test_columns_may_share_a_dictionary_of_one_type() -> None:
    kinds = {"x": CODED, "y": CODED}
    batch = made.batch(made.rows(kinds, {"x": [0, 1], "y": [1, 0]}))
    data = made.schema(kinds) + made.dictionary(7, made.TEXT, ["a", "b"]) + batch + made.END
    assert rows(data) == [{"x": "a", "y": "b"}, {"x": "b", "y": "a"}]
    other = {"x": CODED, "y": replace(made.LARGE_TEXT, dictionary=7)}
    assert "share" in failure(made.schema(other) + made.END)


def test_dictionaries_that_are_not_right_are_an_error() -> None:
    head, words = made.schema({"x": CODED}), made.dictionary(7, made.TEXT, ["a"])
    for messages, why in (
        (coded(0), "dictionary index"),
        (words + coded(1), "dictionary index"),
        (words + coded(-1), "dictionary index"),
        (made.dictionary(8, made.TEXT, ["a"]) + coded(0), "no column has the dictionary 8"),
        (words + made.dictionary(7, made.TEXT, ["b"], delta=True), "delta"),
        (made.dictionary(7, made.TEXT, [b"\xff"]) + coded(0), "no UTF-8"),
    ):
        assert why in failure(head + messages + made.END)


def test_a_bitmap_counts_also_where_the_number_of_nulls_is_wrong() -> None:
    """The engine does not look at it if a node has no nulls."""
    parts = made.rows({"x": INT}, ONE)
    parts.nodes[0] = (3, 0)
    assert rows(made.schema({"x": INT}) + made.batch(parts) + made.END) == [
        {"x": 1}, {"x": None}, {"x": 3}
    ]  # fmt: skip
    values = made.rows({"x": CODED}, {"x": [0, None]})
    values.nodes[0] = (2, 0)
    words = made.dictionary(7, made.TEXT, ["a"])
    data = made.schema({"x": CODED}) + words + made.batch(values) + made.END
    assert rows(data) == [{"x": "a"}, {"x": None}]


def test_an_object_without_rows_has_columns() -> None:
    for data in (made.stream({"x": INT}), made.stream({"x": INT}, {"x": []})):
        assert rows(data) == []
        ran = SQL.run(data, {"query": ALL, "format": "arrow"})
        assert ran.output == b"x\n"


def test_a_compressed_object_is_read() -> None:
    data = made._compressed(STREAM, "zstd", 0)[8:]
    assert len(rows(data, compression="zstd")) == 5


# --- queries --------------------------------------------------------------------------------------

NUMBERS = made.stream(
    {"n": INT}, *({"n": list(range(at, at + 3000))} for at in range(0, 30000, 3000))
)


def test_queries() -> None:
    assert rows(NUMBERS, "SELECT count(*) AS c, sum(n) AS s FROM input") == [
        {"c": 30000, "s": 449985000}
    ]
    assert rows(NUMBERS, "SELECT n FROM input LIMIT 2 OFFSET 4000") == [{"n": 4000}, {"n": 4001}]
    assert rows(NUMBERS, "SELECT 1 AS x FROM range(1)") == [{"x": 1}]
    twice = "SELECT count(*) AS c FROM input WHERE n > (SELECT avg(n) FROM input)"
    assert rows(NUMBERS, twice) == [{"c": 15000}]
    assert [row["n"] for row in rows(NUMBERS)] == list(range(30000))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM arrow_object",
        "SELECT * FROM temp.main.arrow_object",
        "SELECT * FROM arrow_scan(1::POINTER, 1::POINTER, 1::POINTER)",
        "SELECT * FROM arrow_scan_dumb(1::POINTER, 1::POINTER, 1::POINTER)",
        "SELECT * FROM read_csv('/etc/passwd')",
    ],
)
def test_a_query_reaches_the_table_only(query: str) -> None:
    assert failure(NUMBERS, query).startswith("query: ")


def test_a_table_of_the_query_does_not_replace_the_object() -> None:
    query = "WITH arrow_object AS (SELECT 7 AS column0) SELECT max(n) AS n FROM input"
    assert rows(NUMBERS, query) == [{"n": 29999}]


def test_parts_over_many_objects_are_merged() -> None:
    query = "SELECT count(*) AS c, max(n) AS m FROM input"
    parts = [
        SQL.run(data, {"query": query, "format": "arrow", "output": "partial"}).output
        for data in (NUMBERS, made.stream({"n": INT}), made.stream({"n": INT}, {"n": [-1]}))
    ]
    assert MERGE.run(parts[0], {}, further=parts[1:]).output == b"c,m\n30001,29999\n"


# --- std:convert ----------------------------------------------------------------------------------


def converted(data: bytes, output: str, **parameters: str) -> bytes:
    return CONVERT.run(data, {"format": "arrow", "output": output, **parameters}).output


def test_arrow_becomes_each_other_format() -> None:
    kinds = {"id": made.integer(16), "name": made.TEXT, "raw": made.BYTES}
    data = made.stream(kinds, {"id": [1, 2], "name": ["a", "é"], "raw": [b"\0x", b"yz"]})
    assert converted(data, "csv") == "id,name,raw\n1,a,0078\n2,é,797a\n".encode()
    assert converted(data, "jsonl").splitlines()[0] == b'{"id":1,"name":"a","raw":"0078"}'
    struct_text = "> i2 id, s2 name, b2 raw"
    assert converted(data, "records", struct=struct_text) == (
        b"\0\1a\0\0x" + b"\0\2" + "é".encode() + b"yz"
    )
    assert converted(data, "parquet").startswith(b"PAR1")
    again = converted(data, "arrow")
    assert rows(again) == rows(data)
    with nanoarrow.c_array_stream(nanoarrow.ipc.InputStream.from_readable(again)) as found:
        assert [child.format for child in found.get_schema().children] == ["s", "u", "z"]


def test_arrow_into_arrow_never_hangs() -> None:
    """With several threads of the engine one of some dozen runs hung."""
    data = made.stream({"x": INT, "t": made.TEXT}, *[{"x": [1] * 9, "t": ["a"] * 9}] * 20)
    expected = converted(data, "arrow")
    for _ in range(60):
        assert converted(data, "arrow") == expected


def test_an_output_that_would_change_a_nested_value_is_an_error() -> None:
    wide = made.stream({"it": made.listed(made.decimal(38, 2))}, {"it": [[1]]})
    raw = made.stream({"it": made.record(a=made.BYTES)}, {"it": [{"a": b"a"}]})
    nan = made.stream({"it": made.listed(made.real(64))}, {"it": [[1.0], [float("nan")]]})
    for data, why in ((wide, "no DECIMAL(38,2)"), (raw, "no BLOB"), (nan, "no NaN or infinity")):
        for output in ("csv", "jsonl"):
            with pytest.raises(ERROR, match="column 'it': ") as caught:
                converted(data, output)
            assert why in str(caught.value)
        assert converted(data, "parquet").startswith(b"PAR1")
    numbers = made.stream({"it": made.listed(made.real(64))}, {"it": [[1.5, None], None]})
    assert converted(numbers, "jsonl") == b'{"it":[1.5,null]}\n{"it":null}\n'


@pytest.mark.parametrize("parameter", [{"columns": '{"x": "text"}'}, {"types": "text"}])
def test_parameters_of_types_have_no_meaning(parameter: dict[str, str]) -> None:
    data = made.stream({"x": INT}, ONE)
    assert "types of its own" in failure(data, **parameter)
    with pytest.raises(ERROR, match="types of their own"):
        converted(data, "csv", **parameter)


# --- objects that are cut or lie ------------------------------------------------------------------

SMALL = made.stream(
    {"x": INT, "t": made.TEXT}, {"x": [1, 2], "t": ["a", None]}, {"x": [3], "t": ["b"]}
)
PARTS = made.batch(made.rows({"x": INT}, ONE))
SMALL_FILE = made.file({"x": INT}, PARTS, PARTS)


def read_whole(data: bytes) -> None:
    """Read all messages without the engine, whose start takes longer than a small object."""
    table = INPUT.ArrowTable(io.BytesIO(data), "std:sql")
    while table.read(1 << 16):
        pass


@pytest.mark.parametrize("data", [SMALL, SMALL_FILE], ids=["stream", "file"])
def test_a_cut_object_is_an_error_at_each_byte(data: bytes) -> None:
    assert rows(data)
    read_whole(data)
    texts = ("the object is cut", "the object is no valid")
    for size in range(len(data)):
        with pytest.raises(ERROR) as caught:
            read_whole(data[:size])
        assert size % 8 or str(caught.value).startswith(texts)
    for size in (*range(0, len(data), 64), *range(len(data) - 24, len(data), 5)):
        text = failure(data[:size])
        assert size % 8 or text.startswith(texts)


def test_a_stream_without_the_mark_of_its_end_is_an_error() -> None:
    """The format allows it, but such a stream and a cut one are the same."""
    text = failure(SMALL[: -len(made.END)])
    assert "is cut: its Arrow has no mark of the end (ff ff ff ff 00 00 00 00)" in text


def test_data_after_the_end_are_an_error() -> None:
    assert "more data follow" in failure(SMALL + SMALL)
    assert "more data follow" in failure(SMALL + b"\0")


def test_a_footer_that_lists_other_batches_is_an_error() -> None:
    other = made.batch(made.rows({"x": INT}, {"x": [9]}))
    assert "lists other batches" in failure(made.file({"x": INT}, PARTS, other, listed=[PARTS]))
    size = len(SMALL_FILE)
    for at in (size - 1, size - 7, size - 12):
        changed = bytearray(SMALL_FILE)
        changed[at] ^= 1
        assert failure(bytes(changed))


def lying(change: Callable[[made.Parts], None], kind: made.Kind = INT) -> str:
    parts = made.rows({"x": kind}, {"x": [None, None, None]})
    change(parts)
    return failure(made.schema({"x": kind}) + made.batch(parts) + made.END)


def test_batches_that_lie_are_an_error() -> None:
    def nodes(*values: tuple[int, int]) -> Callable[[made.Parts], None]:
        return lambda parts: parts.nodes.__setitem__(slice(None), values)

    def rows_of(count: int) -> Callable[[made.Parts], None]:
        return lambda parts: setattr(parts, "rows", count)

    def buffers(*values: bytes) -> Callable[[made.Parts], None]:
        return lambda parts: parts.buffers.__setitem__(slice(None), values)

    for change, why in (
        (nodes((2**61, 0)), "values of a column"),
        (nodes((-1, 0)), "values of a column"),
        (nodes((3, 4)), "values of a column"),
        (nodes((3, 0), (3, 0)), "2 nodes: want 1"),
        (nodes(), "0 nodes: want 1"),
        (rows_of(2), "2 rows has a column of 3"),
        (rows_of(2**40), "has a column of 3"),
        (buffers(b"\7"), "1 buffers: want 2"),
        (buffers(b"\7", b"12345678"), "8 bytes: want at least 12"),
        (buffers(b"", bytes(12)), "0 bytes: want at least 1"),
    ):
        assert why in lying(change)


@pytest.mark.parametrize("kind", [made.TEXT, made.listed(INT)])
@pytest.mark.parametrize("offsets", [(0, 5, 2, 9), (-8, 0, 0, 0), (0, 0, 0, 2**30), (9, 9, 9, 9)])
def test_offsets_that_lead_out_are_an_error(kind: made.Kind, offsets: tuple[int, ...]) -> None:
    def change(parts: made.Parts) -> None:
        parts.buffers[1] = struct.pack("<4i", *offsets)

    assert "a batch cannot be read" in lying(change, kind)


def test_bodies_and_buffers_that_lie_are_an_error() -> None:
    head = made.schema({"x": INT})

    def with_places(*places: tuple[int, int], size: int | None = None) -> str:
        header = made.Flat({0: ("q", 3), 1: ("qq", [(3, 0)]), 2: ("qq", list(places))})
        return failure(head + made.message(3, header, bytes(16), size) + made.END)

    assert "a buffer has 16 bytes at 8" in with_places((0, 0), (8, 16))
    assert "a buffer has 9223372036854775800 bytes" in with_places((0, 0), (8, 2**63 - 8))
    assert "a buffer is at -8" in with_places((0, 0), (-8, 16))
    assert "a buffer is at 4" in with_places((0, 0), (4, 12))
    assert "the next multiple of 8" in with_places((0, 8), (0, 16))
    assert "is cut" in with_places((0, 0), (0, 16), size=1 << 20)
    assert "write smaller batches" in with_places((0, 0), (0, 16), size=1 << 40)
    assert "has -8 bytes" in with_places((0, 0), (0, 16), size=-8)


def test_compressed_buffers_that_lie_are_an_error() -> None:
    kind = made.integer(64)
    data = made.stream({"x": kind}, {"x": list(range(1000))}, compression="zstd")
    length = struct.pack("<q", 8000)
    assert data.count(length) == 1
    for size, why in (
        (7999, "want at least 8000"),
        (8001, "a batch cannot be read"),
        (-2, "want at least"),
        (2**40, "write smaller batches"),
        (2**63 - 1, "write smaller batches"),
    ):
        assert why in failure(data.replace(length, struct.pack("<q", size)))
    words = made.dictionary(7, made.TEXT, ["word " * 100], "lz4")
    length = struct.pack("<q", 500)
    head, tail = made.schema({"x": CODED}), coded(0) + made.END
    assert len(rows(head + words + tail)) == 1
    for size in (499, 501, 2**40):
        assert failure(head + words.replace(length, struct.pack("<q", size)) + tail)


def test_a_batch_that_is_too_large_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = made.stream({"x": made.integer(64)}, {"x": list(range(1000))})
    packed = made.stream({"x": made.integer(64)}, {"x": [0] * 1000}, compression="zstd")
    words = made.dictionary(7, made.TEXT, ["x" * 2000])
    coded_data = made.schema({"x": CODED}) + words + words + coded(0) + made.END
    monkeypatch.setattr(MESSAGES, "MOST_BATCH_BYTES", 2100)
    assert len(rows(coded_data)) == 1
    for data in (wide, packed):
        assert "write smaller batches" in failure(data)
    monkeypatch.setattr(MESSAGES, "MOST_BATCH_BYTES", 2010)
    assert "a batch and its dictionaries have" in failure(coded_data)


def test_values_without_bytes_are_bounded() -> None:
    """Lists of no type have no buffer that bounds their values."""
    kind = made.listed(made.NULL)
    parts = made.Parts(1, [(1, 0), (1 << 25, 1 << 25)], [b"", struct.pack("<2i", 0, 1 << 25)])
    text = failure(made.schema({"x": kind}) + made.batch(parts) + made.END)
    assert f"{1 << 25} in lists" in text


def test_schemas_that_are_too_large_are_an_error() -> None:
    wide = made.schema({f"c{number}": INT for number in range(10_001)})
    assert "has 10001 columns: want 1 to 10000" in failure(wide + made.END)
    parts = made.record(**{f"c{number}": INT for number in range(5000)})
    nested = made.schema({"x": parts, "y": parts})
    assert "has columns of over 10000 parts" in failure(nested + made.END)
    assert "has 0 columns" in failure(made.schema({}) + made.END)
    assert "refused" in failure(made.schema({"x": deep(100)}) + made.END)
    long = made.END[:4] + struct.pack("<i", 1 << 30)
    assert "its metadata has 1073741824 bytes" in failure(long + bytes(64))
    assert "big endian" in failure(made.schema({"x": INT}, big=True) + made.END)


def test_other_objects_are_an_error() -> None:
    for data in (
        b"",
        b"id,name\n1,a\n",
        b"PAR1" + bytes(100),
        bytes(100),
        made.END,
        PARTS + made.END,
    ):
        assert failure(data).startswith("the object ")
    assert "ff ff ff ff" in failure(SMALL[4:])


def test_the_widest_schema_is_read() -> None:
    kinds = {f"c{number}": INT for number in range(10_000)}
    data = made.stream(kinds, {name: [5] for name in kinds})
    assert rows(data, "SELECT c9999 FROM input") == [{"c9999": 5}]


def test_a_stream_that_ends_early_in_the_library_is_an_error() -> None:
    """It gives the end in place of a batch if memory is short."""
    reader = INPUT._Reader(io.BytesIO(NUMBERS[: -len(made.END)]))
    whole = INPUT._Whole(reader)
    stream = nanoarrow.c_array_stream(whole.capsule())
    with pytest.raises(nanoarrow._utils.NanoarrowException, match="want of memory"):
        list(stream)
    reader = INPUT._Reader(io.BytesIO(NUMBERS))
    whole = INPUT._Whole(reader)
    assert sum(batch.length for batch in nanoarrow.c_array_stream(whole.capsule())) == 30000


#: Runs queries over changed objects, and prints the number of results, and of errors.
HOSTILE = """
import random, struct, sys
from tests.library import arrow_objects as made
from tests.library.arrow_samples import LZ4_STREAM, STREAM, ZSTD_FILE
from tests.library.support import LibraryStorlet, shared

SQL = LibraryStorlet("sql")
ERROR = shared("sql_check").SqlError
WHOLE = [0, 1, -1, 2, 7, 8, 64, 255, 2**31 - 1, -(2**31), 2**40, 2**62, 2**63 - 1, -(2**63)]

def changed(chance, data):
    data = bytearray(data)
    for _ in range(chance.choice([1, 1, 2, 4])):
        at = chance.randrange(len(data))
        way = chance.randrange(6)
        if way == 0:
            data[at] = chance.randrange(256)
        elif way == 1:
            data[at] ^= 1 << chance.randrange(8)
        elif way == 2:
            at -= at % 4
            number = chance.choice(WHOLE) & 0xFFFFFFFF
            data[at : at + 4] = struct.pack("<I", number)
        elif way == 3:
            at -= at % 8
            data[at : at + 8] = struct.pack("<q", chance.choice(WHOLE))
        elif way == 4:
            del data[at : at + chance.choice([1, 8, 64])]
        else:
            data[at:at] = data[chance.randrange(len(data)) :][: chance.choice([8, 64])]
        data = data or bytearray(8)
    return bytes(data)

results = errors = 0
for number in range(int(sys.argv[1]), int(sys.argv[2])):
    chance = random.Random(number)
    data = changed(chance, chance.choice([STREAM, LZ4_STREAM, ZSTD_FILE]))
    output = chance.choice(["csv", "jsonl", "arrow", "parquet"])
    try:
        SQL.run(data, {"query": "SELECT * FROM input", "format": "arrow", "output": output})
        results += 1
    except ERROR as error:
        errors += 1
        assert "\\n" not in str(error) and len(str(error)) < 1500, error
print(results, errors)
"""


def test_changed_objects_never_end_the_process() -> None:
    count = 4 * settings().max_examples
    ran = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", HOSTILE, "0", str(count)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    results, errors = map(int, ran.stdout.split())
    assert results + errors == count
    assert errors > count / 2


GROWTH = """
import resource, sys
from storlet_daemon.author import StorletLogger
from tests.library import arrow_objects as made
from tests.library.support import LibraryStorlet, Target

kinds = {"n": made.integer(64), "t": made.TEXT}
batch = made.batch(made.rows(kinds, {"n": [1] * 50_000, "t": ["a text of 30 characters or so."] * 50_000}), sys.argv[1])

class Source:
    left = [made.schema(kinds), *[batch] * 100, made.END]
    at = 0
    def read(self, size):
        while self.left:
            data = self.left[0][self.at : self.at + size]
            self.at += len(data)
            if data:
                return data
            del self.left[0]
            self.at = 0
        return b""

storlet = LibraryStorlet("sql")
def run():
    values = storlet.values({"query": "SELECT sum(n), max(t) FROM input", "format": "arrow"})
    target = Target()
    storlet.module.Sql(StorletLogger("", None))([Source()], [target], values)
    return bytes(target.data).split()[1].split(b",")[0].decode()

before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
count = run()
print(count, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("compression", ["", "lz4"])
def test_memory_is_that_of_some_batches(compression: str) -> None:
    """The object has 200 MB in batches of 2 MB."""
    ran = subprocess.run(
        [sys.executable, "-c", GROWTH, compression],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    count, growth = map(int, ran.stdout.split())
    assert count == 5_000_000
    assert growth < 48 * 1024


@pytest.mark.parametrize("storlet", [SQL, CONVERT])
def test_an_image_without_the_package_says_so(
    storlet: LibraryStorlet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "nanoarrow.ipc", None)
    query: Mapping[str, str] = {"query": ALL} if storlet is SQL else {}
    with pytest.raises(shared("packages").PackageError) as caught:
        storlet.run(SMALL, {**query, "format": "arrow", "output": "csv"})
    assert "with format=arrow needs the Python package nanoarrow" in str(caught.value)
