"""Test cases for rules, the input of ``storlet rules test``: requests with expected decisions.

A file is a list of cases, in YAML or JSON::

    - name: the storlet filters a researcher's GET
      request: {method: GET, container: patients-1, object: a.csv, roles: [researcher]}
      expect: {rule: deidentify, action: run, storlets: [deidentify.py]}

``request`` has the format of :mod:`rules.example`; facts that are not listed are missing.
``expect`` has at least one of ``rule`` (``null``: no rule matches), ``action`` and ``storlets``;
fields that are not listed are not compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from rules import example, report, text, values
from rules.engine import Decision
from rules.facts import Facts
from rules.faults import Faults
from rules.model import Finding, Place
from rules.text import Guess, Node, Scalar

_ACTIONS: Final = (*report.ACTIONS.values(), report.NO_ACTION)
_NAME_MAX: Final = 200
#: A rule's name, an action, or names of storlets; ``None`` is no rule.
Wanted: TypeAlias = str | tuple[str, ...] | None


@dataclass(frozen=True)
class Outcome:
    """The parts of a decision that cases compare."""

    rule: str | None = None
    action: str = report.NO_ACTION
    storlets: tuple[str, ...] = ()


@dataclass(frozen=True)
class Case:
    """A request and the expected fields of its :class:`Outcome`."""

    name: str
    facts: Facts
    expected: Mapping[str, Wanted]
    place: Place

    def differences(self, outcome: Outcome) -> dict[str, Wanted]:
        """The fields that differ, with their expected values."""
        return {
            name: wanted
            for name, wanted in self.expected.items()
            if getattr(outcome, name) != wanted
        }


def outcome_of(decision: Decision) -> Outcome:
    """The outcome of ``decision``."""
    if decision.rule is None:
        return Outcome()
    storlets = tuple(step.storlet for step in report.steps_of(decision.rule))
    return Outcome(decision.rule.name, report.ACTIONS[type(decision.rule.action)], storlets)


# --- reading --------------------------------------------------------------------------------------

_CASES: Final = text.Subject(
    "the cases",
    "split them into several files, and test each with the same rules",
    "write facts and expectations as in 'storlet rules test --help'",
)


def read(raw: bytes) -> tuple[tuple[Case, ...], tuple[Finding, ...]]:
    """The cases and all faults; cases with faults are omitted."""
    faults = Faults()
    root = text.read(raw, faults, _CASES)
    if isinstance(root, text.Sequence) and root.items:
        cases = [_case(item, faults) for item in root.items]
    else:
        cases = []
        if root is not None or not faults:
            _refuse_type(faults, root or _EMPTY, "a file of cases must be a non-empty list")
    _refuse_duplicate_names(cases, faults)
    return tuple(case for case in cases if case), faults.findings()


_EXAMPLE: Final = "{name: .., request: {method: GET, container: ..}, expect: {rule: ..}}"
_HELP: Final = f"write - {_EXAMPLE}"


#: Stands for an empty file.
_EMPTY: Final = Scalar("", Guess.NULL, Place(1, 1))


def _refuse_type(faults: Faults, node: Node, requirement: str, help_: str = _HELP) -> None:
    found = "an empty one" if isinstance(node, text.Sequence) else values.describe(node)
    faults.add("case", node.place, f"{requirement}, not {found}", help_)


def _case(node: Node, faults: Faults) -> Case | None:
    keys = ("name", "request", "expect")
    entries = values.fields(
        values.mapping(node, "a case", faults, _EXAMPLE), "a case", keys, faults
    )
    missing = [key for key in keys if key not in entries]
    if missing:
        if isinstance(node, text.Mapping):
            faults.add("case", node.place, f"the case has no {' and no '.join(missing)}", _HELP)
        return None
    name = values.line(entries["name"], "the case's name", faults, _NAME_MAX)
    facts = _facts(entries["request"], faults)
    expected = _expected(entries["expect"], faults)
    return Case(name, facts, expected, node.place) if name and facts and expected else None


def _refuse_duplicate_names(cases: list[Case | None], faults: Faults) -> None:
    seen: dict[str, Case] = {}
    for case in cases:
        if case and case.name in seen:
            line = seen[case.name].place.line
            message = f"the case in line {line} is also named {case.name!r}"
            faults.add("case", case.place, message, "give each case a unique name")
        elif case:
            seen[case.name] = case


def _facts(node: Node, faults: Faults) -> Facts | None:
    request = values.mapping(
        node, "request", faults, "request: {method: GET, container: .., object: ..}"
    )
    if request is not node:
        return None
    before = len(faults)
    plain = {key.text: _plain(key.text, value, faults) for key, value in request.entries}
    if len(faults) > before:
        return None
    places = {key.text: value.place for key, value in request.entries}
    try:
        return example.read(plain)
    except example.ExampleError as error:
        for fault in error.faults:
            # A fault about a single fact starts with its name.
            about = (name for name in places if fault.startswith((f"{name} ", f"{name}.")))
            place = places.get(next(about, ""), request.place)
            faults.add("case.request", place, f"invalid request: {fault}", _REQUEST_HELP)
        return None


_REQUEST_HELP: Final = (
    "use the names of conditions: {method: GET, size: 2K, roles: [a], metadata: {study: x},"
    " time: mon 22:05}"
)


def _plain(name: str, node: Node, faults: Faults) -> Any:
    """Scalars as text: the parser of the fact determines their type, not YAML."""
    if isinstance(node, text.Mapping):
        return {
            key.text: _plain(f"{name}.{key.text}", value, faults) for key, value in node.entries
        }
    if isinstance(node, text.Sequence):
        return [_plain(name, item, faults) for item in node.items]
    if node.guess is Guess.NULL:
        help_ = "remove it if the value is missing, or quote it"
        faults.add("case.request", node.place, f"{name} has no value", help_)
    return node.text


def _expected(node: Node, faults: Faults) -> Mapping[str, Wanted]:
    wanted = values.mapping(
        node, "expect", faults, "expect: {rule: .., action: run, storlets: [..]}"
    )
    fields = values.fields(wanted, "expect", ("rule", "action", "storlets"), faults)
    if wanted is node and not wanted.entries:
        help_ = "add rule, action or storlets; rule: null means no rule"
        faults.add("case", node.place, "expect is empty", help_)
    found: dict[str, Wanted] = {}
    if "rule" in fields:
        found["rule"] = _rule(fields["rule"], faults)
    if "action" in fields:
        found["action"] = values.choice(fields["action"], "action", _ACTIONS, faults)
    if "storlets" in fields:
        found["storlets"] = _storlets(fields["storlets"], faults)
    return found


def _rule(node: Node, faults: Faults) -> str | None:
    if isinstance(node, Scalar) and node.guess is Guess.NULL:
        return None
    return values.string(node, "the rule's name", faults)


def _storlets(node: Node, faults: Faults) -> tuple[str, ...]:
    """An empty list is valid: it expects that no storlet runs."""
    if not isinstance(node, text.Sequence):
        help_ = "write [a.py, b.py], in their order"
        _refuse_type(faults, node, "storlets must be a list of names", help_)
        return ()
    return tuple(values.string(item, "a storlet's name", faults) or "" for item in node.items)
