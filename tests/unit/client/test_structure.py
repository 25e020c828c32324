"""Descriptions of records, conditions on them, and their faults."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storlet_client.structure import Needle, StructureError, needles, parse, selection

TEXT = "i4 id, x3, s8 text, f8 value, b2 raw"
VALUES = (7, b"apple\0\0\0", 2.5, b"\0\xff")
OTHER = (-1, b"", 0.0, b"")


def flags(where: str, *records: tuple[Any, ...]) -> list[bool]:
    """Whether each record is selected."""
    found = selection(where, parse(TEXT))
    block = b"".join(struct.pack("<i3x8sd2s", *values) for values in records)
    return [True] * len(records) if found is None else list(found(block))


def test_fields_have_their_values() -> None:
    layout = parse(TEXT)
    assert layout.size == struct.calcsize("<i3x8sd2s") == 25
    packed = struct.pack("<i3x8sd2s", *VALUES)
    assert layout.as_mapping(layout.packing.unpack(packed)) == {
        "id": 7, "text": "apple", "value": 2.5, "raw": b"\0\xff"
    }  # fmt: skip


@pytest.mark.parametrize(("order", "packed"), [("", b"\1\0"), ("<", b"\1\0"), ("> ", b"\0\1")])
def test_the_order_of_bytes_is_given_first(order: str, packed: bytes) -> None:
    assert parse(f"{order}u2 n").packing.unpack(packed) == (1,)


def test_a_projection_has_the_order_of_its_names() -> None:
    layout = parse(TEXT).projected(["value", "id"])
    assert layout.as_mapping((2.5, 7)) == {"value": 2.5, "id": 7}
    for names in (["other"], ["id", "id"]):
        with pytest.raises(StructureError, match="fields: "):
            parse(TEXT).projected(names)


@pytest.mark.parametrize(
    "described",
    ["", "i3 a", "i4", "s0 a", "s a", "i4 a b", "i4 1a", "i4 a, i4 a", "x4", "x4 a", "i4 a,",
     "s1048577 a", ", ".join(f"i1 a{n}" for n in range(257)), "i4 a; i4 b"],
)  # fmt: skip
def test_other_descriptions_are_refused(described: str) -> None:
    with pytest.raises(StructureError, match="struct: "):
        parse(described)


@pytest.mark.parametrize(
    ("where", "is_selected"),
    [
        ("", True),
        ("  ", True),
        ("id = 7", True),
        ("id=7", True),
        ("id != 7", False),
        ("id >= 7 and id <= 7", True),
        ("id < 7.5", True),
        ("value > -1e3", True),
        ("text = 'apple'", True),
        ("text ^= 'app' and text ~ 'l'", True),
        ("text = 'it''s'", False),
        ("text > 'apple'", False),
        ("id = 1 and id = 2 or id = 7", True),
        ("id = 7 or id = 1 and id = 2", True),
        ("id = 1 or id = 2", False),
    ],
)
def test_conditions_select(where: str, is_selected: bool) -> None:
    assert flags(where, VALUES, OTHER)[0] is is_selected


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("id = 7", [Needle(b"\7\0\0\0", 0, 25, is_condition=True)]),
        ("text = 'apple'", [Needle(b"apple\0\0\0", 7, 25, is_condition=True)]),
        ("text ^= 'apple'", [Needle(b"apple", 7, 25, is_condition=True)]),
        ("text = ''", [Needle(bytes(8), 7, 25, is_condition=True)]),
        ("raw = 'ab'", [Needle(b"ab", 23, 25, is_condition=True)]),
        ("raw ^= 'a'", [Needle(b"a", 23, 25, is_condition=True)]),
        ("text ^= 'app' and id = 7", [Needle(b"\7\0\0\0", 0, 25), Needle(b"app", 7, 25)]),
        ("raw = 'ab' and value > 1 and text ~ 'l'", [Needle(b"ab", 23, 25)]),
        ("id = 7 or id = 8", []),
        ("id = 7.0", []),
        ("id = 4294967296", []),
        ("id != 7", []),
        ("value = 2.5", []),
        ("value = 0", []),
        ("text = 'more than it'", []),
        ("text = 'nul\0'", []),
        ("text ^= 'nul\0'", []),
        ("text ^= ''", []),
        ("raw = 'a'", []),
        ("text ~ 'apple'", []),
        ("", []),
    ],
)
def test_the_needles_of_a_condition(where: str, found: list[Needle]) -> None:
    assert needles(where, parse(TEXT)) == found


@pytest.mark.parametrize("others", [8, 100])
@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_candidates_are_the_records_that_have_the_needle(others: int, kind: type) -> None:
    block = kind(b"ab" + b"ac" * others + b"cb")
    assert Needle(b"b", 1, 2).candidates(block) == b"abcb"
    assert Needle(b"ab", 0, 2).candidates(block) == b"ab"
    assert Needle(b"d", 1, 2).candidates(block) == b""


@given(
    rows=st.lists(st.binary(min_size=4, max_size=4), max_size=30),
    content=st.binary(min_size=1, max_size=3),
    offset=st.integers(0, 1),
    others=st.sampled_from([0, 200]),
    around=st.tuples(st.integers(0, 9), st.integers(0, 9)),
)
def test_candidates_between_two_bytes_of_a_block(
    rows: list[bytes], content: bytes, offset: int, others: int, around: tuple[int, int]
) -> None:
    """Every record that has the needle, and no other, wherever the records begin and end."""
    other = bytes([content[0] ^ 1]) * 4
    has = other[:offset] + content + other[offset + len(content) :]
    rows = [*rows, has, *[other] * others, *rows, has]
    block = content * around[0] + b"".join(rows) + content * around[1]
    start = around[0] * len(content)
    found = Needle(content, offset, 4).candidates(block, start, start + 4 * len(rows))
    expected = [row for row in rows if row[offset:].startswith(content)]
    assert found == b"".join(expected) or (found is None and not others)


def test_a_byte_of_too_many_records_is_not_searched() -> None:
    assert Needle(b"ab", 0, 2).candidates(b"abacac") is None
    assert Needle(b"ab", 0, 2).candidates(b"abacacac") == b"ab"


@pytest.mark.parametrize(
    "where",
    ["id", "id =", "= 7", "7 = id", "ident = 7", "id = 'a'", "text = 7", "id ^= 7", "id = 7 id = 8",
     "id = 7 and", "id = 7 xor id = 8", "id = 7; x", "text = 'a", "id == 7", "and", "id = 7 or or",
     " or ".join(["id = 7"] * 65), "(id = 7)", "__import__ = 1"],
)  # fmt: skip
def test_other_conditions_are_refused(where: str) -> None:
    with pytest.raises(StructureError, match="where: "):
        selection(where, parse(TEXT))


def test_a_hostile_condition_is_data() -> None:
    assert flags("text = '__import__(''os'')'", (7, b"", 0.0, b"")) == [False]
