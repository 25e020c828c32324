"""Decides what the rules say about a request: the first rule that matches.

::

    compiled = engine.compile(rules)          # once for a version of the rules
    answer = compiled.decide(facts)           # Decision, or Needs: look these facts up and ask again
    compiled.explain(facts).lines()           # the same, with the reasons

It is pure: the same rules and facts give the same answer, on every proxy.

**How it is fast.**  Rules are asked in their order, so the cost is at most linear in their number.  Most rules want something
of the request that few requests have (a user, a container, names that begin in some way): :mod:`rules.index` knows which may
hold, and the others are not asked.  A rule that is asked is a tree of closures.  Each fact is read once for a request, tests of
what the request itself says come first, and what has to be looked up is looked at last.

**What is asked for.**  Facts of the object and of its container cost something.  :class:`Needs` names only groups that some test
of the first undecided rule depends on, when everything known is taken into account: a request from somebody whom no rule
concerns costs no HEAD.  Filling in the cheaper group alone and asking again is fine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from rules import template
from rules.conditions import TABLE, Group, Value, comparison, groups_of, holds, holds_of_missing
from rules.explanation import Considered, Explanation, observe
from rules.facts import UNKNOWN, Facts, Unknown
from rules.index import Index
from rules.model import Allow, Any, Condition, Not, Reverse, Rule, RuleSet, Run, Step, Test


@dataclass(frozen=True)
class Needs:
    """The decision depends on facts of these groups, which are :data:`rules.facts.UNKNOWN`."""

    groups: frozenset[Group]


@dataclass(frozen=True)
class Decision:
    """``rule`` decides; ``None`` when no rule matches.  What its parameters speak of is known."""

    rule: Rule | None


class Compiled:
    """A rule set, ready to be asked; ``needs`` are the groups, besides the request, that any of its rules may ask for."""

    def __init__(self, rules: RuleSet) -> None:
        compiler = _Compiler()
        self.rules: Final = rules
        self.needs: Final = frozenset(
            group for rule in rules.rules for group in _groups_of_rule(rule)
        ) - {Group.REQUEST}
        #: Whether a stored object may have to be undone on reading, which its own metadata tells.
        self.has_reverse: Final = any(
            isinstance(rule.action, Run) and rule.action.reverse for rule in rules.rules
        )
        self._entries: Final = [_Entry.of(rule, compiler) for rule in rules.rules]
        self._index: Final = Index([rule.condition for rule in rules.rules], compiler.slot_of)
        self._readers: Final = compiler.readers
        self._slots: Final = tuple(compiler.slots)

    def decide(self, facts: Facts, explicit: bool = False) -> Decision | Needs:
        """What the rules say.

        :param explicit: the client asks for a storlet itself: ordinary ``run`` and ``deny`` rules give way to that, and are passed
            over; ``allow`` and mandatory rules are not.
        """
        values = _Values(self._readers, facts)
        entries = self._entries
        for number in self._index.of(values):
            entry = entries[number]
            if explicit and entry.gives_way:
                continue
            holds_here = entry.check(values)
            if holds_here is None:
                return Needs(_unknown_groups(entry.rule.condition, facts))
            if holds_here:
                return _carried_out(entry, facts)
        return Decision(None)

    def may_cover(self, facts: Facts, unknown: frozenset[str]) -> Rule | None:
        """The first mandatory rule that could hold if the facts named in ``unknown`` had any value, and no ``allow`` before it surely holds.

        What is asked for is a promise that holds whatever an object turns out to be, as with entries of a listing.  ``None`` is certain:
        no values make a mandatory rule decide, whether the client asks for a storlet or not.  A rule is a possibility: tests of one fact
        are taken for independent of one another.  What is :data:`rules.facts.UNKNOWN` in ``facts`` is unknown as well; and so is what
        belongs to an object or container that is itself unknown: all of the container's, and all of the object's when its name is.
        """
        return next((rule for rule in self._possible(facts, unknown) if rule.is_mandatory), None)

    def narrowed(self, facts: Facts, unknown: frozenset[str]) -> Compiled:
        """The rules by which :meth:`may_cover` answers for all requests that differ from ``facts`` in what is unknown only.

        For many objects of one request, such as a listing's entries: most rules are about other callers and other containers, and
        are not asked again for each of these.
        """
        return Compiled(replace(self.rules, rules=tuple(self._possible(facts, unknown))))

    def _possible(self, facts: Facts, unknown: frozenset[str]) -> Iterator[Rule]:
        """Those that do not give way and could hold, in order, until one that surely does; this one only if it is mandatory."""
        if not unknown <= TABLE.keys():
            raise ValueError(f"no facts: {', '.join(sorted(unknown - TABLE.keys()))}")
        values = self._with_unknown(facts, unknown)
        for number in self._index.of(values):
            entry = self._entries[number]
            outcome = False if entry.gives_way else entry.check(values)
            if outcome is None or (outcome and entry.rule.is_mandatory):
                yield entry.rule
            if outcome:
                return

    def _with_unknown(self, facts: Facts, unknown: frozenset[str]) -> _Values:
        """What the tests see: the name of what is unknown must not be missing, or all that belongs to it would be."""
        if "container" in unknown:
            facts = replace(
                facts, container="-" if facts.container is None else facts.container, holder=UNKNOWN
            )
        if "object" in unknown:
            facts = replace(
                facts, object="-" if facts.object is None else facts.object, stored=UNKNOWN
            )
        values = _Values(self._readers, facts)
        values.update(
            (number, UNKNOWN) for number, (fact, _) in enumerate(self._slots) if fact in unknown
        )
        return values

    def reverse(self, name: str, facts: Facts) -> Reverse | Needs | None:
        """What undoes, for this request, what the rule of that name did on the way in."""
        for rule in self.rules.rules:
            if rule.name == name and isinstance(rule.action, Run) and rule.action.reverse:
                return _reversed(rule.action.reverse, facts)
        return None

    def explain(self, facts: Facts, explicit: bool = False) -> Explanation:
        """The same answer as :meth:`decide`, and how it comes about."""
        considered = []
        for rule in self.rules.rules:
            outcome, is_passed_over = holds(rule.condition, facts), explicit and gives_way(rule)
            considered.append(
                Considered(rule, outcome, observe(rule.condition, facts), is_passed_over)
            )
            if outcome is not False and not is_passed_over:
                break
        answer = self.decide(facts, explicit)
        needs = answer.groups if isinstance(answer, Needs) else frozenset()
        decider = answer.rule if isinstance(answer, Decision) else None
        return Explanation(
            decider, needs, tuple(considered), len(self.rules.rules) - len(considered)
        )


def compile(rules: RuleSet) -> Compiled:  # noqa: A001 - engine.compile(rules) is what it is
    """``rules`` in a form that is quick to ask."""
    return Compiled(rules)


def gives_way(rule: Rule) -> bool:
    """Whether a storlet that the client asks for takes the place of what ``rule`` does."""
    return not rule.is_mandatory and not isinstance(rule.action, Allow)


# --- rules, ready to be asked -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Entry:
    """A rule, and ``check`` for its condition."""

    rule: Rule
    check: _Check
    speaks_of_stored: bool
    gives_way: bool

    @classmethod
    def of(cls, rule: Rule, compiler: _Compiler) -> _Entry:
        steps = rule.action.steps if isinstance(rule.action, Run) else ()
        check = compiler.condition(rule.condition)
        return cls(rule, check, Group.STORED in _groups_of_steps(steps), gives_way(rule))


# --- facts that are missing yet ---------------------------------------------------------------------------------------


def _unknown_groups(condition: Condition, facts: Facts) -> frozenset[Group]:
    """Of a condition that is not decided, so all that is observed of it is unknown."""
    return frozenset(TABLE[seen.test.fact].group for seen in observe(condition, facts))


def _carried_out(entry: _Entry, facts: Facts) -> Decision | Needs:
    if entry.speaks_of_stored and _is_stored_unknown(facts):
        return Needs(frozenset((Group.STORED,)))
    return Decision(entry.rule)


def _reversed(reverse: Reverse, facts: Facts) -> Reverse | Needs | None:
    outcome = holds(reverse.condition, facts)
    if outcome is None:
        return Needs(_unknown_groups(reverse.condition, facts))
    if outcome and Group.STORED in _groups_of_steps(reverse.steps) and _is_stored_unknown(facts):
        return Needs(frozenset((Group.STORED,)))
    return reverse if outcome else None


def _is_stored_unknown(facts: Facts) -> bool:
    return facts.stored is UNKNOWN and facts.object is not None and facts.container is not None


def _groups_of_steps(steps: tuple[Step, ...]) -> frozenset[Group]:
    texts = [text for step in steps for _, text in step.parameters]
    return frozenset(group for text in texts for group in template.groups(text))


def _groups_of_rule(rule: Rule) -> frozenset[Group]:
    groups = groups_of(rule.condition)
    if not isinstance(rule.action, Run):
        return groups
    groups |= _groups_of_steps(rule.action.steps)
    reverse = rule.action.reverse
    return (
        groups | groups_of(reverse.condition) | _groups_of_steps(reverse.steps)
        if reverse
        else groups
    )


# --- conditions as closures -------------------------------------------------------------------------------------------

#: What reads a fact, and which entry of it.
_Reader: TypeAlias = tuple[Callable[[Facts, str], Value | Unknown], str]


class _Values(dict[int, Value | Unknown]):
    """What was read of the facts so far, by the number of the reader."""

    def __init__(self, readers: list[_Reader], facts: Facts) -> None:
        super().__init__()
        self._readers = readers
        self._facts = facts

    def __missing__(self, number: int) -> Value | Unknown:
        read, key = self._readers[number]
        value = self[number] = read(self._facts, key)
        return value


_Check: TypeAlias = Callable[[_Values], bool | None]


class _Compiler:
    """Makes closures; those of one rule set share their readers."""

    def __init__(self) -> None:
        self.readers: list[_Reader] = []
        self.slots: dict[tuple[str, str], int] = {}

    def condition(self, condition: Condition) -> _Check:
        if isinstance(condition, Test):
            return self._test(condition)
        if isinstance(condition, Not):
            return _not(self.condition(condition.part))
        parts = [self.condition(part) for part in sorted(condition.parts, key=_cost)]
        if len(parts) == 1:
            return parts[0]
        return _any(parts) if isinstance(condition, Any) else _all(parts)

    def _test(self, test: Test) -> _Check:
        number, compare, of_missing = self.slot_of(test), comparison(test), holds_of_missing(test)

        def check(values: _Values) -> bool | None:
            value = values[number]
            if value is None:
                return of_missing
            return None if value is UNKNOWN else compare(value)

        return check

    def slot_of(self, test: Test) -> int:
        """The number of the reader whose value the test looks at."""
        slot = (test.fact, test.key or "")
        if slot not in self.slots:
            self.slots[slot] = len(self.readers)
            self.readers.append((TABLE[test.fact].read, slot[1]))
        return self.slots[slot]


def _cost(condition: Condition) -> int:
    """What is at hand comes first, then what Swift caches; the order of parts does not change a condition's value."""
    groups = groups_of(condition)
    return 2 if Group.STORED in groups else 1 if Group.HOLDER in groups else 0


def _not(part: _Check) -> _Check:
    def check(values: _Values) -> bool | None:
        value = part(values)
        return None if value is None else not value

    return check


def _all(parts: list[_Check]) -> _Check:
    def check(values: _Values) -> bool | None:
        result: bool | None = True
        for part in parts:
            value = part(values)
            if value is False:
                return False
            if value is None:
                result = None
        return result

    return check


def _any(parts: list[_Check]) -> _Check:
    def check(values: _Values) -> bool | None:
        result: bool | None = False
        for part in parts:
            value = part(values)
            if value:
                return True
            if value is None:
                result = None
        return result

    return check
