"""Intervals against the sets of numbers that they stand for."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from rules.intervals import Intervals, cut, merged

PAIRS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 6)).map(lambda pair: (pair[0], sum(pair))),
    max_size=8,
)


def numbers(intervals: Intervals) -> set[int]:
    return {number for first, last in intervals for number in range(first, last + 1)}


@given(PAIRS)
def test_merged_intervals_are_in_order_and_apart(pairs: list[tuple[int, int]]) -> None:
    intervals = merged(pairs)
    assert numbers(intervals) == numbers(tuple(pairs))
    assert all(one[1] + 1 < other[0] for one, other in itertools.pairwise(intervals))


@given(PAIRS, PAIRS)
def test_a_difference_removes_exactly_its_intervals(
    pairs: list[tuple[int, int]], out: list[tuple[int, int]]
) -> None:
    left = cut(merged(pairs), merged(out))
    assert numbers(left) == numbers(tuple(pairs)) - numbers(tuple(out))
    assert left == merged(left)


def test_long_lists_are_cut_in_one_go() -> None:
    """Gone through once for each interval, this would take minutes."""
    even = tuple((number, number) for number in range(0, 200_000, 2))
    left = cut(((0, 199_999),), even)
    assert len(left) == 100_000
    assert cut(left, even) == left
    assert cut(even, ((0, 199_999),)) == ()
