"""``storlet rules``: check, test, explain and compare the rules of an account before an upload.

The command works offline, on files, with the library :mod:`rules` that the proxy servers use.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from rules import engine, example, parse
from rules.check import consistency
from rules.facts import Facts
from rules.faults import suggestion
from rules.model import Finding, RuleSet, Severity
from rules.report import Report, audited_rule
from storlet_middleware.cli import cases, rules_access, text
from storlet_middleware.cli.cases import Case, Outcome
from storlet_middleware.cli.command import DONE, MISUSED, NOT_WELL, Command, complain, say
from storlet_middleware.cli.rules_files import (
    RulesFile,
    count,
    finding_data,
    print_json,
    read,
    refuse,
    show,
)

DESCRIPTION: Final = """Rules determine which requests run storlets, and which are refused.

Rules are in force once they are uploaded as storlet_rules/rules.yaml of an account. This command
checks, tests and explains them before that, offline: it does not know which storlets exist, which
callers may run them, and which limits a cluster allows.

A file is YAML or JSON; etc/rules.yaml-sample is an example. "-" is standard input.

  storlet rules check rules.yaml
  storlet rules who-can rules.yaml GET /patients-1/a.csv"""

_CHECK: Final = """Reports all problems of rules, each with its line, a correction and an example.

  storlet rules check --strict rules.yaml

The exit status is 0 without errors (--strict: and without warnings), else 1."""
_TEST: Final = """Decides example requests and compares the decisions with the expected ones.

  storlet rules test rules.yaml cases.yaml

CASES is a list in YAML or JSON:

- name: the storlet filters a researcher's GET
  request: {method: GET, container: patients-1, object: a.csv, roles: [researcher]}
  expect: {rule: deidentify, action: run, storlets: [deidentify.py]}

expect has at least one of rule (null: no rule), action (run, deny, allow, none) and storlets. Facts
that request does not list are missing. The exit status is 0 if all cases pass, else 1."""
_EXPLAIN: Final = """Shows the considered rules, the deciding conditions, and the storlets to run.

  storlet rules explain rules.yaml --request method=GET container=patients-1 object=a.csv \\
      roles=researcher content-type=text/csv size=2K metadata.study=7 header.x-purpose=export \\
      client-address=192.0.2.1 time='mon 22:05'

The names are those of conditions. A dot precedes the key of a map; repeat roles=NAME for several
roles. Facts that are not listed are missing; the method is GET unless given."""


def _declare(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    check = _verb(verbs, "check", "find problems of rules", _CHECK, _check)
    check.add_argument("--strict", action="store_true", help="fail on warnings as well")
    check.add_argument("file", metavar="FILE", help="the rules")
    test = _verb(verbs, "test", "decide example requests", _TEST, _test)
    test.add_argument("file", metavar="FILE", help="the rules")
    test.add_argument("cases", metavar="CASES", help="requests and expected decisions")
    explain = _verb(verbs, "explain", "explain the decision for a request", _EXPLAIN, _explain)
    explain.add_argument("file", metavar="FILE", help="the rules")
    explain.add_argument(
        "--request",
        nargs="+",
        action="extend",
        required=True,
        metavar="KEY=VALUE",
        help="facts about the request",
    )
    rules_access.declare_who_can(
        _verb(
            verbs,
            "who-can",
            "show the callers that get an object",
            rules_access.WHO_CAN,
            rules_access.who_can,
        )
    )
    rules_access.declare_diff(
        _verb(verbs, "diff", "compare two versions of rules", rules_access.DIFF, rules_access.diff)
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
    verb.add_argument("--json", action="store_true", help="print JSON")
    verb.set_defaults(do=do)
    return verb


def _run(options: argparse.Namespace) -> int:
    return int(options.do(options))


COMMAND: Final = Command(
    "rules",
    "rules of an account: check, test, explain, compare (offline)",
    DESCRIPTION,
    _declare,
    _run,
)


# --- check ----------------------------------------------------------------------------------------


def _all_findings(raw: bytes) -> tuple[RuleSet | None, tuple[Finding, ...]]:
    rules, findings = parse.parse(raw)
    if rules is None:
        return None, findings
    return rules, consistency.check(rules, storlets=None)


def _check(options: argparse.Namespace) -> int:
    source = read(options.file)
    rules, findings = _all_findings(source.raw)
    errors = sum(finding.severity is Severity.ERROR for finding in findings)
    warnings = sum(finding.severity is Severity.WARNING for finding in findings)
    if options.json:
        print_json(
            {
                "file": source.name,
                "version": rules.version if rules else None,
                "rules": len(rules.written) if rules else None,
                "errors": errors,
                "warnings": warnings,
                "findings": [finding_data(source, finding) for finding in findings],
            }
        )
    else:
        for finding in findings:
            say(show(source, finding))
        counted = f"{count(len(rules.written), 'rule')}, " if rules else ""
        counts = f"{count(errors, 'error')}, {count(warnings, 'warning')}"
        is_clean = not errors and not warnings
        say(f"{text.legible(source.name)}: {counted}{'no problems found' if is_clean else counts}")
    return NOT_WELL if errors or (warnings and options.strict) else DONE


# --- test -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Result:
    """A case with its outcome."""

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
    source, case_source = read(options.file), read(options.cases)
    rules, findings = parse.parse(source.raw)
    if rules is None:
        return refuse(options, source, findings)
    examples, faults = cases.read(case_source.raw)
    faults = faults or tuple(_unknown_rules(rules, examples))
    if faults:
        return refuse(options, case_source, faults)
    compiled = engine.compile(rules)
    results = [_try(compiled, case) for case in examples]
    reached = {result.outcome.rule for result in results}
    unreached = [rule.name for rule in rules.rules if rule.name not in reached]
    if options.json:
        print_json(
            {"cases": [_result_data(result) for result in results], "rules_without_case": unreached}
        )
    else:
        _print_results(case_source, results, unreached)
    return DONE if all(result.is_as_expected for result in results) else NOT_WELL


def _unknown_rules(rules: RuleSet, examples: Sequence[Case]) -> Iterable[Finding]:
    """A case that expects an unknown rule can never pass; its name is probably misspelt."""
    known = [rule.name for rule in rules.rules]
    for case in examples:
        wanted = case.expected.get("rule")
        if isinstance(wanted, str) and wanted not in known:
            is_audited = any(rule.name == wanted for rule in rules.written)
            what = "audited rule {!r}, which decides nothing" if is_audited else "unknown rule {!r}"
            message = f"the case {case.name!r} expects the {what.format(wanted)}"
            help_ = suggestion(wanted, known) if known else "there are no rules"
            yield Finding(Severity.ERROR, "case.rule", case.place, message, help_)


def _try(compiled: engine.Compiled, case: Case) -> _Result:
    explanation = tuple(compiled.explain(case.facts, case.facts.requests_storlet).lines())
    return _Result(case, cases.outcome_of(_decide(compiled, case.facts)), explanation)


def _decide(compiled: engine.Compiled, facts: Facts) -> engine.Decision:
    """Decide an example; it has no unknown facts, so the decision cannot need any."""
    decision = compiled.decide(facts, facts.requests_storlet)
    if isinstance(decision, engine.Needs):
        raise TypeError(f"unknown facts: {sorted(group.value for group in decision.groups)}")
    return decision


def _print_results(source: RulesFile, results: Sequence[_Result], unreached: Sequence[str]) -> None:
    for result in results:
        if result.is_as_expected:
            say(f"ok    {text.legible(result.case.name)}")
            continue
        say(f"FAIL  {text.legible(result.case.name)}")
        say(
            f"      {text.legible(source.name)}:{result.case.place.line}:{result.case.place.column}"
        )
        for name, wanted in result.case.differences(result.outcome).items():
            found = getattr(result.outcome, name)
            say(f"      {name}: expected {_word(wanted)}, got {_word(found)}")
        say(f"      request: {text.legible(example.describe(result.case.facts))}")
        for line in result.explanation:
            say(f"      {text.legible(line)}")
    if unreached:
        say(f"no case is decided by {', '.join(unreached)}")
    failed = sum(not result.is_as_expected for result in results)
    verdict = f"{failed} failed" if failed else "all as expected"
    say(f"{text.legible(source.name)}: {count(len(results), 'case')}, {verdict}")


def _word(value: cases.Wanted) -> str:
    if isinstance(value, tuple):
        return text.legible(f"[{', '.join(value)}]")
    return "no rule" if value is None else text.legible(value)


def _result_data(result: _Result) -> dict[str, Any]:
    return {
        "name": result.case.name,
        "line": result.case.place.line,
        "passed": result.is_as_expected,
        "expected": dict(result.case.expected),
        "rule": result.outcome.rule,
        "action": result.outcome.action,
        "storlets": result.outcome.storlets,
        "request": example.to_mapping(result.case.facts),
        "explanation": result.explanation,
    }


# --- explain --------------------------------------------------------------------------------------


def _explain(options: argparse.Namespace) -> int:
    try:
        facts = example.read_words(options.request)
    except example.ExampleError as error:
        for fault in error.faults:
            complain(f"storlet: --request: {text.legible(fault)}")
        return MISUSED
    source = read(options.file)
    rules, findings = parse.parse(source.raw)
    if rules is None:
        return refuse(options, source, findings)
    compiled = engine.compile(rules)
    explanation = compiled.explain(facts, facts.requests_storlet)
    report = replace(
        Report.of(facts, explanation, default_on=None), audited=audited_rule(compiled, facts)
    )
    if options.json:
        print_json(report.mapping())
    else:
        for line in report.lines():
            say(text.legible(line))
    return DONE
