"""Tests that parse but do not mean what they seem to: ``find(rules)`` returns warnings and notes.

======================== ==========================================================================
code                     the test
======================== ==========================================================================
``test.literal-star``    compares a value with a text that has a ``*``, which matches only itself
``test.metadata-prefix`` names metadata with its header's prefix, so no object has that key
``test.hidden-header``   reads a header that rules never see, because it is a secret
``test.hidden-role``     reads a role that no caller has
``test.by-role``         a note: a mandatory rule requires a role, which not all callers have
``rule.audited``         the rule is audited; a note, and a warning if it is mandatory
======================== ==========================================================================

Such a test never holds, or always below ``not``.  These checks look at one test at a
time; :mod:`rules.check.consistency` compares rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from rules.conditions import TABLE, Kind
from rules.facts import HIDDEN_HEADERS
from rules.model import (
    All,
    Any,
    Condition,
    Finding,
    Not,
    Operator,
    Rule,
    RuleSet,
    Run,
    Severity,
    Test,
)

#: By the fact: prefixes of the headers that carry its entries.
_PREFIXES: Final = {
    "metadata": ("x-object-meta-",),
    "container-metadata": ("x-container-meta-",),
}


def find(rules: RuleSet) -> tuple[Finding, ...]:
    """All warnings and notes about ``rules``, in the order of the text."""
    found = [
        finding
        for rule in rules.written
        for condition in _conditions(rule.condition, rule.action)
        for test in _tests(condition)
        for check in _CHECKS
        for finding in check(rule.name, test)
    ]
    found += [note for rule in rules.written if rule.is_mandatory for note in _by_role(rule)]
    found += [_audited(rule) for rule in rules.with_audited if rule.is_audited]
    return tuple(sorted(found, key=lambda each: (each.place.line, each.place.column)))


def _audited(rule: Rule) -> Finding:
    """A rule without effect is intended, unless something depends on its protection."""
    is_trap = rule.is_mandatory
    what, effect = ("mandatory rule", "protects nothing") if is_trap else ("rule", "has no effect")
    help_ = "remove mode: audit to enforce the rule"
    return Finding(
        Severity.WARNING if is_trap else Severity.NOTE,
        "rule.audited",
        rule.place,
        f"{what} {rule.name} is audited: it {effect}, and the requests that it would decide are"
        " counted",
        f"{help_}, or accept this warning if it is intended" if is_trap else help_,
    )


def _by_role(rule: Rule) -> Iterator[Finding]:
    """It may be intended, so it is a note, which no uploader has to accept."""
    for test in _required(rule.condition):
        if test.fact == "roles" and test.operator is Operator.HAS:
            yield Finding(
                Severity.NOTE,
                "test.by-role",
                test.place,
                f"the mandatory rule {rule.name} covers only callers with one of its roles; signed"
                " URLs and anonymous callers have no roles, and the rule does not cover them",
                f"if {rule.name} is to cover them too, write any: [{{roles: [..]}}, {{signed:"
                " true}, {anonymous: true}]",
            )
            return


def _required(condition: Condition) -> Iterator[Test]:
    """The tests that must all hold."""
    if isinstance(condition, Test):
        yield condition
    elif isinstance(condition, All):
        for part in condition.parts:
            yield from _required(part)


def _conditions(condition: Condition, action: object) -> Iterator[Condition]:
    yield condition
    if isinstance(action, Run) and action.reverse is not None:
        yield action.reverse.condition


def _tests(condition: Condition) -> Iterator[Test]:
    if isinstance(condition, Test):
        yield condition
    elif isinstance(condition, Not):
        yield from _tests(condition.part)
    else:
        parts: tuple[Condition, ...] = condition.parts if isinstance(condition, All | Any) else ()
        for part in parts:
            yield from _tests(part)


def _warning(code: str, test: Test, text: str, help_: str) -> Finding:
    return Finding(Severity.WARNING, code, test.place, text, help_)


def _literal_star(rule: str, test: Test) -> Iterator[Finding]:
    fact = TABLE[test.fact]
    if fact.kind not in (Kind.STRING, Kind.STRINGS) or fact.choices:
        return
    values = test.operand if isinstance(test.operand, frozenset) else (test.operand,)
    if test.operator not in (Operator.EXACT, Operator.ONE_OF):
        return
    starred = sorted(value for value in values if isinstance(value, str) and "*" in value)
    if starred:
        yield _warning(
            "test.literal-star",
            test,
            f"rule {rule} compares {_named(test)} with {starred[0]!r}, in which * is an ordinary"
            " character",
            f"for a pattern write {{glob: {starred[0]!r}}}",
        )


def _metadata_prefix(rule: str, test: Test) -> Iterator[Finding]:
    key = test.key or ""
    for prefix in _PREFIXES.get(test.fact, ()):
        if key.startswith(prefix) and len(key) > len(prefix):
            yield _warning(
                "test.metadata-prefix",
                test,
                f"rule {rule} tests the metadata {key}; keys have no prefix, so no object or"
                " container has it",
                f"write {key.removeprefix(prefix)}",
            )


def _hidden_header(rule: str, test: Test) -> Iterator[Finding]:
    if test.fact == "header" and test.key in HIDDEN_HEADERS:
        yield _warning(
            "test.hidden-header",
            test,
            f"rule {rule} tests the header {test.key}, which is missing for every rule: it is a"
            " secret of the caller",
            "test user, roles or project, which authentication has verified",
        )


def _hidden_role(rule: str, test: Test) -> Iterator[Finding]:
    if test.fact != "roles" or not isinstance(test.operand, frozenset):
        return
    if ".admin" in test.operand:
        yield _warning(
            "test.hidden-role",
            test,
            f"rule {rule} tests the role .admin, which no caller has: tempauth replaces it by the"
            " account's own group",
            "test user, or the role AUTH_<account>",
        )


def _named(test: Test) -> str:
    return f"{test.fact}.{test.key}" if test.key is not None else test.fact


_CHECKS: Final[tuple[Callable[[str, Test], Iterator[Finding]], ...]] = (
    _literal_star,
    _metadata_prefix,
    _hidden_header,
    _hidden_role,
)
