"""An index of the rules that can match a request, by the values that their conditions require.

A rule that requires ``user: ada`` cannot match requests of other callers, so it is indexed under
that user name and evaluated only for it.  A rule can be indexed under any requirement (a part of
its ``all``) on facts of the request: a whole value, a prefix, a suffix, or a member of a set.  The
key shared by the fewest rules is used; a rule without a key is always evaluated.  The candidates
are a superset of the matching rules, and the whole condition of each is still evaluated.

Long lists of values are not indexed: evaluating them costs no more than a short list.  This bounds
the time to build an index, for any rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rules import glob
from rules.conditions import TABLE, Group, Kind, Value
from rules.facts import UNKNOWN, Unknown
from rules.model import All, Condition, Operator, Test

#: The maximum number of values in a key.
_MOST_WANTED: Final = 16


@dataclass(frozen=True)
class _Key:
    """A requirement of a rule on one fact.

    :param test: the test of the fact.
    :param cut: the part of the value that is compared: 0 for the whole value, ``n`` for the first
        and ``-n`` for the last n characters.
    :param wanted: the part must be one of these; a set must contain one of these.
    """

    test: Test
    cut: int
    wanted: frozenset[str]

    @property
    def place(self) -> tuple[str, str | None, int]:
        """The key of its table."""
        return self.test.fact, self.test.key, self.cut


#: Reader of the fact, part of its value, whether it is a set, rules by wanted value, all rules.
_Table = tuple[int, int, bool, dict[str, list[int]], list[int]]


class Index:
    """An index of rules, which are represented by their numbers.

    :param slot_of: returns the number of the reader for the value that a test compares.
    """

    def __init__(self, conditions: Sequence[Condition], slot_of: Callable[[Test], int]) -> None:
        keys = [list(_keys(condition)) for condition in conditions]
        sharing = Counter(
            (key.place, wanted) for of_rule in keys for key in of_rule for wanted in key.wanted
        )
        self._always: Final[list[int]] = []
        tables: dict[tuple[str, str | None, int], _Table] = {}
        for number, of_rule in enumerate(keys):
            if not of_rule:
                self._always.append(number)
                continue
            key = min(
                of_rule,
                key=lambda key: max(
                    (sharing[key.place, wanted] for wanted in key.wanted), default=0
                ),
            )
            is_set = TABLE[key.test.fact].kind is Kind.SET
            table = tables.setdefault(key.place, (slot_of(key.test), key.cut, is_set, {}, []))
            # For unknown values: the facts of a listing's entries are known only in part.
            table[4].append(number)
            for wanted in key.wanted:
                table[3].setdefault(wanted, []).append(number)
        self._tables: Final = tuple(tables.values())

    def of(self, values: Mapping[int, Value | Unknown]) -> list[int]:
        """Numbers of the candidates, in order; for an unknown value, all rules of its tables."""
        found: list[int] = []
        for slot, cut, is_set, by_value, every in self._tables:
            value = values[slot]
            if value is None:
                continue
            if value is UNKNOWN:
                found.extend(every)
            elif is_set:
                found.extend(
                    number for member in _members(value) for number in by_value.get(member, ())
                )
            else:
                part = str(value)
                found.extend(
                    by_value.get(part if not cut else part[:cut] if cut > 0 else part[cut:], ())
                )
        # A rule can be found twice, under several members of a set.
        return sorted(self._always + list(set(found))) if found else self._always


def _members(value: Value | Unknown) -> frozenset[str]:
    if not isinstance(value, frozenset):
        raise TypeError(f"{value!r} is not a set")
    return value


def _keys(condition: Condition) -> Iterator[_Key]:
    for test in _conjuncts(condition):
        if TABLE[test.fact].group is Group.REQUEST:
            yield from (_Key(test, cut, wanted) for cut, wanted in _wanted(test))


def _conjuncts(condition: Condition) -> Iterable[Test]:
    """The tests that must all hold."""
    if isinstance(condition, All):
        for part in condition.parts:
            yield from _conjuncts(part)
    elif isinstance(condition, Test):
        yield condition


def _wanted(test: Test) -> Iterator[tuple[int, frozenset[str]]]:
    """Parts of the value, with the strings that ``test`` requires there, if it requires any."""
    operand, has_names = test.operand, test.operator in (Operator.ONE_OF, Operator.HAS)
    if has_names and isinstance(operand, frozenset) and len(operand) <= _MOST_WANTED:
        yield 0, operand
    if not isinstance(operand, str):
        return
    if test.operator is Operator.EXACT:
        yield 0, frozenset((operand,))
    begin, end = _ends(test.operator, operand)
    if begin:
        yield len(begin), frozenset((begin,))
    if end:
        yield -len(end), frozenset((end,))


def _ends(operator: Operator, operand: str) -> tuple[str, str]:
    if operator is Operator.GLOB:
        return glob.ends(operand)
    return (
        operand if operator is Operator.PREFIX else "",
        operand if operator is Operator.SUFFIX else "",
    )
