"""``std:records`` gives the records of a slow reference."""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.library.support import LibraryStorlet

STORLET = LibraryStorlet("records")
STRUCT = "i2 id, x1, s3 text, f8 value, b2 raw"
CODES = "h1x3sd2s"
NAMES = ("id", "text", "value", "raw")
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge, "^=": bytes.startswith, "~": operator.contains,
}  # fmt: skip
TEXTS = st.sampled_from([b"", b"a", b"ab", b"abc", b"b", b"a\0b", b"\0a"])
ROWS = st.lists(
    st.tuples(
        st.integers(-3, 3),
        TEXTS,
        st.sampled_from([-1.5, 0.0, 2.5]),
        st.sampled_from([b"ab", b"a\0", b"\0\0"]),
    ),
    max_size=20,
)
COMPARISONS = st.one_of(
    st.tuples(st.sampled_from(["id", "value"]), st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), st.integers(-2, 3)),
    st.tuples(st.sampled_from(["text", "raw"]), st.sampled_from(list(OPERATORS)), st.sampled_from(["", "a", "ab", "abcd", "b"])),
)  # fmt: skip


def holds(values: tuple[Any, ...], comparison: tuple[str, str, Any]) -> bool:
    name, sign, wanted = comparison
    value = values[NAMES.index(name)]
    if name == "text":
        value = value.rstrip(b"\0")
    return OPERATORS[sign](value, wanted.encode() if isinstance(wanted, str) else wanted)


@given(
    rows=ROWS,
    groups=st.lists(st.lists(COMPARISONS, min_size=1, max_size=3), max_size=3),
    fields=st.lists(st.sampled_from(NAMES), max_size=4, unique=True),
    order=st.sampled_from(["<", ">"]),
    others=st.sampled_from([0, 100]),
)
def test_selected_records_and_fields(
    rows: list[tuple[Any, ...]],
    groups: list[list[tuple[str, str, Any]]],
    fields: list[str],
    order: str,
    others: int,
) -> None:
    """``others`` make what a condition wants rare, so that it is searched as a string."""
    rows = [*rows, *[(99, b"zzz", 99.0, b"zz")] * others, *rows]
    where = " or ".join(
        " and ".join(f"{name} {sign} {wanted!r}" for name, sign, wanted in group)
        for group in groups
    )
    data = b"".join(struct.pack(order + CODES, *row) for row in rows)
    # As they come back: a text has the length of its field.
    rows = list(struct.iter_unpack(order + CODES, data))
    kept = [
        row
        for row in rows
        if not groups or any(all(holds(row, each) for each in group) for group in groups)
    ]
    given_names = {"struct": order + STRUCT, "where": where, "fields": ",".join(fields)}
    codes = dict(zip(NAMES, ("h", "3s", "d", "2s"), strict=True))
    chosen = fields or NAMES
    packing = order + "".join(codes[name] for name in chosen)
    expected = b"".join(
        struct.pack(packing, *(row[NAMES.index(name)] for name in chosen)) for row in kept
    )
    assert STORLET.run(data, given_names).output == expected


@pytest.mark.parametrize("where", ["number = '000077777'", "number ^= '00007777'"])
@pytest.mark.parametrize("also", ["", " and end = '\n'", " and end != '\n'"])
def test_rare_records_of_many_blocks(where: str, also: str) -> None:
    data = b"".join(b"%09d\n" % number for number in range(100_000))
    found = STORLET.run(data, {"struct": "s9 number, s1 end", "where": where + also}).output
    kept = range(77777, 77778) if "= '000077777'" in where else range(77770, 77780)
    expected = b"".join(b"%09d\n" % number for number in kept)
    assert found == (b"" if "!=" in also else expected)


def test_records_of_more_than_one_block() -> None:
    data = b"".join(b"%09d\n" % number for number in range(100_000))
    found = STORLET.run(data, {"struct": "s9 number, s1 end", "where": "number ~ '777'"}).output
    assert found == b"".join(line for line in data.splitlines(keepends=True) if b"777" in line)


@pytest.mark.parametrize("size", [2, 1 << 20])
def test_records_of_any_length(size: int) -> None:
    data = bytes(range(1, 4)) * size
    assert STORLET.run(data, {"struct": f"b{size} all"}).output == data
    with pytest.raises(ValueError, match="no multiple of"):
        STORLET.run(data + b"x", {"struct": f"b{size} all"})


def test_fields_of_one_type_in_another_order() -> None:
    data = struct.pack("<4i", 1, 2, 3, 4)
    found = STORLET.run(data, {"struct": "i4 a, i4 b", "fields": "b, a"}).output
    assert struct.unpack("<4i", found) == (2, 1, 4, 3)
