"""Findings of the consistency check for rules written as text, and storlets to run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Final

from rules import engine
from rules.check.consistency import check
from rules.check.pipelines import StorletFacts
from rules.example import read_words
from rules.model import Finding, Severity
from tests.unit.rules.texts import rules_of

ERROR, WARNING = Severity.ERROR, Severity.WARNING

GZIP: Final = StorletFacts("gzip.jar", input_types=("text/*",), output_type="application/gzip")
GUNZIP: Final = StorletFacts(
    "gunzip.jar", input_types=("application/gzip",), output_type="text/plain"
)
THUMBNAIL: Final = StorletFacts("thumbnail.py", input_types=("image/*",), output_type="image/png")
ANYTHING: Final = StorletFacts("anything.py")
STORLETS: Final = {each.name: each for each in (GZIP, GUNZIP, THUMBNAIL, ANYTHING)}


def found(
    *texts: str, storlets: Mapping[str, StorletFacts] | None = None
) -> list[tuple[str, Severity]]:
    """Code and severity of each finding."""
    return [(each.code, each.severity) for each in check(rules_of(*texts), storlets)]


def only(*texts: str, storlets: Mapping[str, StorletFacts] | None = None) -> Finding:
    """The only finding."""
    (finding,) = check(rules_of(*texts), storlets)
    return finding


def decider(finding: Finding, *texts: str) -> str | None:
    """The name of the rule that decides the finding's example."""
    facts = read_words(shlex.split(finding.example))
    decision = engine.compile(rules_of(*texts)).decide(facts, facts.requests_storlet)
    assert isinstance(decision, engine.Decision)
    return decision.rule.name if decision.rule else None
