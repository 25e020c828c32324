"""Tests of ``may_cover`` with unknown facts, against every value of these facts in a small
world."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from operator import itemgetter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rules import engine, model
from rules.conditions import TABLE, Group
from rules.engine import Decision
from rules.facts import UNKNOWN, Caller, ContainerFacts, Facts, ObjectFacts
from rules.model import Allow, Condition, Deny, Operator, Rule, RuleSet, Run, Step, Test
from tests.unit.rules import naive, strategies
from tests.unit.rules.small_world import LOOKED_UP_WORLD, WORLDS, World

NOTHING: frozenset[str] = frozenset()
OF_GROUP = {
    group: frozenset(name for name, row in TABLE.items() if row.group is group) for group in Group
}
#: The possible values of a fact.
FIELDS = {
    "method": "method", "container": "container", "object": "object", "header": "headers", "query": "query",
    "client-address": "client_address", "time": "minute_of_week", "content-type": "stored.content_type",
    "size": "stored.size_bytes", "metadata": "stored.metadata", "container-metadata": "holder.metadata",
    "policy": "holder.policy", "user": "caller.user", "project": "caller.project", "domain": "caller.domain",
    "roles": "caller.roles", "anonymous": "caller.is_anonymous", "signed": "caller.is_signed",
}  # fmt: skip
REQUESTS = strategies.pool(24)
unknowns = st.frozensets(st.sampled_from(sorted(TABLE)), max_size=4)


def requests(unknown: frozenset[str]) -> list[Facts]:
    """Those that can be: no object, known or not, is in no container."""
    return [
        replace(facts, container="c")
        if facts.container is None and (facts.object is not None or "object" in unknown)
        else facts
        for facts in REQUESTS
    ]


def with_theirs(unknown: frozenset[str]) -> frozenset[str]:
    """An object that could be any has any content type, and a container any policy."""
    unknown |= OF_GROUP[Group.STORED] if "object" in unknown else NOTHING
    return unknown | (OF_GROUP[Group.HOLDER] if "container" in unknown else NOTHING)


def of(facts: Facts, fact: str) -> Any:
    value: Any = facts
    for name in FIELDS[fact].split("."):
        value = getattr(value, name)
    return value


def completed(facts: Facts, other: Facts, unknown: frozenset[str]) -> Facts:
    """``facts`` with what is unknown as in ``other``."""
    for fact in unknown:
        group, _, name = FIELDS[fact].rpartition(".")
        value = of(other, fact)
        facts = replace(
            facts,
            **(
                {group: replace(getattr(facts, group), **{name: value})} if group else {name: value}
            ),
        )
    return (
        facts
        if facts.object is None or facts.container is not None
        else replace(facts, container="c")
    )


def masked(facts: Facts, unknown: frozenset[str]) -> naive.Answer:
    """How the naive reference answers a test when these facts are unknown."""

    def answer(test: Test) -> bool | None:
        if test.fact in unknown:
            return None
        is_somewhere = facts.container is not None or "container" in unknown
        is_object = facts.object is not None or "object" in unknown
        if TABLE[test.fact].group is Group.STORED and is_somewhere and is_object:
            return naive.test_holds(test, replace(facts, container="-", object="-"))
        return naive.test_holds(test, facts)

    return answer


@given(strategies.rule_sets(), unknowns)
def test_without_a_possible_cover_no_mandatory_rule_decides(
    rules: RuleSet, unknown: frozenset[str]
) -> None:
    compiled, varying = engine.compile(rules), with_theirs(unknown)
    for facts in requests(unknown):
        found = compiled.may_cover(facts, unknown)
        for other, explicit in itertools.product(REQUESTS[:12], (False, True)):
            decision = compiled.decide(completed(facts, other, varying), explicit)
            assert isinstance(decision, Decision)
            if decision.rule and decision.rule.is_mandatory:
                assert found, (facts, other)
                assert rules.rules.index(found) <= rules.rules.index(decision.rule)


@given(strategies.rule_sets(), unknowns)
def test_without_a_possible_denial_no_request_is_denied(
    rules: RuleSet, unknown: frozenset[str]
) -> None:
    compiled, varying = engine.compile(rules), with_theirs(unknown)
    for facts in requests(unknown):
        found = compiled.may_deny(facts, unknown)
        assert found is None or isinstance(found.action, Deny)
        for other in REQUESTS[:12]:
            decision = compiled.decide(completed(facts, other, varying))
            assert isinstance(decision, Decision)
            if decision.rule and isinstance(decision.rule.action, Deny):
                assert found, (facts, other)
                assert rules.rules.index(found) <= rules.rules.index(decision.rule)


@given(strategies.rule_sets())
def test_a_denial_of_known_facts_is_the_decision(rules: RuleSet) -> None:
    compiled = engine.compile(rules)
    for facts in requests(NOTHING):
        decision = compiled.decide(facts)
        assert isinstance(decision, Decision)
        is_denied = decision.rule is not None and isinstance(decision.rule.action, Deny)
        assert compiled.may_deny(facts, NOTHING) is (decision.rule if is_denied else None)


@given(strategies.rule_sets())
def test_a_fact_that_was_not_looked_up_is_unknown(rules: RuleSet) -> None:
    compiled = engine.compile(rules)
    for facts in requests(NOTHING):
        for less in strategies.without(facts):
            decision = compiled.decide(facts, explicit=True)
            assert isinstance(decision, Decision)
            if decision.rule and decision.rule.is_mandatory:
                assert compiled.may_cover(less, NOTHING)


@given(strategies.rule_sets())
def test_with_all_facts_known_the_result_is_the_decision(rules: RuleSet) -> None:
    compiled = engine.compile(rules)
    for facts in requests(NOTHING):
        decision = compiled.decide(facts, explicit=True)
        assert isinstance(decision, Decision)
        mandatory = decision.rule if decision.rule and decision.rule.is_mandatory else None
        assert compiled.may_cover(facts, NOTHING) is mandatory


@given(strategies.rule_sets(), unknowns)
def test_the_result_is_that_of_three_valued_logic(rules: RuleSet, unknown: frozenset[str]) -> None:
    compiled, varying = engine.compile(rules), with_theirs(unknown)
    for facts in requests(unknown):
        assert compiled.may_cover(facts, unknown) is expected(
            rules.rules, masked(facts, varying)
        ), facts


def expected(rules: Iterable[Rule], answer: naive.Answer) -> Rule | None:
    for rule in rules:
        outcome = naive.evaluate(rule.condition, answer)
        if rule.is_mandatory and outcome is not False:
            return rule
        if isinstance(rule.action, Allow) and outcome:
            return None
    return None


@given(strategies.rule_sets(), unknowns, unknowns)
def test_fewer_rules_give_the_same_answer_for_all_that_differ_in_what_is_unknown(
    rules: RuleSet, unknown: frozenset[str], still: frozenset[str]
) -> None:
    compiled, varying = engine.compile(rules), with_theirs(unknown)
    for facts, other in itertools.pairwise(requests(unknown)):
        narrowed = compiled.narrowed(facts, unknown)
        assert narrowed <= set(range(len(rules.rules)))
        completion = completed(facts, other, varying)
        assert compiled.may_cover(completion, still & varying, narrowed) is compiled.may_cover(
            completion, still & varying
        )
        assert compiled.may_cover(facts, unknown, narrowed) is compiled.may_cover(facts, unknown)


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
@given(st.data())
def test_the_whole_of_a_small_world(world: World, data: st.DataObject) -> None:
    """Every request of the world that agrees with one in what is known of that."""
    rules = RuleSet(tuple(data.draw(_some_rules(world.name))))
    unknown = data.draw(
        st.frozensets(st.sampled_from(sorted({test.fact for test in world.tests})), min_size=1)
    )
    facts = world.requests[data.draw(st.integers(0, len(world.requests) - 1))]
    compiled = engine.compile(rules)
    found = compiled.may_cover(facts, unknown)
    deciders = [
        naive.first_match(rules.rules, each, explicit=explicit)
        for each in _completions(world, facts, unknown)
        for explicit in (False, True)
    ]
    if any(isinstance(rule, Rule) and rule.is_mandatory for rule in deciders):
        assert found


DIFFERENT_TESTS = st.lists(
    st.sampled_from(LOOKED_UP_WORLD.tests),
    max_size=3,
    unique_by=lambda test: (test.fact, test.key),
)


@settings(max_examples=10 * settings().max_examples)
@given(st.data())
def test_a_rule_without_a_matching_completion_covers_nothing(data: st.DataObject) -> None:
    """Exact as long as no fact is tested twice."""
    world = LOOKED_UP_WORLD
    tests = data.draw(DIFFERENT_TESTS)
    objects = [each for each in world.requests if each.object]
    facts = objects[data.draw(st.integers(0, len(objects) - 1))]
    unknown = data.draw(
        st.frozensets(st.sampled_from(["content-type", "metadata", "policy", "method"]))
    )
    rule = Rule("r", model.All(tuple(tests)), Deny("no"), is_mandatory=True)
    found = engine.compile(RuleSet((rule,))).may_cover(facts, unknown)
    met = any(naive.holds(rule.condition, each) for each in _completions(world, facts, unknown))
    assert (found is not None) is met


@st.composite
def _rules(draw: st.DrawFn, conditions: st.SearchStrategy[Condition]) -> Rule:
    action = draw(strategies.actions)
    return Rule(
        "r", draw(conditions), action, draw(st.booleans()) and not isinstance(action, Allow)
    )


@cache
def _some_rules(name: str) -> st.SearchStrategy[list[Rule]]:
    """Rules of the world ``name``."""
    (world,) = (each for each in WORLDS if each.name == name)
    return st.lists(_rules(world.conditions), min_size=1, max_size=4)


@cache
def _values(name: str) -> list[dict[str, Any]]:
    """The value of each fact in each request of the world ``name``."""
    (world,) = (each for each in WORLDS if each.name == name)
    return [{fact: of(facts, fact) for fact in TABLE} for facts in world.requests]


def _completions(world: World, facts: Facts, unknown: frozenset[str]) -> list[Facts]:
    known = itemgetter(*(TABLE.keys() - with_theirs(unknown)))
    wanted = known({fact: of(facts, fact) for fact in TABLE})
    return [
        each
        for each, values in zip(world.requests, _values(world.name), strict=True)
        if known(values) == wanted
    ]


def test_an_entry_of_a_listing() -> None:
    """Name, size and content type are there, metadata is not."""
    secret = Test("metadata", Operator.EXACT, "secret", "class")
    table = Test("content-type", Operator.EXACT, "text/csv")
    rules = RuleSet(
        (
            Rule("open", Test("object", Operator.PREFIX, "open/"), Allow()),
            Rule("ordinary", model.All(), Run((Step("s.py"),))),
            Rule("hide", model.All((secret, table)), Run((Step("s.py"),)), is_mandatory=True),
        )
    )
    compiled = engine.compile(rules)

    def covers(name: str, content_type: str) -> bool:
        entry = Facts(
            "GET",
            "c",
            name,
            stored=ObjectFacts(exists=True, content_type=content_type),
            holder=UNKNOWN,
        )
        return compiled.may_cover(entry, frozenset({"metadata"})) is not None

    listing = Facts("GET", "c", None, holder=UNKNOWN)
    entries = frozenset({"object", "content-type", "size", "metadata"})
    narrowed = compiled.narrowed(listing, entries)
    assert {compiled.rules.rules[number].name for number in narrowed} == {"open", "hide"}
    assert covers("a.csv", "text/csv")
    assert not covers("a.png", "image/png")
    assert not covers("open/a.csv", "text/csv")


def test_an_object_of_any_name_and_of_any_container() -> None:
    researcher = Test("roles", Operator.HAS, frozenset({"researcher"}))
    patients = Test("container", Operator.EXACT, "patients")
    named = Test("object", Operator.SUFFIX, ".csv")
    gold = Test("policy", Operator.EXACT, "gold")
    rule = Rule(
        "hide", model.All((researcher, patients, named, gold)), Deny("no"), is_mandatory=True
    )
    compiled = engine.compile(RuleSet((rule,)))
    caller, tin = Caller(roles=frozenset({"researcher"})), ContainerFacts(policy="tin")
    anything = frozenset({"container", "object"})
    assert compiled.may_cover(Facts("GET", "patients", None, caller), frozenset({"object"})) is rule
    assert (
        compiled.may_cover(
            Facts("GET", "patients", None, caller, holder=tin), frozenset({"object"})
        )
        is None
    )
    assert compiled.may_cover(Facts("GET", None, None, caller, holder=tin), anything) is rule, (
        "another container's"
    )
    assert (
        compiled.may_cover(Facts("GET", "archive", "a.csv", caller), frozenset({"container"}))
        is rule
    )
    assert (
        compiled.may_cover(Facts("GET", "archive", "a.png", caller), frozenset({"container"}))
        is None
    )
    assert compiled.may_cover(Facts("GET", None, None), anything) is None, "another caller"


def test_facts_of_one_object_are_unknown_for_other_objects() -> None:
    table = Test("content-type", Operator.EXACT, "text/csv")
    rule = Rule("hide", table, Deny("no"), is_mandatory=True)
    compiled, picture = (
        engine.compile(RuleSet((rule,))),
        ObjectFacts(exists=True, content_type="image/png"),
    )
    assert compiled.may_cover(Facts("GET", "c", "o", stored=picture), NOTHING) is None
    for name in ("o", None):
        assert (
            compiled.may_cover(Facts("GET", "c", name, stored=picture), frozenset({"object"}))
            is rule
        )
    assert (
        compiled.may_cover(Facts("GET", "c", "o", stored=picture), frozenset({"container"})) is None
    )
    assert (
        compiled.may_cover(Facts("GET", "c", None, stored=picture), frozenset({"container"}))
        is None
    ), "no object"


def test_a_misspelt_fact_is_no_fact() -> None:
    with pytest.raises(ValueError, match="unknown facts: mettadata"):
        engine.compile(RuleSet(())).may_cover(Facts("GET", "c", "o"), frozenset({"mettadata"}))
