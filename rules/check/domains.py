"""Values of a single fact that satisfy several tests: one exact method for each kind of fact.

A :class:`Literal` is a test or its negation.  All literals of one fact (and one key) are solved
together, independently of other facts, into a :class:`Solution`: whether the value can be missing,
and a possible value.

========  ======================================================================================
kind      method
========  ======================================================================================
strings   intersection of regular languages (:mod:`rules.check.automata`)
number    intervals subtracted from the integers from 0
network   the same for addresses, IPv4 before IPv6
time      the same for the minutes of a week
set       forbidden members removed from each required set; the result is never empty, because
          an empty set is missing
bool      a value that is present (true) or missing (false)
========  ======================================================================================

The possible values are those of :mod:`rules.conditions` and :mod:`rules.facts`. Names are not
empty, a container name has no slash, a content type is in lower case and without parameters.
Methods are those of the table, and a request always has a time.
"""

from __future__ import annotations

import ipaddress
import itertools
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any as Anything
from typing import Final, TypeAlias, cast

from rules import glob
from rules.check import automata
from rules.check.automata import EVERY, MANY, Language, Universe
from rules.check.budget import Budget
from rules.conditions import TABLE, WEEK, Kind
from rules.evaluation import comparison, holds_of_missing, value_of
from rules.facts import Facts
from rules.intervals import Intervals, cut, merged
from rules.model import Operator, Test

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
#: A fact and, for a map, its key.
Dimension: TypeAlias = tuple[str, str | None]


@dataclass(frozen=True)
class Literal:
    """``test``, or with ``is_negated`` its negation."""

    test: Test
    is_negated: bool = False

    @property
    def dimension(self) -> Dimension:
        return self.test.fact, self.test.key

    @cached_property
    def _passes(self) -> Callable[[Anything], bool]:
        return comparison(self.test)

    def holds(self, facts: Facts) -> bool:
        """Evaluate the literal; the fact must not be unknown."""
        value = value_of(self.test, facts)
        passes = holds_of_missing(self.test) if value is None else self._passes(value)
        return passes is not self.is_negated

    @cached_property
    def language(self) -> Language:
        """The strings that satisfy the literal of a string fact; cached."""
        found = language(self.test)
        return found.complement() if self.is_negated else found


@dataclass(frozen=True)
class Solution:
    """The values that satisfy all literals of a dimension.

    :param may_be_missing: a missing value satisfies them; for a bool, false does.
    :param value: a value that satisfies them, or ``None`` if none exists.
    """

    may_be_missing: bool
    value: Anything = None

    @property
    def is_empty(self) -> bool:
        return not self.may_be_missing and self.value is None


def solve(dimension: Dimension, literals: Iterable[Literal], budget: Budget) -> Solution:
    """Solve ``literals``, which are all about ``dimension``."""
    fact = TABLE[dimension[0]]
    may_be_missing, may_be_present = fact.is_optional or fact.kind is Kind.BOOL, True
    if fact.name == "time":
        may_be_missing = False  # Facts can lack it, but a request always has a time
    compared = []
    for literal in literals:
        if literal.test.operator in {Operator.PRESENT, Operator.IS}:
            wants_value = literal.test.operand is not literal.is_negated
            may_be_missing = may_be_missing and not wants_value
            may_be_present = may_be_present and wants_value
        else:
            may_be_missing = may_be_missing and literal.is_negated
            compared.append(literal)
    budget.spend()
    value = _SOLVERS[fact.kind](fact.name, compared, budget) if may_be_present else None
    return Solution(may_be_missing, value)


# --- strings --------------------------------------------------------------------------------------

_UNIVERSES: Final[Mapping[str, Universe]] = {
    name: Universe(
        without=fact.without + (string.ascii_uppercase if fact.ignores_case else ""),
        is_never_empty=not fact.may_be_empty,
    )
    for name, fact in TABLE.items()
}
_SPACE: Final = automata.ranges((each, each) for each in " \t\n\r\v\f\x1c\x1d\x1e\x1f\x85\xa0")
#: Impossible values of a fact, beyond its universe: a content type is stripped of whitespace.
_RULED_OUT: Final[Mapping[str, tuple[Language, ...]]] = {
    "content-type": tuple(
        automata.pattern(each).complement() for each in ([_SPACE, MANY], [MANY, _SPACE])
    ),
}
#: Values to try first, because they make readable examples.
_FRIENDLY: Final[Mapping[str, str]] = {
    "container": "container",
    "object": "object",
    "content-type": "text/plain",
    "policy": "policy",
    "user": "someone",
    "project": "project",
    "domain": "domain",
}


def language(test: Test) -> Language:
    """The strings that pass ``test``, a test of a string."""
    operand: Anything = test.operand
    match test.operator:
        case Operator.EXACT:
            return automata.words([operand])
        case Operator.ONE_OF:
            return automata.words(operand)
        case Operator.PREFIX:
            return automata.prefix(operand)
        case Operator.SUFFIX:
            return automata.suffix(operand)
        case Operator.GLOB:
            return automata.pattern(map(_piece, glob.parse(operand)))
    raise ValueError(f"{test.operator} does not compare strings")


def _piece(piece: glob.Piece) -> automata.Piece:
    if piece is glob.MANY:
        return MANY
    if isinstance(piece, glob.OneOf):
        return automata.ranges(piece.ranges, is_negated=piece.is_negated)
    return ((ord(piece), ord(piece)),) if isinstance(piece, str) else EVERY


def _string(fact: str, literals: Sequence[Literal], budget: Budget) -> str | None:
    wanted = [each.language for each in literals if not each.is_negated]
    ruled_out = [each.language for each in literals if each.is_negated]
    ruled_out += _RULED_OUT.get(fact, ())
    universe = _UNIVERSES[fact]
    if choices := TABLE[fact].choices:
        wanted.append(automata.words(choices))
        # In the order of the table: GET is the simplest example.
        return next(
            (each for each in choices if all(one.contains(each) for one in wanted + ruled_out)),
            None,
        )
    budget.spend(len(literals) // 4)
    for guess in _candidates(fact, wanted):
        if universe.contains(guess) and automata.all_contain(wanted + ruled_out, guess, budget):
            return guess
    return automata.shortest(wanted + ruled_out, universe, budget)


def _candidates(fact: str, wanted: Sequence[Language]) -> list[str]:
    """Strings that often pass; they avoid the exhaustive search."""
    if not wanted:
        return [_FRIENDLY.get(fact, "x")]
    if any(one.words is not None for one in wanted):
        return []  # shortest() tries these words anyway
    open_end = [one.sample for one in wanted if one.pattern[-1:] == (MANY,)]
    open_start = [one.sample for one in wanted if one.pattern[:1] == (MANY,)]
    both = max(open_end, key=len, default="") + max(open_start, key=len, default="")
    return [*(one.sample for one in wanted), both]


# --- numbers --------------------------------------------------------------------------------------

#: Larger than any operand; sizes are unbounded.
_HUGE: Final = 1 << 200


def _remaining(
    everything: Intervals,
    literals: Iterable[Literal],
    of: Callable[[Test], Intervals],
    budget: Budget,
) -> Intervals:
    left = everything
    for each in literals:
        passing = of(each.test)
        budget.spend((len(left) + len(passing)) // 8)
        left = cut(left, passing if each.is_negated else cut(everything, passing))
    return left


def _number_intervals(test: Test) -> Intervals:
    bound = cast("int", test.operand)
    if test.operator is Operator.AT_LEAST:
        return ((max(bound, 0), _HUGE),)
    return ((0, bound),) if bound >= 0 else ()


def _number(_fact: str, literals: Sequence[Literal], budget: Budget) -> int | None:
    left = _remaining(((0, _HUGE),), literals, _number_intervals, budget)
    return left[0][0] if left else None


# --- networks -------------------------------------------------------------------------------------

#: IPv4 addresses are numbered first, then IPv6 addresses; IPv4-mapped IPv6 is read as IPv4.
_SIX: Final = 1 << 32
_MAPPED: Final = _SIX + int(ipaddress.IPv6Address("::ffff:0:0"))
_ADDRESSES: Final = cut(((0, _SIX + (1 << 128) - 1),), ((_MAPPED, _MAPPED + _SIX - 1),))
#: Reserved for documentation.
_FRIENDLY_ADDRESSES: Final = ("192.0.2.1", "2001:db8::1")


def _address_number(text: str) -> int:
    found = ipaddress.ip_address(text)
    return int(found) + (_SIX if found.version == 6 else 0)


def _network_intervals(test: Test) -> Intervals:
    numbered = []
    for network in cast("tuple[Network, ...]", test.operand):
        base = _SIX if network.version == 6 else 0
        numbered.append(
            (base + int(network.network_address), base + int(network.broadcast_address))
        )
    return merged(numbered)


def _network(_fact: str, literals: Sequence[Literal], budget: Budget) -> str | None:
    budget.spend(sum(len(cast("tuple[Network, ...]", each.test.operand)) for each in literals))
    left = _remaining(_ADDRESSES, literals, _network_intervals, budget)
    for friendly in _FRIENDLY_ADDRESSES:
        if any(low <= _address_number(friendly) <= high for low, high in left):
            return friendly
    if not left:
        return None
    first = min(left[0][0] + 1, left[0][1])  # the first address of a network is rarely assigned
    return str(
        ipaddress.IPv4Address(first) if first < _SIX else ipaddress.IPv6Address(first - _SIX)
    )


# --- times, sets, bools ---------------------------------------------------------------------------


def _time(_fact: str, literals: Sequence[Literal], budget: Budget) -> int | None:
    windows = cast("Callable[[Test], Intervals]", lambda test: test.operand)
    left = _remaining(((0, WEEK - 1),), literals, windows, budget)
    return left[0][0] if left else None


def _set(_fact: str, literals: Sequence[Literal], budget: Budget) -> frozenset[str] | None:
    """A small set, chosen greedily: the smallest one (a minimum hitting set) is NP-hard."""
    budget.spend(sum(len(cast("frozenset[str]", each.test.operand)) for each in literals) // 8)
    wanted = [cast("frozenset[str]", each.test.operand) for each in literals if not each.is_negated]
    forbidden = frozenset[str]().union(
        *(cast("frozenset[str]", each.test.operand) for each in literals if each.is_negated)
    )
    chosen: set[str] = set()
    for one_of in sorted(
        (each - forbidden for each in wanted), key=lambda each: (len(each), sorted(each))
    ):
        if not one_of:
            return None
        if chosen.isdisjoint(one_of):
            chosen.add(min(one_of))
    return frozenset(chosen) or frozenset({_member_outside(forbidden)})


def _member_outside(forbidden: frozenset[str]) -> str:
    names = itertools.chain(("member",), (f"member-{number}" for number in itertools.count(2)))
    return next(name for name in names if name not in forbidden)


def _bool(_fact: str, _literals: Sequence[Literal], _budget: Budget) -> bool:
    return True


_SOLVERS: Final[Mapping[Kind, Callable[[str, Sequence[Literal], Budget], Anything]]] = {
    Kind.STRING: _string,
    Kind.STRINGS: _string,
    Kind.NUMBER: _number,
    Kind.SET: _set,
    Kind.NETWORK: _network,
    Kind.TIME: _time,
    Kind.BOOL: _bool,
}
