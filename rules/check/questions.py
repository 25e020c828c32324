"""What may be asked about a rules object: can this rule match, what covers it, who decides instead.

Ordinary rules give way to a client that asks for a storlet.  Here that is a part of their conditions: the header is not there.
So an answer says by itself whether the client asks for one.

Answers are requests, and every one of them has been evaluated by the engine before it is given; one that the engine sees
otherwise counts as not decided, never as an answer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from rules import engine
from rules.check.budget import Budget, UndecidedError
from rules.check.solver import Solver
from rules.conditions import holds, tests_of
from rules.facts import RUN_HEADER, Facts
from rules.model import All, Condition, Not, Operator, Rule, RuleSet, Run, Test

#: Steps for all questions about a rules object together, and for one of them.
TOTAL_STEPS: Final = 1_500_000
QUESTION_STEPS: Final = 100_000
#: Covers of more rules than this are not made smaller: nobody reads them.
_SMALL_COVER: Final = 12


@dataclass(frozen=True)
class Answer:
    """A request, and the rule that decides it.

    :param index: of the rule; ``None`` when none matches.
    """

    facts: Facts
    index: int | None


@dataclass(frozen=True)
class Cover:
    """Rules before one that together take every request that it would match.

    :param indices: of these rules; without any single one of them it could match, unless there are many.
    """

    indices: tuple[int, ...]


#: The client asks for no storlet.
UNASKED: Final = Test("header", Operator.PRESENT, operand=False, key=RUN_HEADER)


class Questions:
    """Questions about one rules object.  Each may raise :class:`rules.check.budget.UndecidedError`.

    :param total_steps: see :data:`TOTAL_STEPS`.
    """

    def __init__(self, rules: RuleSet, total_steps: int = TOTAL_STEPS) -> None:
        self._evaluation_steps = (
            1 + sum(len(tests_of(rule.condition)) for rule in rules.rules) // 64
        )
        rules = replace(rules, rules=tuple(map(_spelt_out, rules.rules)))
        #: Those of the rules object, with what makes the ordinary ones give way.
        self.rules = rules.rules
        self._solver = Solver()
        self._compiled = engine.compile(rules)
        self._indices = {rule.name: index for index, rule in enumerate(rules.rules)}
        self._negations = [Not(rule.condition) for rule in rules.rules]
        self._outlines = [self._solver.outline(rule.condition) for rule in rules.rules]
        self._has_times = any(
            test.fact == "time" for rule in rules.rules for test in _all_tests(rule)
        )
        self._total = Budget(total_steps)

    def budget(self) -> Budget:
        """For one question."""
        return Budget(QUESTION_STEPS, self._total)

    def spend(self, steps: int) -> None:
        """For what is looked for apart from the questions here."""
        self._total.spend(steps)

    def decider(self, facts: Facts) -> int | None:
        """The index of the rule that decides."""
        self._total.spend(self._evaluation_steps)
        decision = self._compiled.decide(facts)
        if isinstance(decision, engine.Needs):
            raise UndecidedError
        return None if decision.rule is None else self._indices[decision.rule.name]

    def example(self, *conditions: Condition) -> Answer | None:
        """A request of which all of these hold."""
        facts = self._solver.solve(conditions, self.budget())
        return None if facts is None else self._verified(facts, conditions)

    def match(self, index: int, *also: Condition) -> Answer | None:
        """A request that this rule decides, and of which the others hold."""
        conditions = [self.rules[index].condition, *also]
        facts = self._solver.solve(conditions, self.budget(), _FirstMatch(self, index).refine)
        return None if facts is None else self._verified(facts, conditions)

    def cover(self, index: int, also: Condition = All()) -> Answer | Cover:  # noqa: B008 - it is frozen
        """A request of which ``also`` holds and that this rule decides, or what covers it."""
        condition = All((self.rules[index].condition, also))
        search = _FirstMatch(self, index)
        facts = self._solver.solve([condition], self.budget(), search.refine)
        if facts is not None:
            return self._verified(facts, [condition])
        covering = search.in_the_way
        with contextlib.suppress(UndecidedError):  # a cover that is larger than it need be is one
            covering = self._minimal(condition, covering)
        return Cover(tuple(sorted(covering)))

    def joint(
        self, conditions: Iterable[Condition], refine: Callable[[Facts], Condition | None]
    ) -> Facts | None:
        """A request of which ``conditions`` hold and that ``refine`` takes, which has to look at it with the engine."""
        facts = self._solver.solve(conditions, self.budget(), refine)
        return None if facts is None else self._plain(facts)

    def may_meet(self, one: int, other: int, but_for: Collection[str] = ()) -> bool:
        """Not ``False`` by a look at what both rules ask of single facts, apart from those in ``but_for``: cheap."""
        return self._solver.may_meet(
            self._outlines[one], self._outlines[other], self._total, but_for
        )

    def negation(self, index: int) -> Condition:
        """Always the same value, which the solver then knows already."""
        return self._negations[index]

    def _minimal(self, condition: Condition, covering: list[int]) -> list[int]:
        """One rule is a better answer than many; otherwise without those that are not needed."""
        for each in covering[: -_SMALL_COVER - 1 : -1]:  # the last that was found ended the search
            if self._solver.solve([condition, self._negations[each]], self.budget()) is None:
                return [each]
        if len(covering) > _SMALL_COVER:
            return covering
        for each in list(covering):
            fewer = [other for other in covering if other != each]
            if self._solver.solve([condition, *map(self.negation, fewer)], self.budget()) is None:
                covering = fewer
        return covering

    def _plain(self, facts: Facts) -> Facts:
        """Shorter to read where no rule looks at the time."""
        return facts if self._has_times else replace(facts, minute_of_week=None)

    def _verified(self, facts: Facts, conditions: Sequence[Condition]) -> Answer:
        facts = self._plain(facts)
        if not all(holds(each, facts) for each in conditions):
            raise UndecidedError
        return Answer(facts, self.decider(facts))


def _spelt_out(rule: Rule) -> Rule:
    return (
        replace(rule, condition=All((rule.condition, UNASKED))) if engine.gives_way(rule) else rule
    )


class _FirstMatch:
    """Takes a request that a certain rule decides; of the others, tells the rule that is in the way."""

    def __init__(self, questions: Questions, wanted: int) -> None:
        self._questions = questions
        self._wanted = wanted
        self.in_the_way: list[int] = []

    def refine(self, facts: Facts) -> Condition | None:
        index = self._questions.decider(facts)
        if index == self._wanted:
            return None
        if index is None or index in self.in_the_way:
            raise UndecidedError  # the engine and the solver disagree
        self.in_the_way.append(index)
        return self._questions.negation(index)


def _all_tests(rule: Rule) -> Iterable[Test]:
    yield from tests_of(rule.condition)
    if isinstance(rule.action, Run) and rule.action.reverse:
        yield from tests_of(rule.action.reverse.condition)


def present(fact: str) -> Test:
    return Test(fact, Operator.PRESENT, operand=True)


def parts_of(condition: Condition) -> tuple[Condition, ...]:
    """What has to hold for ``condition`` to hold, as apart as it is written."""
    if isinstance(condition, All):
        return tuple(part for each in condition.parts for part in parts_of(each))
    return (condition,)
