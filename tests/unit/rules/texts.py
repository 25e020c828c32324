"""Rules objects as text, parsed: helpers for tests that write rules as tenants do."""

from __future__ import annotations

from typing import Final

from rules import parse
from rules.model import Condition, Rule, RuleSet

HEAD: Final = "version: 1\nrules:\n"
#: A rules object with one valid rule.
RULE: Final = HEAD + "  - name: r\n    allow: true\n"


def parsed(source: bytes | str) -> RuleSet:
    """The rules of a text without faults."""
    rules, findings = parse.parse(source)
    assert findings == ()
    assert rules
    return rules


def rules_of(*texts: str) -> RuleSet:
    """Rules r0, r1, ..., each written as the inside of a flow mapping."""
    lines = [f"  - {{name: r{number}, {text}}}\n" for number, text in enumerate(texts)]
    return parsed(HEAD + "".join(lines))


def rule_of(body: str) -> Rule:
    """The rule with the lines of ``body``."""
    return parsed(_with_body(body)).rules[0]


def condition_of(written: str) -> Condition:
    """The condition of a rule that restricts, so the parser does not rewrite it."""
    return rule_of(f"when: {written}\ndeny: stop").condition


def places_of_faults(source: bytes | str) -> list[tuple[int, int, str]]:
    """Line, column and code of each fault of a text."""
    rules, findings = parse.parse(source)
    assert rules is None
    assert all(found.text and found.help for found in findings)
    return [(found.place.line, found.place.column, found.code) for found in findings]


def assert_fault(body: str, code: str, message: str, correction: str) -> None:
    """A rule with the lines of ``body`` has one fault, with these words in its text and help."""
    rules, findings = parse.parse(_with_body(body))
    assert rules is None
    (found,) = findings
    assert found.code == code
    assert message in found.text
    assert correction in found.help


def _with_body(body: str) -> str:
    return HEAD + "  - name: r\n" + "".join(f"    {line}\n" for line in body.splitlines())
