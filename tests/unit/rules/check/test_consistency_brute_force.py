"""The checker against brute force: small random rule sets, evaluated for every request of a small
world.

The worlds hold a request for every combination that their tests distinguish, and each is decided as
by :mod:`tests.unit.rules.naive`: so the checker's reports and the brute-force findings must be
equal, in both directions.
"""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rules.check.consistency import check
from rules.example import read_words
from rules.facts import Facts, ObjectFacts
from rules.model import Allow, Any, Condition, Deny, Finding, Operator, Rule, RuleSet, Run, Test
from tests.unit.rules import naive
from tests.unit.rules.check.drawn_rules import STORLETS, TYPES, rule_sets
from tests.unit.rules.small_world import LOOKED_UP_WORLD, WORLDS, World


class Count:
    """The rule that decides each request of a world."""

    def __init__(self, rules: Sequence[Rule], world: World) -> None:
        self.rules = rules
        self.requests = world.asking
        met = world.met(rules)
        self.met = [{rule.name for rule in each} for each in met]
        self.deciders = [next(iter(each), None) for each in met]

    def matches(self, rule: Rule) -> bool:
        return any(decider is rule for decider in self.deciders)

    def holds(self, rule: Rule) -> bool:
        return any(rule.name in met for met in self.met)

    def matches_only_when_asked(self, rule: Rule) -> bool:
        """The rule decides none of its matching requests without a storlet, though there are
        some."""
        plain = [number for number, facts in enumerate(self.requests) if not facts.headers]
        met = [number for number in plain if rule.name in self.met[number]]
        return bool(met) and not any(self.deciders[number] is rule for number in met)

    def is_got_past(self, rule: Rule, *actions: type) -> bool:
        """Requests that ``rule`` would match go to an earlier rule that does this and is not
        mandatory.
        """
        return any(
            rule.name in met
            and decider is not None
            and isinstance(decider.action, actions)
            and not decider.is_mandatory
            for met, decider in zip(self.met, self.deciders, strict=True)
            if decider is not rule
        )

    def is_read_past(self, rule: Rule) -> bool:
        """It decides a GET of an object, and the same request by HEAD or COPY goes to no mandatory
        rule, not to it either.
        """
        for facts, decider in zip(self.requests, self.deciders, strict=True):
            for method in (
                ("HEAD", "COPY")
                if decider is rule and facts.method == "GET" and facts.object
                else ()
            ):
                other = replace(facts, method=method)
                found = naive.first_match(self.rules, other, explicit=bool(facts.headers))
                is_covered = isinstance(found, Rule) and found.is_mandatory
                if not is_covered and not naive.holds(rule.condition, other):
                    return True
        return False

    def findings(self) -> Iterator[tuple[str, str]]:
        for rule in self.rules:
            if not self.holds(rule):
                yield rule.name, "rule.never-holds"
            elif not self.matches(rule):
                yield rule.name, "rule.never-matches"
            else:
                yield from self.findings_of_alive(rule)

    def findings_of_alive(self, rule: Rule) -> Iterator[tuple[str, str]]:
        if self.matches_only_when_asked(rule):
            yield rule.name, "rule.only-when-asked"
        if not rule.is_mandatory:
            return
        if self.is_got_past(rule, Allow):
            yield rule.name, "mandatory.allowed-past"
        if self.is_got_past(rule, Run, Deny) and not self.matches_only_when_asked(rule):
            yield rule.name, "mandatory.preceded"
        if self.is_read_past(rule):
            yield rule.name, "mandatory.read-past"


def reported(rules: RuleSet, findings: Sequence[Finding], codes: str) -> set[tuple[str, str]]:
    """Rule and code; a mandatory rule behind an ``allow`` never matches either."""
    return {
        (
            rules.rules[each.place.line - 1].name,
            each.code.replace("mandatory.useless", "rule.never-matches"),
        )
        for each in findings
        if each.code.startswith(tuple(codes.split()))
    }


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
@given(st.data())
def test_a_world_evaluates_conditions_as_the_reference(world: World, data: st.DataObject) -> None:
    rules, some = data.draw(rule_sets(world)).rules, slice(data.draw(st.integers(0, 19)), None, 20)
    for facts, met in zip(world.asking[some], world.met(rules)[some], strict=True):
        explicit = facts.requests_storlet
        assert next(iter(met), None) is naive.first_match(rules, facts, explicit=explicit)
    for rule in rules:
        held = world.held(rule.condition)[some]
        assert held == [naive.holds(rule.condition, facts) for facts in world.asking[some]]


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
@given(st.data())
def test_matching_rules_and_bypassed_rules_agree_with_brute_force(
    world: World, data: st.DataObject
) -> None:
    rules = data.draw(rule_sets(world))
    findings = check(rules, None)
    assert not [each for each in findings if each.code == "check.undecided"]
    assert reported(rules, findings, "rule. mandatory.") == set(
        Count(rules.rules, world).findings()
    )


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
@given(st.data())
def test_examples_demonstrate_their_findings(world: World, data: st.DataObject) -> None:
    rules = data.draw(rule_sets(world))
    for finding in check(rules, STORLETS):
        rule = rules.rules[finding.place.line - 1]
        if finding.code == "rule.never-holds" and not finding.example:
            continue  # nothing at all is left of its condition
        facts = read_words(shlex.split(finding.example))
        decider = naive.first_match(rules.rules, facts, explicit=facts.requests_storlet)
        assert isinstance(decider, Rule | None)
        match finding.code:
            case "rule.never-holds":
                assert not naive.holds(rule.condition, facts)
            case "mandatory.read-past":
                assert not naive.holds(rule.condition, facts)
                assert not (decider and decider.is_mandatory)
                get = replace(facts, method="GET")
                assert naive.first_match(rules.rules, get, explicit=facts.requests_storlet) is rule
            case code if code.startswith(("rule.", "mandatory.")):
                assert naive.holds(rule.condition, facts)
                assert decider is not rule
                assert decider is not None
                if code in {"rule.only-when-asked", "mandatory.preceded"}:
                    assert not facts.requests_storlet
            case "pipeline.input" | "storlet.access":
                assert decider is rule
            case "rules.undo-one-another" | "rules.cycle":
                assert decider is not None


@given(st.data())
def test_objects_that_a_storlet_does_not_accept_agree_with_brute_force(data: st.DataObject) -> None:
    rules = data.draw(rule_sets(LOOKED_UP_WORLD))
    count = Count(rules.rules, LOOKED_UP_WORLD)
    expected = set()
    for rule in rules.rules:
        own = [
            facts.stored.content_type
            for facts, decider in zip(count.requests, count.deciders, strict=True)
            if decider is rule and isinstance(facts.stored, ObjectFacts)
        ]
        accepted = _accepted(rule)
        wrong = {
            each
            for each in own
            if each is not None and accepted is not None and not each.startswith(accepted)
        }
        if wrong:
            is_possible = any(
                each is not None and accepted is not None and each.startswith(accepted)
                for each in own
            )
            expected.add((rule.name, "some objects" if is_possible else "only objects"))
    found = {
        (
            rules.rules[each.place.line - 1].name,
            next(which for which in ("some objects", "only objects") if which in each.text),
        )
        for each in check(rules, STORLETS)
        if each.code == "pipeline.input"
    }
    assert found == expected


def _accepted(rule: Rule) -> str | None:
    name = rule.action.steps[0].storlet if isinstance(rule.action, Run) else ""
    return {"a-to-b": "text/a", "b-to-a": "text/"}.get(name)


def _pairs_by_counting(rules: Sequence[Rule]) -> set[tuple[str, str]]:
    """Pairs of rules for which some request, at each one's output type, is decided by the other
    one.
    """
    shared = {
        (
            facts.container,
            facts.object,
            tuple(facts.stored.metadata.items()),
            facts.holder.policy,
            str(facts.holder),
        ): facts
        for facts in LOOKED_UP_WORLD.requests
        if facts.object is not None
        and isinstance(facts.stored, ObjectFacts)
        and not isinstance(facts.holder, str)
    }.values()
    running = [
        rule for rule in rules if isinstance(rule.action, Run) and _looks_at_type(rule.condition)
    ]
    found = set()
    for one, other in itertools.combinations(running, 2):
        for facts in shared:
            if _decides(rules, one, facts, _output(other)) and _decides(
                rules, other, facts, _output(one)
            ):
                found.add((one.name, other.name))
                break
    return found


def _decides(rules: Sequence[Rule], rule: Rule, facts: Facts, content_type: str | None) -> bool:
    if content_type is None or not isinstance(facts.stored, ObjectFacts):
        return False
    stored = replace(facts.stored, content_type=content_type)
    return any(
        naive.first_match(rules, replace(facts, method=method, stored=stored)) is rule
        for method in ("PUT", "COPY")
    )


def _output(rule: Rule) -> str | None:
    return (
        STORLETS[rule.action.steps[-1].storlet].output_type
        if isinstance(rule.action, Run)
        else None
    )


def _looks_at_type(condition: Condition) -> bool:
    return "content-type" in str(condition)


@settings(max_examples=6 * settings().max_examples)
@given(st.data())
def test_pairs_of_reversing_rules_agree_with_brute_force(data: st.DataObject) -> None:
    rules = data.draw(rule_sets(LOOKED_UP_WORLD, most=3))
    types = [Test("content-type", Operator.EXACT, each) for each in TYPES[:2]]
    rules = RuleSet(  # so that circles are not rare
        tuple(
            replace(rule, condition=Any((rule.condition, data.draw(st.sampled_from(types)))))
            if rule.name != "r0"
            else rule
            for rule in rules.rules
        )
    )
    findings = check(rules, STORLETS)
    assert not [each for each in findings if each.code == "check.undecided"]
    found = {
        tuple(each.text.split(" undo ")[0].removeprefix("rules ").split(" and "))
        for each in findings
        if each.code == "rules.undo-one-another"
    }
    assert found == _pairs_by_counting(rules.rules)
