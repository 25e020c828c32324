"""Glob patterns.

``*`` matches any characters (also ``/``, also none), ``?`` one character, ``[abc]`` one of these,
``[!a-z]`` one that is none of these.  Every other character matches itself; ``[*]`` is a literal
star, ``[[]`` a literal bracket.  A glob must match the whole name.

Tenants write globs, and a proxy that all tenants share matches them, so matching must not be slow.
A regular expression backtracks exponentially: for ``*a*a*a*a*b`` it tries every distribution of the
name over the stars.  :func:`matcher` splits the glob at its stars instead and finds the first
occurrence of each segment in turn.  No backtracking is needed: an earlier occurrence leaves more
text for the segments that follow.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

#: The maximum length; Swift's names are not longer either.
MAX_CHARACTERS: Final = 1024


class GlobError(ValueError):
    """The text is not a valid glob; the message states the reason."""


class Wild(Enum):
    """Pieces that match any character."""

    ANY = "?"
    MANY = "*"


#: Any single character.
ANY: Final = Wild.ANY
#: Any number of any characters; never adjacent in the result of :func:`parse`.
MANY: Final = Wild.MANY


@dataclass(frozen=True)
class OneOf:
    """One character in ``ranges`` (first and last, inclusive), or with ``is_negated`` in none."""

    ranges: frozenset[tuple[str, str]]
    is_negated: bool = False

    def __contains__(self, character: str) -> bool:
        return any(first <= character <= last for first, last in self.ranges) != self.is_negated


#: A ``str`` is one literal character.
Piece: TypeAlias = str | Wild | OneOf


def parse(glob: str) -> tuple[Piece, ...]:
    """The pieces of ``glob``; raises :class:`GlobError` if it is invalid."""
    if len(glob) > MAX_CHARACTERS:
        raise GlobError(f"a glob has at most {MAX_CHARACTERS} characters")
    pieces: list[Piece] = []
    position = 0
    while position < len(glob):
        if glob[position] == "[":
            end = _end_of_set(glob, position)
            pieces.append(_one_of(glob[position + 1 : end]))
            position = end
        elif glob[position] == "?":
            pieces.append(ANY)
        elif glob[position] == "*":
            pieces += [] if pieces[-1:] == [MANY] else [MANY]
        else:
            pieces.append(glob[position])
        position += 1
    return tuple(pieces)


def _end_of_set(glob: str, start: int) -> int:
    end = glob.find("]", start)
    if end < 0:
        raise GlobError("unmatched '['; write [[] for a literal bracket")
    return end


def _one_of(inside: str) -> OneOf:
    is_negated = inside.startswith("!")
    characters = inside[1:] if is_negated else inside
    if not characters:
        raise GlobError("empty []; write ] without brackets for a literal bracket")
    ranges = set()
    position = 0
    while position < len(characters):
        first = last = characters[position]
        if characters[position + 1 : position + 2] == "-" and position + 2 < len(characters):
            last = characters[position + 2]
            position += 2
        if last < first:
            raise GlobError(f"the range {first}-{last} is reversed")
        ranges.add((first, last))
        position += 1
    return OneOf(frozenset(ranges), is_negated)


def matcher(glob: str) -> Callable[[str], bool]:
    """A predicate for whole names; raises :class:`GlobError` if ``glob`` is invalid."""
    segments = _segments(parse(glob))
    if all(isinstance(piece, str) for segment in segments for piece in segment):
        return _literal_matcher(["".join(map(str, segment)) for segment in segments])
    return _matcher([_Segment.of(segment) for segment in segments])


def ends(glob: str) -> tuple[str, str]:
    """The plain prefix and the plain suffix that all matching names share."""
    pieces = parse(glob)
    return "".join(_literals(pieces)), "".join(_literals(pieces[::-1]))[::-1]


def _literals(pieces: Sequence[Piece]) -> Iterator[str]:
    for piece in pieces:
        if not isinstance(piece, str):
            return
        yield piece


#: The number of plain characters that cost as much as one ``?`` in the worst case.
PLAIN_IN_ONE: Final = 6
#: The number of ``?`` that cost as much as one ``[...]``.
SET_COST: Final = 4


def cost(glob: str) -> int:
    """The maximum number of comparisons at each position of a name, weighted by their cost.

    Only segments between stars count; the first and the last segment have a fixed position.
    """
    return sum(map(_cost_of_floating, _segments(parse(glob))[1:-1]))


def _cost_of_floating(segment: Sequence[Piece]) -> int:
    """``str.find`` is fast except for inputs such as ``aaabaaa`` in ``aaaaaaaa`` (quadratic)."""
    is_plain = all(isinstance(piece, str) for piece in segment)
    if is_plain:
        return -(-len(segment) // PLAIN_IN_ONE)
    return sum(SET_COST if isinstance(piece, OneOf) else 1 for piece in segment)


def _segments(pieces: Sequence[Piece]) -> list[list[Piece]]:
    """The pieces between stars; the first segment starts a name, the last one ends it."""
    segments: list[list[Piece]] = [[]]
    for piece in pieces:
        if piece is MANY:
            segments.append([])
        else:
            segments[-1].append(piece)
    return segments


def _literal_matcher(segments: list[str]) -> Callable[[str], bool]:
    """Common globs, such as ``*.csv``, ``logs/*`` and ``*/raw/*``, without a regular expression."""
    first, *middle, last = segments if len(segments) > 1 else [segments[0], ""]
    if len(segments) == 1:
        return first.__eq__
    least = len(first) + len(last)

    def matches(name: str) -> bool:
        if len(name) < least or not (name.startswith(first) and name.endswith(last)):
            return False
        position, end = len(first), len(name) - len(last)
        for text in middle:
            position = name.find(text, position, end)
            if position < 0:
                return False
            position += len(text)
        return True

    return matches


@dataclass(frozen=True)
class _Segment:
    """Pieces without a star: they match exactly ``length`` characters."""

    pattern: re.Pattern[str]
    length: int

    @classmethod
    def of(cls, pieces: Sequence[Piece]) -> _Segment:
        return cls(re.compile("".join(map(_as_pattern, pieces)), re.DOTALL), len(pieces))


def _matcher(segments: list[_Segment]) -> Callable[[str], bool]:
    first, last, middle = segments[0], segments[-1], segments[1:-1]
    if len(segments) == 1:
        return lambda name: first.pattern.fullmatch(name) is not None
    least = first.length + last.length

    def matches(name: str) -> bool:
        end = len(name) - last.length
        if len(name) < least or not first.pattern.match(name) or not last.pattern.match(name, end):
            return False
        position = first.length
        for segment in middle:
            found = segment.pattern.search(name, position, end)
            if not found:
                return False
            position = found.end()
        return True

    return matches


def _as_pattern(piece: Piece) -> str:
    if isinstance(piece, str):
        return re.escape(piece)
    if isinstance(piece, OneOf):
        ranges = "".join(
            f"{re.escape(first)}-{re.escape(last)}" for first, last in sorted(piece.ranges)
        )
        return f"[{'^' if piece.is_negated else ''}{ranges}]"
    return "."
