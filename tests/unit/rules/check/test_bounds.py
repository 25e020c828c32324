"""Rules that are written to keep a checker or a proxy busy: the work that they make is counted, and
ends.

The budgets are in steps, so these tests say the same on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rules.check import domains
from rules.check.budget import Budget, UndecidedError
from rules.check.consistency import check
from rules.check.cycles import CycleCheck
from rules.check.pipelines import StorletFacts
from rules.check.questions import Questions
from rules.check.solver import Solver
from rules.conditions import WEEK
from rules.facts import Facts
from rules.model import Operator, RuleSet, Test
from rules.parse import MAX_RULES, parse


def rules_of(*texts: str) -> RuleSet:
    lines = [f"  - {{name: r{number}, {text}}}" for number, text in enumerate(texts)]
    rules, faults = parse("\n".join(["version: 1", "rules:", *lines]) + "\n")
    assert rules is not None, faults
    return rules


def literals(*tests: Test) -> Iterator[domains.Literal]:
    yield from map(domains.Literal, tests)
    yield domains.Literal(Test("object", Operator.GLOB, "a*"), is_negated=True)


def test_a_long_list_of_networks_is_checked() -> None:
    networks = ", ".join(f"10.{high}.{low}.1" for high in range(40) for low in range(256))
    rules = rules_of(
        f"when: {{client-address: [{networks}]}}, deny: x",
        "when: {client-address: 10.39.0.1}, deny: x",
    )
    (finding,) = check(rules, None)
    assert finding.code == "rule.never-matches"


def test_many_short_windows_are_checked() -> None:
    windows = tuple((minute, minute) for minute in range(0, WEEK, 2))
    rest = tuple((minute, minute) for minute in range(1, WEEK, 2))
    budget = Budget(10_000)
    both = [
        domains.Literal(Test("time", Operator.WITHIN, each), is_negated=True)
        for each in (windows, rest)
    ]
    assert domains.solve(("time", None), both, budget).is_empty
    assert budget.left < 10_000 - WEEK // 8


def test_globs_compared_with_one_another_use_the_budget() -> None:
    tests = [Test("object", Operator.GLOB, "a*" + "?" * length) for length in range(200)]
    with pytest.raises(UndecidedError):
        domains.solve(("object", None), literals(*tests), Budget(20_000))


def test_long_words_matched_with_globs_use_the_budget() -> None:
    words = Test(
        "object", Operator.ONE_OF, frozenset("a" * 200 + str(number) for number in range(300))
    )
    tests = [Test("object", Operator.GLOB, "a*" + "?" * length) for length in range(50)]
    with pytest.raises(UndecidedError):
        domains.solve(("object", None), literals(words, *tests), Budget(20_000))


def test_differences_of_roles_use_the_budget() -> None:
    tests = [
        Test("roles", Operator.HAS, frozenset(f"r{role}" for role in range(1000)))
        for _ in range(10)
    ]
    budget = Budget(10_000)
    assert not domains.solve(("roles", None), map(domains.Literal, tests), budget).is_empty
    assert budget.left < 10_000 - 1000


def test_a_test_is_numbered_once_however_often_it_is_assumed() -> None:
    """To hash a list of networks is to go through it; equal tests at different places of the text
    are still the same.
    """
    solver = Solver()
    one, other = (Test("object", Operator.ONE_OF, frozenset({"a"})) for _ in range(2))
    outlines = [solver.outline(each) for each in (one, other, one)]
    assert outlines[0] == outlines[1] == outlines[2]


def test_every_evaluation_uses_the_budget() -> None:
    rules = rules_of(*(f"when: {{header: {{h{number}: x}}}}, deny: x" for number in range(640)))
    questions = Questions(rules, total_steps=15)
    questions.decider(Facts("GET"))
    with pytest.raises(UndecidedError):
        questions.decider(Facts("GET"))


def test_paths_to_a_cycle_use_the_budget() -> None:
    """Four layers of rules, each triggered by all of the layer before: a multitude of paths, and no
    circle.
    """
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
    circles = CycleCheck(Questions(rules, total_steps=20_000), storlets, range(layers * width))
    with pytest.raises(UndecidedError):
        list(circles.findings())


def test_plain_text_between_stars_counts_too() -> None:
    """Looking for aaabaaa in aaaaaa multiplies both lengths, and a request may bring a header of 8
    KiB to be looked through.
    """
    glob = "*" + "a" * 500 + "b" + "a" * 499 + "*"
    texts = [f"when: {{header: {{x: {{glob: '{glob}'}}}}}}, deny: x" for _ in range(90)]
    lines = [f"  - {{name: r{number}, {text}}}" for number, text in enumerate(texts)]
    rules, findings = parse("\n".join(["version: 1", "rules:", *lines]) + "\n")
    assert rules is None
    assert [each.code for each in findings] == ["size.globs"]


def test_as_many_globs_as_there_may_be_rules_are_fine_when_they_are_short() -> None:
    """The worst accepted case: each of these is searched at every position of a long run of the
    letter a.
    """
    rules = [
        f"  - {{name: r{number}, when: {{object: {{glob: '*aabaa*'}}}}, deny: x}}"
        for number in range(MAX_RULES)
    ]
    assert parse("\n".join(["version: 1", "rules:", *rules]) + "\n")[0] is not None
    rules[-1] = rules[-1].replace("aabaa", "aabaaaa")
    assert [each.code for each in parse("\n".join(["version: 1", "rules:", *rules]) + "\n")[1]] == [
        "size.globs"
    ]


def test_long_words_are_not_repeated_in_full() -> None:
    long, key = "9" * 10_000, "b" * 500
    _, findings = parse(
        f"version: 1\nrules: [{{name: {long}, {key}: &{'a' * 10_000} 1, {key}: 2}}]\n"
    )
    assert {"syntax.unsupported", "key.duplicate", "value.type"} <= {each.code for each in findings}
    assert all(len(each.text) + len(each.help) < 500 for each in findings)
