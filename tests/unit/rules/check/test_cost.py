"""rules/check/cost.py: what rules may cost a server that all accounts share."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rules import model, parse
from rules.check import consistency, cost
from rules.model import Rule, RuleSet, Severity


def rules_of(*texts: str) -> RuleSet:
    lines = [f"- {{name: r{number}, {text}}}" for number, text in enumerate(texts)]
    rules, findings = parse.parse("\n".join(["version: 1", "rules:", *lines]))
    assert rules is not None, findings
    return rules


def many(count: int) -> str:
    tests = ", ".join(f"{{header: {{x-h{number}: a}}}}" for number in range(count))
    return f"when: {{any: [{tests}]}}, deny: x"


def rules_with(*counts: int, first: str = "") -> RuleSet:
    """A rule as of :func:`many` for each count.  One test of each is parsed: the parser takes
    seconds for thousands, and has limits of its own.
    """
    parsed = rules_of(*[f"{first}{many(1)}" for _ in counts])
    return RuleSet.of(tuple(map(_with_tests, parsed.written, counts)))


def _with_tests(rule: Rule, count: int) -> Rule:
    assert isinstance(rule.condition, model.Any)
    (test,) = rule.condition.parts
    assert isinstance(test, model.Test)
    tests = tuple(replace(test, key=f"x-h{number}") for number in range(count))
    return replace(rule, condition=model.Any(tests))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("deny: x", 1),
        (many(7), 8),
        ("when: {user: [a, b, c, d]}, deny: x", 2),
        ("when: {object: {glob: 'a*b*c'}}, deny: x", 10),
        ("when: {header: {x-a: {glob: 'a*b*c'}}}, deny: x", 62),
    ],
)
def test_the_cost_of_a_rule_is_its_comparisons(text: str, expected: int) -> None:
    assert cost.of(rules_of(text).rules[0]) == expected


def test_the_condition_of_a_reverse_counts() -> None:
    plain = "when: {method: PUT}, run: a"
    reverse = ", and-reverse-on-read: {run: b, when: {user: u}}"
    with_reverse = cost.of(rules_of(plain + reverse).rules[0])
    assert with_reverse == cost.of(rules_of(plain).rules[0]) + 1


def test_rules_within_the_limit_have_no_finding() -> None:
    assert cost.find(rules_with(cost.MAX_COST - 1)) == ()


def test_rules_that_are_too_expensive_name_the_figure_and_the_rule() -> None:
    (finding,) = cost.find(rules_with(10, 7_980, 20))
    assert (finding.severity, finding.code) == (Severity.ERROR, "size.cost")
    assert finding.place.line == 4
    assert "8,013 comparisons" in finding.text
    assert "rule r1 costs the most, 7,981" in finding.text


def test_a_hundred_storlets_may_be_named_and_the_rule_with_one_more_is_refused() -> None:
    run = [f"when: {{user: u{number}}}, run: s{number}.py" for number in range(cost.MAX_STORLETS)]
    assert cost.find(rules_of(*run, run[0])) == ()
    (finding,) = cost.find(rules_of(*run, "when: {user: last}, run: last.py"))
    assert (finding.code, "rule r100" in finding.text) == ("size.storlets", True)


def test_rules_beyond_a_limit_are_not_checked_further() -> None:
    (allow,), (expensive,) = rules_of("allow: true").rules, rules_with(cost.MAX_COST).rules
    too_expensive = RuleSet((allow, expensive))
    assert [each.code for each in consistency.check(too_expensive, None)] == ["size.cost"]


def test_audited_rules_count() -> None:
    rules = rules_with(*[100] * 100, first="mode: audit, ")
    assert all(rule.is_audited for rule in rules.written)
    assert [finding.code for finding in cost.find(rules)] == ["size.cost"]
