"""A report of a decision: the considered rules, the deciding rule, and the storlets to run.

::

    facts = ...                                       # all facts that the decision needs
    report = Report.for_caller(compiled, facts, "object", may_read=True)
    report.lines(), report.mapping()                  # as text, as JSON

``storlet rules explain`` and ``X-Storlet-Explain`` both return this report.  The caller of this
module provides what differs: the default placement, the limits of the node, and whether the client
may see the object's metadata.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any as Anything
from typing import Final

from rules import example, template
from rules.conditions import TABLE, Group
from rules.engine import Compiled, Decision
from rules.explanation import Explanation
from rules.facts import RUN_HEADER, UNKNOWN, Facts
from rules.model import Allow, Deny, Explicit, Passes, Rule, Run, Step, Template
from rules.rewriting import READING

#: The name of each type of action; ``none`` if no rule decides.
ACTIONS: Final[Mapping[type, str]] = {Run: "run", Deny: "deny", Allow: "allow"}
NO_ACTION: Final = "none"


@dataclass(frozen=True)
class Planned:
    """A storlet that would run.

    :param on: ``object``, ``proxy``, or ``None`` if not specified.
    :param parameters: rendered for this request.
    :param missing: parameters that cannot be rendered, each with the missing value; the request
        would be refused.
    :param limits: by name.
    """

    storlet: str
    on: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)

    def line(self) -> str:
        words = [f"run {self.storlet}"]
        words += [f"on the {self.on}{' node' if self.on == 'object' else ''}"] if self.on else []
        words += [f"with parameters {_listed(self.parameters, repr)}"] if self.parameters else []
        words += [f"with limits {_listed(self.limits, str)}"] if self.limits else []
        return " ".join(words)

    def mapping(self) -> dict[str, Anything]:
        return {
            "storlet": self.storlet,
            "on": self.on,
            "limits": dict(self.limits),
            "parameters": dict(self.parameters),
            "missing": dict(self.missing),
        }


def _listed(values: Mapping[str, str], show: Anything) -> str:
    return ", ".join(f"{name}={show(value)}" for name, value in values.items())


def steps_of(rule: Rule | None) -> tuple[Step, ...]:
    """The steps that ``rule`` runs."""
    return rule.action.steps if rule is not None and isinstance(rule.action, Run) else ()


def planned(steps: Iterable[Step], facts: Facts, default_on: str | None) -> tuple[Planned, ...]:
    """``steps``, rendered for this request.

    :param default_on: the placement if the rule specifies none; for a PUT it is always the proxy.
    """
    return tuple(
        _planned(step, facts, "proxy" if facts.method == "PUT" else step.on or default_on)
        for step in steps
    )


def _planned(step: Step, facts: Facts, on: str | None) -> Planned:
    parameters, missing = {}, {}
    for name, written in step.parameters:
        try:
            parameters[name] = _value(written, facts)
        except template.MissingValue as error:
            missing[name] = error.name
    return Planned(step.storlet, on, parameters, missing, dict(step.limits))


def _value(written: Template, facts: Facts) -> str:
    """The rendered value; the source text if it needs stored facts that are unknown or hidden."""
    if Group.STORED in template.groups(written) and facts.stored is UNKNOWN:
        return template.describe(written)
    return template.render(written, facts)


def may_show_stored(rule: Rule | None, facts: Facts) -> bool:
    """Whether a caller with read access may see the object's content type, size and metadata.

    Only for methods that read: permission to write or delete does not imply permission to read.
    Not if ``rule`` restricts the read.
    """
    if facts.method not in READING or (rule is not None and rule.is_mandatory):
        return False
    return rule is None or not isinstance(rule.action, Deny)


@dataclass(frozen=True)
class Report:
    """The content of a report.

    :param steps: the storlets to run, in order: those of the rule, or of a reverse on read.
    :param shows_stored: whether the object's content type, size and metadata are shown.
    :param audited: the audited rule that would decide if the audited rules were enforced.
    """

    facts: Facts
    explanation: Explanation
    steps: tuple[Planned, ...] = ()
    shows_stored: bool = True
    audited: Rule | None = None

    @classmethod
    def of(
        cls,
        facts: Facts,
        explanation: Explanation,
        default_on: str | None,
        *,
        shows_stored: bool = True,
    ) -> Report:
        """A report about the deciding rule."""
        seen = facts if shows_stored else replace(facts, stored=UNKNOWN)
        return cls(
            seen, explanation, planned(steps_of(explanation.rule), seen, default_on), shows_stored
        )

    @classmethod
    def for_caller(
        cls, compiled: Compiled, facts: Facts, default_on: str | None, *, may_read: bool
    ) -> Report:
        """A report for the client itself; it hides what the rules hide from this client.

        :param may_read: Swift permits the client to read the object.
        """
        explanation = compiled.explain(facts, facts.requests_storlet)
        reads = (replace(facts, method=method) for method in READING)
        shows = (
            may_read
            and may_show_stored(explanation.rule, facts)
            # An ordinary rule can precede a mandatory one that decides other reads of the object.
            and not any(compiled.may_cover(each, frozenset()) for each in reads)
        )
        return cls.of(facts, explanation, default_on, shows_stored=shows)

    def lines(self) -> tuple[str, ...]:
        """The report as text."""
        return (
            *self.explanation.reasons(self._hidden_facts),
            *self._decision(),
            *_audited_lines(self.audited),
        )

    def mapping(self) -> dict[str, Anything]:
        """The report as plain values, for JSON."""
        rule = self.explanation.rule
        seen = self.facts if self.shows_stored else replace(self.facts, stored=UNKNOWN)
        return {
            "request": example.to_mapping(seen),
            "rule": rule.name if rule else None,
            "line": rule.place.line if rule else None,
            "action": ACTIONS[type(rule.action)] if rule else NO_ACTION,
            "message": rule.action.message if rule and isinstance(rule.action, Deny) else None,
            "mandatory": rule.is_mandatory if rule else False,
            "steps": [step.mapping() for step in self.steps],
            "pass": _passes(rule.passes) if rule else None,
            "asked_for": self._requested(),
            "undecided": sorted(group.value for group in self.explanation.needs),
            "considered": [
                {
                    "rule": one.rule.name,
                    "line": one.rule.place.line,
                    "matches": one.outcome,
                    "gives_way": one.gives_way,
                    "because": [seen.line(self._hidden_facts) for seen in one.observations],
                }
                for one in self.explanation.considered
            ],
            "not_considered": self.explanation.left,
            "audited": _audited(self.audited),
        }

    @property
    def _hidden_facts(self) -> frozenset[str]:
        return frozenset() if self.shows_stored else _STORED_FACTS

    def _decision(self) -> Iterable[str]:
        if self.explanation.needs:
            yield self.explanation.undecided()
            return
        rule = self.explanation.rule
        heading = _heading(rule)
        if rule is None or isinstance(rule.action, Allow):
            yield f"{heading}: the request proceeds as without rules"
        elif isinstance(rule.action, Deny):
            yield f"{heading}: deny: {rule.action.message}"
        yield from self._steps(heading)
        if rule is not None and rule.passes is not None:
            yield f"{heading}: the result keeps {_kept(rule.passes)} of the object"
        requested = self._requested()
        if requested:
            outcome = _OUTCOMES[requested["outcome"]]
            yield f"decision: {requested['storlet']}, which the client requests, {outcome}"

    def _steps(self, heading: str) -> Iterable[str]:
        for number, step in enumerate(self.steps):
            yield f"{heading}: {'then ' if number else ''}{step.line()}"
            for name, missing in step.missing.items():
                reason = f"{{{missing}}} is missing, so the request is refused"
                yield f"{heading}: {name} of {step.storlet} cannot be rendered: {reason}"

    def _requested(self) -> dict[str, str] | None:
        """The treatment of the storlet that the client requests."""
        if self.explanation.needs or not self.facts.requests_storlet:
            return None
        rule = self.explanation.rule
        outcome = "runs"
        if rule is not None and not isinstance(rule.action, Allow):
            is_after = isinstance(rule.action, Run) and rule.explicit is Explicit.AFTER
            outcome = "after" if is_after else "refused"
        return {"storlet": self.facts.headers[RUN_HEADER], "outcome": outcome}


_STORED_FACTS: Final = frozenset(name for name, fact in TABLE.items() if fact.group is Group.STORED)
_OUTCOMES: Final = {
    "runs": "runs as without rules",
    "after": "runs on the output of the rule",
    "refused": "is refused, and so is the request",
}


def _heading(rule: Rule | None) -> str:
    if rule is None:
        return "no rule matches"
    return f"decision: {'mandatory rule' if rule.is_mandatory else 'rule'} {rule.name}"


def audited_rule(compiled: Compiled, facts: Facts) -> Rule | None:
    """The audited rule that would decide if the audited rules were enforced; all facts that the
    decision needs must be known.
    """
    if compiled.audit is None:
        return None
    decision = compiled.audit.decide(facts, facts.requests_storlet)
    if not isinstance(decision, Decision):
        raise TypeError(f"unknown facts: {sorted(group.value for group in decision.groups)}")
    rule = decision.rule
    return rule if rule is not None and rule.is_audited else None


def _audited(rule: Rule | None) -> dict[str, Anything] | None:
    if rule is None:
        return None
    return {
        "rule": rule.name,
        "line": rule.place.line,
        "action": ACTIONS[type(rule.action)],
        "message": rule.action.message if isinstance(rule.action, Deny) else None,
        "storlets": [step.storlet for step in steps_of(rule)],
    }


def _audited_lines(rule: Rule | None) -> Iterable[str]:
    if rule is None:
        return
    heading = f"audited {'mandatory rule' if rule.is_mandatory else 'rule'} {rule.name}"
    if isinstance(rule.action, Deny):
        yield f"{heading} would deny: {rule.action.message}"
    elif isinstance(rule.action, Allow):
        yield f"{heading} would allow the request, as without rules"
    else:
        yield f"{heading} would run {' | '.join(step.storlet for step in steps_of(rule))}"


def _passes(passes: Passes | None) -> dict[str, list[str]] | None:
    if passes is None:
        return None
    return {"metadata": list(passes.metadata), "headers": list(passes.headers)}


def _kept(passes: Passes) -> str:
    metadata = f"metadata {', '.join(passes.metadata)}" if passes.metadata else "no metadata"
    headers = f"headers {', '.join(passes.headers)}" if passes.headers else "no other headers"
    return f"{metadata} and {headers}"
