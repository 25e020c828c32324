"""The rules that are evaluated: all that may match, and only those others that the index cannot
exclude."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from rules import glob, model
from rules.conditions import TABLE, Value
from rules.evaluation import value_of
from rules.facts import UNKNOWN, Caller, Facts, Unknown
from rules.index import Index
from rules.model import Condition, Operator, RuleSet, Test
from tests.unit.rules import naive, strategies

REQUESTS = strategies.pool(50)


class Values(dict[int, Value | Unknown]):
    """Of one request, by the number of a test in ``tests``; those in ``unknown`` are unknown."""

    def __init__(
        self, tests: list[Test], facts: Facts, unknown: frozenset[str] = frozenset()
    ) -> None:
        super().__init__(
            (number, UNKNOWN if test.fact in unknown else value_of(test, facts))
            for number, test in enumerate(tests)
        )


def asked(
    conditions: list[Condition], facts: Facts, unknown: frozenset[str] = frozenset()
) -> list[int]:
    tests: list[Test] = []

    def slot_of(test: Test) -> int:
        tests.append(test)
        return len(tests) - 1

    index = Index(conditions, slot_of)
    return index.of(Values(tests, facts, unknown))


@given(strategies.rule_sets())
def test_every_matching_rule_is_evaluated_once_in_its_order(rules: RuleSet) -> None:
    conditions = [rule.condition for rule in rules.rules]
    for facts in REQUESTS:
        numbers = asked(conditions, facts)
        matching = {
            number
            for number, condition in enumerate(conditions)
            if naive.holds(condition, facts) is not False
        }
        assert matching <= set(numbers), facts
        assert numbers == sorted(set(numbers))


@given(strategies.rule_sets())
def test_an_unknown_fact_can_have_any_value(rules: RuleSet) -> None:
    conditions = [rule.condition for rule in rules.rules]
    for fact in ("object", "container", "method", "roles"):
        found = [set(asked(conditions, facts, frozenset({fact}))) for facts in REQUESTS[:10]]
        for facts, numbers in zip(REQUESTS, found, strict=False):
            assert set(asked(conditions, facts)) <= numbers


ADA = Facts(
    "GET",
    "logs",
    "2026/part-7.csv",
    Caller(user="ada", roles=frozenset({"Reader", "guest"})),
    headers={"x-k": ""},
)


@pytest.mark.parametrize(
    ("fact", "operator", "same", "other"),
    [
        ("user", Operator.EXACT, "ada", "bob"),
        ("container", Operator.ONE_OF, frozenset({"logs", "a"}), frozenset({"b"})),
        ("object", Operator.PREFIX, "2026/", "2025/"),
        ("object", Operator.SUFFIX, ".csv", ".png"),
        ("object", Operator.GLOB, "20*", "19*"),
        ("object", Operator.GLOB, "*.csv", "*.png"),
        ("object", Operator.GLOB, "2026/part-7.csv", "2026/part-8.csv"),
        ("object", Operator.GLOB, "[12]*v", "[12]*w"),
        ("roles", Operator.HAS, frozenset({"guest", "reader"}), frozenset({"admin"})),
        ("method", Operator.EXACT, "GET", "PUT"),
    ],
)
def test_the_index_separates_rules_by_these_tests(
    fact: str, operator: Operator, same: Any, other: Any
) -> None:
    wanted: list[Condition] = [Test(fact, operator, other), Test(fact, operator, same)]
    assert asked(wanted, ADA) == [1]
    assert asked([model.All((part,)) for part in wanted], ADA) == [1]
    assert asked(wanted, ADA, frozenset({fact})) == [0, 1]


def test_a_value_that_is_missing_matches_nothing_and_an_empty_one_is_a_value() -> None:
    assert asked([Test("header", Operator.EXACT, "", "x-k")], ADA) == [0]
    assert asked([Test("header", Operator.EXACT, "", "x-other")], ADA) == []


@pytest.mark.parametrize(
    "condition",
    [
        model.All(),
        Test("user", Operator.PRESENT, operand=False),
        model.Not(Test("user", Operator.EXACT, "bob")),
        model.Any((Test("user", Operator.EXACT, "bob"), Test("method", Operator.EXACT, "GET"))),
        Test("object", Operator.GLOB, "*part*"),
        Test("object", Operator.PREFIX, ""),
        Test("content-type", Operator.EXACT, "text/csv"),
    ],
)
def test_rules_that_the_index_cannot_separate_are_evaluated(condition: Condition) -> None:
    assert asked([condition], ADA) == [0]


def test_a_rule_is_indexed_by_its_most_selective_test() -> None:
    """All test the same method and user; a request for one object finds one rule."""
    rules = [
        model.All((
            Test("method", Operator.EXACT, "GET"),
            Test("user", Operator.EXACT, "ada"),
            Test("object", Operator.EXACT, name),
        ))
        for name in ("a", "b", "2026/part-7.csv", "c")
    ]  # fmt: skip
    assert asked(rules, ADA) == [2]


def test_only_facts_of_the_request_itself_are_indexed() -> None:
    """The others cost something, and are read for the first rule that may need them."""
    tests: list[Test] = []
    facts = [
        Test(name, row.operators[0], "a", "k")
        for name, row in TABLE.items()
        if row.group.value != "request"
    ]
    Index(list(facts), lambda test: tests.append(test) or 0)  # type: ignore[func-returns-value]
    assert tests == []


@pytest.mark.parametrize(
    ("pattern", "ends"),
    [("logs/*", ("logs/", "")), ("*.csv", ("", ".csv")), ("a*b?c", ("a", "c")), ("[ab]c", ("", "c")), ("abc", ("abc", "abc")), ("*", ("", ""))],
)  # fmt: skip
def test_ends_of_globs(pattern: str, ends: tuple[str, str]) -> None:
    assert glob.ends(pattern) == ends


@pytest.mark.parametrize(("count", "expected"), [(16, []), (17, [0])])
def test_a_long_list_of_names_is_looked_up_directly(count: int, expected: list[int]) -> None:
    """A part of the rules is indexed again for each listing, and a list may be as long as a rules
    object."""
    names = frozenset(f"c{number}" for number in range(count))
    assert asked([Test("container", Operator.ONE_OF, names)], ADA) == expected
    also = model.All(
        (Test("container", Operator.ONE_OF, names), Test("user", Operator.EXACT, "bob"))
    )
    assert asked([also], ADA) == []
