"""A satisfiability solver for conditions: exact, with a witness, within a budget.

Conditions are arbitrary formulas of tests.  A search state holds the literals assumed so far, which
are solved separately for each fact (:mod:`rules.check.domains`), and the clauses that must still be
satisfied.  The search is driven by violated clauses: it constructs a request from the assumed
literals, finds a clause that this request violates, and branches on the parts of that clause,
preferring clauses with the fewest branches.  A formula of a thousand clauses of which a default
request violates three costs three steps.

Clauses can be added lazily: :meth:`Solver.solve` passes each request that it finds to ``refine``,
which returns a further condition that the request violates.  So "this rule is the first that
matches" needs only the negations of those earlier rules that actually match.

**Dependent facts.**  Facts are independent, with exceptions, which :func:`_choose` enforces.  No
caller is both anonymous and signed.  An anonymous caller has no name, project, domain or roles.  A
signed caller has no name.  A request without an object has no facts of a stored object.  A request
without a container has neither facts of a container nor an object.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any as Anything
from typing import Final, TypeAlias

from rules.check.budget import Budget
from rules.check.domains import Dimension, Literal, Solution
from rules.check.domains import solve as solve_dimension
from rules.conditions import TABLE, Group, Kind, facts_from
from rules.facts import Facts
from rules.model import Any, Condition, Not, Operator, Test

# --- formulas in negation normal form -------------------------------------------------------------


@dataclass(frozen=True)
class Conjunction:
    parts: tuple[Formula, ...]


@dataclass(frozen=True)
class Disjunction:
    """A clause; its parts can be arbitrary formulas."""

    parts: tuple[Formula, ...]


Formula: TypeAlias = Literal | Conjunction | Disjunction
#: Accepts a request (``None``), or returns a further condition, which the request violates.
Refine: TypeAlias = Callable[[Facts], Condition | None]


def formula(condition: Condition, *, is_negated: bool = False) -> Formula:
    """The negation normal form of ``condition`` or of its negation."""
    if isinstance(condition, Test):
        return Literal(condition, is_negated)
    if isinstance(condition, Not):
        return formula(condition.part, is_negated=not is_negated)
    parts = tuple(formula(part, is_negated=is_negated) for part in condition.parts)
    if len(parts) == 1:
        return parts[0]
    return (
        Disjunction(parts) if isinstance(condition, Any) is not is_negated else Conjunction(parts)
    )


def _holds(part: Formula, facts: Facts) -> bool:
    if isinstance(part, Literal):
        return part.holds(facts)
    if isinstance(part, Conjunction):
        return all(_holds(each, facts) for each in part.parts)
    return any(_holds(each, facts) for each in part.parts)


# --- the search -----------------------------------------------------------------------------------

#: How many violated clauses are compared to find the one with the fewest branches.
_COMPARED: Final = 12
#: A clause with fewer branches is taken at once.
_FEW: Final = 2


@dataclass(frozen=True)
class _State:
    """Assumed literals with their solutions, and the remaining clauses.

    :param refinements: how many of the refinements this state includes.
    """

    literals: Mapping[Dimension, frozenset[int]]
    solutions: Mapping[Dimension, Solution]
    clauses: tuple[Disjunction, ...] = ()
    refinements: int = 0


@dataclass(frozen=True)
class _Required:
    """The requirements on one fact: ids of literals, and the set of allowed words, if any."""

    literals: frozenset[int]
    words: frozenset[str] | None


#: The requirements of a condition on single facts.
Outline: TypeAlias = Mapping[Dimension, _Required]
_WORDS: Final = frozenset({Operator.EXACT, Operator.ONE_OF})


@dataclass(frozen=True)
class _Found:
    """A request that satisfies all literals and clauses of a state."""

    facts: Facts


class Solver:
    """Solves sets of conditions; caches the solutions of single facts across calls."""

    def __init__(self) -> None:
        self._numbers: dict[Literal, int] = {}
        self._numbers_by_test: dict[tuple[int, bool], tuple[Test, int]] = {}
        self._literals: list[Literal] = []
        self._solutions: dict[tuple[Dimension, frozenset[int]], Solution] = {}
        self._pairs: dict[tuple[frozenset[int], frozenset[int]], bool] = {}
        self._formulas: dict[tuple[int, bool], tuple[Condition, Formula]] = {}

    def solve(
        self, conditions: Iterable[Condition], budget: Budget, refine: Refine | None = None
    ) -> Facts | None:
        """A request that satisfies all ``conditions``, or ``None`` if none exists.

        Raises :class:`rules.check.budget.UndecidedError` if the budget is exhausted.
        """
        refinements: list[Formula] = []
        start = self._assume(_State({}, {}), [self._formula(each) for each in conditions], budget)
        waiting = [start] if start else []
        while waiting:
            budget.spend()
            state = self._catch_up(waiting.pop(), refinements, budget)
            if state is None:
                continue
            found = self._advance(state, budget)
            if not isinstance(found, _Found):
                waiting += reversed(found)
                continue
            more = refine(found.facts) if refine else None
            if more is None:
                return found.facts
            refinements.append(self._formula(more))
            waiting.append(state)
        return None

    def outline(self, condition: Condition) -> Outline:
        """The requirements of ``condition`` on single facts; its disjunctions are ignored."""
        found: dict[Dimension, list[Literal]] = {}
        todo = [self._formula(condition)]
        while todo:
            part = todo.pop()
            if isinstance(part, Conjunction):
                todo += part.parts
            elif isinstance(part, Literal):
                found.setdefault(part.dimension, []).append(part)
        return {dimension: self._required(literals) for dimension, literals in found.items()}

    def may_meet(
        self, one: Outline, other: Outline, budget: Budget, but_for: Collection[str] = ()
    ) -> bool:
        """``False`` if the requirements on some fact, not in ``but_for``, contradict each other.

        Cached for each pair of requirements.
        """
        common = [
            (dimension, required, other[dimension])
            for dimension, required in one.items()
            if dimension in other and dimension[0] not in but_for
        ]
        if any(
            mine.words and theirs.words and mine.words.isdisjoint(theirs.words)
            for _dimension, mine, theirs in common
        ):
            return False
        return not any(self._exclude(*each, budget) for each in common)

    def _exclude(
        self, dimension: Dimension, one: _Required, other: _Required, budget: Budget
    ) -> bool:
        pair = (one.literals, other.literals)
        known = self._pairs.get(pair)
        if known is None:
            known = self._pairs[pair] = self._solution(
                dimension, one.literals | other.literals, budget
            ).is_empty
        return known

    def _required(self, literals: Iterable[Literal]) -> _Required:
        words = [
            each.language.words
            for each in literals
            if each.test.operator in _WORDS and not each.is_negated
        ]
        numbers = frozenset(map(self._number, literals))
        known = [each for each in words if each is not None]
        return _Required(numbers, frozenset.intersection(*known) if words else None)

    def _formula(self, condition: Condition) -> Formula:
        """Cached by identity, with a reference to the condition, so that its id is not reused."""
        known = self._formulas.get((id(condition), False))
        if known is None:
            known = self._formulas[id(condition), False] = (condition, formula(condition))
        return known[1]

    def _catch_up(self, state: _State, refinements: list[Formula], budget: Budget) -> _State | None:
        missed = refinements[state.refinements :]
        if not missed:
            return state
        return self._assume(replace(state, refinements=len(refinements)), missed, budget)

    def _advance(self, state: _State, budget: Budget) -> _Found | list[_State]:
        """The request for ``state`` if it satisfies all clauses, else the branches, best first."""
        chosen = _choose(state.solutions)
        if chosen is None:
            return []
        facts = make_facts(chosen)
        violated = [each for each in state.clauses if not _holds(each, facts)]
        budget.spend((len(state.clauses) + 2 * len(state.solutions)) // 8)
        if not violated:
            return _Found(facts)
        best: list[_State] | None = None
        for clause in violated[:_COMPARED]:
            branches = self._branches(state, clause, budget)
            if best is None or len(branches) < len(best):
                best = branches
            if len(best) < _FEW:
                break
        return best or []

    def _branches(self, state: _State, clause: Disjunction, budget: Budget) -> list[_State]:
        """``state`` with each satisfiable part of ``clause`` and the negated literals before it."""
        rest = replace(state, clauses=tuple(each for each in state.clauses if each is not clause))
        branches = []
        budget.spend(len(state.clauses) // 32)
        for part in clause.parts:
            budget.spend(1 + (len(state.clauses) + 2 * len(state.solutions)) // 64)
            branch = self._assume(rest, [part], budget)
            if branch is not None:
                branches.append(branch)
            if isinstance(part, Literal):
                without = self._assume(
                    rest, [replace(part, is_negated=not part.is_negated)], budget
                )
                if without is None:
                    break
                rest = without
        return branches

    def _assume(self, state: _State, parts: list[Formula], budget: Budget) -> _State | None:
        """``state`` with ``parts`` assumed; ``None`` if no value of some fact is possible."""
        added: dict[Dimension, set[int]] = {}
        clauses = list(state.clauses)
        todo = list(parts)
        while todo:
            part = todo.pop()
            if isinstance(part, Literal):
                added.setdefault(part.dimension, set()).add(self._number(part))
            elif isinstance(part, Conjunction):
                todo += part.parts
            elif len(part.parts) == 1:
                todo.append(part.parts[0])
            elif part.parts:
                clauses.append(part)
            else:
                return None
        return self._with_literals(replace(state, clauses=tuple(clauses)), added, budget)

    def _with_literals(
        self, state: _State, added: Mapping[Dimension, set[int]], budget: Budget
    ) -> _State | None:
        if not added:
            return state
        literals, solutions = dict(state.literals), dict(state.solutions)
        for dimension, numbers in added.items():
            literals[dimension] = literals.get(dimension, frozenset()) | numbers
            budget.spend(len(literals[dimension]) // 16)
            solutions[dimension] = self._solution(dimension, literals[dimension], budget)
            if solutions[dimension].is_empty:
                return None
        return replace(state, literals=literals, solutions=solutions)

    def _number(self, literal: Literal) -> int:
        """Look up by identity first: hashing a test is linear in the length of its list."""
        key = (id(literal.test), literal.is_negated)
        known = self._numbers_by_test.get(key)
        if known is None:
            number = self._numbers.setdefault(literal, len(self._literals))
            if number == len(self._literals):
                self._literals.append(literal)
            known = self._numbers_by_test[key] = (literal.test, number)
        return known[1]

    def _solution(self, dimension: Dimension, numbers: frozenset[int], budget: Budget) -> Solution:
        known = self._solutions.get((dimension, numbers))
        if known is None:
            known = solve_dimension(
                dimension, [self._literals[each] for each in sorted(numbers)], budget
            )
            self._solutions[dimension, numbers] = known
        return known


# --- from solutions to a request ------------------------------------------------------------------


@dataclass(frozen=True)
class _Shape:
    """A class of requests: facts that must be missing, and facts that must be present."""

    missing: frozenset[str]
    present: frozenset[str]


_OF_OBJECT: Final = frozenset(
    {"object"} | {name for name, fact in TABLE.items() if fact.group is Group.STORED}
)
_OF_CONTAINER: Final = frozenset(
    {"container"} | {name for name, fact in TABLE.items() if fact.group is Group.HOLDER}
)
_OF_NAMED_CALLER: Final = frozenset(
    name
    for name, fact in TABLE.items()
    if fact.field.startswith("caller.") and fact.kind is not Kind.BOOL
)
_NOTHING: Final = frozenset[str]()

_TARGETS: Final = (
    _Shape(_NOTHING, frozenset({"container", "object"})),
    _Shape(_OF_OBJECT, frozenset({"container"})),
    _Shape(_OF_OBJECT | _OF_CONTAINER, _NOTHING),
)
_CALLERS: Final = (
    _Shape(frozenset({"anonymous", "signed"}), _NOTHING),
    _Shape(_OF_NAMED_CALLER | {"signed"}, frozenset({"anonymous"})),
    _Shape(frozenset({"anonymous", "user"}), frozenset({"signed"})),
)
#: The simplest first.
_SHAPES: Final = tuple(
    _Shape(target.missing | caller.missing, target.present | caller.present)
    for target in _TARGETS
    for caller in _CALLERS
)
#: Values of facts without requirements.
_DEFAULTS: Final[Mapping[str, Anything]] = {
    "method": "GET",
    "container": "container",
    "object": "object",
}
_MONDAY_NOON: Final = 12 * 60


def _choose(solutions: Mapping[Dimension, Solution]) -> dict[Dimension, Anything] | None:
    """A value for each fact, ``None`` if missing, consistent across dependent facts."""
    for shape in _SHAPES:
        values = _of_shape(solutions, shape)
        if values is not None:
            return values
    return None


def _of_shape(
    solutions: Mapping[Dimension, Solution], shape: _Shape
) -> dict[Dimension, Anything] | None:
    values: dict[Dimension, Anything] = {}
    for dimension, solution in solutions.items():
        name = dimension[0]
        must_be_missing = name in shape.missing
        must_be_present = name in shape.present
        if must_be_missing and not solution.may_be_missing:
            return None
        if must_be_present and solution.value is None:
            return None
        is_missing = must_be_missing or (solution.may_be_missing and not must_be_present)
        values[dimension] = None if is_missing else solution.value
    for name in shape.present:
        values.setdefault((name, None), _DEFAULTS.get(name, True))
    return values


def make_facts(values: Mapping[Dimension, Anything]) -> Facts:
    """The request with these values; all other facts are missing, except method and time."""
    found: dict[str, Anything] = {"time": _MONDAY_NOON}
    for (name, key), value in values.items():
        if value is None:
            continue
        if key is None:
            found[name] = value
        else:
            found.setdefault(name, {})[key] = value
    return facts_from(found)
