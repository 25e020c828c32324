"""Changes between two versions of rules: each kind, with an example, against brute force."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.check import questions
from rules.check.changes import Change, Kind, changes
from rules.check.outcomes import effect_of
from rules.facts import Facts
from rules.model import Deny, Rule, RuleSet
from tests.unit.rules import naive
from tests.unit.rules.check.drawn_rules import rule_sets
from tests.unit.rules.small_world import WORLDS, World
from tests.unit.rules.texts import rules_of

STAFF = "when: {roles: [r]}, allow: true"
RUN = "when: {container: a, method: GET}, mandatory: true, run: s.py"
DENY = "when: {container: b}, deny: stop"


def summary(old: RuleSet, new: RuleSet) -> set[tuple[Kind, str | None, str | None]]:
    result = changes(old, new)
    assert not result.undecided
    return {(each.kind, _name(each.old), _name(each.new)) for each in result.found}


def _rules(texts: list[str]) -> RuleSet:
    return rules_of(*texts) if texts else RuleSet(())


def _name(rule: Rule | None) -> str | None:
    return rule.name if rule else None


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ([], [], set()),
        ([STAFF, RUN], [STAFF, RUN], set()),
        ([RUN], [], {(Kind.LOOSER, "r0", None)}),
        ([], [RUN], {(Kind.STRICTER, None, "r0")}),
        ([RUN], [STAFF, RUN], {(Kind.LOOSER, "r0", "r0")}),
        ([RUN], [RUN.replace("s.py", "t.py")], {(Kind.OTHER, "r0", "r0")}),
        # A client's own storlet takes the place of an ordinary rule.
        ([RUN], [RUN.replace("mandatory: true, ", "")],
         {(Kind.LOOSER, "r0", None), (Kind.OTHER, "r0", "r0")}),
        ([DENY], [DENY.replace("stop", "never")], {(Kind.OTHER, "r0", "r0")}),
        ([DENY], [DENY.replace("b}", "[b, c]}")], {(Kind.STRICTER, None, "r0")}),
        # An audited rule decides nothing.
        ([], [f"mode: audit, {DENY}"], set()),
        ([f"mode: audit, {DENY}"], [DENY], {(Kind.STRICTER, None, "r0")}),
        ([DENY], [f"mode: audit, {DENY}"], {(Kind.LOOSER, "r0", None)}),
    ],
)  # fmt: skip
def test_changes_name_the_deciding_rules(
    old: list[str], new: list[str], expected: set[tuple[Kind, str | None, str | None]]
) -> None:
    assert summary(_rules(old), _rules(new)) == expected


def test_a_new_name_or_another_order_without_effect_is_no_change() -> None:
    old = rules_of(RUN, DENY)
    assert summary(old, rules_of(DENY, RUN)) == set()


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
@given(st.data())
def test_changes_agree_with_brute_force(world: World, data: st.DataObject) -> None:
    old, new = data.draw(rule_sets(world, most=3)), data.draw(rule_sets(world, most=3))
    result = changes(old, new)
    assert not result.undecided
    for change in result.found:
        deciders = [_decider(rules, change.example) for rules in (old, new)]
        assert _change(*deciders, change.example) == change
    each_met = zip(world.met(old.rules), world.met(new.rules), world.asking, strict=True)
    expected = [
        _change(next(iter(before), None), next(iter(after), None), facts)
        for before, after, facts in each_met
    ]
    assert {(each.kind, _name(each.old)) for each in result.found} == {
        (each.kind, _name(each.old)) for each in expected if each
    }


def _decider(rules: RuleSet, facts: Facts) -> Rule | None:
    found = naive.first_match(rules.rules, facts, explicit=facts.requests_storlet)
    assert isinstance(found, Rule | None)
    return found


def _change(before: Rule | None, after: Rule | None, facts: Facts) -> Change | None:
    if effect_of(before) != effect_of(after):
        is_looser = effect_of(after) > effect_of(before)
        return Change(Kind.LOOSER if is_looser else Kind.STRICTER, before, after, facts)
    is_same = effect_of(before) == 2 or (
        before is not None
        and after is not None
        and before.action == after.action
        and (isinstance(before.action, Deny) or before.is_mandatory == after.is_mandatory)
    )
    return None if is_same else Change(Kind.OTHER, before, after, facts)


def test_an_exhausted_budget_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "QUESTION_STEPS", 1)
    old = rules_of("when: {container: {glob: '*a*'}}, deny: x")
    result = changes(old, RuleSet(()))
    assert not result.found
    assert {_name(each) for each in result.undecided} == {"r0", None}
