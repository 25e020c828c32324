"""Outcomes of requests: each rule that can decide, with an example, against brute force."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules import engine
from rules.check import questions
from rules.check.outcomes import Effect, effect_of, outcomes, requests_for
from rules.evaluation import holds
from rules.model import Operator, Test
from tests.unit.rules.check.drawn_rules import rule_sets
from tests.unit.rules.small_world import WORLDS, World
from tests.unit.rules.texts import rules_of

RULES = rules_of(
    "when: {container: a, roles: [r]}, allow: true",
    "when: {container: [a, b], method: GET}, mandatory: true, run: s.py",
    "when: {container: c}, deny: stop",
)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (("GET", "a", "o"), [("r0", Effect.UNCHANGED), ("r1", Effect.PROCESSED)]),
        (("GET", "b", "o"), [("r1", Effect.PROCESSED)]),
        (("PUT", "b", "o"), [(None, Effect.UNCHANGED)]),
        (("PUT", "c", None), [("r2", Effect.REFUSED), (None, Effect.UNCHANGED)]),
    ],
)
def test_outcomes_are_the_rules_that_can_decide(
    request_: tuple[str, str, str | None], expected: list[tuple[str | None, Effect]]
) -> None:
    found = outcomes(RULES, requests_for(*request_))
    assert [(each.rule and each.rule.name, each.effect) for each in found] == expected


def test_a_client_that_requests_a_storlet_evades_an_ordinary_deny() -> None:
    unmatched = outcomes(RULES, requests_for("GET", "c", "o"))[-1]
    assert unmatched.example
    assert unmatched.example.requests_storlet


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
@given(st.data())
def test_outcomes_agree_with_brute_force(world: World, data: st.DataObject) -> None:
    rules = data.draw(rule_sets(world))
    condition = data.draw(world.conditions)
    found = outcomes(rules, [condition])
    compiled = engine.compile(rules)
    for each in found:
        assert each.example
        assert holds(condition, each.example)
        decision = compiled.decide(each.example, each.example.requests_storlet)
        assert isinstance(decision, engine.Decision)
        assert (decision.rule and decision.rule.name) == (each.rule and each.rule.name)
    held, met = world.held(condition), world.met(rules.rules)
    expected = {
        next((rule.name for rule in rules_met), None)
        for is_met, rules_met in zip(held, met, strict=True)
        if is_met
    }
    assert {each.rule and each.rule.name for each in found} == expected


def test_an_exhausted_budget_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "QUESTION_STEPS", 1)
    found = outcomes(RULES, [Test("container", Operator.GLOB, "*a*")])
    assert {each.example for each in found} == {None}
    assert found[-1].rule is None


def test_the_effect_without_a_rule_is_that_of_plain_swift() -> None:
    assert effect_of(None) is Effect.UNCHANGED
