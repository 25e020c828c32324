"""Every possible outcome for a set of requests, each with an example.

``outcomes(rules, conditions)`` shows which callers can read an object as it is stored.  It is exact
(:mod:`rules.check.solver`): an outcome that is not listed is impossible under these rules.  Access
control of Swift itself is not part of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from rules.check.budget import UndecidedError
from rules.check.questions import Questions
from rules.facts import Facts
from rules.model import Allow, Condition, Deny, Not, Operator, Rule, RuleSet, Test


class Effect(IntEnum):
    """The effect of a rule on a request; a higher value reveals more."""

    REFUSED = 0
    PROCESSED = 1
    #: The object as it is stored, or a PUT as it was sent.
    UNCHANGED = 2


@dataclass(frozen=True)
class Outcome:
    """An outcome that some request has.

    :param rule: the rule that decides; ``None`` if none matches.
    :param example: such a request; ``None`` if the work budget was exhausted before it was found.
    """

    rule: Rule | None
    example: Facts | None

    @property
    def effect(self) -> Effect:
        return effect_of(self.rule)


def effect_of(rule: Rule | None) -> Effect:
    """The effect of the rule that decides."""
    if rule is None or isinstance(rule.action, Allow):
        return Effect.UNCHANGED
    return Effect.REFUSED if isinstance(rule.action, Deny) else Effect.PROCESSED


def requests_for(method: str, container: str, name: str | None) -> tuple[Condition, ...]:
    """Conditions of all requests with ``method`` for an object, or for a container."""
    whole = (("method", method), ("container", container), ("object", name))
    return tuple(
        Test(fact, Operator.PRESENT, operand=False)
        if value is None
        else Test(fact, Operator.EXACT, value)
        for fact, value in whole
    )


def outcomes(rules: RuleSet, conditions: Sequence[Condition]) -> tuple[Outcome, ...]:
    """All outcomes of requests that satisfy ``conditions``: in the order of the rules, then none.

    Cost: one question for each rule (:data:`rules.check.questions.QUESTION_STEPS`).
    """
    questions = Questions(rules)
    found = []
    for index, rule in enumerate(rules.rules):
        try:
            answer = questions.match(index, *conditions)
        except UndecidedError:
            found.append(Outcome(rule, None))
            continue
        if answer is not None:
            found.append(Outcome(rule, answer.facts))
    try:
        unmatched = questions.joint(conditions, _Unmatched(questions).refine)
    except UndecidedError:
        return (*found, _UNDECIDED)
    return (*found, Outcome(None, unmatched)) if unmatched is not None else tuple(found)


_UNDECIDED: Final = Outcome(None, None)


class _Unmatched:
    """Accepts requests that no rule decides."""

    def __init__(self, questions: Questions) -> None:
        self._questions = questions

    def refine(self, facts: Facts) -> Condition | None:
        index = self._questions.decider(facts)
        return None if index is None else Not(self._questions.rules[index].condition)
