"""Checks rules in a process of its own: ``python -m storlet_middleware.ruleset.check_process``.

Its argument is the limit of CPU seconds.  It reads JSON and prints JSON.  Without storlets it only
parses the rules, limits their cost and lists the storlets that they run; with storlets it runs all
checks.  Bytes are encoded as text of the same code points (Latin-1), because an upload need not be
UTF-8:

::

    -> {"text": "version: 1 ...", "storlets": null}
    <- {"findings": [...], "is_mandatory": true, "steps": [{"rule": ..., "storlet": ..., ...}, ...]}
    -> {"text": "version: 1 ...", "storlets": {"thumb.py": {"exists": true, "readers": "all",
        "input_types": ["image/*"], "output_type": "image/png"}}}
    <- {"findings": [...], ...}
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

from rules import parse
from rules.check import consistency, cost
from rules.check.pipelines import StorletFacts
from rules.model import All as Always
from rules.model import (
    Condition,
    Finding,
    Not,
    Operator,
    Place,
    Rule,
    RuleSet,
    Run,
    Severity,
    Step,
    Test,
)
from storlet_middleware import child_limits

#: The callers that may run a storlet: all, or named ones, which are at least not anonymous.
READERS_ALL: Final = "all"
READERS_NAMED: Final = "named"
_MAY_RUN: Final[dict[str, Condition]] = {
    READERS_ALL: Always(),
    READERS_NAMED: Not(Test("anonymous", Operator.IS, True)),
}


def as_data(finding: Finding) -> dict[str, Any]:
    """A finding as JSON, for :func:`from_data` and for clients."""
    return {
        "severity": finding.severity.value,
        "code": finding.code,
        "line": finding.place.line,
        "column": finding.place.column,
        "text": finding.text,
        "help": finding.help,
        "example": finding.example,
    }


def from_data(data: Mapping[str, Any]) -> Finding:
    """The inverse of :func:`as_data`."""
    place = Place(data["line"], data["column"])
    return Finding(
        Severity(data["severity"]), data["code"], place, data["text"], data["help"], data["example"]
    )


def check(text: bytes, storlets: Mapping[str, Mapping[str, Any]] | None) -> dict[str, Any]:
    """The response of the process."""
    rules, findings = parse.parse(text)
    if rules is None:
        return {"findings": [*map(as_data, findings)], "is_mandatory": False, "steps": []}
    if storlets is None:
        # Before the server looks up the storlets, and before a check that takes long.
        findings = cost.find(rules)
    else:
        findings = tuple(
            _certain(
                consistency.check(rules, {name: _facts(name, storlets[name]) for name in storlets})
            )
        )
    return {
        "findings": [*map(as_data, findings)],
        "is_mandatory": any(rule.is_mandatory for rule in rules.rules),
        "steps": list(_steps(rules)),
    }


def _facts(name: str, known: Mapping[str, Any]) -> StorletFacts:
    return StorletFacts(
        name,
        exists=known["exists"],
        input_types=tuple(known.get("input_types") or ()),
        output_type=known.get("output_type"),
        may_run=_MAY_RUN.get(known.get("readers") or ""),
    )


def _certain(findings: tuple[Finding, ...]) -> Iterator[Finding]:
    """Drop the warning that some callers may not run a storlet.

    It applies to most rules, because anonymous callers may not run their storlets, and is intended.
    """
    for finding in findings:
        if finding.code != "storlet.access" or finding.severity is Severity.ERROR:
            yield finding


def _steps(rules: RuleSet) -> Iterator[dict[str, Any]]:
    for rule in rules.written:
        if isinstance(rule.action, Run):
            reverse = rule.action.reverse.steps if rule.action.reverse else ()
            yield from (_step(rule, step) for step in (*rule.action.steps, *reverse))


def _step(rule: Rule, step: Step) -> dict[str, Any]:
    place = step.place if step.place.line else rule.place
    return {
        "rule": rule.name,
        "storlet": step.storlet,
        "limits": dict(step.limits),
        "line": place.line,
        "column": place.column,
    }


def main() -> None:
    child_limits.confine(int(sys.argv[1]))
    child_limits.give_way()
    request = json.load(sys.stdin)
    try:
        json.dump(check(request["text"].encode("latin-1"), request["storlets"]), sys.stdout)
    except MemoryError:
        sys.exit(child_limits.NO_MEMORY)


if __name__ == "__main__":
    main()
