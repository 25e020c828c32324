"""Explains the decisions of the rules for an operation, without performing it, to callers with read
access to the rules.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

from swift.common.swob import Request, Response

from rules.facts import Facts, ObjectFacts
from rules.model import Rule
from rules.report import Planned, Report
from storlet_middleware import names
from storlet_middleware.enforcement import audit
from storlet_middleware.enforcement.evaluation import Evaluation
from storlet_middleware.enforcement.request_facts import ObjectState
from storlet_middleware.enforcement.write_decisions import WriteDecisions
from storlet_middleware.engine import limits
from storlet_middleware.errors import StorletError
from storlet_middleware.ruleset.store import Loaded
from storlet_middleware.ruleset.versions import RULES
from storlet_middleware.wsgi import storlet_request
from storlet_middleware.wsgi.swift_paths import SwiftPath


def explain(evaluation: Evaluation) -> Response:
    """The decisions about the read, about the write of a copy and about further outputs, as text or
    (``Accept: application/json``) as JSON.
    """
    _, facts = evaluation.decide()
    _require_read_access(evaluation)
    subjects = [("", evaluation.subject, evaluation.loaded, facts)]
    target = evaluation.copy_target
    if target is not None:
        loaded = evaluation.store.of(evaluation.environ, target.version, target.account)
        written = WriteDecisions(evaluation).of_copy(facts)[1]
        subjects.append(("what is written: ", target, loaded, written))
    audited = {path: rule for path, rule, _ in audit.would_decide(evaluation)}
    lines: list[str] = []
    mappings: list[dict[str, Any]] = []
    for prefix, place, loaded, known in subjects:
        text, mapping = _explained(evaluation, place, loaded, known, audited.get(place))
        lines += [prefix + line for line in text]
        mappings.append(mapping)
    for line, mapping in _outputs(evaluation):
        lines.append(line)
        mappings.append(mapping)
    response = Response(status=200, request=Request(evaluation.environ))
    if "application/json" in evaluation.environ.get("HTTP_ACCEPT", ""):
        response.content_type, response.body = (
            "application/json",
            f"{json.dumps(mappings)}\n".encode(),
        )
    else:
        response.content_type, response.body = (
            "text/plain; charset=utf-8",
            ("\n".join(lines) + "\n").encode(),
        )
    return response


def _require_read_access(evaluation: Evaluation) -> None:
    """Raise Swift's refusal of a caller that may not read the object whose facts have decided."""
    state = evaluation.read.known_state
    if state is None:
        return
    evaluation.require_allowed("GET", evaluation.read.path)
    if state.end is not None:
        evaluation.require_allowed("GET", state.end)


def _explained(
    evaluation: Evaluation,
    place: SwiftPath,
    loaded: Loaded | None,
    facts: Facts,
    audited: Rule | None,
) -> tuple[list[str], dict[str, Any]]:
    container = evaluation.config.rules.container
    evaluation.require_allowed("GET", SwiftPath(place.version, place.account, container, RULES))
    if loaded is None:
        return ["no rules are in force"], {"version": None}
    if place.container == container:
        return ["no rules apply to the rules' own container"], {"version": None}
    report = dataclasses.replace(_report(evaluation, loaded, facts), audited=audited)
    lines = [f"rules of version {loaded.version[:12]}", *report.lines()]
    return lines, {"version": loaded.version, **report.mapping()}


def _outputs(evaluation: Evaluation) -> Iterator[tuple[str, dict[str, Any]]]:
    """Whether the rules allow each further output of the client's storlet."""
    operation = evaluation.operation
    if not operation.runs_storlet or evaluation.loaded is None:
        return
    outputs, _ = storlet_request.outputs_of(operation)
    for output in outputs:
        name = f"/{output.container}/{output.name}"
        place = operation.path.sibling(output.container, output.name)
        rule, message = evaluation.path_rules.output_refusal(place) or ("", "")
        outcome = f"refused by rule {rule}: {message}" if rule else "allowed"
        yield (
            f"output {name}: {outcome}",
            {"output": name, "outcome": "deny" if rule else "allow", "rule": rule or None}
            | ({"message": message} if rule else {}),
        )


def _report(evaluation: Evaluation, loaded: Loaded, facts: Facts) -> Report:
    # Only callers that may read the object see its metadata; a copy shows its source's.
    subject, state = evaluation.subject, evaluation.read.known_state
    may_read = subject.name is None or evaluation.read.is_shown(state or ObjectState(ObjectFacts()))
    report = Report.for_caller(
        loaded.compiled, facts, evaluation.config.placement.run_on, may_read=may_read
    )
    return dataclasses.replace(
        report, steps=tuple(_with_limits(evaluation, step) for step in report.steps)
    )


def _with_limits(evaluation: Evaluation, step: Planned) -> Planned:
    """``step`` with the limits in force: the lowest of rule, storlet and trust class."""
    subject, config = evaluation.subject, evaluation.config
    try:
        storlet = evaluation.proxy.catalog.resolve(
            evaluation.environ, subject.version, subject.account, step.storlet
        )
    except StorletError:
        return step  # there is no such storlet
    wanted, _ = limits.requested(
        {names.LIMIT_PREFIX + name: value for name, value in step.limits.items()}
    )
    trust_class = config.class_of(subject.account, step.storlet)
    return dataclasses.replace(step, limits=limits.in_force(trust_class, storlet.limits, wanted))
