"""Documents of JSON are the rows that a reader of the whole document gives."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.library.support import LibraryStorlet, shared

SQL, CONVERT = LibraryStorlet("sql"), LibraryStorlet("convert")
DOCUMENTS = shared("json_documents")
ERROR: Any = shared("sql_check").SqlError
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)  # fmt: skip
SPACES = st.text(" \t\r\n", max_size=3)


def lines_of(data: bytes, block: int = 1 << 18, size: int = 100) -> list[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DOCUMENTS, "BLOCK_BYTES", block)
        lines = DOCUMENTS.AsLines(io.BytesIO(data))
        parts = []
        while part := lines.read(size):
            assert len(part) <= size
            parts.append(part)
        assert lines.read(size) == b""
    text = b"".join(parts).decode()
    assert text.endswith("\n") or not text
    return text.split("\n")[:-1]


def failure(data: bytes) -> str:
    with pytest.raises(ERROR) as caught:
        lines_of(data)
    return str(caught.value)


@given(
    values=st.lists(VALUES, max_size=5),
    indent=st.sampled_from([None, 0, 2, "\t"]),
    space=SPACES,
    is_array=st.booleans(),
    block=st.integers(1, 30),
    size=st.integers(1, 30),
)
def test_each_value_is_a_line(
    values: list[Any], indent: Any, space: str, is_array: bool, block: int, size: int
) -> None:
    if not is_array:
        # A list at the top is an array of rows.
        values = [{"value": each} for each in values]
    texts = [json.dumps(each, indent=indent, ensure_ascii=False) for each in values]
    if is_array:
        document = f"{space}[{space}{f'{space},{space}'.join(texts)}{space}]{space}"
    else:
        document = f"\ufeff{space}{space.join(texts)}{space}"
    found = lines_of(document.encode(errors="surrogatepass"), block, size)
    assert [json.loads(line) for line in found] == values


def test_values_stay_as_they_are_written() -> None:
    data = b'[ {"a":1.000, "b" : "\\u00e9\\n"},\r\n{"a":\n123456789012345678901234567890}]'
    assert lines_of(data) == [
        r'{"a":1.000, "b" : "\u00e9\n"}', '{"a": 123456789012345678901234567890}',
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("document", "fault"),
    [
        (b"[", "row 1: the object is cut: its array does not end"),
        (b'[{"a": 1}', "row 2: the object is cut: its array does not end"),
        (b'[{"a": 1},', "row 2: the object is cut: its array does not end"),
        (b'[{"a": 1}, ]', "row 2: Expecting value"),
        (b"[,1]", "row 1: Expecting value"),
        (b'[{"a": 1} {"a": 2}]', "row 2: want ',' or ']' after a value of the array"),
        (b'[{"a": 1}}', "row 2: want ',' or ']'"),
        (b'{"a": 1}]', "row 2: Expecting value"),
        (b'{"a": 1},{"a": 2}', "row 2: Expecting value"),
        (b'{"a": "x\ny"}', "row 1: Invalid control character"),
        (b'{"a": 1', "row 1: Expecting ',' delimiter"),
        (b'{"a": "\xff"}', "row 1: is not UTF-8"),
        (b'[{"a": "\xc3', "row 1: is not UTF-8"),
        (b"[" * 100_000, "row 1: is nested too deeply"),
        (b'{"a": "' + b"x" * (1 << 20) + b'"}', "row 1: has more than 1048576 characters"),
        (b'[1,{"a": [' + b"1," * (1 << 20), "row 2: Expecting value, or has more than 1048576"),
    ],
    ids=lambda value: value if isinstance(value, str) else len(value),
)
def test_documents_that_are_not_valid(document: bytes, fault: str) -> None:
    assert failure(document).startswith(f"the object is no JSON: {fault}")


def test_a_query_and_a_conversion() -> None:
    document = json.dumps(
        [{"id": number, "place": {"x": number / 4}, "tags": ["a"] * (number % 3)} for number in range(20_000)],
        indent=4,
    ).encode()  # fmt: skip
    query = (
        "SELECT count(*) AS n, sum(place.x) AS x, sum(len(tags)) AS t FROM input WHERE id % 2 = 1"
    )
    expected = b"n,x,t\n10000,25000000.0,10000\n"
    found = SQL.run(document, {"query": query, "format": "json"}).output
    assert found == expected
    table = CONVERT.run(document, {"format": "json", "output": "jsonl"}).output
    assert SQL.run(table, {"query": query, "format": "jsonl"}).output == expected
    with pytest.raises(ERROR, match="row 20001: the object is cut"):
        SQL.run(document[:-2], {"query": query, "format": "json"})
