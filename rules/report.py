"""An explanation for whoever asks for one: which rules were considered, what decided, and what would run where with which limits.

::

    facts = ...                                       # everything that the decision needs, looked up
    report = Report.for_caller(compiled, facts, "object", may_read=True)
    report.lines(), report.mapping()                  # for people, for programs

``storlet rules explain`` and ``X-Storlet-Explain`` both give this.  What differs is known by who calls: where a storlet runs
that the rule sends nowhere, what the node allows, and who may see what the object's metadata says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any as Anything
from typing import Final

from rules import example, template
from rules.conditions import READING, TABLE, Group
from rules.engine import Compiled
from rules.explanation import Explanation
from rules.facts import RUN_HEADER, UNKNOWN, Facts
from rules.model import Allow, Deny, Explicit, Passes, Rule, Run, Step, Template

#: What :attr:`rules.model.Rule.action` is called; of no rule ``none``.
ACTIONS: Final[Mapping[type, str]] = {Run: "run", Deny: "deny", Allow: "allow"}
NO_ACTION: Final = "none"


@dataclass(frozen=True)
class Planned:
    """A storlet that would run.

    :param on: ``object``, ``proxy``, or ``None`` when nobody has said.
    :param parameters: with the values of this request.
    :param missing: parameters that cannot be made, each with what it lacks: the request would be refused.
    :param limits: by their names, as they would be said.
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
    """What ``rule`` runs."""
    return rule.action.steps if rule is not None and isinstance(rule.action, Run) else ()


def planned(steps: Iterable[Step], facts: Facts, default_on: str | None) -> tuple[Planned, ...]:
    """What ``steps`` are for this request.

    :param default_on: where a storlet runs when the rule does not say.  An upload always has it at the proxy.
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
    """As it is written while what it speaks of has not been looked up, or is not to be seen."""
    if Group.STORED in template.groups(written) and facts.stored is UNKNOWN:
        return template.describe(written)
    return template.render(written, facts)


def may_show_stored(rule: Rule | None, facts: Facts) -> bool:
    """Whether the values of the object's content type, size and metadata may be told to this caller, who may read the object.

    Only of requests that read it: what may be deleted or written to need not be what may be seen.  Not where ``rule`` keeps them.
    """
    if facts.method not in READING or (rule is not None and rule.is_mandatory):
        return False
    return rule is None or not isinstance(rule.action, Deny)


@dataclass(frozen=True)
class Report:
    """What is told.

    :param steps: what would run, in order; of the rule, or to undo on reading what a rule did.
    :param shows_stored: the values of the object's content type, size and metadata are told.
    """

    facts: Facts
    explanation: Explanation
    steps: tuple[Planned, ...] = ()
    shows_stored: bool = True

    @classmethod
    def of(
        cls,
        facts: Facts,
        explanation: Explanation,
        default_on: str | None,
        *,
        shows_stored: bool = True,
    ) -> Report:
        """Of the rule that decides."""
        seen = facts if shows_stored else replace(facts, stored=UNKNOWN)
        return cls(
            seen, explanation, planned(steps_of(explanation.rule), seen, default_on), shows_stored
        )

    @classmethod
    def for_caller(
        cls, compiled: Compiled, facts: Facts, default_on: str | None, *, may_read: bool
    ) -> Report:
        """For the client whose request it is; what the rules keep from this client is kept back here, too.

        :param may_read: the client may read the object, as far as Swift is concerned.
        """
        explanation = compiled.explain(facts, facts.asks_for_storlet)
        reads = (replace(facts, method=method) for method in READING)
        shows = (
            may_read
            and may_show_stored(explanation.rule, facts)
            # An ordinary rule may stand before a mandatory one, which decides other reads of the same object.
            and not any(compiled.may_cover(each, frozenset()) for each in reads)
        )
        return cls.of(facts, explanation, default_on, shows_stored=shows)

    def lines(self) -> tuple[str, ...]:
        """For people; one thing a line."""
        return (*self.explanation.reasons(self._hidden), *self._decision())

    def mapping(self) -> dict[str, Anything]:
        """The same as plain values, for JSON."""
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
            "asked_for": self._asked_for(),
            "undecided": sorted(group.value for group in self.explanation.needs),
            "considered": [
                {
                    "rule": one.rule.name,
                    "line": one.rule.place.line,
                    "matches": one.outcome,
                    "gives_way": one.gives_way,
                    "because": [seen.line(self._hidden) for seen in one.observations],
                }
                for one in self.explanation.considered
            ],
            "not_considered": self.explanation.left,
        }

    @property
    def _hidden(self) -> frozenset[str]:
        return frozenset() if self.shows_stored else _OF_OBJECTS

    def _decision(self) -> Iterable[str]:
        if self.explanation.needs:
            yield self.explanation.undecided()
            return
        rule = self.explanation.rule
        what = _called(rule)
        if rule is None or isinstance(rule.action, Allow):
            yield f"{what}: the request goes on as if there were no rules"
        elif isinstance(rule.action, Deny):
            yield f"{what}: deny: {rule.action.message}"
        yield from self._what_runs(what)
        if rule is not None and rule.passes is not None:
            yield f"{what}: of the object leave {_leaving(rule.passes)}"
        asked = self._asked_for()
        if asked:
            yield f"decision: {asked['storlet']}, which the client asks for, {_OUTCOMES[asked['outcome']]}"

    def _what_runs(self, what: str) -> Iterable[str]:
        for number, step in enumerate(self.steps):
            yield f"{what}: {'then ' if number else ''}{step.line()}"
            for name, lacking in step.missing.items():
                yield f"{what}: {name} of {step.storlet} cannot be made: {{{lacking}}} is missing, and the request is refused"

    def _asked_for(self) -> dict[str, str] | None:
        """What becomes of the client's own storlet."""
        if self.explanation.needs or not self.facts.asks_for_storlet:
            return None
        rule = self.explanation.rule
        outcome = "runs"
        if rule is not None and not isinstance(rule.action, Allow):
            is_after = isinstance(rule.action, Run) and rule.explicit is Explicit.AFTER
            outcome = "after" if is_after else "refused"
        return {"storlet": self.facts.headers[RUN_HEADER], "outcome": outcome}


_OF_OBJECTS: Final = frozenset(name for name, fact in TABLE.items() if fact.group is Group.STORED)
_OUTCOMES: Final = {
    "runs": "runs as it would without rules",
    "after": "runs on what comes out of that",
    "refused": "is refused, and the request with it",
}


def _called(rule: Rule | None) -> str:
    if rule is None:
        return "no rule matches"
    return f"decision: {'mandatory rule' if rule.is_mandatory else 'rule'} {rule.name}"


def _passes(passes: Passes | None) -> dict[str, list[str]] | None:
    return (
        None
        if passes is None
        else {"metadata": list(passes.metadata), "headers": list(passes.headers)}
    )


def _leaving(passes: Passes) -> str:
    metadata = f"metadata {', '.join(passes.metadata)}" if passes.metadata else "no metadata"
    headers = f"headers {', '.join(passes.headers)}" if passes.headers else "no other headers"
    return f"{metadata} and {headers}"
