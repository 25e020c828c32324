"""Needles: bytes that each selected line of a CSV has.

A condition that wants a text in a column selects only lines with the bytes of that text.  A search
for them is several times as fast as the engine's reader, which then gets the lines with one of them
(``line_sieve``).  Needles say nothing about a line that has them: the engine decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

#: Each line that a condition selects has one of these; empty: nothing is known.
Needles = frozenset[bytes]
UNKNOWN: Needles = frozenset()
#: Each needle is a search of its own through the object.
MOST_NEEDLES = 8
_WILDCARDS = re.compile("[%_]")


def of_all(found: Iterable[Needles]) -> Needles:
    """The best needles of conditions which all hold: the longest, then the fewest."""
    known = filter(None, found)
    return max(known, key=lambda each: (min(map(len, each)), -len(each)), default=UNKNOWN)


def of_any(found: Iterable[Needles]) -> Needles:
    """The needles of conditions of which one holds."""
    each = list(found)
    joined = UNKNOWN.union(*each)
    return joined if all(each) and len(joined) <= MOST_NEEDLES else UNKNOWN


def of_text(text: str, quote: str) -> Needles:
    """The needle of a value that contains ``text``.

    A quote is doubled within quotes, and a line end may differ, so the needle has neither.
    """
    pieces = re.split(f"[{re.escape(quote)}\r\n]", text)
    longest = max((piece.encode() for piece in pieces), key=len)
    return frozenset([longest]) if longest else UNKNOWN


def of_pattern(pattern: str, quote: str) -> Needles:
    """The needle of a value that fits a pattern of ``LIKE`` without an escape character."""
    return of_all(of_text(piece, quote) for piece in _WILDCARDS.split(pattern))
