"""Which rules a decision has to ask: an index by the values that their conditions want.

A rule that wants ``user: ada`` cannot match what somebody else asks for, so it is filed under that user's name and not asked
otherwise.  It can be filed under whatever it wants besides other things (a part of its ``all``) of what a request itself says: a
whole value, a beginning, an end, or a member of a set.  Of these it is filed under the one that it shares with the fewest
rules; a rule without any is always asked.  So what is asked is a superset of the rules that match, and each is still asked for
its whole condition.

A long list of values is asked directly, which costs the same as a short one.  So the index is quickly made, also for a part of the
rules (:meth:`rules.engine.Compiled.narrowed`), whoever wrote them.
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

#: What wants one of more values than these is not filed under them.
_MOST_WANTED: Final = 16


@dataclass(frozen=True)
class _Key:
    """What a rule wants of one fact, and so where it can be filed.

    :param test: whose fact it is.
    :param cut: which part of the value is compared: 0 for the whole, ``n`` for the first and ``-n`` for the last n characters.
    :param wanted: the part is one of these, or of a set one member is.
    """

    test: Test
    cut: int
    wanted: frozenset[str]

    @property
    def place(self) -> tuple[str, str | None, int]:
        """Of the table that it belongs to."""
        return self.test.fact, self.test.key, self.cut


#: Number of the fact's reader, which part of its value, whether that is a set, the rules by what they want, and all of them.
_Table = tuple[int, int, bool, dict[str, list[int]], list[int]]


class Index:
    """Of rules, by their numbers.

    :param slot_of: the number under which the value that a test looks at is found.
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
            # Entries of a listing are asked about without knowing all of them.
            table[4].append(number)
            for wanted in key.wanted:
                table[3].setdefault(wanted, []).append(number)
        self._tables: Final = tuple(tables.values())

    def of(self, values: Mapping[int, Value | Unknown]) -> list[int]:
        """Numbers of the rules that may hold, in order; where a value is unknown, all that want something of it."""
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
        # A rule may want one of several that are all there.
        return sorted(self._always + list(set(found))) if found else self._always


def _members(value: Value | Unknown) -> frozenset[str]:
    if not isinstance(value, frozenset):
        raise TypeError(f"{value!r} is no set")
    return value


def _keys(condition: Condition) -> Iterator[_Key]:
    for test in _conjuncts(condition):
        if TABLE[test.fact].group is Group.REQUEST:
            yield from (_Key(test, cut, wanted) for cut, wanted in _wanted(test))


def _conjuncts(condition: Condition) -> Iterable[Test]:
    """Tests that all have to hold, and do not hold of what is missing."""
    if isinstance(condition, All):
        for part in condition.parts:
            yield from _conjuncts(part)
    elif isinstance(condition, Test):
        yield condition


def _wanted(test: Test) -> Iterator[tuple[int, frozenset[str]]]:
    """Parts of the value that ``test`` compares, and what it wants there; nothing for tests that want no certain text."""
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
