"""Cycles: rules on PUT and COPY whose results trigger each other.

The result of a rule on a PUT or COPY is stored with the content type of the last storlet's output,
here the type that the storlet declares; rules whose last storlet declares none are not checked.
Stored content can be copied or uploaded again, and then rules see the new type.  Rules a, b, ...
form a cycle if there is a request for which, changing only its content type and its method (PUT or
COPY),

* a decides with the output type of the last rule;
* b decides with the output type of a; and so on, until the last rule.

Two rules in a cycle undo each other (``compress`` and ``expand``, both on PUT).  A cycle is a
warning: it is legal, but the stored content then depends on the number of copies.  Rules on GET
form no cycle: their results are not stored, and a GET rule may undo a PUT rule on purpose.  A rule
that its own result triggers is no cycle either: that is true of every rule without a test of the
content type.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from rules.check.budget import UndecidedError
from rules.check.pipelines import StorletFacts, output_type
from rules.check.questions import Questions, present
from rules.evaluation import comparison, tests_of
from rules.example import describe
from rules.facts import Facts, Unknown
from rules.model import All, Any, Condition, Finding, Not, Rule, Severity, Test

_METHODS: Final = ("COPY", "PUT")
_CHANGING: Final = ("content-type", "method")
#: The maximum length of cycles to search for, and the maximum number to report.
_LONGEST: Final = 4
_REPORTED: Final = 20

_ALWAYS: Final = All()
_NEVER: Final = Any(())


def at(condition: Condition, fixed: Mapping[str, str]) -> Condition:
    """Partially evaluate ``condition`` for the given values of some facts, and simplify it."""
    if isinstance(condition, Test):
        if condition.fact not in fixed:
            return condition
        return _ALWAYS if comparison(condition)(fixed[condition.fact]) else _NEVER
    if isinstance(condition, Not):
        part = at(condition.part, fixed)
        return _NEVER if part == _ALWAYS else _ALWAYS if part == _NEVER else Not(part)
    parts = [at(part, fixed) for part in condition.parts]
    decisive, neutral = (_ALWAYS, _NEVER) if isinstance(condition, Any) else (_NEVER, _ALWAYS)
    if decisive in parts:
        return decisive
    kept = tuple(part for part in parts if part != neutral)
    return kept[0] if len(kept) == 1 else replace(condition, parts=kept)


@dataclass(frozen=True)
class _Stage:
    """One rule of a cycle, with the content type and method of the request that reaches it."""

    index: int
    content_type: str
    method: str

    @property
    def fixed(self) -> dict[str, str]:
        return {"content-type": self.content_type, "method": self.method}

    def facts(self, shared: Facts) -> Facts:
        stored = shared.stored
        if isinstance(stored, Unknown):
            raise TypeError("the facts of an example's object must be known")
        return replace(
            shared, method=self.method, stored=replace(stored, content_type=self.content_type)
        )


class CycleCheck:
    """Searches for cycles among the rules that run storlets and can match.

    :param indices: of these rules.
    """

    def __init__(
        self, questions: Questions, storlets: Mapping[str, StorletFacts], indices: Sequence[int]
    ) -> None:
        self._questions = questions
        rules = questions.rules
        types = {index: output_type(rules[index], storlets) for index in indices}
        # Only rules that test the content type are relevant.
        self._types = {
            index: each for index, each in types.items() if each and _tests_type(rules[index])
        }
        self._conditions: dict[_Stage, Condition] = {}
        self._triggered: dict[str, tuple[int, ...]] = {}

    def findings(self) -> Iterator[Finding]:
        """Shortest cycles first; a cycle that contains the rules of a shorter one is omitted."""
        found: list[frozenset[int]] = []
        for length in range(2, _LONGEST + 1):
            for indices in self._paths(length):
                if len(found) >= _REPORTED:
                    return
                if any(known <= set(indices) for known in found):
                    continue
                finding = self._finding(indices)
                if finding is not None:
                    found.append(frozenset(indices))
                    yield finding

    def _paths(self, length: int) -> Iterator[tuple[int, ...]]:
        """Candidates; each starts with its smallest index, so that each cycle occurs once."""
        for first in self._types:
            yield from self._extended((first,), length)

    def _extended(self, path: tuple[int, ...], length: int) -> Iterator[tuple[int, ...]]:
        triggered = self._triggered_by(self._types[path[-1]])
        if len(path) == length:
            if path[0] in triggered:
                yield path
            return
        for following in triggered:
            self._questions.spend(1)  # the number of paths is exponential
            if following <= path[0] or following in path:
                continue
            if all(self._questions.may_meet(each, following, _CHANGING) for each in path):
                yield from self._extended((*path, following), length)

    def _triggered_by(self, content_type: str) -> tuple[int, ...]:
        """Rules that can match this type, by partial evaluation (without the solver)."""
        known = self._triggered.get(content_type)
        if known is None:
            self._questions.spend(len(self._types))
            stages = ((index, self._stages(index, content_type)) for index in self._types)
            matching = (
                index
                for index, each in stages
                if any(self._condition(one) != _NEVER for one in each)
            )
            known = self._triggered[content_type] = tuple(matching)
        return known

    def _stages(self, index: int, content_type: str) -> list[_Stage]:
        return [_Stage(index, content_type, method) for method in _METHODS]

    def _condition(self, stage: _Stage) -> Condition:
        known = self._conditions.get(stage)
        if known is None:
            known = self._conditions[stage] = at(
                self._questions.rules[stage.index].condition, stage.fixed
            )
        return known

    def _finding(self, indices: tuple[int, ...]) -> Finding | None:
        reached_by = [indices[-1], *indices[:-1]]
        options = [
            [
                stage
                for stage in self._stages(index, self._types[before])
                if self._condition(stage) != _NEVER
            ]
            for index, before in zip(indices, reached_by, strict=True)
        ]
        for stages in itertools.islice(itertools.product(*options), 4):
            shared = self._questions.joint(
                [present("object"), *map(self._condition, stages)],
                _Refinement(self._questions, stages).refine,
            )
            if shared is not None:
                return self._describe(stages, stages[0].facts(shared))
        return None

    def _describe(self, stages: Sequence[_Stage], facts: Facts) -> Finding:
        rules = [self._questions.rules[stage.index] for stage in stages]
        steps = [
            f"{rule.name} converts {stage.content_type} to {self._types[stage.index]}"
            f" ({stage.method})"
            for rule, stage in zip(rules, stages, strict=True)
        ]
        is_pair = len(stages) == 2
        names = (" and " if is_pair else ", ").join(rule.name for rule in rules)
        what = "undo each other" if is_pair else "trigger each other in a cycle"
        return Finding(
            Severity.WARNING,
            "rules.undo-one-another" if is_pair else "rules.cycle",
            rules[-1].place,
            f"rules {names} {what}: {'; '.join(steps)}; the example request starts the cycle",
            "restrict one of them: use another container, or undo the conversion only on GET",
            describe(facts),
        )


class _Refinement:
    """Accepts a request if at every stage the rule of that stage decides."""

    def __init__(self, questions: Questions, stages: Sequence[_Stage]) -> None:
        self._questions = questions
        self._stages = stages

    def refine(self, shared: Facts) -> Condition | None:
        for stage in self._stages:
            decider = self._questions.decider(stage.facts(shared))
            if decider is None or decider > stage.index:
                raise UndecidedError  # the engine and the solver disagree
            if decider < stage.index:
                return Not(at(self._questions.rules[decider].condition, stage.fixed))
        return None


def _tests_type(rule: Rule) -> bool:
    return any(test.fact == "content-type" for test in tests_of(rule.condition))
