"""``std:records`` gives the records of a slow reference."""

from __future__ import annotations

import json
import math
import operator
import os
import statistics
import struct
import threading
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storlet_daemon.author import StorletInputFile, StorletRangeInputFile
from tests.library.support import LibraryStorlet, Target, filled

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
    """``others`` make what a condition requires rare, so that it is searched as a string."""
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


@pytest.mark.parametrize(
    "where", ["text = 'ab' and number ^= '00000'", "number ^= '0000' and text = 'ab'"]
)
def test_a_needle_that_all_records_have_leaves_the_search_to_another(
    monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Comparing would take thirty times as long."""
    compared: list[int] = []
    usual = STORLET.module.structure.selection

    def counted(*given: Any) -> Any:
        select = usual(*given)
        return lambda block: compared.append(len(block)) or select(block)

    monkeypatch.setattr(STORLET.module.structure, "selection", counted)
    kinds = [b"ab" if number % 100 == 7 else b"cd" for number in range(10_000)]
    rows = [b"%09d%b\n" % (number, kind) for number, kind in enumerate(kinds)]
    found = STORLET.run(b"".join(rows), {"struct": "s9 number, s2 text, s1 end", "where": where})
    assert found.output == b"".join(rows[7::100])
    assert compared == [len(found.output)]


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


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("fields", ["value", "value, id", "id, value", "text, value"])
def test_bytes_of_a_nan_stay(order: str, fields: str) -> None:
    """A signalling NaN of four bytes has another form once it was a number of eight."""
    value = (0x7F800001).to_bytes(4, "big" if order == ">" else "little")
    parts = {"id": b"\1\2", "text": b"abc", "value": value}
    data = parts["id"] + b"_" + parts["text"] + b"__" + parts["value"]
    given_names = {"struct": order + "i2 id, x1, s3 text, x2, f4 value", "fields": fields}
    expected = b"".join(parts[name.strip()] for name in fields.split(","))
    assert STORLET.run(data * 3, given_names).output == expected * 3


@pytest.mark.parametrize("number", ["0.1", "-16777217", "1e39", "1e-50"])
def test_a_number_that_no_float_of_four_bytes_has(number: str) -> None:
    """The storlet kept no record, also of those that were written with this number."""
    data = struct.pack("<f", 0.1) + struct.pack("<f", 0.5)
    for sign in ("=", "!="):
        with pytest.raises(ValueError, match="no f4 has this value exactly: compare with < and >"):
            STORLET.run(data, {"struct": "f4 value", "where": f"value {sign} {number}"})
    for where in ("value = 0.5", "value > 0.1 and value != 16777216 and value > 1e-50"):
        assert STORLET.run(data, {"struct": "f4 value", "where": where}).output.endswith(data[4:])
    with pytest.raises(ValueError, match="no f4"):
        STORLET.run(b"", {"struct": "> f4 value", "where": "value < 1 and value = 0.3"})
    assert STORLET.run(b"", {"struct": "f8 value", "where": "value = 0.1"}).output == b""


def lines(count: int) -> bytes:
    return b"".join(b"%09d\n" % number for number in range(count))


SEARCH = {"struct": "s9 number, s1 end", "where": "number ^= '00007'"}


def found_in(source: StorletInputFile) -> bytes:
    target = Target()
    STORLET.module.Records(None)([source], [target], STORLET.values(SEARCH))
    return bytes(target.data)


def test_position_in_the_file_follows_the_search() -> None:
    source = StorletInputFile({}, filled(lines(1_000_000)))
    assert found_in(source) == lines(80_000)[-100_000:]
    assert os.lseek(source.fileno(), 0, os.SEEK_CUR) == 10_000_000
    source.close()


def test_range_of_a_file() -> None:
    descriptor = filled(lines(1_000_000))
    source = StorletRangeInputFile({}, descriptor, 795_000, 1_794_999)
    assert found_in(source) == lines(80_000)[-5_000:]
    source.close()


def test_input_without_a_file() -> None:
    read, write = os.pipe()
    source = StorletInputFile({}, read)

    def feed() -> None:
        with os.fdopen(write, "wb") as pipe:
            pipe.write(lines(100_000))

    feeder = threading.Thread(target=feed)
    feeder.start()
    assert found_in(source) == lines(80_000)[-100_000:]
    feeder.join()
    source.close()


@pytest.mark.parametrize("size", [1, 7, 100, 4096, 5000])
@pytest.mark.parametrize(
    ("block", "window"), [(1, 1), (1000, 1), (1000, 3001), (4096, 8192), (5000, 20_000)]
)
@pytest.mark.parametrize("skipped", [0, 3])
def test_records_at_the_ends_of_parts_and_windows(
    monkeypatch: pytest.MonkeyPatch, size: int, block: int, window: int, skipped: int
) -> None:
    blocks = STORLET.module.record_blocks
    monkeypatch.setattr(blocks, "BLOCK_BYTES", block)
    monkeypatch.setattr(blocks, "WINDOW_BYTES", window)
    # Several blocks and windows.
    count = max(3 * window, 3000) // size + 5
    kinds = [b"+" if number * number % 41 == 5 else b"-" for number in range(count)]
    kinds[skipped] = kinds[-1] = b"+"
    rows = [kind + b"%d" % number for number, kind in enumerate(kinds)]
    rows = [row.ljust(size, b".")[:size] for row in rows]
    descriptor = filled(b"".join(rows))
    os.lseek(descriptor, skipped * size, os.SEEK_SET)
    source, target = StorletInputFile({}, descriptor), Target()
    layout = "s1 kind" + (f", b{size - 1} rest" if size > 1 else "")
    values = STORLET.values({"struct": layout, "where": "kind = '+'"})
    STORLET.module.Records(None)([source], [target], values)
    assert bytes(target.data) == b"".join(row for row in rows[skipped:] if row[:1] == b"+")
    assert os.lseek(source.fileno(), 0, os.SEEK_CUR) == len(rows) * size
    source.close()


def test_a_file_that_becomes_shorter_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = STORLET.module.record_blocks
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(blocks, "WINDOW_BYTES", 4000)
    source = StorletInputFile({}, filled(lines(1000)))
    found = blocks.parts(source, 10, is_searched=True)
    parts = [next(found) for _ in range(4)]
    assert [(part.start, part.end) for part in parts] == [
        (at, at + 1000) for at in range(0, 4000, 1000)
    ]
    os.truncate(source.fileno(), 6000)
    with pytest.raises(ValueError, match="greater than file size"):
        next(found)
    source.close()


def test_search_of_a_file_that_ends_within_a_record() -> None:
    with pytest.raises(ValueError, match="the object has 2000003 bytes, which is no multiple"):
        STORLET.run(lines(200_000) + b"777", SEARCH)


FINITE = st.floats(-1e300, 1e300)


@given(
    rows=st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), TEXTS, FINITE), max_size=30),
    records_of_a_part=st.integers(1, 4),
)
def test_figures(rows: list[tuple[int, bytes, float]], records_of_a_part: int) -> None:
    blocks = STORLET.module.record_blocks
    data = b"".join(struct.pack("<q3sd", *row) for row in rows)
    names = ["count"] + [
        f"{kind}({field})"
        for kind in ("sum", "mean", "min", "max")
        for field in ("id", "value", "text")
        if field != "text" or kind in ("min", "max")
    ]
    given_names = {"struct": "i8 id, s3 text, f8 value", "aggregate": ", ".join(names)}
    usual, blocks.BLOCK_BYTES = blocks.BLOCK_BYTES, 19 * records_of_a_part
    try:
        found = json.loads(STORLET.run(data, given_names).output)
    finally:
        blocks.BLOCK_BYTES = usual
    expected: dict[str, Any] = {"count": len(rows)}
    for place, field in enumerate(("id", "text", "value")):
        values = [row[place] for row in rows]
        if field == "text":
            values = [row[1].rstrip(b"\0").decode() for row in rows]
        else:
            expected[f"sum({field})"] = sum(values) if field == "id" else math.fsum(values)
            expected[f"mean({field})"] = (
                float(statistics.mean(map(Fraction, values))) if values else None
            )
        expected[f"min({field})"] = min(values, default=None)
        expected[f"max({field})"] = max(values, default=None)
    assert found == expected
    assert list(found) == names


def test_figures_of_the_selected_records() -> None:
    data = struct.pack("<i4s", 1, b"ab\0\0") + struct.pack("<i4s", 5, b"cd\0e")
    text = "COUNT, min(raw)"
    with pytest.raises(ValueError, match="'COUNT': want count, or one of sum"):
        STORLET.run(data, {"struct": "i4 id, b4 raw", "aggregate": text})
    ran = STORLET.run(
        data, {"struct": "i4 id, b4 raw", "aggregate": "count, max(raw)", "where": "id = 1"}
    )
    assert json.loads(ran.output) == {"count": 1, "max(raw)": "61620000"}
    assert ran.metadata["Content-Type"] == "application/json"
    with pytest.raises(ValueError, match="text: a text is not UTF-8: a field bN has bytes"):
        STORLET.run(b"\xffa", {"struct": "s2 text", "aggregate": "count, max(text)"})


def test_figures_of_numbers_that_are_not_finite() -> None:
    data = struct.pack("<3d", 1, math.nan, math.inf)
    given_names = {"struct": "f8 value", "aggregate": "max(value), count"}
    with pytest.raises(ValueError, match="value: a selected record has no finite number"):
        STORLET.run(data, given_names)
    where = "value < 1e308 and value > -1e308"
    found = STORLET.run(data, given_names | {"where": where}).output
    assert json.loads(found) == {"max(value)": 1.0, "count": 1}
    with pytest.raises(ValueError, match="the sum is too large"):
        STORLET.run(struct.pack("<2d", 1e308, 1e308), given_names | {"aggregate": "sum(value)"})


def test_every_fault_of_figures_is_named() -> None:
    wrong = "avg(id), sum(text), min(other), count, count(id), count, max"
    with pytest.raises(ValueError, match="aggregate: ") as raised:
        STORLET.run(b"", {"struct": "i4 id, s4 text", "aggregate": wrong})
    for fault in (
        "'avg(id)': want count", "sum(text): is for numbers only", "min(other): there is no such",
        "'count(id)': want", "count: is there twice", "'max': want",
    ):  # fmt: skip
        assert fault in str(raised.value)
    with pytest.raises(ValueError, match="fields and aggregate exclude each other"):
        STORLET.run(b"", {"struct": "i4 id", "aggregate": "count", "fields": "id"})
    many = ", ".join(f"min(f{number})" for number in range(65))
    layout = ", ".join(f"u1 f{number}" for number in range(65))
    with pytest.raises(ValueError, match="65 figures: want at most 64"):
        STORLET.run(b"", {"struct": layout, "aggregate": many})
