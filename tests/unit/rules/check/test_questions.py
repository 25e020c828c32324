"""Questions about a rules object: examples, deciders, covers, and their cost."""

from __future__ import annotations

import pytest

from rules.check.budget import UndecidedError
from rules.check.questions import NOT_REQUESTED, Answer, Cover, Questions, parts_of, present
from rules.evaluation import holds
from rules.facts import Facts
from rules.model import All, Any, Condition, Not, Operator, Test
from tests.unit.rules.texts import rules_of

PUT = Test("method", Operator.EXACT, "PUT")


def test_every_evaluation_is_charged_to_the_budget() -> None:
    rules = rules_of(*(f"when: {{header: {{h{number}: x}}}}, deny: x" for number in range(640)))
    questions = Questions(rules, total_steps=15)
    questions.decider(Facts("GET"))
    with pytest.raises(UndecidedError):
        questions.decider(Facts("GET"))


RULES = rules_of(
    "when: {container: a}, allow: true",
    "when: {container: [a, b], method: GET}, deny: x",
    "when: {container: b}, mandatory: true, deny: y",
    "when: {container: a, method: PUT}, deny: z",
)


def test_an_example_satisfies_the_conditions_and_names_its_decider() -> None:
    answer = Questions(RULES).example(Test("container", Operator.EXACT, "b"), PUT)
    assert answer is not None
    assert (answer.facts.container, answer.facts.method, answer.index) == ("b", "PUT", 2)
    elsewhere = Questions(RULES).example(Test("container", Operator.EXACT, "c"))
    assert elsewhere is not None
    assert elsewhere.index is None
    assert Questions(RULES).example(PUT, Not(PUT)) is None


@pytest.mark.parametrize(
    ("index", "also", "matches"),
    [(0, PUT, True), (1, PUT, False), (2, PUT, True), (2, Not(PUT), True), (3, PUT, False)],
)
def test_a_match_is_a_request_that_the_rule_decides(
    index: int, also: Condition, matches: bool
) -> None:
    answer = Questions(RULES).match(index, also)
    assert (answer is not None) is matches
    if answer is not None:
        assert answer.index == index
        assert holds(also, answer.facts)


def test_a_cover_names_the_rules_before_it_that_decide_all_its_requests() -> None:
    assert Questions(RULES).cover(3) == Cover((0,))
    first = Questions(RULES).cover(1)
    assert isinstance(first, Answer)
    assert (first.index, first.facts.container) == (1, "b")


def test_ordinary_rules_give_way_to_the_storlet_that_a_client_requests() -> None:
    questions = Questions(RULES)
    requested = Not(NOT_REQUESTED)
    assert questions.match(1, requested) is None
    mandatory = questions.match(2, requested, Not(PUT))
    assert mandatory is not None
    assert mandatory.facts.requests_storlet


def test_rules_with_contradicting_requirements_on_one_fact_cannot_meet() -> None:
    questions = Questions(rules_of("when: {user: a}, deny: x", "when: {user: b}, deny: x"))
    assert not questions.may_meet(0, 1)
    assert questions.may_meet(0, 1, but_for=["user"])
    assert questions.may_meet(0, 0)


def test_an_answer_has_a_time_only_if_a_rule_tests_it() -> None:
    for when, has_time in (("{time: {days: [tue]}}", True), ("{user: a}", False)):
        answer = Questions(rules_of(f"when: {when}, deny: x")).match(0)
        assert answer is not None
        assert (answer.facts.minute_of_week is not None) is has_time


def test_the_conjuncts_of_a_condition() -> None:
    one, other = present("user"), present("object")
    assert parts_of(All((one, All((other, All()))))) == (one, other)
    assert parts_of(Any((one, other))) == (Any((one, other)),)


def test_questions_share_the_total_budget() -> None:
    questions = Questions(RULES, total_steps=10)
    questions.spend(9)
    with pytest.raises(UndecidedError):
        questions.match(2)
