"""Documents of JSON are the rows that a reader of the whole document gives."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.library.support import LibraryStorlet, shared

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


def lines_of(data: bytes, block: int = 1 << 18, size: int = 100, path: str = "") -> list[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DOCUMENTS, "BLOCK_BYTES", block)
        lines = DOCUMENTS.AsLines(io.BytesIO(data), DOCUMENTS.path_of(path))
        parts = []
        while part := lines.read(size):
            assert len(part) <= size
            parts.append(part)
        assert lines.read(size) == b""
    text = b"".join(parts).decode()
    assert text.endswith("\n") or not text
    return text.split("\n")[:-1]


def failure(data: bytes, path: str = "") -> str:
    with pytest.raises(ERROR) as caught:
        lines_of(data, path=path)
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


@pytest.mark.parametrize("number", ["0", "-0", "1.5", "1e5", "1E-5", "-1.25e+12", "100"])
@pytest.mark.parametrize("block", range(1, 12))
def test_numbers_at_the_end_of_a_block(number: str, block: int) -> None:
    data = f'[{number},{{"a":{number}}},{number}]'.encode()
    assert lines_of(data, block) == [number, f'{{"a":{number}}}', number]
    assert lines_of(number.encode(), block) == [number]


@pytest.mark.parametrize(
    ("document", "fault"),
    [
        (b"[", "row 1: the object is cut"),
        (b'[{"a": 1}', "row 2: want ',' or ']' after a value of the array"),
        (b'[{"a": 1},', "row 2: the object is cut"),
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
        [{"id": number, "place": {"x": number / 4}, "tags": ["a"] * (number % 3)} for number in range(12_000)],
        indent=4,
    ).encode()  # fmt: skip
    query = (
        "SELECT count(*) AS n, sum(place.x) AS x, sum(len(tags)) AS t FROM input WHERE id % 2 = 1"
    )
    expected = b"n,x,t\n6000,9000000.0,6000\n"
    found = SQL.run(document, {"query": query, "format": "json"}).output
    assert found == expected
    table = CONVERT.run(document, {"format": "json", "output": "jsonl"}).output
    assert SQL.run(table, {"query": query, "format": "jsonl"}).output == expected
    with pytest.raises(ERROR, match="row 12001: want ',' or '\\]' after a value"):
        SQL.run(document[:-2], {"query": query, "format": "json"})
    document = b'{"next": null, "data": {"items": ' + document + b"}}"
    found = SQL.run(document, {"query": query, "format": "json", "rows": "data.items"}).output
    assert found == expected
    given = {"format": "json", "output": "jsonl", "rows": "data.items"}
    assert CONVERT.run(document, given).output == table
    for storlet, more in ((SQL, {"query": query}), (CONVERT, {"output": "csv"})):
        with pytest.raises(ERROR, match="rows: is for format=json only"):
            storlet.run(document, {"format": "jsonl", "rows": "data", **more})


@given(
    values=st.lists(VALUES, max_size=4),
    before=st.dictionaries(st.sampled_from(["a", "b", "é"]), VALUES, max_size=2),
    after=st.dictionaries(st.sampled_from(["c", "d"]), VALUES, max_size=2),
    indent=st.sampled_from([None, 2]),
    depth=st.integers(1, 3),
    block=st.integers(1, 30),
)
def test_rows_within_objects(
    values: list[Any], before: Any, after: Any, indent: Any, depth: int, block: int
) -> None:
    document: Any = values
    for _ in range(depth):
        document = {**before, "rows": document, **after}
    data = json.dumps(document, indent=indent).encode()
    found = lines_of(data, block, 17, ".".join(["rows"] * depth))
    assert [json.loads(line) for line in found] == values


@pytest.mark.parametrize(
    ("document", "path", "fault"),
    [
        (b'{"a": [1]}', "b", "row 1: there is no key 'b'"),
        (b"{}", "b", "row 1: there is no key 'b'"),
        (b"[1]", "b", "row 1: there is no object for the key 'b'"),
        (b"", "b", "row 1: there is no object for the key 'b'"),
        (b'{"b": [1]}', "b.c", "row 1: there is no object for the key 'c'"),
        (b'{"b": {"c": 1}}', "b.c", "row 1: the value of 'c' is no array"),
        (b'{"b": [1], "b": [2]}', "b", "row 2: the key 'b' is there twice"),
        (b'{"b": [1]} {}', "b", "row 2: there is more after the document"),
        (b'{"b": [1]', "b", "row 2: want ',' or '}' after a member"),
        (b'{"b": [1],}', "b", "row 2: Expecting value"),
        (b'{"a" 1, "b": [1]}', "b", "row 1: want a name and ':' in an object"),
        (b'{1: 1, "b": [1]}', "b", "row 1: want a name and ':' in an object"),
    ],
)
def test_arrays_that_are_not_at_the_path(document: bytes, path: str, fault: str) -> None:
    assert failure(document, path).startswith(f"the object is no JSON: {fault}")


def test_keys_of_a_path() -> None:
    with pytest.raises(ERROR, match=r"rows: 'a\.\.b': want keys with"):
        DOCUMENTS.path_of("a..b")
