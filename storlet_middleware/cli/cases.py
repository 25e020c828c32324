"""Example requests for rules, and what is expected to become of each: the file of ``storlet rules test``.

A list of cases, in YAML or JSON::

    - name: a researcher's GET goes through the storlet
      request: {method: GET, container: patients-1, object: a.csv, roles: [researcher]}
      expect: {rule: deidentify, action: run, storlets: [deidentify.py]}

``request`` is as :mod:`rules.example` has it; what it does not name is missing.  ``expect`` has at least one of ``rule`` (``null``:
no rule matches), ``action`` and ``storlets``; what it does not name may be anything.
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
    """A decision, as far as cases speak of it."""

    rule: str | None = None
    action: str = report.NO_ACTION
    storlets: tuple[str, ...] = ()


@dataclass(frozen=True)
class Case:
    """One request, and what is expected of its decision: fields of :class:`Outcome` by their names."""

    name: str
    facts: Facts
    expected: Mapping[str, Wanted]
    place: Place

    def differences(self, outcome: Outcome) -> dict[str, Wanted]:
        """The fields that are not as expected, with what was expected."""
        return {
            name: wanted
            for name, wanted in self.expected.items()
            if getattr(outcome, name) != wanted
        }


def outcome_of(decision: Decision) -> Outcome:
    """What the decision does."""
    if decision.rule is None:
        return Outcome()
    storlets = tuple(step.storlet for step in report.steps_of(decision.rule))
    return Outcome(decision.rule.name, report.ACTIONS[type(decision.rule.action)], storlets)


# --- reading ----------------------------------------------------------------------------------------------------------


def read(raw: bytes) -> tuple[tuple[Case, ...], tuple[Finding, ...]]:
    """The cases, and every fault; with a fault there may be cases missing."""
    faults = Faults()
    root = text.read(raw, faults)
    if isinstance(root, text.Sequence) and root.items:
        cases = [_case(item, faults) for item in root.items]
    else:
        cases = []
        if root is not None or not faults:
            _refuse(
                faults,
                root or Scalar("", Guess.NOTHING, Place(1, 1)),
                "a file of cases is a list that has some",
            )
    _refuse_same_names(cases, faults)
    return tuple(case for case in cases if case), faults.findings()


_EXAMPLE: Final = "{name: .., request: {method: GET, container: ..}, expect: {rule: ..}}"
_HELP: Final = f"write - {_EXAMPLE}"


def _refuse(faults: Faults, node: Node, what: str, help_: str = _HELP) -> None:
    faults.add("case", node.place, f"{what}, and this is {values.describe(node)}", help_)


def _case(node: Node, faults: Faults) -> Case | None:
    entries = values.fields(
        values.mapping(node, "a case", faults, _EXAMPLE),
        "a case",
        ("name", "request", "expect"),
        faults,
    )
    missing = [name for name in ("name", "request", "expect") if name not in entries]
    if missing:
        if isinstance(node, text.Mapping):
            faults.add("case", node.place, f"the case has no {' and no '.join(missing)}", _HELP)
        return None
    name = values.line(entries["name"], "the case's name", faults, _NAME_MAX)
    facts = _facts(entries["request"], faults)
    expected = _expected(entries["expect"], faults)
    return Case(name, facts, expected, node.place) if name and facts and expected else None


def _refuse_same_names(cases: list[Case | None], faults: Faults) -> None:
    seen: dict[str, Case] = {}
    for case in cases:
        if case and case.name in seen:
            said = f"{case.name!r} is the name of the case in line {seen[case.name].place.line} as well"
            faults.add(
                "case",
                case.place,
                said,
                "a name that fails should say which case it is: give each its own",
            )
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
        for said in error.faults:
            # The fault begins with the name of what it is about, where it is about one.
            place = next(
                (places[name] for name in places if said.startswith((f"{name} ", f"{name}."))),
                request.place,
            )
            faults.add("case.request", place, f"of the request, {said}", _REQUEST_HELP)
        return None


_REQUEST_HELP: Final = "names are those of conditions: {method: GET, size: 2K, roles: [a], metadata: {study: x}, time: mon 22:05}"


def _plain(name: str, node: Node, faults: Faults) -> Any:
    """Scalars by their text: which of them is a number is for the reader of the fact to say, not for YAML."""
    if isinstance(node, text.Mapping):
        return {
            key.text: _plain(f"{name}.{key.text}", value, faults) for key, value in node.entries
        }
    if isinstance(node, text.Sequence):
        return [_plain(name, item, faults) for item in node.items]
    if node.guess is Guess.NOTHING:
        faults.add(
            "case.request",
            node.place,
            f"{name} has no value",
            "leave it away when it is missing, or quote it",
        )
    return node.text


def _expected(node: Node, faults: Faults) -> Mapping[str, Wanted]:
    wanted = values.mapping(
        node, "expect", faults, "expect: {rule: .., action: run, storlets: [..]}"
    )
    fields = values.fields(wanted, "expect", ("rule", "action", "storlets"), faults)
    if wanted is node and not wanted.entries:
        faults.add(
            "case",
            node.place,
            "expect is empty",
            "name rule, action or storlets; rule: null is no rule",
        )
    found: dict[str, Wanted] = {}
    if "rule" in fields:
        found["rule"] = _rule(fields["rule"], faults)
    if "action" in fields:
        found["action"] = values.choice(fields["action"], "action", _ACTIONS, faults)
    if "storlets" in fields:
        found["storlets"] = _storlets(fields["storlets"], faults)
    return found


def _rule(node: Node, faults: Faults) -> str | None:
    if isinstance(node, Scalar) and node.guess is Guess.NOTHING:
        return None
    return values.string(node, "the rule's name", faults)


def _storlets(node: Node, faults: Faults) -> tuple[str, ...]:
    """An empty list is right where nothing shall run."""
    if not isinstance(node, text.Sequence):
        _refuse(
            faults, node, "storlets wants a list of names", "write [a.py, b.py], in their order"
        )
        return ()
    return tuple(values.string(item, "a storlet's name", faults) or "" for item in node.items)
