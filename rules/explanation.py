"""Explanations of decisions: structured values, and text.

For each considered rule, an explanation lists the tests that determine its outcome, with the values
that they compared.  For an ``all`` that does not hold, it lists the first part that does not; for
an ``any`` that does not hold, every part; and so on.  These tests are a proof: the outcome is the
same for any result of the other tests.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any as Anything
from typing import Final

from rules import template
from rules.conditions import TABLE, Group, Kind, Value
from rules.evaluation import holds, value_of
from rules.facts import UNKNOWN, Facts, Unknown
from rules.faults import quoted
from rules.model import Action, Any, Condition, Deny, Not, Operator, Rule, Run, Step, Test

_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
#: The maximum number of list items shown in a line.
_NAMED: Final = 8


@dataclass(frozen=True)
class Observation:
    """A test and the value that it compared: ``None`` if missing, ``UNKNOWN`` if not looked up."""

    test: Test
    value: Value | Unknown

    def line(self, hidden: Collection[str] = ()) -> str:
        """:param hidden: facts whose values are not shown."""
        seen = "is not shown" if self.test.fact in hidden else _seen(self.test, self.value)
        return f"{_subject(self.test)} {seen} (required: {wanted(self.test)})"


@dataclass(frozen=True)
class Considered:
    """A rule that was evaluated.

    :param outcome: ``None`` if it depends on unknown facts.
    :param gives_way: the rule is ordinary and the client requests a storlet itself, so the rule
        does not decide, with any outcome.
    """

    rule: Rule
    outcome: bool | None
    observations: tuple[Observation, ...]
    gives_way: bool = False

    def line(self, hidden: Collection[str] = ()) -> str:
        verdict = {True: "matches", False: "does not match", None: "is undecided"}[self.outcome]
        if self.gives_way and self.outcome is not False:
            verdict += " but gives way to the storlet that the client requests"
        reasons = (
            "; ".join(seen.line(hidden) for seen in self.observations) or "it has no condition"
        )
        return f"rule {self.rule.name} (line {self.rule.place.line}) {verdict}: {reasons}"


@dataclass(frozen=True)
class Explanation:
    """A decision and its reasons.

    :param rule: the deciding rule; ``None`` if no rule matches, or if ``needs`` is not empty.
    :param needs: groups of unknown facts that the decision depends on.
    :param considered: the rules that were evaluated, in order; the last one decides, if any does.
    :param left: the number of rules after it, which were not evaluated.
    """

    rule: Rule | None
    needs: frozenset[Group]
    considered: tuple[Considered, ...]
    left: int = 0

    def lines(self) -> tuple[str, ...]:
        """Readable text, without the details of :class:`rules.report.Report`."""
        return (*self.reasons(), *self._verdict())

    def reasons(self, hidden: Collection[str] = ()) -> tuple[str, ...]:
        """One line for each considered rule.

        :param hidden: facts whose values are not shown.
        """
        lines = [considered.line(hidden) for considered in self.considered]
        if self.left:
            rules = "1 later rule was" if self.left == 1 else f"{self.left} later rules were"
            lines.append(f"{rules} not considered")
        return tuple(lines)

    def undecided(self) -> str:
        """The line for a decision that needs unknown facts."""
        sources = sorted(_SOURCES[group] for group in self.needs)
        return f"undecided: depends on {' and '.join(sources)}"

    def _verdict(self) -> tuple[str, ...]:
        if self.needs:
            return (self.undecided(),)
        if self.rule is None:
            return ("no rule matches: the request proceeds as without rules",)
        return tuple(f"decision: {line}" for line in describe(self.rule))


_SOURCES: Final = {
    Group.REQUEST: "the request",
    Group.STORED: "the object's size, content type or metadata",
    Group.HOLDER: "the container's metadata or policy",
}


# --- reasons --------------------------------------------------------------------------------------


def observe(condition: Condition, facts: Facts) -> tuple[Observation, ...]:
    """The tests that determine the value of ``condition``, or that leave it undecided."""
    if isinstance(condition, Test):
        return (Observation(condition, value_of(condition, facts)),)
    if isinstance(condition, Not):
        return observe(condition.part, facts)
    outcomes = [holds(part, facts) for part in condition.parts]
    decisive = isinstance(condition, Any)
    if decisive in outcomes:
        return observe(condition.parts[outcomes.index(decisive)], facts)
    is_undecided = None in outcomes
    parts = [
        part
        for part, outcome in zip(condition.parts, outcomes, strict=True)
        if outcome is None or not is_undecided
    ]
    return tuple(seen for part in parts for seen in observe(part, facts))


# --- text -----------------------------------------------------------------------------------------


def describe(rule: Rule) -> tuple[str, ...]:
    """The action of a rule, one line for each storlet."""
    kind = "mandatory rule" if rule.is_mandatory else "rule"
    return tuple(f"{kind} {rule.name}: {line}" for line in _action(rule.action))


def _action(action: Action) -> tuple[str, ...]:
    if isinstance(action, Run):
        return tuple(_step(number, step) for number, step in enumerate(action.steps))
    if isinstance(action, Deny):
        return (f"deny: {action.message}",)
    return ("allow, and evaluate no further rule",)


def _step(number: int, step: Step) -> str:
    words = [f"{'then ' if number else ''}run {step.storlet}"]
    words += [f"on the {step.on}{' node' if step.on == 'object' else ''}"] if step.on else []
    parameters = ", ".join(f"{name}={template.describe(text)!r}" for name, text in step.parameters)
    words += [f"with parameters {parameters}"] if parameters else []
    limits = ", ".join(f"{name}={value}" for name, value in step.limits)
    words += [f"with limits {limits}"] if limits else []
    return " ".join(words)


def _subject(test: Test) -> str:
    return test.fact if test.key is None else f"{test.fact} {test.key}"


def _seen(test: Test, value: Value | Unknown) -> str:
    if value is UNKNOWN:
        return "has not been looked up"
    if value is None:
        return "is missing"
    if isinstance(value, frozenset):
        return f"are {_listed(value)}" if value else "are empty"
    if isinstance(value, bool):
        return f"is {str(value).lower()}"
    if TABLE[test.fact].kind is Kind.TIME and isinstance(value, int):
        return f"is {_moment(value)}"
    return f"is {quoted(value)}" if isinstance(value, str) else f"is {value}"


def wanted(test: Test) -> str:
    """The requirement of a test, such as ``prefix 'patients-'``."""
    return _WANTED[test.operator](test.operand)


def _listed(values: frozenset[str]) -> str:
    names = sorted(values)
    shown = ", ".join(map(repr, names[:_NAMED]))
    return f"{shown} and {len(names) - _NAMED} more" if len(names) > _NAMED else shown


def _within(operand: Sequence[Anything]) -> str:
    shown = [
        str(part)
        if isinstance(part, ipaddress.IPv4Network | ipaddress.IPv6Network)
        else f"{_moment(part[0])} to {_moment(part[1] + 1)}"
        for part in operand
    ]
    more = f" and {len(shown) - _NAMED} more" if len(shown) > _NAMED else ""
    return f"within {', '.join(shown[:_NAMED])}{more}"


def _moment(minute_of_week: int) -> str:
    day, minute = divmod(minute_of_week, 24 * 60)
    return f"{_DAYS[day % 7]} {minute // 60:02}:{minute % 60:02}"


_WANTED: Final[dict[Operator, Callable[[Anything], str]]] = {
    Operator.EXACT: repr,
    Operator.GLOB: lambda operand: f"glob {operand!r}",
    Operator.PREFIX: lambda operand: f"prefix {operand!r}",
    Operator.SUFFIX: lambda operand: f"suffix {operand!r}",
    Operator.ONE_OF: lambda operand: f"one of {_listed(operand)}",
    Operator.HAS: lambda operand: f"one of {_listed(operand)}",
    Operator.AT_LEAST: lambda operand: f"at least {operand}",
    Operator.AT_MOST: lambda operand: f"at most {operand}",
    Operator.WITHIN: _within,
    Operator.IS: lambda operand: str(operand).lower(),
    Operator.PRESENT: lambda operand: "any value" if operand else "no value",
}
