"""Compiled rules against a naive reference: the first match, the required facts, explanations."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules import engine, model
from rules.conditions import LOST, Group
from rules.engine import Compiled, Decision, Needs
from rules.facts import UNKNOWN, Caller, ContainerFacts, Facts, ObjectFacts
from rules.model import Allow, Deny, Operator, Reverse, Rule, RuleSet, Run, Step, Template, Test
from tests.unit.rules import naive, strategies

RUN = Run((Step("s.py"),))


def rule_set(*rules: Rule) -> RuleSet:
    return RuleSet(rules)


def is_(fact: str, value: str) -> Test:
    return Test(fact, Operator.EXACT, value)


REQUESTS = strategies.pool(50)
ALL_REQUESTS = [less for facts in REQUESTS for less in strategies.without(facts)]


@pytest.mark.parametrize("explicit", [False, True])
@given(strategies.rule_sets())
def test_decisions_agree_with_the_naive_reference(explicit: bool, rules: RuleSet) -> None:
    compiled = engine.compile(rules)
    for facts in ALL_REQUESTS:
        answer = compiled.decide(facts, explicit)
        expected = naive.first_match(rules.rules, facts, explicit=explicit)
        if isinstance(answer, Decision):
            assert answer.rule is expected, facts
        else:
            assert expected == "unknown" or naive_parameters_are_unknown(expected, facts), facts


def naive_parameters_are_unknown(rule: Rule | str | None, facts: Facts) -> bool:
    is_unknown = facts.stored is UNKNOWN and None not in (facts.object, facts.container)
    return isinstance(rule, Rule) and is_unknown and "metadata.k" in str(rule.action)


@given(strategies.rule_sets())
def test_a_decision_with_fewer_facts_is_correct(rules: RuleSet) -> None:
    """A decision that starts with fewer facts and adds those required is the same."""
    compiled = engine.compile(rules)
    for facts in REQUESTS:
        for less in strategies.without(facts):
            assert asked_until_decided(compiled, less, facts) == compiled.decide(facts), less


def asked_until_decided(compiled: Compiled, less: Facts, facts: Facts) -> Decision:
    while isinstance(answer := compiled.decide(less), Needs):
        assert answer.groups
        assert answer.groups <= compiled.needs
        for group in answer.groups:
            assert getattr(less, group.value) is UNKNOWN
            less = replace(less, **{group.value: getattr(facts, group.value)})
    return answer


def test_the_first_match_wins_also_between_lists_of_methods_and_containers() -> None:
    compiled = engine.compile(
        rule_set(
            Rule("put", is_("method", "PUT"), RUN),
            Rule("prefix", Test("container", Operator.PREFIX, "log"), RUN),
            Rule("logs", model.All((is_("container", "logs"), is_("method", "GET"))), RUN),
            Rule("some", Test("container", Operator.ONE_OF, frozenset({"a", "b"})), RUN),
            Rule("never", model.All((is_("container", "a"), is_("container", "b"))), RUN),
            Rule("nor", model.All((is_("method", "GET"), is_("method", "PUT"))), RUN),
            Rule("rest", model.All(), Allow()),
        )
    )

    def decider(method: str, container: str | None) -> str:
        answer = compiled.decide(Facts(method, container))
        assert isinstance(answer, Decision)
        assert answer.rule
        return answer.rule.name

    assert [decider("PUT", "logs"), decider("GET", "logs"), decider("GET", "b")] == [
        "put",
        "prefix",
        "some",
    ]
    assert [decider("GET", "z"), decider("GET", None), decider("OPTIONS", "a")] == [
        "rest",
        "rest",
        "some",
    ]


def test_nothing_is_looked_up_when_the_caller_is_not_concerned() -> None:
    condition = model.All(
        (
            Test("metadata", Operator.EXACT, "secret", "class"),
            Test("roles", Operator.HAS, frozenset({"x"})),
        )
    )
    compiled = engine.compile(rule_set(Rule("r", condition, Deny("no"))))
    assert compiled.needs == {Group.STORED}
    assert compiled.decide(Facts("GET", "c", "o")) == Decision(None)
    concerned = Facts("GET", "c", "o", Caller(roles=frozenset({"x"})))
    assert compiled.decide(concerned) == Needs(frozenset({Group.STORED}))
    assert compiled.decide(replace(concerned, object=None)) == Decision(None), (
        "a container has no object to look up"
    )


def test_an_undecided_rule_is_not_passed_over() -> None:
    rules = rule_set(
        Rule("unknown", is_("policy", "gold"), Deny("no")), Rule("rest", model.All(), Allow())
    )
    compiled = engine.compile(rules)
    assert compiled.decide(Facts("GET", "c", "o")) == Needs(frozenset({Group.HOLDER}))
    assert compiled.decide(Facts("GET", "c", "o", holder=ContainerFacts(policy="tin"))) == Decision(
        rules.rules[1]
    )


@given(strategies.rule_sets())
def test_lost_facts_take_no_request_out_of_a_rule_that_restricts(rules: RuleSet) -> None:
    """A storlet is never requested by a request with lost facts."""
    compiled = engine.compile(rules)
    for facts in REQUESTS:
        lossy = replace(facts, client_address=None, headers={}, lost=LOST)
        whole, less = compiled.decide(facts), compiled.decide(lossy)
        assert isinstance(whole, Decision), facts
        assert isinstance(less, Decision), facts
        if whole.rule is not None and engine.restricts(whole.rule):
            assert less.rule is not None, facts
            assert engine.restricts(less.rule), facts
            assert rules.rules.index(less.rule) <= rules.rules.index(whole.rule), facts
            if whole.rule.is_mandatory:
                assert compiled.may_cover(lossy, frozenset()) is not None, facts


@given(strategies.rule_sets())
def test_a_signature_takes_no_request_out_of_a_rule_that_restricts(rules: RuleSet) -> None:
    """Neither for a request without a user, nor for the signer."""
    compiled = engine.compile(rules)
    for facts in REQUESTS:
        signer = replace(facts.caller, is_signed=True)
        nobody = Caller(is_signed=True)
        signed = replace(facts, caller=replace(nobody, signer=signer))
        views = [compiled.decide(replace(facts, caller=caller)) for caller in (nobody, signer)]
        strict = [
            rules.rules.index(view.rule)
            for view in views
            if isinstance(view, Decision) and view.rule and engine.restricts(view.rule)
        ]
        answer = compiled.decide(signed)
        assert isinstance(answer, Decision), facts
        if not strict:
            assert answer == views[0], facts
            continue
        assert answer.rule is not None
        assert rules.rules.index(answer.rule) == min(strict), facts
        if answer.rule.is_mandatory:
            everything = compiled.narrowed(signed, frozenset())
            assert compiled.may_cover(signed, frozenset(), everything) is not None, facts


def test_the_facts_that_a_signers_rule_needs_are_looked_up() -> None:
    ada = Caller("ada", is_signed=True)
    both = model.All((is_("policy", "gold"), is_("user", "ada")))
    compiled = engine.compile(rule_set(Rule("r", both, Deny("no"))))
    signed = Facts("GET", "c", "o", Caller(is_signed=True, signer=ada))
    assert compiled.decide(signed) == Needs(frozenset({Group.HOLDER}))
    gold = replace(signed, holder=ContainerFacts(policy="gold"))
    assert compiled.decide(gold) == Decision(compiled.rules.rules[0])
    assert compiled.may_deny(gold, frozenset()) is compiled.rules.rules[0]


def test_a_rule_that_opens_needs_the_lost_fact() -> None:
    office = Test("client-address", Operator.WITHIN, (ip_network("10.0.0.0/8"),))
    lossy = Facts("GET", "c", "o", stored=ObjectFacts(), lost=LOST)
    for action in (Allow(), RUN):
        compiled = engine.compile(rule_set(Rule("r", office, action)))
        assert compiled.decide(lossy) == Decision(None)
        assert compiled.decide(replace(lossy, lost=frozenset())) == Decision(None)
    reverse = Reverse((Step("unpack.py"),), office)
    pack = Rule("pack", is_("method", "PUT"), Run((Step("pack.py"),), reverse))
    assert engine.compile(rule_set(pack)).reverse("pack", lossy) is None


def test_a_lost_fact_is_looked_up_no_more_than_others() -> None:
    both = model.All((is_("policy", "gold"), Test("header", Operator.EXACT, "b", "a")))
    compiled = engine.compile(rule_set(Rule("r", both, Deny("no"))))
    lossy = Facts("GET", "c", "o", lost=LOST)
    assert compiled.decide(lossy) == Needs(frozenset({Group.HOLDER}))
    gold = replace(lossy, holder=ContainerFacts(policy="gold"))
    assert compiled.decide(gold) == Decision(compiled.rules.rules[0])
    assert compiled.decide(replace(gold, headers={"a": "c"})) == Decision(None)


def test_facts_in_parameters_are_looked_up_too() -> None:
    run = Run((Step("s.py", (("p", Template(("", "metadata.k", ""))),)),))
    compiled = engine.compile(rule_set(Rule("r", model.All(), run)))
    assert compiled.needs == {Group.STORED}
    assert compiled.decide(Facts("GET", "c", "o")) == Needs(frozenset({Group.STORED}))
    assert compiled.decide(Facts("GET", "c", "o", stored=ObjectFacts())) == Decision(
        compiled.rules.rules[0]
    )


@pytest.fixture
def reversing() -> Compiled:
    reader = Test("roles", Operator.HAS, frozenset({"reader"}))
    cold = Test("metadata", Operator.EXACT, "cold", "tier")
    reverse = Reverse((Step("unpack.py"),), model.All((reader, cold)))
    return engine.compile(
        rule_set(
            Rule("pack", is_("method", "PUT"), Run((Step("pack.py"),), reverse)),
            Rule("r", model.All(), RUN),
        )
    )


def test_a_reversal_depends_on_the_facts_of_the_request(reversing: Compiled) -> None:
    reader = Facts("GET", "c", "o", Caller(roles=frozenset({"reader"})))
    assert reversing.needs == {Group.STORED}
    assert reversing.reverse("pack", Facts("GET", "c", "o")) is None
    assert reversing.reverse("pack", reader) == Needs(frozenset({Group.STORED}))
    assert reversing.reverse("pack", replace(reader, stored=ObjectFacts())) is None
    found = reversing.reverse(
        "pack", replace(reader, stored=ObjectFacts(metadata={"tier": "cold"}))
    )
    assert isinstance(found, Reverse)
    assert found.steps == (Step("unpack.py"),)
    assert reversing.reverse("r", reader) is None
    assert reversing.reverse("gone", reader) is None


def test_a_storlet_that_the_client_requests_takes_precedence_over_ordinary_rules_only() -> None:
    get = is_("method", "GET")
    rules = rule_set(
        Rule("stop", is_("container", "open"), Allow()),
        Rule("run", get, RUN),
        Rule("night", model.All(), Deny("no")),
        Rule("hide", is_("policy", "gold"), RUN, is_mandatory=True),
        Rule("rest", model.All(), Deny("never"), is_mandatory=True),
    )
    compiled = engine.compile(rules)
    asked = Facts("GET", "c", "o", holder=ContainerFacts(policy="gold"))
    assert compiled.decide(asked) == Decision(rules.rules[1])
    assert compiled.decide(asked, explicit=True) == Decision(rules.rules[3])
    assert compiled.decide(replace(asked, container="open"), explicit=True) == Decision(
        rules.rules[0]
    )
    assert compiled.decide(replace(asked, holder=UNKNOWN), explicit=True) == Needs(
        frozenset({Group.HOLDER})
    )
    assert compiled.explain(asked, explicit=True).lines()[1:3] == (
        "rule run (line 0) matches but gives way to the storlet that the client requests: method is 'GET' (required: 'GET')",
        "rule night (line 0) matches but gives way to the storlet that the client requests: it has no condition",
    )


def test_no_rules_decide_nothing() -> None:
    compiled = engine.compile(rule_set())
    assert compiled.decide(Facts("GET", "c", "o")) == Decision(None)
    assert compiled.needs == set()
    assert compiled.explain(Facts("GET")).lines() == (
        "no rule matches: the request proceeds as without rules",
    )


@pytest.mark.parametrize("explicit", [False, True])
@given(strategies.rule_sets(), st.sets(st.integers(0, 20)))
def test_audited_rules_change_no_decision(
    explicit: bool, rules: RuleSet, numbers: set[int]
) -> None:
    marked = tuple(
        replace(rule, is_audited=index in numbers) for index, rule in enumerate(rules.rules)
    )
    with_audited = engine.compile(RuleSet.of(marked))
    without = engine.compile(rule_set(*(rule for rule in marked if not rule.is_audited)))
    enforced = engine.compile(rule_set(*marked))
    assert (with_audited.needs, with_audited.has_reverse) == (without.needs, without.has_reverse)
    assert (with_audited.audit is None) == (not any(rule.is_audited for rule in marked))
    for facts in ALL_REQUESTS:
        assert with_audited.decide(facts, explicit) == without.decide(facts, explicit), facts
        audit = with_audited.audit or with_audited
        assert audit.decide(facts, explicit) == enforced.decide(facts, explicit), facts
    for facts in REQUESTS:
        unknown = frozenset({"object", "metadata"})
        assert with_audited.may_cover(facts, unknown) == without.may_cover(facts, unknown), facts
