"""Byte ranges as HTTP writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from swift.common.swob import Range

from storlet_middleware.wsgi.byte_ranges import ByteRange, parse_ranges, resolve_range

NUMBERS = st.integers(0, 12)
RANGES = st.one_of(
    st.tuples(NUMBERS, NUMBERS).map(lambda pair: (min(pair), max(pair))),
    st.tuples(NUMBERS, st.none()),
    st.tuples(st.none(), NUMBERS),
)


def written(wanted: ByteRange) -> str:
    first, last = wanted
    return f"{'' if first is None else first}-{'' if last is None else last}"


@given(st.lists(RANGES, min_size=1, max_size=4), st.sampled_from(["", " "]))
def test_ranges_survive_their_written_form(ranges: list[ByteRange], space: str) -> None:
    value = "bytes=" + ",".join(space + written(each) + space for each in ranges)
    assert parse_ranges(value) == tuple(ranges)


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ("", "want bytes="),
        ("0-1", "want bytes="),
        ("bytes", "want bytes="),
        ("lines=0-1", "want bytes="),
        ("bytes=", "'' is not a range"),
        ("bytes=-", "'-' is not a range"),
        ("bytes=5", "'5' is not a range"),
        ("bytes=0-1,", "'' is not a range"),
        ("bytes=0-1-2", "'0-1-2' is not a range"),
        ("bytes=a-b", "'a-b' is not a range"),
        ("bytes=+1-2", r"'\+1-2' is not a range"),
        ("bytes=" + "9" * 19 + "-", "is not a range"),
        ("bytes=0-1, 3-2", "'3-2' ends before it begins"),
    ],
)
def test_malformed_ranges_are_refused_with_the_faulty_part(value: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        parse_ranges(value)


@given(wanted=RANGES, size=st.integers(0, 10))
def test_a_range_selects_the_same_bytes_as_in_swift(wanted: ByteRange, size: int) -> None:
    # In Swift the end of a range is the byte after its last one, and an empty object has an empty
    # range.
    ranges = Range(f"bytes={written(wanted)}").ranges_for_length(size)
    swifts = [(first, end - 1) for first, end in ranges if end > first]
    found = resolve_range(wanted, size)
    assert ([] if found is None else [found]) == swifts
    assert found is None or 0 <= found[0] <= found[1] < size
