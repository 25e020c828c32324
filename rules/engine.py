"""The rule engine: the first rule that matches a request decides.

::

    compiled = engine.compile(rules)          # once for each ruleset version
    answer = compiled.decide(facts)           # Decision, or Needs: look up facts, decide again
    compiled.explain(facts).lines()           # the same, with the reasons

The engine is pure: the same rules and facts yield the same decision on every proxy.

**Performance.**  Rules are evaluated in order, so the cost is at most linear in their number.  Most
rules require a value that few requests have (a user, a container, a prefix of a name), so
:mod:`rules.index` selects the candidates first.  A rule is compiled into a tree of closures.  Each
fact is read once for a request; tests of the request itself come first, tests of facts that must be
looked up come last.

**Lookups.**  Facts of the object and its container cost requests to Swift.  :class:`Needs` contains
only groups on which the first undecided rule depends, given all known facts: a request that
concerns no rule costs no HEAD.  The caller may look up the cheaper group only, and decide again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from rules import template
from rules.conditions import TABLE, Group, Value
from rules.evaluation import comparison, groups_of, holds, holds_of_missing
from rules.explanation import Considered, Explanation, observe
from rules.facts import UNKNOWN, Facts, Unknown
from rules.index import Index
from rules.model import Allow, Any, Condition, Deny, Not, Reverse, Rule, RuleSet, Run, Step, Test


@dataclass(frozen=True)
class Needs:
    """The decision depends on facts of these groups, which are :data:`rules.facts.UNKNOWN`."""

    groups: frozenset[Group]


@dataclass(frozen=True)
class Decision:
    """The deciding ``rule``, or ``None`` if no rule matches; facts in its parameters are known."""

    rule: Rule | None


class Compiled:
    """A compiled rule set.

    ``needs`` are the groups, besides the request, that its rules can depend on.  ``audit`` decides
    as if the audited rules were enforced; it is ``None`` if no rule is audited.
    """

    def __init__(self, rules: RuleSet) -> None:
        compiler = _Compiler()
        self.rules: Final = rules
        self.needs: Final = frozenset(
            group for rule in rules.rules for group in _groups_of_rule(rule)
        ) - {Group.REQUEST}
        #: Whether a stored object can be marked for a reverse on read.
        self.has_reverse: Final = any(
            isinstance(rule.action, Run) and rule.action.reverse for rule in rules.rules
        )
        self._entries: Final = [_Entry.of(rule, compiler) for rule in rules.rules]
        self._index: Final = Index([rule.condition for rule in rules.rules], compiler.slot_of)
        self._readers: Final = compiler.readers
        self._slots: Final = tuple(compiler.slots)
        self.audit: Final = Compiled(rules.as_enforced) if rules.with_audited else None

    def decide(self, facts: Facts, explicit: bool = False) -> Decision | Needs:
        """Decide a request.

        :param explicit: the client requests a storlet itself: ordinary ``run`` and ``deny`` rules
            give way and are skipped; ``allow`` and mandatory rules are not.
        """
        if facts.caller.signer is not None:
            return self._decide_signed(facts, explicit)
        values = _Values(self._readers, facts)
        entries = self._entries
        for number in self._index.of(values):
            entry = entries[number]
            if explicit and entry.gives_way:
                continue
            holds_here = entry.check(values)
            if holds_here is None:
                groups = _unknown_groups(entry.rule.condition, facts)
                if groups:
                    return Needs(groups)
                holds_here = restricts(entry.rule)  # the facts are lost
            if holds_here:
                return _decision_of(entry, facts)
        return Decision(None)

    def _decide_signed(self, facts: Facts, explicit: bool) -> Decision | Needs:
        """The decision on a request without a user, or that of its signer if it is stricter."""
        nobody, signer = facts.views
        answer, of_signer = self.decide(nobody, explicit), self.decide(signer, explicit)
        if isinstance(answer, Needs) or isinstance(of_signer, Needs):
            return answer if isinstance(answer, Needs) else of_signer
        strict = [rule for rule in (answer.rule, of_signer.rule) if rule and restricts(rule)]
        return Decision(min(strict, key=self.rules.rules.index)) if strict else answer

    def may_cover(
        self, facts: Facts, unknown: frozenset[str], among: frozenset[int] | None = None
    ) -> Rule | None:
        """The first mandatory rule that can hold for some values of the facts in ``unknown``.

        A rule after an ``allow`` that certainly holds cannot decide.  The result is conservative,
        to protect objects of which not all facts are known, such as the entries of a listing.
        ``None`` is certain: no mandatory rule decides for any values, whether or not the client
        requests a storlet.  A rule is only a possibility: tests of the same fact are treated as
        independent.  Facts that are :data:`rules.facts.UNKNOWN` in ``facts`` are unknown too, and
        so are the facts of an object or container whose name is unknown.

        :param among: the result of :meth:`narrowed`; other rules are not evaluated.
        """
        numbers = (
            number for view in facts.views for number in self._possible(view, unknown, among)
        )
        rules = (self._entries[number].rule for number in numbers)
        return next((rule for rule in rules if rule.is_mandatory), None)

    def may_deny(self, facts: Facts, unknown: frozenset[str]) -> Rule | None:
        """The first rule that denies a request without a storlet for some values of the facts in
        ``unknown``; ``None`` is certain, as for :meth:`may_cover`.
        """
        found = (self._may_deny(view, unknown) for view in facts.views)
        return next((rule for rule in found if rule is not None), None)

    def _may_deny(self, facts: Facts, unknown: frozenset[str]) -> Rule | None:
        values = self._with_unknown(facts, unknown)
        for number in self._index.of(values):
            entry = self._entries[number]
            outcome = entry.check(values)
            if outcome is not False and isinstance(entry.rule.action, Deny):
                return entry.rule
            if outcome:
                return None
        return None

    def narrowed(self, facts: Facts, unknown: frozenset[str]) -> frozenset[int]:
        """The numbers of the rules that matter to :meth:`may_cover` if only ``unknown`` facts vary.

        An optimization for many objects of one request, such as the entries of a listing: most
        rules concern other callers and containers, and are evaluated only once.
        """
        return frozenset(
            number for view in facts.views for number in self._possible(view, unknown, None)
        )

    def _possible(
        self, facts: Facts, unknown: frozenset[str], among: frozenset[int] | None
    ) -> Iterator[int]:
        """Rules that do not give way and can hold, in order, up to the first that certainly holds.

        That one is included only if it is mandatory.
        """
        if not unknown <= TABLE.keys():
            raise ValueError(f"unknown facts: {', '.join(sorted(unknown - TABLE.keys()))}")
        if among is not None and not among:
            return
        values = self._with_unknown(facts, unknown)
        for number in self._index.of(values):
            if among is not None and number not in among:
                continue
            entry = self._entries[number]
            outcome = False if entry.gives_way else entry.check(values)
            if outcome is None or (outcome and entry.rule.is_mandatory):
                yield number
            if outcome:
                return

    def _with_unknown(self, facts: Facts, unknown: frozenset[str]) -> _Values:
        """Values with unknown facts.

        An unknown name gets a placeholder: if it were missing, so would be all facts of its object
        or container.
        """
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
        """The reverse of the rule ``name``, if its condition holds for this request."""
        for rule in self.rules.rules:
            if rule.name == name and isinstance(rule.action, Run) and rule.action.reverse:
                return _reversed(rule.action.reverse, facts)
        return None

    def explain(self, facts: Facts, explicit: bool = False) -> Explanation:
        """The result of :meth:`decide`, with its reasons."""
        considered = []
        for rule in self.rules.rules:
            outcome, is_skipped = holds(rule.condition, facts), explicit and gives_way(rule)
            considered.append(Considered(rule, outcome, observe(rule.condition, facts), is_skipped))
            if outcome is not False and not is_skipped:
                break
        answer = self.decide(facts, explicit)
        needs = answer.groups if isinstance(answer, Needs) else frozenset()
        decider = answer.rule if isinstance(answer, Decision) else None
        return Explanation(
            decider, needs, tuple(considered), len(self.rules.rules) - len(considered)
        )


def compile(rules: RuleSet) -> Compiled:  # noqa: A001 - engine.compile(rules) is what it is
    """Compile ``rules`` for fast evaluation."""
    return Compiled(rules)


def restricts(rule: Rule) -> bool:
    """Whether ``rule`` protects: it fails closed where it depends on lost facts."""
    return rule.is_mandatory or isinstance(rule.action, Deny)


def gives_way(rule: Rule) -> bool:
    """Whether a storlet request by the client replaces the action of ``rule``."""
    return not rule.is_mandatory and not isinstance(rule.action, Allow)


# --- compiled rules -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Entry:
    """A rule with its compiled condition."""

    rule: Rule
    check: _Check
    uses_stored: bool
    gives_way: bool

    @classmethod
    def of(cls, rule: Rule, compiler: _Compiler) -> _Entry:
        steps = rule.action.steps if isinstance(rule.action, Run) else ()
        check = compiler.condition(rule.condition)
        return cls(rule, check, Group.STORED in _groups_of_steps(steps), gives_way(rule))


# --- unknown facts --------------------------------------------------------------------------------


def _unknown_groups(condition: Condition, facts: Facts) -> frozenset[Group]:
    """The groups of an undecided condition that can be looked up; all facts observed in it are
    unknown.
    """
    groups = frozenset(TABLE[seen.test.fact].group for seen in observe(condition, facts))
    return groups - {Group.REQUEST}


def _decision_of(entry: _Entry, facts: Facts) -> Decision | Needs:
    if entry.uses_stored and _is_stored_unknown(facts):
        return Needs(frozenset((Group.STORED,)))
    return Decision(entry.rule)


def _reversed(reverse: Reverse, facts: Facts) -> Reverse | Needs | None:
    outcome = holds(reverse.condition, facts)
    if outcome is None:
        groups = _unknown_groups(reverse.condition, facts)
        return Needs(groups) if groups else None
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


# --- conditions as closures -----------------------------------------------------------------------

#: The reader of a fact, and the key of a map entry.
_Reader: TypeAlias = tuple[Callable[[Facts, str], Value | Unknown], str]


class _Values(dict[int, Value | Unknown]):
    """A cache of the facts read so far, by the number of the reader."""

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
    """Compiles conditions into closures; closures of one rule set share their readers."""

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
        """The number of the reader for the value that the test compares."""
        slot = (test.fact, test.key or "")
        if slot not in self.slots:
            self.slots[slot] = len(self.readers)
            self.readers.append((TABLE[test.fact].read, slot[1]))
        return self.slots[slot]


def _cost(condition: Condition) -> int:
    """Sort key: known facts first, then facts that Swift caches; the order has no other effect."""
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
