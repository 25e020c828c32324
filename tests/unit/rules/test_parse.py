"""The structure of a rules object: every part of a rule, and faults that concern the whole rule."""

from __future__ import annotations

import pytest

from rules import model
from rules.evaluation import holds
from rules.facts import Caller, Facts
from rules.model import (
    Allow,
    Deny,
    Explicit,
    Operator,
    Passes,
    Place,
    Reverse,
    Rule,
    Run,
    Step,
    Template,
    Test,
)
from rules.parse import MAX_GLOB_COST, MAX_RULES, parse, version_of
from rules.rewriting import cautious, with_segments
from tests.unit.rules.texts import HEAD, assert_fault, parsed, places_of_faults, rule_of, rules_of

EVERYTHING = """\
version: 1
rules:
  - name: deidentify
    when:
      method: [GET, HEAD]
      container: {prefix: patients-, suffix: x}
    mandatory: true
    explicit: after
    run: {storlet: d-1.0.jar, parameters: {k: "v {object}"}, on: proxy, limits: {memory: 64M, cpu: 0.5}}
    pass: {metadata: [Project, x-*], headers: last-modified}
  - name: pack
    when: {method: PUT}
    run: [a.py, {storlet: b.py}]
    and-reverse-on-read: {run: c.py, when: {roles: reader}}
  - name: night
    deny: "no exports by night"
  - {name: rest, when: {}, allow: true}
"""


_SUFFIX = Test("container", Operator.SUFFIX, "x")


def test_every_part_of_a_rule() -> None:
    rules = parsed(EVERYTHING)
    methods = Test("method", Operator.ONE_OF, frozenset({"GET", "HEAD", "COPY"}))
    ends = model.All((Test("container", Operator.PREFIX, "patients-"), with_segments(_SUFFIX)))
    step = Step(
        "d-1.0.jar",
        (("k", Template(("v ", "object", ""))),),
        "proxy",
        (("memory", "64M"), ("cpu", "0.5")),
    )
    passes = Passes(("project", "x-*"), ("last-modified",))
    reader = Test("roles", Operator.HAS, frozenset({"reader"}))
    run = Run((Step("a.py"), Step("b.py")), Reverse((Step("c.py"),), reader))
    assert rules.rules == (
        Rule("deidentify", model.All((methods, ends)), Run((step,)), True, Explicit.AFTER, passes),
        Rule("pack", Test("method", Operator.EXACT, "PUT"), run),
        Rule("night", model.All(), Deny("no exports by night")),
        Rule("rest", model.All(), Allow()),
    )
    assert [rule.place for rule in rules.rules] == [
        Place(3, 5),
        Place(11, 5),
        Place(15, 5),
        Place(17, 5),
    ]
    assert rules.version == version_of(EVERYTHING.encode())


def test_negated_tests_of_missing_values_fail_in_rules_that_do_not_restrict() -> None:
    written = model.Not(Test("user", Operator.EXACT, "bob"))
    line = "when: {not: {user: bob}}\n"
    assert rule_of(line + "deny: stop").condition == written
    assert rule_of(line + "run: a.py\nmandatory: true").condition == written
    assert rule_of(line + "allow: true").condition == cautious(written) != written
    assert rule_of(line + "run: a.py").condition == cautious(written)
    reverse = rule_of(
        "run: a.py\nand-reverse-on-read: {run: b.py, when: {not: {user: bob}}}"
    ).action
    assert isinstance(reverse, Run)
    assert reverse.reverse == Reverse((Step("b.py"),), cautious(written))


def test_get_in_a_mandatory_rule_includes_head_and_copy() -> None:
    written, meant = (
        Test("method", Operator.EXACT, "GET"),
        Test("method", Operator.ONE_OF, frozenset({"GET", "HEAD", "COPY"})),
    )
    for action in ("run: a.py", "deny: stop"):
        for line in (
            "when: {method: GET}\n",
            "when: {method: [GET]}\n",
            "when: {method: {one-of: [GET, HEAD]}}\n",
        ):
            assert rule_of(f"{line}{action}\nmandatory: true").condition == meant
        assert rule_of(f"when: {{method: GET}}\n{action}").condition == written
        assert rule_of(
            f"when: {{not: {{method: GET}}}}\n{action}\nmandatory: true"
        ).condition == model.Not(written)
    assert rule_of("when: {method: GET}\nallow: true").condition == written


def test_a_caller_without_roles_does_not_evade_a_negated_role() -> None:
    anonymous = Facts("GET", "c", "o", Caller(is_anonymous=True))
    line = "when: {not: {roles: [intern]}}\n"
    assert holds(rule_of(line + "allow: true").condition, anonymous) is False
    assert holds(rule_of(line + "run: a.py").condition, anonymous) is False
    assert holds(rule_of(line + "deny: stop").condition, anonymous) is True
    assert holds(rule_of(line + "run: a.py\nmandatory: true").condition, anonymous) is True
    assert (
        holds(rule_of("when: {roles: {present: false}}\nallow: true").condition, anonymous) is True
    )


def test_an_empty_list_of_rules_is_valid() -> None:
    assert parsed("version: 1\nrules: []\n").rules == ()


@pytest.mark.parametrize(
    ("body", "code", "message", "correction"),
    [
        ("allou: true\nallow: true", "key.unknown", "a rule has no key 'allou'", "did you mean 'allow'?"),
        ("allow: true\npass: {headers: [last-modified]}", "key.misplaced", "pass requires a run", "remove it"),
        ("allow: true\nmandatory: true", "key.misplaced", "cannot be mandatory", "run or deny"),
        ("run: a.py\nmandatory: yes", "value.type", "mandatory must be true or false", "true or false"),
        ("run: a.py\nexplicit: after", "key.misplaced", "explicit requires", "mandatory: true"),
        ("run: a.py\nmandatory: true\nexplicit: later", "value.bad", "explicit cannot be 'later'", "after"),
        ("deny: stop\nmandatory: true\nexplicit: after", "key.misplaced", "explicit requires", "mandatory: true"),
        ("run: a.py\nwhen: {method: GET}\nand-reverse-on-read: {run: b.py}", "key.misplaced", "on PUT", "method: PUT"),
        ("deny: stop\nand-reverse-on-read: {run: b.py}", "key.misplaced", "requires a run", "remove it"),
        ("mandatory: false", "rule.actions", "has no action", "exactly one"),
        ("run: a.py\ndeny: stop", "rule.actions", "has run and deny", "exactly one"),
    ],
)  # fmt: skip
def test_each_fault_of_a_rule_has_a_code_a_text_and_a_help(
    body: str, code: str, message: str, correction: str
) -> None:
    assert_fault(body, code, message, correction)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("", [(1, 1, "key.missing")]),
        ("# only a comment\n", [(1, 1, "key.missing")]),
        ("{}", [(1, 1, "key.missing"), (1, 1, "key.missing")]),
        ("rules: []", [(1, 1, "key.missing")]),
        ("version: 2\nrules: []", [(1, 10, "value.bad")]),
        ("version: [1]\nrules: []", [(1, 10, "value.bad")]),
        ("version: 1\nrules: {}", [(2, 8, "value.type")]),
        ("version: 1\nrule: []", [(1, 1, "key.missing"), (2, 1, "key.unknown")]),
        ("- a", [(1, 1, "value.type")]),
        (HEAD + "  - allow: true\n", [(3, 5, "key.missing")]),
        (HEAD + "  - just text\n", [(3, 5, "value.type")]),
        (HEAD + "  - {name: a b, allow: true}\n", [(3, 12, "value.bad")]),
        (HEAD + "  - {name: a, allow: true}\n" * 3, [(4, 5, "rule.duplicate-name"), (5, 5, "rule.duplicate-name")]),
    ],
)  # fmt: skip
def test_places_of_faults(source: bytes | str, expected: list[tuple[int, int, str]]) -> None:
    assert sorted(places_of_faults(source)) == sorted(expected)


def test_all_faults_are_reported_together_in_the_order_of_the_text() -> None:
    source = HEAD + (
        "  - name: a\n"
        "    when:\n"
        "      contaiiner: x\n"
        "      user: 5\n"
        "      time: {from: soon}\n"
        "    allou: true\n"
        "  - name: b\n"
        "    run: {storlet: x.py, parameters: {p: '{y}'}}\n"
        "    mandatory: perhaps\n"
    )
    assert places_of_faults(source) == [
        (3, 5, "rule.actions"),
        (5, 7, "key.unknown"),
        (6, 13, "value.type"),
        (7, 20, "value.bad"),
        (8, 5, "key.unknown"),
        (10, 42, "value.bad"),
        (11, 16, "value.type"),
    ]


def test_too_many_rules_are_refused() -> None:
    rules = [f"  - {{name: r{number}, allow: true}}\n" for number in range(MAX_RULES + 1)]
    assert len(parsed(HEAD + "".join(rules[1:])).rules) == MAX_RULES
    assert places_of_faults(HEAD + "".join(rules)) == [(MAX_RULES + 3, 5, "size.rules")]


def test_the_total_cost_of_globs_is_limited() -> None:
    globs = ", ".join(
        f"{{object: {{glob: '*{'a?' * 500}*'}}}}" for _ in range(MAX_GLOB_COST // 1000)
    )
    rule = "  - {name: %s, when: {any: [%s]}, deny: stop}\n"
    source = HEAD + rule % ("a", globs)
    assert parsed(source)
    assert places_of_faults(source + rule % ("b", "{object: {glob: '*b*'}}")) == [
        (4, 5, "size.globs")
    ]


def test_literal_text_between_stars_adds_to_the_cost_of_globs() -> None:
    """A search for aaabaaa in aaaaaa multiplies both lengths, and a header can have 8 KiB."""
    glob = "*" + "a" * 500 + "b" + "a" * 499 + "*"
    texts = [f"when: {{header: {{x: {{glob: '{glob}'}}}}}}, deny: x" for _ in range(90)]
    lines = [f"  - {{name: r{number}, {text}}}" for number, text in enumerate(texts)]
    rules, findings = parse("\n".join(["version: 1", "rules:", *lines]) + "\n")
    assert rules is None
    assert [each.code for each in findings] == ["size.globs"]


@pytest.mark.untraced
def test_the_maximum_number_of_rules_may_each_have_a_short_glob() -> None:
    """The worst accepted case: each glob is tried at every position of a long run of a."""
    rules = [
        f"  - {{name: r{number}, when: {{object: {{glob: '*aabaa*'}}}}, deny: x}}"
        for number in range(MAX_RULES)
    ]
    assert parse("\n".join(["version: 1", "rules:", *rules]) + "\n")[0] is not None
    rules[-1] = rules[-1].replace("aabaa", "aabaaaa")
    assert [each.code for each in parse("\n".join(["version: 1", "rules:", *rules]) + "\n")[1]] == [
        "size.globs"
    ]


def test_audited_rules_are_not_among_the_enforced_ones() -> None:
    texts = ["mode: audit, deny: x", "deny: y", "mode: enforce, deny: z"]
    rules = rules_of(*texts)
    assert [rule.name for rule in rules.rules] == ["r1", "r2"]
    assert [(rule.name, rule.is_audited) for rule in rules.with_audited] == [
        ("r0", True), ("r1", False), ("r2", False),
    ]  # fmt: skip
    assert rules_of(*texts[1:]).with_audited == ()
