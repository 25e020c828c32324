"""Values of known kinds in free text, replaced by labels or tokens.

Matches that overlap are replaced as one, so no character of any match stays.  Such a replacement
has the name of the longest match.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence

from text_kinds import Kind

#: Kind, text that was found -> the text in its place.
Replaced = Callable[[str, str], str]


class Finder:
    """Replaces the values of some kinds in texts, and counts them.

    :ivar counts: number of the values that were replaced, of each kind.
    """

    def __init__(self, kinds: Sequence[Kind], replaced: Replaced) -> None:
        self._kinds = kinds
        self._replaced = replaced
        self.counts = {kind.name: 0 for kind in kinds}

    def changed(self, text: str) -> str:
        pieces, place = [], 0
        for start, end, name in found(text, self._kinds):
            self.counts[name] += 1
            pieces += text[place:start], self._replaced(name, text[start:end])
            place = end
        return "".join(pieces) + text[place:]


def found(text: str, kinds: Sequence[Kind]) -> Iterator[tuple[int, int, str]]:
    """Start, end and kind of each run of matches that overlap."""
    start = end = longest = 0
    name = ""
    matches = heapq.merge(*(ordered(text, order, kind) for order, kind in enumerate(kinds)))
    for begin, order, finish in matches:
        if begin >= end:
            if name:
                yield start, end, name
            start = end = begin
            longest = 0
        end = max(end, finish)
        if finish - begin > longest:
            longest, name = finish - begin, kinds[order].name
    if name:
        yield start, end, name


def ordered(text: str, order: int, kind: Kind) -> Iterator[tuple[int, int, int]]:
    for start, end in kind.spans(text):
        yield start, order, end
