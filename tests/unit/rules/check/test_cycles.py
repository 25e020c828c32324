"""Cycles of rules: which are found, their example, and partial evaluation."""

from __future__ import annotations

import pytest
from hypothesis import given

from rules import evaluation
from rules.check.budget import UndecidedError
from rules.check.cycles import CycleCheck, at
from rules.check.pipelines import StorletFacts
from rules.check.questions import Questions
from rules.evaluation import holds
from rules.model import All, Any, Condition, Not, Operator, Test
from tests.unit.rules import strategies
from tests.unit.rules.check.findings import STORLETS, WARNING, found, only
from tests.unit.rules.texts import rules_of

REQUESTS = strategies.pool(40)


def test_rules_that_undo_each_other() -> None:
    finding = only(
        "when: {container: logs, method: [PUT, COPY], content-type: text/plain}, run: gzip.jar",
        "when: {container: logs, method: COPY, content-type: application/gzip}, run: gunzip.jar",
        storlets=STORLETS,
    )
    assert (finding.code, finding.severity) == ("rules.undo-one-another", WARNING)
    assert (
        "r0 converts text/plain to application/gzip (COPY); r1 converts application/gzip to text/plain (COPY)"
        in finding.text
    )
    assert finding.example == "method=COPY container=logs object=object content-type=text/plain"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("container: a, method: PUT", "container: b, method: PUT"),  # different containers
        (
            "container: a, method: PUT",
            "container: a, method: GET",
        ),  # undoing a conversion on GET is intended
        ("container: a, method: PUT, user: x", "container: a, method: PUT, user: y"),
    ],
)
def test_rules_that_no_request_satisfies_together_are_no_cycle(one: str, other: str) -> None:
    assert found(
        f"when: {{{one}, content-type: text/plain}}, run: gzip.jar",
        f"when: {{{other}, content-type: application/gzip}}, run: gunzip.jar",
        storlets=STORLETS,
    ) == []  # fmt: skip


def test_an_earlier_rule_that_decides_a_stage_breaks_the_cycle() -> None:
    assert found(
        "when: {method: [PUT, COPY], content-type: {prefix: application/}}, deny: x",
        "when: {container: logs, method: [PUT, COPY], content-type: [text/plain, application/gzip]}, run: gzip.jar",
        "when: {container: logs, method: COPY, any: [{content-type: application/gzip}, {content-type: text/csv}]}, run: gunzip.jar",
        storlets={"gzip.jar": StorletFacts("gzip.jar", output_type="application/gzip"),
                  "gunzip.jar": StorletFacts("gunzip.jar", output_type="text/plain")},
    ) == []  # fmt: skip


def test_a_cycle_of_three_rules() -> None:
    storlets = {
        f"s{number}": StorletFacts(f"s{number}", output_type=f"x/{(number + 1) % 3}")
        for number in range(3)
    }
    finding = only(
        *(
            f"when: {{method: PUT, content-type: x/{number}}}, run: s{number}"
            for number in range(3)
        ),
        storlets=storlets,
    )
    assert (finding.code, finding.severity) == ("rules.cycle", WARNING)
    assert "rules r0, r1, r2 trigger each other in a cycle" in finding.text
    assert finding.example == "method=PUT container=container object=object content-type=x/0"


def test_the_example_of_a_cycle_satisfies_all_conditions_of_its_rules() -> None:
    finding = only(
        "when: {content-type: text/plain, container: a, user: x, method: PUT}, run: gzip.jar",
        "when: {content-type: application/gzip, container: a, object: {suffix: .gz}, method: PUT}, run: gunzip.jar",
        storlets=STORLETS,
    )
    assert finding.example == "method=PUT container=a object=.gz content-type=text/plain user=x"


def test_only_the_shortest_cycle_of_its_rules_is_reported() -> None:
    outputs = {"s0": "x/1", "s1": "x/0", "s2": "x/0"}
    finding = only(
        "when: {method: PUT, content-type: x/0}, run: s0",
        "when: {method: PUT, content-type: x/1}, run: s1",
        "when: {method: COPY, content-type: x/0}, run: s2",
        storlets={name: StorletFacts(name, output_type=output) for name, output in outputs.items()},
    )
    assert (finding.code, "rules r0 and r1 undo" in finding.text) == (
        "rules.undo-one-another",
        True,
    )


def test_paths_of_the_search_for_cycles_are_charged_to_the_budget() -> None:
    """Four layers of rules, each triggered by the whole layer before it: 30**4 paths, no cycle."""
    layers, width = 4, 30
    rules = rules_of(
        *(
            f"when: {{content-type: t/{layer}, header: {{h{layer}-{number}: x}}}}, run: s{layer}"
            for layer in range(layers)
            for number in range(width)
        )
    )
    storlets = {
        f"s{layer}": StorletFacts(f"s{layer}", output_type=f"t/{layer + 1}")
        for layer in range(layers)
    }
    cycles = CycleCheck(Questions(rules, total_steps=20_000), storlets, range(layers * width))
    with pytest.raises(UndecidedError):
        list(cycles.findings())


@given(strategies.conditions())
def test_partial_evaluation_agrees_with_the_engine(condition: Condition) -> None:
    for facts in REQUESTS:
        partial = at(condition, {"method": facts.method})
        assert holds(partial, facts) is holds(condition, facts), facts
        assert all(test.fact != "method" for test in evaluation.tests_of(partial))


def test_partial_evaluation_simplifies() -> None:
    put, user = Test("method", Operator.EXACT, "PUT"), Test("user", Operator.EXACT, "a")
    fixed = {"method": "PUT"}
    assert at(All((put, user)), fixed) == user
    assert at(Any((put, user)), fixed) == All()
    assert at(Not(put), fixed) == Any(())
    assert at(All((Not(put), user)), fixed) == Any(())
    assert at(user, fixed) == user
