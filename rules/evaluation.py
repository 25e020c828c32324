"""Evaluation of conditions: tests of values, and three-valued logic.

A test is true, false or ``None``: unknown, because a fact has not been looked up
yet (:data:`rules.facts.UNKNOWN`).  ``all``, ``any`` and ``not`` follow Kleene's three-valued logic:
they are decided as soon as no value of an unknown part can change the result (``all`` by one false
part, ``any`` by one true part).

Every test of a missing value is false, except ``present: false``; :mod:`rules.rewriting` describes
the consequences below ``not``.
"""

from __future__ import annotations

import ipaddress
from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import Any as Anything
from typing import Final

from rules import glob
from rules.conditions import TABLE, Address, Group, Kind, Value
from rules.facts import UNKNOWN, Facts, Unknown
from rules.intervals import Intervals, merged
from rules.model import Any, Condition, Not, Operator, Test

# --- comparison -----------------------------------------------------------------------------------

_COMPARISONS: Final[Mapping[Operator, Callable[[Anything], Callable[[Anything], bool]]]] = {
    Operator.EXACT: lambda operand: operand.__eq__,
    Operator.GLOB: glob.matcher,
    Operator.PREFIX: lambda operand: lambda value: value.startswith(operand),
    Operator.SUFFIX: lambda operand: lambda value: value.endswith(operand),
    Operator.ONE_OF: lambda operand: operand.__contains__,
    Operator.HAS: lambda operand: lambda value: not operand.isdisjoint(value),
    Operator.AT_LEAST: lambda operand: operand.__le__,
    Operator.AT_MOST: lambda operand: operand.__ge__,
    Operator.IS: lambda operand: lambda value: value is operand,
    Operator.PRESENT: lambda operand: lambda _: operand is True,
}


def comparison(test: Test) -> Callable[[Anything], bool]:
    """The predicate that ``test`` applies to a value that is not missing."""
    operand: Anything = test.operand
    if test.operator is Operator.WITHIN:
        return (
            _within_networks(operand) if TABLE[test.fact].kind is Kind.NETWORK else _within(operand)
        )
    return _COMPARISONS[test.operator](operand)


def holds_of_missing(test: Test) -> bool:
    """The result of ``test`` for a missing value."""
    return test.operator is Operator.PRESENT and test.operand is False


def _within_networks(
    networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...],
) -> Callable[[Address], bool]:
    """Compares integers: ``ipaddress`` takes a microsecond for each network."""
    is_within = {
        version: _within(
            merged(
                (int(net.network_address), int(net.broadcast_address))
                for net in networks
                if net.version == version
            )
        )
        for version in (4, 6)
    }
    return lambda value: is_within[value.version](int(value))


def _within(intervals: Intervals) -> Callable[[int], bool]:
    """Binary search: a list of networks can be as long as a rules object."""
    firsts = [first for first, _ in intervals]

    def is_within(number: int) -> bool:
        at = bisect_right(firsts, number) - 1
        return at >= 0 and number <= intervals[at][1]

    return is_within


def value_of(test: Test, facts: Facts) -> Value | Unknown:
    """The value that ``test`` compares."""
    return TABLE[test.fact].read(facts, test.key or "")


# --- evaluation of a model ------------------------------------------------------------------------


def holds(condition: Condition, facts: Facts) -> bool | None:
    """Whether ``condition`` holds; ``None`` if that depends on unknown facts.

    The engine computes the same results from a compiled form.
    """
    return evaluate(condition, lambda test: holds_test(test, facts))


def holds_test(test: Test, facts: Facts) -> bool | None:
    """:func:`holds` for a single test."""
    value = value_of(test, facts)
    if value is UNKNOWN:
        return None
    if value is None:
        return holds_of_missing(test)
    return comparison(test)(value)


def evaluate(condition: Condition, answer: Callable[[Test], bool | None]) -> bool | None:
    """The value of ``condition``, given the value of each test."""
    if isinstance(condition, Test):
        return answer(condition)
    if isinstance(condition, Not):
        value = evaluate(condition.part, answer)
        return None if value is None else not value
    values = [evaluate(part, answer) for part in condition.parts]
    decisive = isinstance(condition, Any)
    if decisive in values:
        return decisive
    return None if None in values else not decisive


def tests_of(condition: Condition) -> tuple[Test, ...]:
    """All tests of ``condition``, in order."""
    if isinstance(condition, Test):
        return (condition,)
    if isinstance(condition, Not):
        return tests_of(condition.part)
    return tuple(test for part in condition.parts for test in tests_of(part))


def groups_of(condition: Condition) -> frozenset[Group]:
    """The groups of all facts in ``condition``."""
    return frozenset(TABLE[test.fact].group for test in tests_of(condition))
