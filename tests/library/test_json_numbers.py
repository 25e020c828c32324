"""JSON lines have each digit of the numbers of a result, or the run is an error."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from decimal import Context, Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.library import arrow_objects as made
from tests.library.support import LibraryStorlet, shared

SQL, CONVERT = LibraryStorlet("sql"), LibraryStorlet("convert")
ERROR: Any = shared("sql_check").SqlError
PRECISE = Context(prec=60)
REASON = "no numbers with more digits than a DOUBLE has"


def rows(data: bytes, query: str, **given_: str) -> list[Any]:
    output = SQL.run(data, {"query": query, "output": "jsonl", **given_}).output
    return [json.loads(line, parse_float=Decimal) for line in output.splitlines()]


# --- decimals in nested values --------------------------------------------------------------------


@st.composite
def nested(draw: st.DrawFn, depth: int = 2) -> tuple[str, Any]:
    """A value in SQL, and as JSON has it."""
    kind = draw(st.sampled_from(["decimal"] if not depth else ["decimal", "list", "struct", "map"]))
    if kind == "decimal":
        digits = draw(st.integers(1, 38))
        fraction = draw(st.integers(0, digits))
        most = 10**digits - 1
        number = draw(st.integers(-most, most))
        if fraction == digits == 38:
            fraction -= 1
        text = f"{Decimal(number).scaleb(-fraction, PRECISE):f}"
        return f"CAST('{text}' AS DECIMAL({digits},{fraction}))", Decimal(text)
    text, value = draw(nested(depth - 1))
    if kind == "list":
        count = draw(st.integers(1, 3))
        return f"[{', '.join([text] * count)}]", [value] * count
    if kind == "struct":
        other, another = draw(nested(depth - 1))
        return f"{{'a': {text}, 'b': {other}}}", {"a": value, "b": another}
    return f"map {{'k': {text}}}", {"k": value}


@given(value=nested())
def test_decimals_keep_their_digits_at_each_level(value: tuple[str, Any]) -> None:
    text, expected = value
    assert rows(b"n\n1\n", f"SELECT {text} AS v FROM input") == [{"v": expected}]  # noqa: S608


def test_a_decimal_without_a_wider_type_is_an_error() -> None:
    query = "SELECT [CAST(0.5 AS DECIMAL(38,38))] AS v FROM input"
    with pytest.raises(ERROR, match=r"no exact form of DECIMAL\(38,38\): CAST it AS VARCHAR"):
        rows(b"n\n1\n", query)


# --- values of the type JSON ----------------------------------------------------------------------

NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.from_regex(r"\A-?(?:0|[1-9][0-9]{0,20})(?:\.[0-9]{1,20})?(?:[eE][-+]?[0-9]{1,3})?\Z"),
    st.from_regex(r"\A0\.0{0,12}[0-9]{1,20}\Z"),
)


def with_keys(parts: list[str]) -> str:
    pairs = (f'"1.{number}": {part}' for number, part in enumerate(parts))
    return "{" + ",".join(pairs) + "}"


DOCUMENTS = st.recursive(
    st.one_of(NUMBERS, st.text('0123.e"\\{ ', max_size=20).map(json.dumps), st.just("null")),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"[{', '.join(parts)}]"),
        st.lists(inner, min_size=1, max_size=3).map(with_keys),
    ),
    max_leaves=5,
)


def is_kept(number: str) -> bool:
    """Whether the shortest text of the nearest ``DOUBLE`` is the number, or it has none."""
    double = float(number)
    return math.isinf(double) or Decimal(repr(double)) == Decimal(number)


@given(document=DOCUMENTS, form=st.sampled_from(["{}", "{{'a': {}}}", "[[{}]]", "map {{'k': {}}}"]))
def test_a_value_of_json_keeps_its_digits_or_is_an_error(document: str, form: str) -> None:
    found: list[str] = []
    expected = json.loads(document, parse_float=lambda text: found.append(text) or Decimal(text))
    data = f"v\n{quoted(document)}\n".encode()
    query = f"SELECT {form.format('CAST(v AS JSON)')} AS v FROM input"  # noqa: S608
    if not all(map(is_kept, found)):
        with pytest.raises(ERROR, match=f"column 'v': output=jsonl has {REASON}: take another"):
            rows(data, query, types="text")
        return
    (row,) = rows(data, query, types="text")
    value = row["v"]
    while form != "{}" and value != expected:
        (value,) = value.values() if isinstance(value, dict) else value
    assert value == expected


def quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def test_another_output_has_all_digits() -> None:
    query = "SELECT to_json([0.123456789012345678]) AS v, 1 AS n FROM input"
    assert SQL.run(b"n\n1\n", {"query": query}).output == b"v,n\n[0.123456789012345678],1\n"
    with pytest.raises(ERROR, match=r"query: .*column 'v': output=jsonl has no numbers"):
        rows(b"n\n1\n", query)
    query = "SELECT CAST(to_json([0.123456789012345678]) AS VARCHAR) AS v FROM input"
    assert rows(b"n\n1\n", query) == [{"v": "[0.123456789012345678]"}]


def test_a_conversion_is_exact_or_an_error() -> None:
    text = '{"a": 0.12345678901234567890, "b": [1.50]}'
    kind = replace(made.TEXT, metadata={"ARROW:extension:name": "arrow.json"})
    data = made.stream({"x": kind}, {"x": [text, None]})
    given_ = {"format": "arrow", "columns": ""}
    output = CONVERT.run(data, {**given_, "output": "csv"}).output
    assert output == f"x\n{quoted(text)}\n\n".encode()
    with pytest.raises(ERROR, match=rf"the object: .*column 'x': output=jsonl has {REASON}"):
        CONVERT.run(data, {**given_, "output": "jsonl"})
    items = made.stream({"x": made.listed(kind)}, {"x": [[text]]})
    for output_ in ("csv", "jsonl"):
        with pytest.raises(ERROR, match="the object: column 'x': JSON has no numbers"):
            CONVERT.run(items, {**given_, "output": output_})
    short = made.stream({"x": made.listed(kind)}, {"x": [["1.50", "0.1"]]})
    output = CONVERT.run(short, {**given_, "output": "jsonl"}).output
    assert output == b'{"x":[1.5,0.1]}\n'
