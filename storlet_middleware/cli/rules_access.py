"""``storlet rules who-can`` and ``storlet rules diff``: what rules permit, and what a new version
changes.
"""

from __future__ import annotations

import argparse
from typing import Any, Final

from rules import example, parse
from rules.check.changes import Change, Kind, changes
from rules.check.outcomes import Effect, Outcome, outcomes, requests_for
from rules.facts import Facts
from rules.faults import suggestion
from rules.model import Deny, Rule, RuleSet
from rules.report import steps_of
from storlet_middleware.cli import text
from storlet_middleware.cli.command import DONE, MISUSED, NOT_WELL, complain, say
from storlet_middleware.cli.rules_files import count, print_json, read, refuse

WHO_CAN: Final = """Shows which callers get an object as it is stored, and what the others get.

  storlet rules who-can rules.yaml GET /patients-1/a.csv

Each line is an outcome that some request has, with the rule that decides, its condition, and such
a request. An outcome that is not listed is impossible under these rules. Read and write access of
Swift itself (ACLs, roles) applies as well and is not part of the answer.

The exit status is 0, or 1 if the work budget was exhausted for a rule."""
DIFF: Final = """Shows what a new version of rules changes, with an example for each change.

  storlet rules diff rules-in-force.yaml rules.yaml

"newly allowed" is a request that was refused, or whose object was processed by storlets, and that
gets more now. Without a listed change, no request is treated in another way.

The exit status is 0 if nothing is newly allowed, else 1; it is also 1 if the work budget was
exhausted."""
METHODS: Final = ("GET", "HEAD", "PUT", "POST", "COPY", "DELETE")

_EFFECTS: Final = {
    Effect.UNCHANGED: "unchanged",
    Effect.PROCESSED: "processed",
    Effect.REFUSED: "refused",
}
#: The same effect on a request that sends no object and gets none.
_ALLOWED: Final = "allowed"


def declare_who_can(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("file", metavar="FILE", help="the rules")
    verb.add_argument("method", metavar="METHOD", help=f"one of {', '.join(METHODS)}")
    verb.add_argument("path", metavar="/CONTAINER[/OBJECT]", help="the object, or a container")


def declare_diff(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("old", metavar="OLD", help="the rules in force")
    verb.add_argument("new", metavar="NEW", help="the new rules")


# --- outcomes -------------------------------------------------------------------------------------


def who_can(options: argparse.Namespace) -> int:
    method = options.method.upper()
    container, _, name = options.path.removeprefix("/").partition("/")
    faults = []
    if method not in METHODS:
        faults.append(f"METHOD {options.method!r}: {suggestion(method, METHODS)}")
    if not options.path.startswith("/") or not container:
        faults.append(f"{options.path!r}: write /CONTAINER/OBJECT, or /CONTAINER for a listing")
    for fault in faults:
        complain(f"storlet: {text.legible(fault)}")
    if faults:
        return MISUSED
    source = read(options.file)
    rules, findings = parse.parse(source.raw)
    if rules is None:
        return refuse(options, source, findings)
    found = outcomes(rules, requests_for(method, container, name or None))
    audited = [rule.name for rule in rules.written if rule.is_audited]
    if options.json:
        listed = [_outcome_data(each, method) for each in found]
        print_json({"outcomes": listed, "audited": audited})
    else:
        for each in sorted(found, key=lambda outcome: -outcome.effect):
            _print_outcome(each, method)
        if audited:
            say(f"audited, and so without effect: {text.legible(', '.join(audited))}")
    return NOT_WELL if any(each.example is None for each in found) else DONE


def _effect(outcome: Outcome, method: str) -> str:
    is_unchanged = outcome.effect is Effect.UNCHANGED
    return _ALLOWED if is_unchanged and method in {"DELETE", "POST"} else _EFFECTS[outcome.effect]


def _print_outcome(outcome: Outcome, method: str) -> None:
    say(f"{_effect(outcome, method):10} {text.legible(_by(outcome.rule))}")
    if outcome.rule is not None:
        say(f"           when {text.legible(example.show(outcome.rule.condition))}")
    say(f"           {_example(outcome.example)}")


def _example(facts: Facts | None) -> str:
    if facts is None:
        return "undecided: the work budget was exhausted; use shorter lists, or fewer any and not"
    return f"example: {text.legible(example.describe(facts))}"


def _by(rule: Rule | None) -> str:
    if rule is None:
        return "no rule decides"
    kind = "mandatory rule" if rule.is_mandatory else "rule"
    steps = [step.storlet for step in steps_of(rule)]
    if steps:
        return f"{kind} {rule.name}: runs {', '.join(steps)}"
    return f"{kind} {rule.name}: {'deny' if isinstance(rule.action, Deny) else 'allow'}"


def _outcome_data(outcome: Outcome, method: str) -> dict[str, Any]:
    rule = outcome.rule
    return {
        "effect": _effect(outcome, method),
        "rule": rule.name if rule else None,
        "condition": example.show(rule.condition) if rule else None,
        "storlets": [step.storlet for step in steps_of(rule)] if rule else [],
        "example": example.to_mapping(outcome.example) if outcome.example else None,
    }


# --- diff -----------------------------------------------------------------------------------------


def diff(options: argparse.Namespace) -> int:
    if options.old == options.new == "-":
        complain("storlet: only one of OLD and NEW can be standard input")
        return MISUSED
    versions: list[RuleSet] = []
    for name in (options.old, options.new):
        source = read(name)
        rules, findings = parse.parse(source.raw)
        if rules is None:
            return refuse(options, source, findings)
        versions.append(rules)
    old, new = versions
    result = changes(old, new)
    looser = sum(change.kind is Kind.LOOSER for change in result.found)
    if options.json:
        undecided = [rule.name if rule else None for rule in result.undecided]
        found = [_change_data(change) for change in result.found]
        print_json({"changes": found, "undecided": undecided})
    else:
        for kind in Kind:
            for change in result.found:
                if change.kind is kind:
                    _print_change(change)
        for rule in result.undecided:
            say(f"undecided: requests that {_decides(rule)}; the work budget was exhausted")
        summary = f"{count(len(result.found), 'change')}, {looser} newly allowed"
        say(summary if result.found or result.undecided else "no request is treated differently")
    return NOT_WELL if looser or result.undecided else DONE


def _decides(rule: Rule | None) -> str:
    return text.legible(f"rule {rule.name} decides" if rule else "no rule decides")


def _print_change(change: Change) -> None:
    say(f"{change.kind.value}: before, {text.legible(_by(change.old))}")
    say(f"    now: {text.legible(_by(change.new))}")
    say(f"    {_example(change.example)}")


def _change_data(change: Change) -> dict[str, Any]:
    return {
        "kind": change.kind.value,
        "old": change.old.name if change.old else None,
        "new": change.new.name if change.new else None,
        "example": example.to_mapping(change.example),
    }
