"""``std:deidentify``: what the contract names is changed, and any doubt is an error without a
value.
"""

from __future__ import annotations

import csv
import hashlib
import hmac
import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.library.support import LibraryStorlet, shared

STORLET = LibraryStorlet("deidentify")
CONTRACT = STORLET.module.contract_of.__globals__
LINES = shared("utf8_lines")
KEY = bytes(range(32))
CELLS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=8)


def output(
    data: bytes, columns: Any, key: bytes | None = KEY, block: int = 1 << 18, **more: str
) -> bytes:
    text = columns if isinstance(columns, str) else json.dumps(columns)
    given = {"columns": text, **more, **({"key": "k"} if key is not None else {})}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LINES, "BLOCK_BYTES", block)
        return STORLET.run(data, given, {}, {"k": key or b""}).output


def failure(data: bytes, columns: Any, key: bytes | None = KEY, **more: str) -> str:
    with pytest.raises((STORLET.module.ContractError, LINES.LineError)) as caught:
        output(data, columns, key, **more)
    return str(caught.value)


def csv_of(rows: list[list[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()


def rows_of(data: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(data.decode(), newline="")))


@pytest.mark.parametrize(
    ("action", "value", "expected"),
    [
        ("keep", "a b", "a b"),
        ("mask", "secret", "******"),
        ("mask:4", "123456789", "*****6789"),
        ("mask:4", "12345678", "********"),
        ("prefix:2", "34995", "34"),
        ("prefix:9", "34995", "34995"),
        ("band:10", "37", "30-39"),
        ("band:10", "-1", "-10--1"),
        ("band:1", "7", "7"),
        ("year", "1984-05-17", "1984"),
        ("month", "1984-05-17T23:30:00+02:00", "1984-05"),
        ("hmac", "v", hmac.new(KEY, b"v", hashlib.sha256).hexdigest()[:32]),
    ],
)
def test_the_result_of_each_action(action: str, value: str, expected: str) -> None:
    found = output(csv_of([["a", "b"], [value, "x"]]), {"a": action, "b": "drop"})
    assert rows_of(found) == [["a"], [expected]]
    line = json.dumps({"a": value, "b": [1]}).encode() + b"\n"
    found = output(line, {"a": action, "b": "drop"}, format="jsonl")
    assert json.loads(found) == {"a": expected}


@given(rows=st.lists(st.tuples(CELLS, CELLS, CELLS), max_size=8), block=st.integers(1, 40))
def test_kept_and_dropped_columns_of_csv(rows: list[tuple[str, str, str]], block: int) -> None:
    table = [["a", "b", "c"], *map(list, rows)]
    found = output(csv_of(table), {"a": "keep", "b": "drop", "c": "keep"}, block=block)
    assert rows_of(found) == [[row[0], row[2]] for row in table]


@given(
    records=st.lists(
        st.dictionaries(
            st.sampled_from("ab"),
            st.recursive(
                st.none() | st.booleans() | st.integers() | CELLS,
                lambda inner: (
                    st.lists(inner, max_size=3) | st.dictionaries(CELLS, inner, max_size=3)
                ),
                max_leaves=5,
            ),
        ),
        max_size=5,
    ),
    block=st.integers(1, 40),
)
def test_kept_and_dropped_keys_of_json(records: list[dict[str, Any]], block: int) -> None:
    data = "".join(json.dumps(each) + "\n" for each in records).encode()
    found = output(data, {"a": "keep", "b": "drop"}, block=block, format="jsonl")
    lines = [json.loads(line) for line in found.decode().split("\n")[:-1]]
    assert lines == [{"a": each["a"]} if "a" in each else {} for each in records]


def test_numbers_of_json_stay_as_they_were_written() -> None:
    line = b'{"a": 1.70, "b": [1e400, {"c": -0}]}\n'
    found = output(line, {"a": "keep", "b": "keep", "z": "drop"}, format="jsonl")
    assert found == b'{"a": 1.70, "b": [1e400, {"c": -0}]}\n'


def test_a_half_of_a_surrogate_pair_stays_an_escape_sequence() -> None:
    line = b'{"a": ["\\ud800x", {"\\udfff": "\xc3\xa9"}]}\n'
    found = output(line, {"a": "keep", "z": "drop"}, format="jsonl")
    assert json.loads(found) == json.loads(line)
    assert found.decode() == '{"a": ["\\ud800x", {"\\udfff": "é"}]}\n'


def test_empty_values_stay() -> None:
    found = output(b"a,b\n,\n", {"a": "hmac", "b": "year"})
    assert found == b"a,b\n,\n"
    found = output(b'{"a": null, "b": ""}\n', {"a": "hmac", "b": "mask"}, format="jsonl")
    assert json.loads(found) == {"a": None, "b": ""}


PRIVATE = "Dana Levi"


@pytest.mark.parametrize(
    ("data", "columns", "more", "expected"),
    [
        (f"{PRIVATE},b\n1,2\n", {"b": "drop"}, {}, "by their numbers: 1"),
        ("a\n1\n", {"a": "drop", "b": "keep"}, {}, "does not have: 'b'"),
        ("a,a\n1,2\n", {"a": "drop"}, {}, "has twice: 'a'"),
        (f"a\n{PRIVATE}\n", {"a": "year"}, {}, "line 2: 'a': year cannot change this value"),
        (f"a\n1\n{PRIVATE}\n", {"a": "band:5"}, {}, "line 3: 'a': band cannot change"),
        (
            f"a,b\n{PRIVATE}\n",
            {"a": "drop", "b": "drop"},
            {},
            "line 2: has 1 values, and the header 2",
        ),
        (f'a\n"{PRIVATE}"x\n', {"a": "drop"}, {}, "line 2: "),
        ("", {"a": "drop"}, {}, "the object is empty"),
        (f"a\n{PRIVATE}\udcff\n", {"a": "drop"}, {}, "line 2: is not UTF-8"),
        (
            f'{{"{PRIVATE}": 1}}',
            {"a": "drop"},
            {"format": "jsonl"},
            "line 1: 1 keys have no action",
        ),
        (f'{{"a": "{PRIVATE}"', {"a": "drop"}, {"format": "jsonl"}, "line 1: is not JSON"),
        (f'["{PRIVATE}"]', {"a": "drop"}, {"format": "jsonl"}, "line 1: is not a JSON object"),
        (
            f'{{"a": {"[" * 2000}"{PRIVATE}"{"]" * 2000}, "b": 1}}',
            {"a": "keep", "b": "drop"},
            {"format": "jsonl"},
            "line 1: has too many levels of JSON",
        ),
        ('{"a": 1, "a": 2}', {"a": "drop"}, {"format": "jsonl"}, "line 1: a key is there twice"),
        (
            f'{{"a": ["{PRIVATE}"]}}',
            {"a": "mask"},
            {"format": "jsonl"},
            "mask is for texts and numbers",
        ),
        (
            f'{{"a": {{"b": "{PRIVATE}"}}}}',
            {"a": "hmac"},
            {"format": "jsonl"},
            "for texts and numbers",
        ),
    ],
)
def test_a_doubt_is_an_error_without_a_value(
    data: str, columns: Any, more: dict[str, str], expected: str
) -> None:
    text = failure(data.encode("utf-8", "surrogateescape"), columns, **more)
    assert expected in text
    assert PRIVATE not in text


@pytest.mark.parametrize("levels", [300, 600, 900])
def test_levels_of_json_that_can_be_read_are_written_or_an_error(levels: int) -> None:
    """Versions of Python differ in how many levels they read and write."""
    data = f'{{"a": {"[" * levels}1{"]" * levels}, "b": 1}}\n'.encode()
    try:
        written = output(data, {"a": "keep", "b": "drop"}, format="jsonl").decode()
    except STORLET.module.ContractError as error:
        written = str(error)
    kept = data.decode().replace(', "b": 1', "")
    assert written in (kept, "line 1: has too many levels of JSON")


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ("{", "columns: is not JSON"),
        ("[]", "columns: want an object"),
        ("{}", "columns: want an object"),
        ('{"a": "drop", "a": "keep"}', "columns: a column is named twice"),
        ({"a": "keep"}, "keeps everything"),
        ({"a": "hide", "b": 7}, "'a': 'hide': want keep, drop, mask"),
        ({"a": "mask:x"}, "'a': 'mask:x': want keep"),
        ({"a": "drop:1"}, "'a': 'drop:1': want keep"),
        ({"a": "prefix"}, "'a': 'prefix': want keep"),
        ({"a": "band:0"}, "'a': 'band:0': want keep"),
    ],
)
def test_a_wrong_contract_is_refused(columns: Any, expected: str) -> None:
    assert expected in failure(b"a\n1\n", columns)


def test_tokens_need_a_key_of_32_bytes() -> None:
    assert "hmac needs the parameter key" in failure(b"a\n1\n", {"a": "hmac"}, None)
    assert "has 31 bytes: want 32" in failure(b"a\n1\n", {"a": "hmac"}, KEY[:31])
    one = output(b"a\nx\nx\ny\n", {"a": "hmac"}).split()
    other = output(b"a\nx\n", {"a": "hmac"}, bytes(32)).split()
    assert one[1] == one[2] != one[3]
    assert one[1] != other[1]


def test_the_receipt_has_counts_and_no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    class File(io.BytesIO):
        def set_metadata(self, metadata: dict[str, str]) -> None: ...

    result, receipt = File(), File()
    monkeypatch.setattr(STORLET.module.secrets, "get", {"k": KEY}.get)
    columns = json.dumps({"a": "hmac", "b": "drop", "c": "keep"})
    params = STORLET.values({"columns": columns, "key": "k"})
    source = File(f"a,b,c\n{PRIVATE},1,x\n,2,y\n".encode())
    STORLET.module.Deidentify(None)([source], [result, receipt], params)
    assert json.loads(receipt.getvalue()) == {
        "records": 2,
        "columns": {
            "a": {"action": "hmac", "changed": 1},
            "b": {"action": "drop", "changed": 2},
            "c": {"action": "keep", "changed": 0},
        },
    }
    assert PRIVATE.encode() not in result.getvalue() + receipt.getvalue()
