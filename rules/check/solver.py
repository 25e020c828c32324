"""Is there a request of which these conditions hold, and if so, which: exact, with a witness, within a budget.

Conditions are any formula of tests.  The search keeps what has been assumed so far (literals, solved for each fact apart,
see :mod:`rules.check.domains`) and what still has to be true (clauses).  It never guesses blindly: it makes a request out of what is
assumed, looks for a clause that this request breaks, and only then assumes one of the clause's parts after the other, first
those clauses that leave the fewest parts.  So a formula of a thousand clauses of which a plain request breaks three costs three
steps.

Clauses may come while it searches: :meth:`Solver.solve` shows each request that it finds to ``refine``, which answers with a
condition that the request breaks and that has to hold as well.  That is how "this rule is the first that matches" is
asked without saying no to all rules before it.

**The world.**  Facts of different kinds are independent, but for these, which :func:`_choose` knows: nobody is both anonymous
and signed; an anonymous caller has no name, project, domain or roles, a signed one no name; a request without an object has
no stored object's facts, one without a container no container's and no object.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any as Anything
from typing import Final, TypeAlias

from rules.check.budget import Budget
from rules.check.domains import Dimension, Literal, Solution
from rules.check.domains import solve as solve_dimension
from rules.conditions import TABLE, Group, Kind
from rules.facts import Caller, ContainerFacts, Facts, ObjectFacts
from rules.model import Any, Condition, Not, Operator, Test

# --- formulas in negation normal form ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Conjunction:
    parts: tuple[Formula, ...]


@dataclass(frozen=True)
class Disjunction:
    """A clause; its parts need not be literals."""

    parts: tuple[Formula, ...]


Formula: TypeAlias = Literal | Conjunction | Disjunction
#: Looks at a request that was found: ``None`` takes it, a condition must hold as well (and does not).
Refine: TypeAlias = Callable[[Facts], Condition | None]


def formula(condition: Condition, *, is_negated: bool = False) -> Formula:
    """``condition``, or its opposite, with ``not`` only at its tests."""
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


# --- the search -------------------------------------------------------------------------------------------------------

#: How many broken clauses are compared for the one with the fewest ways out.
_COMPARED: Final = 12
_FEW: Final = 2


@dataclass(frozen=True)
class _State:
    """What is assumed, and what must hold beyond.

    :param refinements: how many of the refinements this state has taken over.
    """

    literals: Mapping[Dimension, frozenset[int]]
    solutions: Mapping[Dimension, Solution]
    clauses: tuple[Disjunction, ...] = ()
    refinements: int = 0


@dataclass(frozen=True)
class _Asked:
    """What is asked of one fact: numbers of literals, and the words that it must be one of, where there are such."""

    literals: frozenset[int]
    words: frozenset[str] | None


#: What is asked of single facts.
Outline: TypeAlias = Mapping[Dimension, _Asked]
_WORDS: Final = frozenset({Operator.EXACT, Operator.ONE_OF})


@dataclass(frozen=True)
class _Found:
    """A request of which everything holds that a state assumes and wants."""

    facts: Facts


class Solver:
    """Answers questions about requests; what it learns of single facts serves all its questions."""

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
        """A request of which all ``conditions`` hold, or ``None`` when there is none.

        Raises :class:`rules.check.budget.UndecidedError` when neither was found out.
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
        """What ``condition`` asks of single facts, whatever else it asks."""
        found: dict[Dimension, list[Literal]] = {}
        todo = [self._formula(condition)]
        while todo:
            part = todo.pop()
            if isinstance(part, Conjunction):
                todo += part.parts
            elif isinstance(part, Literal):
                found.setdefault(part.dimension, []).append(part)
        return {dimension: self._asked(literals) for dimension, literals in found.items()}

    def may_meet(
        self, one: Outline, other: Outline, budget: Budget, but_for: Collection[str] = ()
    ) -> bool:
        """``False`` when these ask of some fact, not in ``but_for``, what cannot go together: cheap the second time."""
        common = [
            (dimension, asked, other[dimension])
            for dimension, asked in one.items()
            if dimension in other and dimension[0] not in but_for
        ]
        if any(
            mine.words and theirs.words and mine.words.isdisjoint(theirs.words)
            for _, mine, theirs in common
        ):
            return False
        return not any(self._exclude(*each, budget) for each in common)

    def _exclude(self, dimension: Dimension, one: _Asked, other: _Asked, budget: Budget) -> bool:
        pair = (one.literals, other.literals)
        known = self._pairs.get(pair)
        if known is None:
            known = self._pairs[pair] = self._solution(
                dimension, one.literals | other.literals, budget
            ).is_empty
        return known

    def _asked(self, literals: Iterable[Literal]) -> _Asked:
        words = [
            each.language.words
            for each in literals
            if each.test.operator in _WORDS and not each.is_negated
        ]
        numbers = frozenset(map(self._number, literals))
        return _Asked(
            numbers,
            frozenset.intersection(*(each for each in words if each is not None))
            if words
            else None,
        )

    def _formula(self, condition: Condition) -> Formula:
        """Kept by identity; the condition is kept with it, so that its identity is not given to another one."""
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
        """The request that ``state`` stands for, or the states to look at in its place, the best first."""
        chosen = _choose(state.solutions)
        if chosen is None:
            return []
        facts = make_facts(chosen)
        broken = [each for each in state.clauses if not _holds(each, facts)]
        budget.spend((len(state.clauses) + 2 * len(state.solutions)) // 8)
        if not broken:
            return _Found(facts)
        best: list[_State] | None = None
        for clause in broken[:_COMPARED]:
            ways_out = self._ways_out(state, clause, budget)
            if best is None or len(ways_out) < len(best):
                best = ways_out
            if len(best) < _FEW:
                break
        return best or []

    def _ways_out(self, state: _State, clause: Disjunction, budget: Budget) -> list[_State]:
        """``state`` with each part of ``clause`` assumed that can be; each without the single tests before it."""
        rest = replace(state, clauses=tuple(each for each in state.clauses if each is not clause))
        ways = []
        budget.spend(len(state.clauses) // 32)
        for part in clause.parts:
            budget.spend(1 + (len(state.clauses) + 2 * len(state.solutions)) // 64)
            way = self._assume(rest, [part], budget)
            if way is not None:
                ways.append(way)
            if isinstance(part, Literal):
                without = self._assume(
                    rest, [replace(part, is_negated=not part.is_negated)], budget
                )
                if without is None:
                    break
                rest = without
        return ways

    def _assume(self, state: _State, parts: list[Formula], budget: Budget) -> _State | None:
        """``state`` in which ``parts`` are true too; ``None`` when some fact can have no value then."""
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
        """First by identity: to hash a test is to go through all that it lists."""
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


# --- from solutions to a request --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Shape:
    """A sort of request: which facts must be missing in it, and which must be there."""

    missing: frozenset[str]
    present: frozenset[str]


_OF_OBJECT: Final = frozenset(
    {"object"} | {name for name, fact in TABLE.items() if fact.group is Group.STORED}
)
_OF_CONTAINER: Final = frozenset(
    {"container"} | {name for name, fact in TABLE.items() if fact.group is Group.HOLDER}
)
_OF_NAMED_CALLER: Final = frozenset({"user", "project", "domain", "roles"})
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
#: The plainest first.
_SHAPES: Final = tuple(
    _Shape(target.missing | caller.missing, target.present | caller.present)
    for target in _TARGETS
    for caller in _CALLERS
)
#: What a request has where nothing is asked of it.
_DEFAULTS: Final[Mapping[str, Anything]] = {
    "method": "GET",
    "container": "container",
    "object": "object",
}
_MONDAY_NOON: Final = 12 * 60


def _choose(solutions: Mapping[Dimension, Solution]) -> dict[Dimension, Anything] | None:
    """A value for each fact, ``None`` where it is missing; facts that are tied together get values that go together."""
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
        must_be_there = name in shape.present
        if (must_be_missing and not solution.may_be_missing) or (
            must_be_there and solution.value is None
        ):
            return None
        is_left_away = must_be_missing or (solution.may_be_missing and not must_be_there)
        values[dimension] = None if is_left_away else solution.value
    for name in shape.present:
        values.setdefault((name, None), _DEFAULTS.get(name, True))
    return values


def make_facts(values: Mapping[Dimension, Anything]) -> Facts:
    """The request with these values; a fact that is not among them is missing, but for its method and time."""
    one = {
        name: values.get((name, None))
        for name, fact in TABLE.items()
        if fact.kind is not Kind.STRINGS
    }
    maps: dict[str, dict[str, str]] = {
        name: {} for name, fact in TABLE.items() if fact.kind is Kind.STRINGS
    }
    for (name, key), value in values.items():
        if key is not None and value is not None:
            maps[name][key] = value
    return Facts(
        method=one["method"] or _DEFAULTS["method"],
        container=one["container"],
        object=one["object"],
        caller=Caller(
            user=one["user"],
            project=one["project"],
            domain=one["domain"],
            roles=one["roles"] or frozenset(),
            is_anonymous=bool(one["anonymous"]),
            is_signed=bool(one["signed"]),
        ),
        headers=maps["header"],
        query=maps["query"],
        client_address=one["client-address"],
        minute_of_week=_MONDAY_NOON if one["time"] is None else one["time"],
        stored=ObjectFacts(
            one["object"] is not None, one["content-type"], one["size"], maps["metadata"]
        ),
        holder=ContainerFacts(maps["container-metadata"], one["policy"]),
    )
