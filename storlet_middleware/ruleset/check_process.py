"""Checks rules in a process of its own: ``python -m storlet_middleware.ruleset.check_process``.

Its argument is the limit of CPU seconds.  It reads lines of JSON and answers each with one.  For a
text it only parses the rules, limits their cost and lists the storlets that they run; for the facts
about these storlets it runs all checks of the same rules.  Bytes are encoded as text of the same
code points (Latin-1), because an upload need not be UTF-8:

::

    -> {"text": "version: 1 ..."}
    <- {"findings": [...], "is_mandatory": true, "steps": [{"rule": ..., "storlet": ..., ...}, ...]}
    -> {"storlets": {"thumb.py": {"exists": true, "readers": "all",
        "input_types": ["image/*"], "output_type": "image/png"}}}
    <- {"findings": [...], ...}
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

from rules import parse, template
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


class Check:
    """The state of the process: the rules of the text."""

    def __init__(self) -> None:
        self._rules: RuleSet | None = None

    def answer(self, line: bytes) -> bytes:
        """The answer to a line."""
        request = json.loads(line)
        if "text" in request:
            found = self.parse(request["text"].encode("latin-1"))
        else:
            found = self.check(request["storlets"])
        return json.dumps(found).encode() + b"\n"

    def parse(self, text: bytes) -> dict[str, Any]:
        """Parse ``text``; the server looks up the storlets only if it has no fault and costs
        little."""
        self._rules, findings = parse.parse(text)
        return self._found(findings if self._rules is None else cost.find(self._rules))

    def check(self, storlets: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Run all checks of the rules, which have been parsed."""
        if self._rules is None:
            raise ValueError("there are no rules")
        facts = {name: _facts(name, storlets[name]) for name in storlets}
        return self._found(tuple(_certain(consistency.check(self._rules, facts))))

    def _found(self, findings: tuple[Finding, ...]) -> dict[str, Any]:
        rules = self._rules
        return {
            "findings": [*map(as_data, findings)],
            "is_mandatory": rules is not None and any(rule.is_mandatory for rule in rules.rules),
            "steps": [] if rules is None else list(_steps(rules)),
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
        # A template with a value of the request is not known before one.
        "parameters": {
            name: None if template.names(text) else text.parts[0] for name, text in step.parameters
        },
        "line": place.line,
        "column": place.column,
    }


def main() -> None:
    child_limits.confine(int(sys.argv[1]))
    child_limits.give_way()
    made = Check()
    try:
        for line in sys.stdin.buffer:
            sys.stdout.buffer.write(made.answer(line))
            sys.stdout.buffer.flush()
    except MemoryError:
        sys.exit(child_limits.NO_MEMORY)


if __name__ == "__main__":
    main()
