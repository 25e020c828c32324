"""Regular languages: the shortest string that satisfies several tests of a string.

A test of a string (exact, one-of, glob, prefix, suffix) is a :class:`Language`; so is its
complement.  :func:`shortest` intersects any number of them by a breadth-first search of the product
automaton, which is constructed lazily:

* a pattern is a non-deterministic automaton; its set of states is a bit mask, advanced by shifts;
* excluded words form a single trie;
* characters that no pattern distinguishes form one equivalence class, represented by its most
  readable member.

The module is independent of rules and facts.  It is exact: ``None`` means that no string exists.
"""

from __future__ import annotations

import string
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypeAlias

from rules.check.budget import Budget

#: Code points, as sorted and disjoint (first, last), both inclusive.
Ranges: TypeAlias = tuple[tuple[int, int], ...]

LAST_CODE_POINT: Final = 0x10FFFF
EVERY: Final[Ranges] = ((0, LAST_CODE_POINT),)
#: A piece of a pattern: any number of any characters.
MANY: Final = None
Piece: TypeAlias = Ranges | None

#: Surrogates are not characters, and no request can contain NUL.
_NEVER: Final[Ranges] = ((0, 0), (0xD800, 0xDFFF))
_READABLE: Final = (
    string.ascii_lowercase
    + string.digits
    + string.ascii_uppercase
    + "-_.,:=+@!#%&*?/'\"()[]{}<>|;~^`$\\ "
)


def ranges(characters: Iterable[tuple[str, str]], *, is_negated: bool = False) -> Ranges:
    """Merge (first, last) pairs of characters, in any order."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted((ord(first), ord(last)) for first, last in characters):
        if low > high:
            continue
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return _complement(tuple(merged)) if is_negated else tuple(merged)


def _complement(inside: Ranges) -> Ranges:
    outside = []
    start = 0
    for low, high in inside:
        if start < low:
            outside.append((start, low - 1))
        start = high + 1
    if start <= LAST_CODE_POINT:
        outside.append((start, LAST_CODE_POINT))
    return tuple(outside)


def _contains(inside: Ranges, point: int) -> bool:
    at = bisect_right(inside, (point, LAST_CODE_POINT + 1)) - 1
    return at >= 0 and point <= inside[at][1]


@dataclass(frozen=True)
class Universe:
    """The set of possible strings.

    :param without: characters that never occur.
    :param is_never_empty: the empty string does not occur.
    """

    without: str = ""
    is_never_empty: bool = False

    @cached_property
    def excluded(self) -> Ranges:
        return ranges(
            [(chr(low), chr(high)) for low, high in _NEVER]
            + [(each, each) for each in self.without]
        )

    def contains(self, text: str) -> bool:
        return bool(text or not self.is_never_empty) and not any(
            _contains(self.excluded, ord(each)) for each in text
        )


@dataclass(frozen=True)
class Language:
    """The strings that pass one test: a pattern or a set of words, or the complement of either."""

    pattern: tuple[Piece, ...] = ()
    words: frozenset[str] | None = None
    is_complement: bool = False

    def complement(self) -> Language:
        return Language(self.pattern, self.words, not self.is_complement)

    def contains(self, text: str) -> bool:
        if self.words is not None:
            return (text in self.words) != self.is_complement
        state = self.machine.start
        for each in text:
            state = self.machine.step(state, ord(each))
            if not state:
                break
        return self.machine.is_final(state) != self.is_complement

    @cached_property
    def size(self) -> int:
        """The cost of a scan."""
        return len(self.pattern) + sum(map(len, self.words or ()))

    @cached_property
    def sample(self) -> str:
        """A member of the pattern (not of its complement), readable if possible."""
        if self.words is not None:
            return min(self.words, key=_simplicity, default="")
        return "".join(_representative(piece) for piece in self.pattern if piece)

    @cached_property
    def machine(self) -> _Machine:
        return _Machine(self.pattern)


def words(allowed: Iterable[str]) -> Language:
    return Language(words=frozenset(allowed))


def pattern(pieces: Iterable[Piece]) -> Language:
    """Collapses adjacent :data:`MANY`, as the automaton requires."""
    kept: list[Piece] = []
    for piece in pieces:
        if piece is not MANY or not kept or kept[-1] is not MANY:
            kept.append(piece)
    return Language(pattern=tuple(kept))


def prefix(start: str) -> Language:
    return pattern([*_literal(start), MANY])


def suffix(end: str) -> Language:
    return pattern([MANY, *_literal(end)])


def _literal(text: str) -> list[Piece]:
    return [((ord(each), ord(each)),) for each in text]


def shortest(languages: Sequence[Language], universe: Universe, budget: Budget) -> str | None:
    """The shortest string in the intersection, or ``None``; ties go to the most readable one."""
    allowed = [
        each.words for each in languages if each.words is not None and not each.is_complement
    ]
    if allowed:
        rest = [each for each in languages if each.words is None or each.is_complement]
        candidates = sorted(frozenset.intersection(*allowed), key=_simplicity)
        budget.spend(1 + len(candidates) // 4)
        return next(
            (
                each
                for each in candidates
                if universe.contains(each) and all_contain(rest, each, budget)
            ),
            None,
        )
    budget.spend(sum(each.size for each in languages) // 8)
    return _Product(languages, universe).shortest(budget)


def all_contain(languages: Sequence[Language], text: str, budget: Budget) -> bool:
    """Whether ``text`` is in all ``languages``; matching a pattern is linear in the text."""
    for each in languages:
        if each.words is None:
            budget.spend(1 + len(text) // 8)
        if not each.contains(text):
            return False
    return True


def _simplicity(text: str) -> tuple[int, str]:
    return len(text), text


class _Machine:
    """A pattern's automaton.

    A state is a set of positions in the pattern, as a bit mask; 0 rejects every continuation.
    """

    def __init__(self, pieces: tuple[Piece, ...]) -> None:
        self._pieces = pieces
        self._many = sum(1 << at for at, piece in enumerate(pieces) if piece is MANY)
        self._final = 1 << len(pieces)
        # Once a trailing MANY is reached everything is accepted: merge these states into one.
        self._sink = self._final >> 1 if pieces and pieces[-1] is MANY else 0
        self._matching: dict[int, int] = {}
        self.start = self._close(1)

    def step(self, state: int, point: int) -> int:
        matching = self._matching.get(point)
        if matching is None:
            matching = sum(
                1 << at
                for at, each in enumerate(self._pieces)
                if each is not MANY and _contains(each, point)
            )
            self._matching[point] = matching
        return self._close(((state & matching) << 1) | (state & self._many))

    def _close(self, state: int) -> int:
        closed = state | ((state & self._many) << 1)
        return self._sink | self._final if closed & self._sink else closed

    def is_final(self, state: int) -> bool:
        return bool(state & self._final)

    def is_sink(self, state: int) -> bool:
        """Whether every continuation is accepted."""
        return bool(state & self._sink)


@dataclass
class _Node:
    """A node of the trie of excluded words."""

    number: int
    is_word: bool = False
    children: dict[int, _Node] = field(default_factory=dict)


def _trie(ruled_out: Iterable[str]) -> tuple[_Node, set[int]]:
    root = _Node(0)
    count = 0
    points: set[int] = set()
    for word in ruled_out:
        node = root
        for each in map(ord, word):
            points.add(each)
            if each not in node.children:
                count += 1
                node.children[each] = _Node(count)
            node = node.children[each]
        node.is_word = True
    return root, points


@dataclass(frozen=True)
class _State:
    """A state of the product: states of wanted and unwanted patterns, and a node of the trie."""

    wanted: tuple[int, ...]
    unwanted: tuple[int, ...]
    node: _Node | None

    @property
    def key(self) -> tuple[tuple[int, ...], tuple[int, ...], int]:
        return self.wanted, self.unwanted, -1 if self.node is None else self.node.number


class _Product:
    """The intersection of patterns, complements of patterns and complements of words."""

    def __init__(self, languages: Sequence[Language], universe: Universe) -> None:
        patterns = [each for each in languages if each.words is None]
        ruled_out = frozenset[str]().union(
            *(each.words for each in languages if each.words is not None)
        )
        self._universe = universe
        self._wanted = [each.machine for each in patterns if not each.is_complement]
        self._unwanted = [each.machine for each in patterns if each.is_complement]
        self._root, points = _trie(ruled_out)
        self._alphabet = _alphabet(
            [piece for each in patterns for piece in each.pattern if piece], points, universe
        )

    def shortest(self, budget: Budget) -> str | None:
        start = _State(
            tuple(each.start for each in self._wanted),
            tuple(each.start for each in self._unwanted),
            self._root,
        )
        came_from: dict[object, tuple[object, int]] = {}
        # The start has a separate key: a non-empty string can lead back to its state.
        waiting: deque[tuple[object, _State]] = deque(
            [(None, start)] if self._is_alive(start) else []
        )
        while waiting:
            key, state = waiting.popleft()
            if self._accepts(state) and not (key is None and self._universe.is_never_empty):
                return _word(came_from, key)
            budget.spend(
                1 + len(self._alphabet) * (2 + len(self._wanted) + len(self._unwanted)) // 4
            )
            for point in self._alphabet:
                after = self._step(state, point)
                if after.key not in came_from and self._is_alive(after):
                    came_from[after.key] = (key, point)
                    waiting.append((after.key, after))
        return None

    def _step(self, state: _State, point: int) -> _State:
        return _State(
            tuple(
                [
                    machine.step(at, point)
                    for machine, at in zip(self._wanted, state.wanted, strict=True)
                ]
            ),
            tuple(
                [
                    machine.step(at, point)
                    for machine, at in zip(self._unwanted, state.unwanted, strict=True)
                ]
            ),
            None if state.node is None else state.node.children.get(point),
        )

    def _is_alive(self, state: _State) -> bool:
        is_caught = any(
            machine.is_sink(at) for machine, at in zip(self._unwanted, state.unwanted, strict=True)
        )
        return all(state.wanted) and not is_caught

    def _accepts(self, state: _State) -> bool:
        return (
            all(
                machine.is_final(at) for machine, at in zip(self._wanted, state.wanted, strict=True)
            )
            and not any(
                machine.is_final(at)
                for machine, at in zip(self._unwanted, state.unwanted, strict=True)
            )
            and not (state.node is not None and state.node.is_word)
        )


def _word(came_from: Mapping[object, tuple[object, int]], key: object) -> str:
    points = []
    while key is not None:
        key, point = came_from[key]
        points.append(point)
    return "".join(map(chr, reversed(points)))


def _alphabet(pieces: Iterable[Ranges], points: Iterable[int], universe: Universe) -> list[int]:
    """One character of each equivalence class of the pieces and points, most readable first."""
    cuts = {0}
    for piece in {*pieces, *(((each, each),) for each in points), universe.excluded}:
        for low, high in piece:
            cuts |= {low, high + 1}
    bounds = sorted(cuts - {LAST_CODE_POINT + 1})
    best: dict[int, int] = {}
    for rank, each in enumerate(_READABLE):  # the first of its class stays
        best.setdefault(bisect_right(bounds, ord(each)) - 1, rank)
    classes = [
        (best.get(at, len(_READABLE)), ord(_READABLE[best[at]]) if at in best else low)
        for at, low in enumerate(bounds)
        if not _contains(universe.excluded, low)
    ]
    return [point for _rank, point in sorted(classes)]


def _representative(piece: Ranges) -> str:
    readable = next((each for each in _READABLE if _contains(piece, ord(each))), None)
    return readable if readable is not None else chr(piece[0][0])
