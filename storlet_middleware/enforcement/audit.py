"""Audited rules (``mode: audit``): the decisions that they would make, recorded and never applied.

An audited decision is made after that of the enforced rules, as if the audited rules were enforced.
It has lookups of its own, so that the answer to the client, the lookups for the enforced rules, and
the object states that later reads are compared with are those without audited rules.  Its errors
are logged.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from rules.engine import Compiled
from rules.facts import Facts
from rules.model import Rule
from storlet_middleware.enforcement.evaluation import Evaluation
from storlet_middleware.enforcement.request_facts import Evaluator
from storlet_middleware.enforcement.rule_hits import RuleHits
from storlet_middleware.enforcement.write_decisions import WriteDecisions
from storlet_middleware.errors import StorletError
from storlet_middleware.wsgi.swift_paths import SwiftPath


def record(evaluation: Evaluation, hits: RuleHits, logger: Any) -> None:
    """Count the audited rules that would decide the operation."""
    try:
        for path, rule, _ in would_decide(evaluation):
            hits.count(path.account, rule)
    except StorletError as error:
        logger.warning(
            "audited rules of %s are not evaluated: %s", quote(evaluation.subject.account), error
        )


def would_decide(evaluation: Evaluation) -> Iterator[tuple[SwiftPath, Rule, Facts]]:
    """Each audited rule that would decide, with its path and the facts of the decision.

    The read and the write of a copy are two decisions, as for enforced rules.
    """
    subject, target = evaluation.subject, evaluation.copy_target

    source_state = functools.cache(evaluation.read.look_up)
    compiled = _audit_of(evaluation, subject)
    if compiled is not None:
        place = (subject.version, subject.account, subject.container)
        evaluator = Evaluator(evaluation.app, evaluation.environ, compiled, place, source_state)
        is_explicit = evaluation.operation.runs_storlet
        decision, facts = evaluator.decide(evaluation.request_facts(), explicit=is_explicit)
        if decision.rule is not None and decision.rule.is_audited:
            yield subject, decision.rule, facts
    compiled = _audit_of(evaluation, target) if target is not None else None
    if target is not None and compiled is not None:
        rule, facts = WriteDecisions(evaluation).of_copied(target, compiled, source_state)
        if rule is not None and rule.is_audited:
            yield target, rule, facts


def _audit_of(evaluation: Evaluation, path: SwiftPath) -> Compiled | None:
    loaded = evaluation.store.of(evaluation.environ, path.version, path.account)
    return None if loaded is None or evaluation.is_exempt(path) else loaded.compiled.audit
