"""Solutions of the tests of a single fact: correctness, and their cost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.check import domains
from rules.check.budget import Budget, UndecidedError
from rules.conditions import TABLE, WEEK, Group, Kind, facts_from
from rules.facts import Facts
from rules.model import Operator, Test
from tests.unit.rules import naive, strategies


def literals(*tests: Test) -> Iterator[domains.Literal]:
    yield from map(domains.Literal, tests)
    yield domains.Literal(Test("object", Operator.GLOB, "a*"), is_negated=True)


def test_many_short_windows_are_checked() -> None:
    windows = tuple((minute, minute) for minute in range(0, WEEK, 2))
    rest = tuple((minute, minute) for minute in range(1, WEEK, 2))
    budget = Budget(10_000)
    both = [
        domains.Literal(Test("time", Operator.WITHIN, each), is_negated=True)
        for each in (windows, rest)
    ]
    assert domains.solve(("time", None), both, budget).is_empty
    assert budget.left < 10_000 - WEEK // 8


def test_intersections_of_globs_are_charged_to_the_budget() -> None:
    tests = [Test("object", Operator.GLOB, "a*" + "?" * length) for length in range(200)]
    with pytest.raises(UndecidedError):
        domains.solve(("object", None), literals(*tests), Budget(20_000))


def test_comparisons_of_words_with_globs_are_charged_to_the_budget() -> None:
    words = Test(
        "object", Operator.ONE_OF, frozenset("a" * 200 + str(number) for number in range(300))
    )
    tests = [Test("object", Operator.GLOB, "a*" + "?" * length) for length in range(50)]
    with pytest.raises(UndecidedError):
        domains.solve(("object", None), literals(words, *tests), Budget(20_000))


def test_differences_of_roles_are_charged_to_the_budget() -> None:
    tests = [
        Test("roles", Operator.HAS, frozenset(f"r{role}" for role in range(1000)))
        for _ in range(10)
    ]
    budget = Budget(10_000)
    assert not domains.solve(("roles", None), map(domains.Literal, tests), budget).is_empty
    assert budget.left < 10_000 - 1000


@st.composite
def _literals_of_one_fact(draw: st.DrawFn) -> tuple[domains.Dimension, list[domains.Literal]]:
    fact = TABLE[draw(st.sampled_from(sorted(TABLE)))]
    key = "k" if fact.kind is Kind.STRINGS else None
    tests = [
        Test(fact.name, operator, operand, key)
        for operator in fact.operators
        for operand in strategies.some_operands(fact.name, operator)
    ]
    drawn = draw(st.lists(st.tuples(st.sampled_from(tests), st.booleans()), max_size=4))
    return (fact.name, key), [domains.Literal(test, negated) for test, negated in drawn]


def _with(dimension: domains.Dimension, value: object) -> Facts:
    """A request for an object of which this fact, and no other, has a value."""
    name, key = dimension
    around = {} if TABLE[name].group is Group.REQUEST else {"container": "c", "object": "o"}
    return facts_from({**around, name: {key: value} if key and value is not None else value})


@given(_literals_of_one_fact())
def test_a_solution_satisfies_all_literals(
    drawn: tuple[domains.Dimension, list[domains.Literal]],
) -> None:
    dimension, literals_ = drawn
    solution = domains.solve(dimension, literals_, Budget(100_000))
    if solution.value is not None:
        facts = _with(dimension, solution.value)
        for literal in literals_:
            assert naive.test_holds(literal.test, facts) is not literal.is_negated
            assert literal.holds(facts)


#: Possible values of each kind of fact; the solver must find one if any of these is a solution.
_VALUES: dict[Kind, tuple[object, ...]] = {
    Kind.STRING: tuple(name for name in strategies.NAMES if name not in {"", "a/b"}),
    Kind.STRINGS: strategies.NAMES,
    Kind.NUMBER: strategies.SIZES,
    Kind.NETWORK: tuple(each for each in strategies.ADDRESSES if each[0] != "n"),
    Kind.TIME: strategies.MINUTES,
    Kind.SET: tuple(frozenset({role}) for role in strategies.ROLES),
    Kind.BOOL: (True,),
}


@given(_literals_of_one_fact())
def test_no_solution_is_missed(drawn: tuple[domains.Dimension, list[domains.Literal]]) -> None:
    dimension, literals_ = drawn
    row = TABLE[dimension[0]]
    solution = domains.solve(dimension, literals_, Budget(100_000))
    values = row.choices or _VALUES[row.kind]
    if dimension[0] == "content-type":
        values = strategies.TYPES

    def satisfies(value: object) -> bool:
        facts = _with(dimension, value)
        return all(naive.test_holds(each.test, facts) is not each.is_negated for each in literals_)

    if any(map(satisfies, values)):
        assert solution.value is not None
    if row.is_optional and dimension[0] != "time":
        assert solution.may_be_missing is satisfies(None)


@pytest.mark.parametrize(
    ("dimension", "value"),
    [
        (("object", None), "object"),
        (("content-type", None), "text/plain"),
        (("method", None), "GET"),
        (("metadata", "k"), "x"),
        (("size", None), 0),
        (("client-address", None), "192.0.2.1"),
        (("roles", None), frozenset({"member"})),
        (("anonymous", None), True),
    ],
)
def test_without_literals_the_value_is_a_readable_one(
    dimension: domains.Dimension, value: object
) -> None:
    solution = domains.solve(dimension, [], Budget(1000))
    assert solution.value == value
    assert not solution.is_empty


def test_a_test_of_a_number_has_no_language() -> None:
    with pytest.raises(ValueError, match="does not compare strings"):
        domains.language(Test("size", Operator.AT_LEAST, 1))
