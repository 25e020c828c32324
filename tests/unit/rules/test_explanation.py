"""Explanations: the tests that determine an outcome, and their text."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules import engine, model
from rules.engine import Decision, Needs
from rules.evaluation import evaluate, holds, holds_test
from rules.explanation import Considered, Observation, observe, wanted
from rules.facts import UNKNOWN, Caller, Facts, ObjectFacts
from rules.model import Allow, Condition, Operator, Rule, RuleSet, Run, Step, Template, Test
from tests.unit.rules import strategies

RUN = Run((Step("s.py"),))


def rule_set(*rules: Rule) -> RuleSet:
    return RuleSet(rules)


def is_(fact: str, value: str) -> Test:
    return Test(fact, Operator.EXACT, value)


REQUESTS = strategies.pool(50)
ALL_REQUESTS = [less for facts in REQUESTS for less in strategies.without(facts)]


@given(strategies.rule_sets(), st.booleans())
def test_an_explanation_agrees_with_the_decision(rules: RuleSet, explicit: bool) -> None:
    compiled = engine.compile(rules)
    for facts in ALL_REQUESTS[:80]:
        answer, explained = compiled.decide(facts, explicit), compiled.explain(facts, explicit)
        assert explained.rule is (answer.rule if isinstance(answer, Decision) else None)
        assert explained.needs == (answer.groups if isinstance(answer, Needs) else frozenset())
        assert len(explained.considered) + explained.left == len(rules.rules)
        assert len(explained.lines()) >= len(explained.considered) + 1
        assert all(seen.outcome is False or seen.gives_way for seen in explained.considered[:-1])
        assert all(
            seen.gives_way is (explicit and engine.gives_way(seen.rule))
            for seen in explained.considered
        )


@given(strategies.conditions())
def test_the_observed_tests_prove_the_outcome(condition: Condition) -> None:
    """The condition has the same value for any result of the tests that are not shown."""
    for facts in ALL_REQUESTS[:80]:
        outcome = holds(condition, facts)
        shown = [seen.test for seen in observe(condition, facts)]
        for others in (True, False) if outcome is not None else ():
            assert _with_others(condition, facts, shown, others=others) is outcome, facts


def _with_others(
    condition: Condition, facts: Facts, shown: list[Test], *, others: bool
) -> bool | None:
    return evaluate(condition, lambda test: holds_test(test, facts) if test in shown else others)


@given(strategies.conditions())
def test_the_observed_tests_of_an_undecided_condition_are_unknown(condition: Condition) -> None:
    for facts in ALL_REQUESTS:
        if holds(condition, facts) is None:
            observed = observe(condition, facts)
            assert observed
            assert all(seen.value is UNKNOWN for seen in observed)


def test_the_text_names_the_deciding_tests_and_their_values() -> None:
    steps = (
        Step("a.py", (("n", Template(("", "object", ""))),), "proxy", (("memory", "64M"),)),
        Step("b.py"),
    )
    compiled = engine.compile(
        rule_set(
            Rule("ec", model.All((is_("method", "GET"), is_("container", "x"))), RUN),
            Rule("big", Test("size", Operator.AT_LEAST, 10), RUN),
            Rule("run", model.Not(is_("user", "bob")), Run(steps), is_mandatory=True),
            Rule("rest", model.All(), Allow()),
        )
    )
    explained = compiled.explain(Facts("GET", "c", "o", Caller(user="ann"), stored=ObjectFacts()))
    assert explained.lines() == (
        "rule ec (line 0) does not match: container is 'c' (required: 'x')",
        "rule big (line 0) does not match: size is missing (required: at least 10)",
        "rule run (line 0) matches: user is 'ann' (required: 'bob')",
        "1 later rule was not considered",
        "decision: mandatory rule run: run a.py on the proxy with parameters n='{object}' with limits memory=64M",
        "decision: mandatory rule run: then run b.py",
    )
    assert compiled.explain(Facts("GET", "c", "o")).lines()[-1] == (
        "undecided: depends on the object's size, content type or metadata"
    )
    assert isinstance(explained.considered[0], Considered)


@pytest.mark.parametrize(
    ("test", "text"),
    [
        (Test("object", Operator.EXACT, "a"), "'a'"),
        (Test("object", Operator.GLOB, "a*"), "glob 'a*'"),
        (Test("object", Operator.ONE_OF, frozenset({"b", "a"})), "one of 'a', 'b'"),
        (
            Test("roles", Operator.HAS, frozenset(map(str, range(10)))),
            "one of '0', '1', '2', '3', '4', '5', '6', '7' and 2 more",
        ),
        (Test("size", Operator.AT_MOST, 5), "at most 5"),
        (Test("anonymous", Operator.IS, operand=False), "false"),
        (Test("user", Operator.PRESENT, operand=True), "any value"),
        (Test("user", Operator.PRESENT, operand=False), "no value"),
        (Test("time", Operator.WITHIN, ((0, 59), (10_020, 10_079))),
         "within mon 00:00 to mon 01:00, sun 23:00 to mon 00:00"),
        (Test("client-address", Operator.WITHIN, (ipaddress.ip_network("10.0.0.0/8"),)),
         "within 10.0.0.0/8"),
    ],
)  # fmt: skip
def test_the_text_of_a_requirement(test: Test, text: str) -> None:
    assert wanted(test) == text


def test_hidden_facts_are_named_without_their_values() -> None:
    secret = Test("metadata", Operator.EXACT, "x", key="k")
    seen = Observation(secret, "s3cret")
    assert seen.line() == "metadata k is 's3cret' (required: 'x')"
    assert seen.line(hidden={"metadata"}) == "metadata k is not shown (required: 'x')"
    assert Observation(secret, UNKNOWN).line() == (
        "metadata k has not been looked up (required: 'x')"
    )
