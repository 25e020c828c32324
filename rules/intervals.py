"""Sets of integers as intervals: minutes of the week, sizes, addresses of networks.

Tenants write these sets, and a list can be as long as a rules object, so each function runs in
linear time, after sorting.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

#: Sorted and disjoint, not adjacent; both ends inclusive.
Intervals: TypeAlias = tuple[tuple[int, int], ...]


def merged(pairs: Iterable[tuple[int, int]]) -> Intervals:
    """The same numbers as sorted, disjoint intervals."""
    joined: list[tuple[int, int]] = []
    for low, high in sorted(pairs):
        if joined and low <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], high))
        else:
            joined.append((low, high))
    return tuple(joined)


def cut(intervals: Intervals, out: Intervals) -> Intervals:
    """The difference: numbers in ``intervals`` that are not in ``out``."""
    left = []
    at = 0
    for first, last in intervals:
        while at < len(out) and out[at][1] < first:
            at += 1
        start, look = first, at
        while look < len(out) and out[look][0] <= last:
            low, high = out[look]
            left += [(start, low - 1)] if start < low else []
            start = high + 1
            look += 1
        left += [(start, last)] if start <= last else []
        at = max(at, look - 1)  # the last one can overlap the next interval
    return tuple(left)
