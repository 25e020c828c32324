"""Conditions rewritten for the kind of their rule: missing values, methods that read."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules import model
from rules.conditions import METHODS
from rules.evaluation import holds
from rules.facts import Caller, ContainerFacts, Facts, ObjectFacts
from rules.model import Condition, Operator, Test
from rules.rewriting import cautious, with_all_reads, with_segments
from tests.unit.rules import naive, strategies
from tests.unit.rules.texts import rules_of

ANONYMOUS = Facts("GET", "c", "o", stored=ObjectFacts(), holder=ContainerFacts())


def named(name: str) -> Test:
    return Test("user", Operator.EXACT, name)


def method(*names: str) -> Test:
    return (
        Test("method", Operator.ONE_OF, frozenset(names))
        if names[1:]
        else Test("method", Operator.EXACT, *names)
    )


REQUESTS = strategies.pool(60)


@given(strategies.conditions())
def test_rules_that_do_not_restrict_need_a_value_for_a_test_and_for_its_not(
    condition: Condition,
) -> None:
    for facts in REQUESTS:
        assert holds(cautious(condition), facts) is naive.holds_cautiously(condition, facts), facts


@given(strategies.conditions())
def test_cautious_only_removes_requests(condition: Condition) -> None:
    for facts in REQUESTS:
        assert holds(condition, facts) or not holds(cautious(condition), facts), facts


@given(strategies.conditions())
def test_with_all_reads_only_adds_head_and_copy(condition: Condition) -> None:
    """No request is lost; only HEAD and COPY are added."""
    widened = with_all_reads(condition)
    for facts in REQUESTS:
        assert holds(widened, facts) or not holds(condition, facts), facts
        if facts.method not in ("HEAD", "COPY"):
            assert holds(widened, facts) is holds(condition, facts), facts


_METHOD_TESTS = [Test("method", Operator.EXACT, method) for method in METHODS]


_METHOD_TESTS += [
    Test("method", Operator.ONE_OF, frozenset(some)) for some in itertools.combinations(METHODS, 2)
]


@given(
    st.lists(
        st.sampled_from([*_METHOD_TESTS, named("a"), model.Not(named("a"))]), min_size=1, max_size=4
    ),
    st.booleans(),
)
def test_without_a_negated_method_no_read_evades_a_mandatory_rule(
    parts: list[Condition], is_any: bool
) -> None:
    some = tuple(parts)
    widened = with_all_reads(model.Any(some) if is_any else model.All(some))
    for user, method in itertools.product(("a", "b", None), ("HEAD", "COPY")):
        facts = Facts("GET", "c", "o", Caller(user=user))
        assert holds(widened, replace(facts, method=method)) or not holds(widened, facts)


@pytest.mark.parametrize(
    ("condition", "methods"),
    [
        (method("GET"), "GET HEAD COPY"),
        (method("GET", "PUT"), "GET HEAD COPY PUT"),
        (method("HEAD"), "HEAD"),
        (method("PUT", "COPY"), "PUT COPY"),
        (model.Not(method("GET")), "HEAD COPY PUT POST DELETE"),
        (model.Not(method("HEAD")), "GET COPY PUT POST DELETE"),
        (model.Not(method("PUT", "POST")), "GET HEAD COPY DELETE"),
        (model.Not(model.Not(method("GET"))), "GET HEAD COPY"),
        (model.Any((method("GET"), method("POST"))), "GET HEAD COPY POST"),
        (model.All((method("GET", "PUT"), model.Not(method("COPY")))), "GET HEAD PUT"),
        (model.Not(model.Any((method("GET"), model.Not(method("GET", "PUT"))))), "PUT HEAD COPY"),
    ],
)
def test_the_methods_of_a_mandatory_rule(condition: Condition, methods: str) -> None:
    widened = with_all_reads(condition)
    assert {each for each in METHODS if holds(widened, Facts(each, "c", "o"))} == set(
        methods.split()
    )


def test_only_tests_of_the_method_are_widened() -> None:
    some = model.All(
        (named("GET"), Test("header", Operator.ONE_OF, frozenset({"GET"}), "x-http-method"))
    )
    assert with_all_reads(some) == some


def test_the_negated_test_of_a_missing_value_fails_closed() -> None:
    condition = model.Not(named("intern"))
    assert holds(condition, ANONYMOUS) is True, "else a client evades a mandatory rule"
    assert holds(cautious(condition), ANONYMOUS) is False, (
        "else an allow matches a caller without a name"
    )
    ann = Facts("GET", "c", "o", Caller(user="ann"))
    assert holds(condition, ann) is holds(cautious(condition), ann) is True


@pytest.mark.parametrize(
    ("written", "is_met"),
    [
        ("container: a", {"a", "a_segments", "a+segments"}),
        ("container: [a, b]", {"a", "a_segments", "a+segments", "b", "b_segments", "b+segments"}),
        ("container: {prefix: b}", {"b", "ba", "b_segments", "b+segments"}),
        ("container: {suffix: a}", {"a", "ba", "a_segments", "a+segments"}),
        (
            "container: {glob: '?'}",
            {"a", "b", "a_segments", "a+segments", "b_segments", "b+segments"},
        ),
        (
            "not: {container: [a, ba]}",
            {"a_segments", "a+segments", "b", "b_segments", "b+segments"},
        ),
        ("container: a, not: {container: a+segments}", {"a", "a_segments"}),
    ],
)
def test_a_mandatory_rule_covers_the_containers_of_segments(written: str, is_met: set[str]) -> None:
    names = ("a", "b", "ba", "a_segments", "a+segments", "b_segments", "b+segments")
    text = f"when: {{{written}}}"
    mandatory, ordinary = rules_of(f"{text}, mandatory: true, deny: x", f"{text}, deny: x").rules
    assert {name for name in names if holds(mandatory.condition, Facts("GET", name))} == is_met
    plain = {name for name in names if holds(ordinary.condition, Facts("GET", name))}
    assert plain <= is_met


@given(strategies.conditions())
def test_with_segments_only_adds_requests(condition: Condition) -> None:
    for facts in REQUESTS:
        assert holds(with_segments(condition), facts) or not holds(condition, facts), facts
