"""A process that says what is wrong with rules: ``python -m storlet_middleware.ruleset.check_process SECONDS``.

It reads JSON and prints JSON.  Without storlets it parses, and tells which storlets the rules run; with them it tells everything.
Bytes are text of the same code points, because what is uploaded need not be UTF-8:

::

    -> {"text": "version: 1 ...", "storlets": null}
    <- {"findings": [...], "is_mandatory": true, "steps": [{"rule": ..., "storlet": ..., "line": ..., ...}, ...]}
    -> {"text": "version: 1 ...", "storlets": {"thumb.py": {"exists": true, "readers": "all"}}}
    <- {"findings": [...], ...}

It is a process of its own because anybody who may change an account's rules can make it work for seconds: a proxy must not
stand still meanwhile, and the kernel ends what takes more time or memory than it may.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

from rules import parse
from rules.check import consistency
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

_MEMORY_BYTES: Final = 1 << 30
_NICE: Final = 10
#: How the process ends when that was not enough: by the kernel, or with this.
_NO_MEMORY: Final = 3
TOO_MUCH: Final = (-signal.SIGXCPU, -signal.SIGKILL, _NO_MEMORY)
#: Who may run a storlet: everybody, or those whom somebody named, of whom we only know that they are not anonymous.
READERS_ALL: Final = "all"
READERS_NAMED: Final = "named"
_MAY_RUN: Final[dict[str, Condition]] = {
    READERS_ALL: Always(),
    READERS_NAMED: Not(Test("anonymous", Operator.IS, True)),
}


def as_data(finding: Finding) -> dict[str, Any]:
    """A finding as :func:`from_data` reads it, and as clients get it."""
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
    """Reverse of :func:`as_data`."""
    place = Place(data["line"], data["column"])
    return Finding(
        Severity(data["severity"]), data["code"], place, data["text"], data["help"], data["example"]
    )


def check(text: bytes, storlets: Mapping[str, Mapping[str, Any]] | None) -> dict[str, Any]:
    """What the process answers."""
    rules, findings = parse.parse(text)
    if rules is None:
        return {"findings": [*map(as_data, findings)], "is_mandatory": False, "steps": []}
    if storlets is not None:
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
        name, exists=known["exists"], may_run=_MAY_RUN.get(known.get("readers") or "")
    )


def _certain(findings: tuple[Finding, ...]) -> Iterator[Finding]:
    """That *some* callers of a rule are anonymous, and may not run its storlets, is so of most rules, and is what is meant."""
    for finding in findings:
        if finding.code != "storlet.access" or finding.severity is Severity.ERROR:
            yield finding


def _steps(rules: RuleSet) -> Iterator[dict[str, Any]]:
    for rule in rules.rules:
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
    seconds = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(_NICE)
    asked = json.load(sys.stdin)
    try:
        json.dump(check(asked["text"].encode("latin-1"), asked["storlets"]), sys.stdout)
    except MemoryError:
        sys.exit(_NO_MEMORY)


if __name__ == "__main__":
    main()
