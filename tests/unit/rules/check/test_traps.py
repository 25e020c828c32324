"""rules/check/traps.py: a warning for each test that does not mean what it seems to."""

from __future__ import annotations

import pytest

from rules import parse
from rules.check import traps
from rules.model import Finding, RuleSet, Severity


def rules_of(when: str) -> RuleSet:
    text = f"version: 1\nrules:\n- name: r\n  when: {when}\n  deny: closed\n"
    rules, findings = parse.parse(text.encode())
    assert rules is not None, findings
    return rules


def found(when: str) -> tuple[Finding, ...]:
    return traps.find(rules_of(when))


@pytest.mark.parametrize(
    ("when", "code", "help_"),
    [
        ("{object: '*.csv'}", "test.literal-star", "{glob: '*.csv'}"),
        ("{container: [a, 'patients-*']}", "test.literal-star", "{glob: 'patients-*'}"),
        ("{metadata: {class: 'a*'}}", "test.literal-star", "{glob: 'a*'}"),
        ("{not: {object: '*.csv'}}", "test.literal-star", "{glob: '*.csv'}"),
        ("{any: [{user: u}, {object: '*'}]}", "test.literal-star", "{glob: '*'}"),
        ("{metadata: {X-Object-Meta-Class: a}}", "test.metadata-prefix", "class"),
        ("{container-metadata: {x-container-meta-x: a}}", "test.metadata-prefix", "x"),
        ("{header: {Authorization: a}}", "test.hidden-header", "roles"),
        ("{header: {x-auth-token: {present: true}}}", "test.hidden-header", "roles"),
        ("{roles: [.admin]}", "test.hidden-role", "AUTH_"),
    ],
)
def test_a_trap_is_a_warning_with_its_correction(when: str, code: str, help_: str) -> None:
    (finding,) = found(when)
    assert (finding.severity, finding.code) == (Severity.WARNING, code)
    assert help_ in finding.help
    assert (finding.place.line, "rule r " in finding.text) == (4, True)


@pytest.mark.parametrize(
    "when",
    [
        "{object: {glob: '*.csv'}}",
        "{object: {prefix: 'a*'}}",
        "{object: a.csv}",
        "{metadata: {class: a}}",
        "{header: {x-purpose: a}}",
        "{roles: [admin, .reseller_admin]}",
        "{metadata: {class: {present: false}}}",
    ],
)
def test_a_test_that_means_what_it_seems_to_is_no_trap(when: str) -> None:
    assert found(when) == ()


@pytest.mark.parametrize(
    ("when", "mandatory", "is_noted"),
    [
        ("{container: c, roles: [clerk]}", True, True),
        ("{all: [{container: c}, {all: [{roles: [clerk]}]}]}", True, True),
        ("{container: c, roles: [clerk]}", False, False),
        ("{container: c}", True, False),
        ("{not: {roles: [clerk]}}", True, False),
        ("{any: [{roles: [clerk]}, {signed: true}, {anonymous: true}]}", True, False),
    ],
)
def test_a_mandatory_rule_for_a_role_has_a_note(when: str, mandatory: bool, is_noted: bool) -> None:
    text = f"version: 1\nrules:\n- name: r\n  when: {when}\n  deny: closed\n"
    rules, findings = parse.parse(text + ("  mandatory: true\n" if mandatory else ""))
    assert rules is not None, findings
    notes = [(each.severity, each.code) for each in traps.find(rules)]
    assert notes == ([(Severity.NOTE, "test.by-role")] if is_noted else [])


@pytest.mark.parametrize(
    ("kind", "severity"),
    [("mandatory: true", Severity.WARNING), ("mandatory: false", Severity.NOTE)],
)
def test_an_audited_rule_is_reported(kind: str, severity: Severity) -> None:
    text = f"version: 1\nrules:\n- name: r\n  mode: audit\n  {kind}\n  deny: closed\n"
    rules, _ = parse.parse(text.encode())
    assert rules is not None
    (finding,) = traps.find(rules)
    assert (finding.severity, finding.code, finding.place.line) == (severity, "rule.audited", 3)
    assert "remove mode: audit" in finding.help


def test_an_audited_rule_is_checked_for_traps() -> None:
    text = "version: 1\nrules:\n- {name: r, mode: audit, when: {object: '*.csv'}, deny: closed}\n"
    rules, _ = parse.parse(text.encode())
    assert rules is not None
    assert {each.code for each in traps.find(rules)} == {"rule.audited", "test.literal-star"}
