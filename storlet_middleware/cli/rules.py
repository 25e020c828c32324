"""``storlet rules``: rules of an account, checked, tested and explained before anybody depends on them.

It reads files and asks nobody: :mod:`rules` does the work, as it does in the proxy servers.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rules import engine, example, parse
from rules.check import consistency
from rules.facts import Facts
from rules.faults import among
from rules.model import Finding, RuleSet, Severity
from rules.report import Report
from rules.text import MAX_BYTES
from storlet_middleware.cli import cases, text
from storlet_middleware.cli.cases import Case, Outcome
from storlet_middleware.cli.command import DONE, MISUSED, NOT_WELL, CliError, Command, complain, say

DESCRIPTION: Final = """Rules say which requests run which storlets without the client asking, and which are refused.

They are in force when they are uploaded, as storlet_rules/rules.yaml of an account. Here they are checked, tested and explained
before that, offline: nobody is asked which storlets there are, who may run them and what limits a cluster allows.

A file is YAML or JSON, etc/rules.yaml-sample is one to begin with; "-" is standard input."""

_CHECK: Final = """Says what is wrong with rules: everything at once, each with its place, how to mend it, and a request that shows it.

It ends with 0 when there are no errors (--strict: and no warnings), and with 1 when there are."""
_TEST: Final = """Decides example requests, and says where the decision is not the expected one. CASES is a list in YAML or JSON:

- name: a researcher's GET goes through the storlet
  request: {method: GET, container: patients-1, object: a.csv, roles: [researcher]}
  expect: {rule: deidentify, action: run, storlets: [deidentify.py]}

expect has at least one of rule (null: no rule), action (run, deny, allow, none) and storlets. What request does not name is
missing. It ends with 0 when every case is as expected, and with 1 when one is not."""
_EXPLAIN: Final = """Says which rules are considered for a request, which condition decides, and what would run.

  storlet rules explain rules.yaml --request method=GET container=patients-1 object=a.csv roles=researcher \\
      content-type=text/csv size=2K metadata.study=7 header.x-purpose=export client-address=192.0.2.1 time='mon 22:05'

The names are those of conditions; entries of maps come after a dot, several roles are several words. What is not named is
missing; the method is GET."""


def _declare(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="check|test|explain")
    check = _verb(verbs, "check", "find what is wrong with rules", _CHECK, _check)
    check.add_argument(
        "--strict", action="store_true", help="end with 1 when there are warnings, too"
    )
    check.add_argument("file", metavar="FILE", help="the rules")
    test = _verb(verbs, "test", "decide example requests", _TEST, _test)
    test.add_argument("file", metavar="FILE", help="the rules")
    test.add_argument("cases", metavar="CASES", help="requests, and what is expected of each")
    explain = _verb(verbs, "explain", "say why a request is decided as it is", _EXPLAIN, _explain)
    explain.add_argument("file", metavar="FILE", help="the rules")
    explain.add_argument(
        "--request",
        nargs="+",
        action="extend",
        required=True,
        metavar="KEY=VALUE",
        help="what is known of the request",
    )


def _verb(
    verbs: Any, name: str, help_: str, description: str, do: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    verb: argparse.ArgumentParser = verbs.add_parser(
        name,
        help=help_,
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verb.add_argument("--json", action="store_true", help="the same for programs")
    verb.set_defaults(do=do)
    return verb


def _run(options: argparse.Namespace) -> int:
    return int(options.do(options))


COMMAND: Final = Command(
    "rules", "rules of an account: check, test, explain (offline)", DESCRIPTION, _declare, _run
)


# --- reading ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Text:
    """A file, as it is named in findings."""

    name: str
    raw: bytes


def _read(name: str) -> _Text:
    """No more than can be judged: one byte too many is enough for the finding that says so."""
    try:
        if name == "-":
            return _Text("<stdin>", sys.stdin.buffer.read(MAX_BYTES + 1))
        with Path(name).open("rb") as file:
            return _Text(name, file.read(MAX_BYTES + 1))
    except OSError as error:
        raise CliError(f"{text.legible(name)} cannot be read: {error.strerror or error}") from None


def _all_findings(raw: bytes) -> tuple[RuleSet | None, tuple[Finding, ...]]:
    rules, findings = parse.parse(raw)
    if rules is None:
        return None, findings
    return rules, consistency.check(rules, storlets=None)


# --- findings ---------------------------------------------------------------------------------------------------------


def _show(source: _Text, finding: Finding) -> str:
    place = f"{text.legible(source.name)}:{finding.place.line}:{finding.place.column}"
    lines = [f"{place}: {finding.severity.value} [{finding.code}]: {text.legible(finding.text)}"]
    lines += [f"    {label}: {text.legible(said)}" for label, said in _more(finding) if said]
    return "\n".join(lines)


def _more(finding: Finding) -> tuple[tuple[str, str], ...]:
    return ("help", finding.help), ("example", finding.example)


def _finding_data(source: _Text, finding: Finding) -> dict[str, Any]:
    return {
        "file": source.name,
        "line": finding.place.line,
        "column": finding.place.column,
        "severity": finding.severity.value,
        "code": finding.code,
        "text": finding.text,
        "help": finding.help,
        "example": finding.example or None,
    }


def _refuse(options: argparse.Namespace, source: _Text, findings: Sequence[Finding]) -> int:
    """What stands in the way of an answer."""
    if options.json:
        _say_data({"findings": [_finding_data(source, finding) for finding in findings]})
    else:
        for finding in findings:
            say(_show(source, finding))
    return NOT_WELL


def _say_data(data: dict[str, Any]) -> None:
    say(json.dumps(data, indent=2))


# --- check ------------------------------------------------------------------------------------------------------------


def _check(options: argparse.Namespace) -> int:
    source = _read(options.file)
    rules, findings = _all_findings(source.raw)
    errors = sum(finding.severity is Severity.ERROR for finding in findings)
    warnings = len(findings) - errors
    if options.json:
        _say_data(
            {
                "file": source.name,
                "version": rules.version if rules else None,
                "rules": len(rules.rules) if rules else None,
                "errors": errors,
                "warnings": warnings,
                "findings": [_finding_data(source, finding) for finding in findings],
            }
        )
    else:
        for finding in findings:
            say(_show(source, finding))
        read = f"{_count(len(rules.rules), 'rule')}, " if rules else ""
        said = (
            f"{_count(errors, 'error')}, {_count(warnings, 'warning')}"
            if findings
            else "nothing is wrong"
        )
        say(f"{text.legible(source.name)}: {read}{said}")
    return NOT_WELL if errors or (warnings and options.strict) else DONE


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


# --- test -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Tried:
    """A case, and what became of it."""

    case: Case
    outcome: Outcome
    explanation: tuple[str, ...]

    @property
    def is_as_expected(self) -> bool:
        return not self.case.differences(self.outcome)


def _test(options: argparse.Namespace) -> int:
    if options.file == options.cases == "-":
        complain("storlet: only one of FILE and CASES can be standard input")
        return MISUSED
    source, told = _read(options.file), _read(options.cases)
    rules, findings = parse.parse(source.raw)
    if rules is None:
        return _refuse(options, source, findings)
    read, faults = cases.read(told.raw)
    faults = faults or tuple(_unknown_rules(rules, read))
    if faults:
        return _refuse(options, told, faults)
    compiled = engine.compile(rules)
    tried = [_try(compiled, case) for case in read]
    reached = {one.outcome.rule for one in tried}
    unreached = [rule.name for rule in rules.rules if rule.name not in reached]
    if options.json:
        _say_data({"cases": [_tried_data(one) for one in tried], "rules_without_case": unreached})
    else:
        _say_tried(told, tried, unreached)
    return DONE if all(one.is_as_expected for one in tried) else NOT_WELL


def _unknown_rules(rules: RuleSet, read: Sequence[Case]) -> Iterable[Finding]:
    """A case that wants a rule that is not there can never be as expected; it is more likely misspelt."""
    known = [rule.name for rule in rules.rules]
    for case in read:
        wanted = case.expected.get("rule")
        if isinstance(wanted, str) and wanted not in known:
            said = (
                f"the case {case.name!r} expects the rule {wanted!r}, which is not among the rules"
            )
            yield Finding(
                Severity.ERROR,
                "case.rule",
                case.place,
                said,
                among(wanted, known) if known else "there are none",
            )


def _try(compiled: engine.Compiled, case: Case) -> _Tried:
    explanation = tuple(compiled.explain(case.facts, case.facts.asks_for_storlet).lines())
    return _Tried(case, cases.outcome_of(_decide(compiled, case.facts)), explanation)


def _decide(compiled: engine.Compiled, facts: Facts) -> engine.Decision:
    """An example names everything or says that it is missing, so nothing can be left to look up."""
    decision = compiled.decide(facts, facts.asks_for_storlet)
    if isinstance(decision, engine.Needs):
        raise TypeError(f"an example is without {sorted(group.value for group in decision.groups)}")
    return decision


def _say_tried(told: _Text, tried: Sequence[_Tried], unreached: Sequence[str]) -> None:
    for one in tried:
        if one.is_as_expected:
            say(f"ok    {text.legible(one.case.name)}")
            continue
        say(f"FAIL  {text.legible(one.case.name)}")
        say(f"      {text.legible(told.name)}:{one.case.place.line}:{one.case.place.column}")
        for name, wanted in one.case.differences(one.outcome).items():
            say(f"      {name}: expected {_word(wanted)}, got {_word(getattr(one.outcome, name))}")
        say(f"      request: {text.legible(example.describe(one.case.facts))}")
        for line in one.explanation:
            say(f"      {text.legible(line)}")
    if unreached:
        say(f"no case is decided by {', '.join(unreached)}")
    failed = sum(not one.is_as_expected for one in tried)
    say(
        f"{text.legible(told.name)}: {_count(len(tried), 'case')}, {f'{failed} failed' if failed else 'all as expected'}"
    )


def _word(value: cases.Wanted) -> str:
    if isinstance(value, tuple):
        return text.legible(f"[{', '.join(value)}]")
    return "no rule" if value is None else text.legible(value)


def _tried_data(one: _Tried) -> dict[str, Any]:
    return {
        "name": one.case.name,
        "line": one.case.place.line,
        "passed": one.is_as_expected,
        "expected": dict(one.case.expected),
        "rule": one.outcome.rule,
        "action": one.outcome.action,
        "storlets": one.outcome.storlets,
        "request": example.to_mapping(one.case.facts),
        "explanation": one.explanation,
    }


# --- explain ----------------------------------------------------------------------------------------------------------


def _explain(options: argparse.Namespace) -> int:
    try:
        facts = example.read_words(options.request)
    except example.ExampleError as error:
        for fault in error.faults:
            complain(f"storlet: --request: {text.legible(fault)}")
        return MISUSED
    source = _read(options.file)
    rules, findings = parse.parse(source.raw)
    if rules is None:
        return _refuse(options, source, findings)
    explanation = engine.compile(rules).explain(facts, facts.asks_for_storlet)
    report = Report.of(facts, explanation, default_on=None)
    if options.json:
        _say_data(report.mapping())
    else:
        for line in report.lines():
            say(text.legible(line))
    return DONE
