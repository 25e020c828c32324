"""The checker's findings in rules as tenants write them: code, severity, line, and the request that
shows the finding.
"""

from __future__ import annotations

import pytest

from rules.check.consistency import check
from rules.model import Deny, Operator, Rule, RuleSet, Test
from tests.unit.rules.check.findings import ERROR, STORLETS, WARNING, decider, found, only
from tests.unit.rules.texts import rules_of

# --- rules that never match -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("allow: true", "when: {container: a}, allow: true"),
        (
            "when: {object: {suffix: .csv}}, allow: true",
            "when: {object: {glob: 'x*.csv'}}, allow: true",
        ),
        (
            "when: {container: [a, b]}, allow: true",
            "when: {container: b, method: GET}, allow: true",
        ),
        (
            "when: {container: {glob: 'patients-*'}}, allow: true",
            "when: {container: {prefix: patients-x}}, deny: x",
        ),
        (
            "when: {size: {at-least: 1K}}, deny: x",
            "when: {size: {at-least: 1M, at-most: 2M}}, deny: x",
        ),
        (
            "when: {client-address: 10.0.0.0/8}, deny: x",
            "when: {client-address: [10.1.0.0/16, 10.7.1.2]}, deny: x",
        ),
        (
            "when: {time: {days: [sat, sun]}}, deny: x",
            "when: {time: {days: [sat], from: '10:00', to: '12:00'}}, deny: x",
        ),
        ("when: {roles: [a, b]}, deny: x", "when: {roles: a, user: bob}, deny: x"),
        ("when: {roles: [Doctor]}, deny: x", "when: {roles: DOCTOR}, deny: x"),
        (
            "when: {not: {content-type: text/csv}}, deny: x",
            "when: {content-type: {prefix: image/}}, deny: x",
        ),
        ("when: {user: {present: true}}, allow: true", "when: {user: {glob: '?*'}}, allow: true"),
        (
            "when: {any: [{container: a}, {user: bob}]}, deny: x",
            "when: {user: [bob], object: x}, deny: x",
        ),
        (
            "when: {object: {glob: '*[0-9].log'}}, deny: x",
            "when: {object: {glob: '*/[3-7].log'}}, deny: x",
        ),
    ],
)
def test_an_earlier_rule_covers_a_later_one(earlier: str, later: str) -> None:
    finding = only(earlier, later)
    assert (finding.code, finding.severity, finding.place.line) == ("rule.never-matches", ERROR, 4)
    assert "rule r0 before it decides every request" in finding.text
    assert decider(finding, earlier, later) == "r0"
    assert decider(finding, later) == "r0"  # alone it would match


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("when: {container: a}, allow: true", "allow: true"),
        (
            "when: {object: {suffix: .csv}}, allow: true",
            "when: {object: {glob: '*.csv*'}}, allow: true",
        ),
        ("when: {size: {at-least: 1K}}, deny: x", "when: {size: {at-least: 1023}}, deny: x"),
        # The allow does not match callers without a name: a missing value never opens.
        ("when: {not: {user: bob}}, allow: true", "when: {user: {present: false}}, deny: x"),
        ("when: {object: {glob: '?'}}, deny: x", "when: {object: {glob: '?*'}}, deny: x"),
        (
            "when: {time: {days: [mon]}}, deny: x",
            "when: {time: {days: [mon], from: '23:00', to: '01:00'}}, deny: x",
        ),
    ],
)
def test_an_earlier_rule_that_leaves_something_over_is_no_fault(earlier: str, later: str) -> None:
    assert found(earlier, later) == []


def test_rules_that_cover_only_together_are_all_named() -> None:
    finding = only(
        "when: {method: [GET, HEAD]}, deny: x",
        "when: {container: unrelated, method: DELETE}, deny: x",
        "when: {method: [PUT, POST]}, deny: x",
        "when: {not: {container: a}}, deny: x",
        "when: {method: [GET, PUT], container: a}, deny: x",
    )
    assert finding.code == "rule.never-matches"
    assert "rules r0, r2 before it decide every request" in finding.text


def test_rules_that_are_not_needed_for_a_cover_are_not_named() -> None:
    smaller, larger = "when: {container: a}, deny: x", "when: {container: [a, b]}, deny: x"
    assert (
        "rule r1 before it decides"
        in only(smaller, larger, "when: {container: [a, b]}, allow: true").text
    )
    finding = only(
        smaller,
        larger,
        "when: {container: c}, deny: x",
        "when: {container: [a, b, c]}, allow: true",
    )
    assert "rules r1, r2 before it decide" in finding.text


def test_the_days_of_a_week_cover_a_rule_without_a_time() -> None:
    week = [
        "when: {time: {days: [mon, tue, wed, thu, fri]}}, deny: x",
        "when: {time: {days: [sat, sun]}}, deny: x",
    ]
    assert found(*week, "deny: x") == [("rule.never-matches", ERROR)]


@pytest.mark.parametrize(
    ("when", "words"),
    [
        ("{object: {prefix: a, suffix: b, exact: ab c}}", "object: suffix 'b'; object: 'ab c'"),
        (
            "{size: {at-least: 2K, at-most: 1K}, user: bob}",
            "size: at least 2048; size: at most 1024",
        ),
        ("{anonymous: true, object: x, roles: admin}", "anonymous: true; roles: one of 'admin'"),
        (
            "{container: a, not: {any: [{container: a}, {user: bob}]}}",
            "container: 'a'; not (any (container: 'a'; user: 'bob'))",
        ),
        ("{method: GET, all: [{object: x}, {method: PUT}]}", "method: 'GET'; method: 'PUT'"),
    ],
)
def test_a_condition_that_never_holds_names_the_parts_that_exclude_one_another(
    when: str, words: str
) -> None:
    finding = only(f"when: {when}, deny: x")
    assert (finding.code, finding.severity, finding.place.line) == ("rule.never-holds", ERROR, 3)
    assert f"{words} contradict each other" in finding.text
    assert decider(finding, f"when: {when}, deny: x") is None


def test_a_rule_that_never_holds_is_not_said_to_be_covered() -> None:
    assert found("deny: x", "when: {container: a, not: {container: a}}, deny: x") == [
        ("rule.never-holds", ERROR),
    ]


def test_storlets_are_not_checked_if_none_are_known() -> None:
    assert found("run: nowhere.jar") == []


def test_a_reverse_that_no_caller_satisfies_never_holds() -> None:
    rule = "when: {method: PUT}, run: gzip.jar, and-reverse-on-read: {run: gunzip.jar, when: {user: a, anonymous: true}}"
    assert found(rule) == [("rule.never-holds", ERROR)]


def test_a_reverse_for_a_method_that_does_not_read_never_holds() -> None:
    rule = "when: {method: PUT}, run: gzip.jar, and-reverse-on-read: {run: gunzip.jar, when: {method: %s}}"
    finding = only(rule % "PUT")
    assert (finding.code, finding.severity, finding.place.line) == ("rule.never-holds", ERROR, 3)
    assert (
        "r0 (on read) can never hold: method: one of 'COPY', 'GET', 'HEAD'; method: 'PUT'"
        in finding.text
    )
    assert found(rule % "[PUT, GET]") == []


# --- bounds ---------------------------------------------------------------------------------------


def test_an_undecided_finding_is_reported_and_the_others_are_still_made() -> None:
    """The pigeonhole principle again: conditions that take every checker long."""
    pigeons = ", ".join(
        "{any: [" + ", ".join(f"{{header: {{p{pigeon}: '{hole}'}}}}" for hole in range(9)) + "]}"
        for pigeon in range(10)
    )
    apart = ", ".join(
        f"{{all: [{{header: {{p{one}: '{hole}'}}}}, {{header: {{p{other}: '{hole}'}}}}]}}"
        for hole in range(9)
        for one in range(10)
        for other in range(one)
    )
    rule = f"when: {{all: [{pigeons}], not: {{any: [{apart}]}}}}, deny: x"
    findings = check(rules_of(rule, "when: {container: a, not: {container: a}}, deny: x"), None)
    assert [each.code for each in findings] == ["check.undecided", "rule.never-holds"]
    assert "whether rule r0 can match" in findings[0].text


def test_an_answer_of_the_solver_that_the_engine_contradicts_is_no_answer() -> None:
    """Content types are read in lower case; that this one has any, the solver does not know, and
    must not say that it matches.
    """
    odd = Rule(
        "odd",
        Test("content-type", Operator.EXACT, "\N{LATIN CAPITAL LETTER E WITH ACUTE}"),
        Deny("x"),
    )
    assert [each.code for each in check(RuleSet((odd,)), None)] == ["check.undecided"]


def _ordinary(number: int) -> str:
    """Rules as a large tenant has them: each about something of its own, with a few things in
    common.
    """
    place = (
        f"container: c{number}",
        f"container: {{prefix: team{number % 97}-}}",
        f"container: {{glob: '*-{number % 53}-x*'}}",
    )
    what = (
        "object: {glob: '*.csv'}",
        "object: {prefix: logs/}",
        "content-type: {prefix: image/}",
        "size: {at-least: 1M}",
    )
    who = (
        "roles: [doctor, nurse]",
        "not: {user: bob}",
        f"client-address: 10.{number % 256}.0.0/16",
        "method: [GET, HEAD]",
    )
    action = (
        "allow: true",
        "deny: x",
        "mandatory: true, run: anything.py",
        "run: gzip.jar",
        "mandatory: true, deny: x",
    )
    when = f"{place[number % 3]}, {what[number // 3 % 4]}, {who[number // 7 % 4]}"
    return f"when: {{{when}}}, {action[number // 2 % 5]}"


@pytest.mark.untraced
def test_a_thousand_ordinary_rules_are_decided() -> None:
    """The budget is in steps, so this fails on every machine or on none; it takes two seconds."""
    codes = {each.code for each in check(rules_of(*map(_ordinary, range(1000))), STORLETS)}
    assert "check.undecided" not in codes
    assert {"mandatory.allowed-past", "mandatory.preceded", "pipeline.input"} <= codes


def test_findings_come_in_the_order_of_the_text() -> None:
    texts = [
        "when: {container: a, not: {container: a}}, deny: x",
        "run: nowhere.jar",
        "allow: true",
        "when: {object: a, not: {object: a}}, deny: x",
    ]
    lines = [each.place.line for each in check(rules_of(*texts), STORLETS)]
    assert lines == sorted(lines)
    assert len(lines) == 4


def test_no_rules_have_no_faults() -> None:
    assert check(RuleSet(()), {}) == ()


def test_a_long_list_of_networks_is_checked() -> None:
    networks = ", ".join(f"10.{high}.{low}.1" for high in range(40) for low in range(256))
    rules = rules_of(
        f"when: {{client-address: [{networks}]}}, deny: x",
        "when: {client-address: 10.39.0.1}, deny: x",
    )
    (finding,) = check(rules, None)
    assert finding.code == "rule.never-matches"


def test_problems_of_audited_rules_are_those_they_would_have_if_enforced() -> None:
    first = "mode: audit, when: {object: a}, deny: x"
    rules = rules_of(first, "when: {object: a}, deny: y", "mode: audit, when: {object: a}, deny: z")
    findings = {(each.code, each.place.line): each for each in check(rules, None)}
    assert set(findings) == {
        ("rule.audited", 3),
        ("rule.never-matches", 4),
        ("rule.audited", 5),
        ("rule.never-matches", 5),
    }
    for line in (4, 5):
        finding = findings["rule.never-matches", line]
        assert finding.text.startswith("if the audited rules were enforced: ")
        assert finding.severity is WARNING
