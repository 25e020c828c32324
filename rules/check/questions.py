"""Satisfiability questions about a rules object: can a rule match, and which rules cover it.

Ordinary rules give way if the client requests a storlet.  Here that is part of their conditions:
the header is absent.  So an answer shows by itself whether the client requests a storlet.

Answers are requests.  The engine evaluates each of them first; if it disagrees with the solver, the
question counts as undecided.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from rules import engine
from rules.check.budget import Budget, UndecidedError
from rules.check.solver import Solver
from rules.evaluation import holds, tests_of
from rules.facts import RUN_HEADER, Facts
from rules.model import All, Condition, Not, Operator, Rule, RuleSet, Run, Test

#: Steps for all questions about a rules object, and for a single one.
TOTAL_STEPS: Final = 1_500_000
QUESTION_STEPS: Final = 100_000
#: Covers of more rules than this are not minimized: they are too long to read.
_SMALL_COVER: Final = 12


@dataclass(frozen=True)
class Answer:
    """A request, and the rule that decides it.

    :param index: of the rule; ``None`` if none matches.
    """

    facts: Facts
    index: int | None


@dataclass(frozen=True)
class Cover:
    """Earlier rules that together decide every request that a rule would match.

    :param indices: of these rules; minimal unless there are many.
    """

    indices: tuple[int, ...]


_ALWAYS: Final = All()
#: The client does not request a storlet.
NOT_REQUESTED: Final = Test("header", Operator.PRESENT, operand=False, key=RUN_HEADER)


class Questions:
    """Questions about one rules object.  Each may raise :class:`rules.check.budget.UndecidedError`.

    :param total_steps: see :data:`TOTAL_STEPS`.
    """

    def __init__(self, rules: RuleSet, total_steps: int = TOTAL_STEPS) -> None:
        self._evaluation_steps = (
            1 + sum(len(tests_of(rule.condition)) for rule in rules.rules) // 64
        )
        rules = replace(rules, rules=tuple(map(_with_giving_way, rules.rules)))
        #: The rules; conditions of ordinary rules include :data:`NOT_REQUESTED`.
        self.rules = rules.rules
        self._solver = Solver()
        self._compiled = engine.compile(rules)
        self._indices = {rule.name: index for index, rule in enumerate(rules.rules)}
        self._negations = [Not(rule.condition) for rule in rules.rules]
        self._outlines = [self._solver.outline(rule.condition) for rule in rules.rules]
        #: Whether a rule tests the time.
        self.has_times = any(_test_time(_conditions(rule)) for rule in rules.rules)
        self._total = Budget(total_steps)

    def budget(self) -> Budget:
        """The budget of one question."""
        return Budget(QUESTION_STEPS, self._total)

    def spend(self, steps: int) -> None:
        """Charge work outside of the questions to the total budget."""
        self._total.spend(steps)

    def decider(self, facts: Facts) -> int | None:
        """The index of the rule that decides."""
        self._total.spend(self._evaluation_steps)
        decision = self._compiled.decide(facts)
        if isinstance(decision, engine.Needs):
            raise UndecidedError
        return None if decision.rule is None else self._indices[decision.rule.name]

    def example(self, *conditions: Condition) -> Answer | None:
        """A request that satisfies all ``conditions``."""
        facts = self._solver.solve(conditions, self.budget())
        return None if facts is None else self._verified(facts, conditions)

    def match(self, index: int, *also: Condition) -> Answer | None:
        """A request that this rule decides and that satisfies ``also``."""
        conditions = [self.rules[index].condition, *also]
        facts = self._solver.solve(conditions, self.budget(), _FirstMatch(self, index).refine)
        return None if facts is None else self._verified(facts, conditions)

    def cover(self, index: int, also: Condition = _ALWAYS) -> Answer | Cover:
        """A request that this rule decides and that satisfies ``also``, or the covering rules."""
        condition = All((self.rules[index].condition, also))
        search = _FirstMatch(self, index)
        facts = self._solver.solve([condition], self.budget(), search.refine)
        if facts is not None:
            return self._verified(facts, [condition])
        covering = search.earlier
        with contextlib.suppress(UndecidedError):  # a cover that is not minimal is still valid
            covering = self._minimal(condition, covering)
        return Cover(tuple(sorted(covering)))

    def joint(
        self, conditions: Iterable[Condition], refine: Callable[[Facts], Condition | None]
    ) -> Facts | None:
        """A request that satisfies ``conditions`` and that ``refine`` accepts.

        ``refine`` must verify the request with the engine.
        """
        conditions = tuple(conditions)
        facts = self._solver.solve(conditions, self.budget(), refine)
        return None if facts is None else self._plain(facts, conditions)

    def may_meet(self, one: int, other: int, but_for: Collection[str] = ()) -> bool:
        """A cheap check: ``False`` if the rules have contradicting requirements on a single fact.

        Facts in ``but_for`` are ignored.
        """
        return self._solver.may_meet(
            self._outlines[one], self._outlines[other], self._total, but_for
        )

    def negation(self, index: int) -> Condition:
        """The negated condition; always the same object, so the solver's cache applies."""
        return self._negations[index]

    def _minimal(self, condition: Condition, covering: list[int]) -> list[int]:
        """A single covering rule if there is one, else the cover without redundant rules."""
        for each in covering[: -_SMALL_COVER - 1 : -1]:  # the last one found ended the search
            if self._solver.solve([condition, self._negations[each]], self.budget()) is None:
                return [each]
        if len(covering) > _SMALL_COVER:
            return covering
        for each in list(covering):
            fewer = [other for other in covering if other != each]
            if self._solver.solve([condition, *map(self.negation, fewer)], self.budget()) is None:
                covering = fewer
        return covering

    def _plain(self, facts: Facts, conditions: Iterable[Condition]) -> Facts:
        """Without the time if neither a rule nor ``conditions`` test it: shorter to read."""
        if self.has_times or _test_time(conditions):
            return facts
        return replace(facts, minute_of_week=None)

    def _verified(self, facts: Facts, conditions: Sequence[Condition]) -> Answer:
        facts = self._plain(facts, conditions)
        if not all(holds(each, facts) for each in conditions):
            raise UndecidedError
        return Answer(facts, self.decider(facts))


def _with_giving_way(rule: Rule) -> Rule:
    return (
        replace(rule, condition=All((rule.condition, NOT_REQUESTED)))
        if engine.gives_way(rule)
        else rule
    )


class _FirstMatch:
    """Accepts requests that a given rule decides; rejects others with the negated decider."""

    def __init__(self, questions: Questions, wanted: int) -> None:
        self._questions = questions
        self._wanted = wanted
        self.earlier: list[int] = []

    def refine(self, facts: Facts) -> Condition | None:
        index = self._questions.decider(facts)
        if index == self._wanted:
            return None
        if index is None or index in self.earlier:
            raise UndecidedError  # the engine and the solver disagree
        self.earlier.append(index)
        return self._questions.negation(index)


def _conditions(rule: Rule) -> Iterable[Condition]:
    yield rule.condition
    if isinstance(rule.action, Run) and rule.action.reverse:
        yield rule.action.reverse.condition


def _test_time(conditions: Iterable[Condition]) -> bool:
    return any(test.fact == "time" for each in conditions for test in tests_of(each))


def present(fact: str) -> Test:
    return Test(fact, Operator.PRESENT, operand=True)


def parts_of(condition: Condition) -> tuple[Condition, ...]:
    """The conjuncts of ``condition``."""
    if isinstance(condition, All):
        return tuple(part for each in condition.parts for part in parts_of(each))
    return (condition,)
