"""Skeleton; filled in next."""

from __future__ import annotations

from dataclasses import dataclass

from rules.conditions import TABLE, Group, groups_of, holds, tests_of, value_of
from rules.facts import UNKNOWN, Facts
from rules.model import Rule, RuleSet


@dataclass(frozen=True)
class Needs:
    groups: frozenset[Group]


@dataclass(frozen=True)
class Decision:
    rule: Rule | None


@dataclass(frozen=True)
class Explanation:
    decision: Decision | Needs

    def lines(self) -> tuple[str, ...]:
        return ()


class Compiled:
    def __init__(self, rules: RuleSet) -> None:
        self._rules = rules
        self.needs = frozenset(group for rule in rules.rules for group in groups_of(rule.condition)) - {Group.REQUEST}

    def decide(self, facts: Facts) -> Decision | Needs:
        for rule in self._rules.rules:
            match holds(rule.condition, facts):
                case True:
                    return Decision(rule)
                case None:
                    unknown = [test for test in tests_of(rule.condition) if value_of(test, facts) is UNKNOWN]
                    return Needs(frozenset(TABLE[test.fact].group for test in unknown))
        return Decision(None)

    def explain(self, facts: Facts) -> Explanation:
        return Explanation(self.decide(facts))


def compile(rules: RuleSet) -> Compiled:  # noqa: A001
    return Compiled(rules)
