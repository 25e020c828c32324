"""Differences between two versions of rules: ``changes(old, new)`` finds requests that are treated
in another way, by rule of the old version and by kind of change.

The search is exact (:mod:`rules.check.solver`): without a change in the result, there is none,
unless :attr:`Changes.undecided` says that the work budget was exhausted.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rules.check.budget import UndecidedError
from rules.check.outcomes import effect_of
from rules.check.questions import Questions
from rules.facts import Facts
from rules.model import Allow, Any, Condition, Deny, Rule, RuleSet


class Kind(Enum):
    """The kind of a change; the values are those of the command's JSON."""

    #: More than before: a processed object is unchanged, or a refused request is not.
    LOOSER = "newly allowed"
    STRICTER = "newly restricted"
    #: The same effect in another way: other storlets, another message.
    OTHER = "changed"


@dataclass(frozen=True)
class Change:
    """A request that two versions treat differently.

    :param old: the rule that decides it in the old version; ``None`` if none matches.
    :param new: the same for the new version.
    """

    kind: Kind
    old: Rule | None
    new: Rule | None
    example: Facts


@dataclass(frozen=True)
class Changes:
    """All changes, at most one for each old rule and kind.

    :param undecided: old rules (``None``: requests that none matches) for which the work budget was
        exhausted before the search ended.
    """

    found: tuple[Change, ...]
    undecided: tuple[Rule | None, ...]


def changes(old: RuleSet, new: RuleSet) -> Changes:
    """Compare two versions.  Cost: a question for each old rule and kind."""
    before, after = Questions(old), Questions(new)
    found, undecided = [], []
    for index in (*range(len(old.rules)), None):
        for kind in Kind:
            search = _Search(before, after, index, kind)
            start = [] if index is None else [before.rules[index].condition]
            try:
                facts = before.joint(start, search.refine)
            except UndecidedError:
                undecided.append(None if index is None else old.rules[index])
                break
            if facts is not None:
                # Without the time, the new version may decide otherwise.
                facts = search.accepted if after.has_times else facts
                decider = after.decider(facts)
                found.append(
                    Change(
                        kind,
                        None if index is None else old.rules[index],
                        None if decider is None else new.rules[decider],
                        facts,
                    )
                )
    return Changes(tuple(found), tuple(undecided))


class _Search:
    """Accepts requests that a given old rule decides, and that the new version changes so."""

    def __init__(self, before: Questions, after: Questions, index: int | None, kind: Kind) -> None:
        self._before = before
        self._after = after
        self._index = index
        self._kind = kind
        #: New rules that decide some request and make no such change; ``None`` is no rule.
        self._excluded: set[int | None] = set()
        self.accepted = Facts("GET")

    def refine(self, facts: Facts) -> Condition | None:
        index = self._before.decider(facts)
        if index != self._index:
            if index is None:
                raise UndecidedError  # the engine and the solver disagree
            return self._before.negation(index)
        decider = self._after.decider(facts)
        if _kind(_rule(self._before, index), _rule(self._after, decider)) is self._kind:
            self.accepted = facts
            return None
        if decider in self._excluded:
            raise UndecidedError
        self._excluded.add(decider)
        return _decided_by_another(self._after, decider)


def _rule(questions: Questions, index: int | None) -> Rule | None:
    return None if index is None else questions.rules[index]


def _decided_by_another(questions: Questions, index: int | None) -> Condition:
    """Holds for requests that rule ``index`` does not decide: it does not match, or one before it
    does."""
    earlier = tuple(rule.condition for rule in questions.rules[:index])
    return Any(earlier if index is None else (questions.negation(index), *earlier))


def _kind(old: Rule | None, new: Rule | None) -> Kind | None:
    """The kind of change between two deciding rules; ``None`` if the treatment is the same."""
    before, after = effect_of(old), effect_of(new)
    if before != after:
        return Kind.LOOSER if after > before else Kind.STRICTER
    return None if _treatment(old) == _treatment(new) else Kind.OTHER


def _treatment(rule: Rule | None) -> object:
    """Everything that a rule does, without its name, condition and place."""
    if rule is None or isinstance(rule.action, Allow):
        return None
    if isinstance(rule.action, Deny):
        return rule.action
    return rule.action, rule.is_mandatory, rule.explicit, rule.passes
