"""Needles: bytes that each selected line of a CSV has.

A condition that requires a text in a column selects only lines with its bytes.  A search
for them is several times as fast as the engine's reader, which then gets the lines with one of them
(``line_sieve``).  Needles say nothing about a line that has them: the engine decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple


class Needle(NamedTuple):
    """Bytes of a value; ``is_start``: its first ones, in another column than the first."""

    content: bytes
    is_start: bool = False


#: Each line that a condition selects has one of these; empty: nothing is known.
Needles = frozenset[Needle]
UNKNOWN: Needles = frozenset()
#: Each needle is a search of its own through the object.
MOST_NEEDLES = 8
_WILDCARDS = re.compile("[%_]")


def of_all(found: Iterable[Needles]) -> Needles:
    """The best needles of conditions which all hold: the longest, then the fewest."""
    known = filter(None, found)
    return max(known, key=_worth, default=UNKNOWN)


def _worth(needles: Needles) -> tuple[int, int]:
    shortest = min(len(needle.content) + needle.is_start for needle in needles)
    return shortest, -len(needles)


def of_any(found: Iterable[Needles]) -> Needles:
    """The needles of conditions of which one holds."""
    each = list(found)
    joined = UNKNOWN.union(*each)
    return joined if all(each) and len(joined) <= MOST_NEEDLES else UNKNOWN


def of_text(text: str, quote: str, *, is_start: bool = False) -> Needles:
    """The needle of a value that contains ``text``, or starts with it.

    A quote is doubled within quotes, and a line end may differ, so the needle has neither.
    """
    first, *others = (piece.encode() for piece in re.split(f"[{re.escape(quote)}\r\n]", text))
    found = [Needle(first, is_start), *map(Needle, others)]
    return of_all(frozenset([needle]) for needle in found if needle.content)


def of_pattern(pattern: str, quote: str, *, is_start: bool = False) -> Needles:
    """The needle of a value that fits a pattern of ``LIKE`` without an escape character.

    :param is_start: whether a needle of the first characters may be one of the start.
    """
    first, *others = _WILDCARDS.split(pattern)
    return of_all(
        [of_text(first, quote, is_start=is_start), *(of_text(each, quote) for each in others)]
    )
