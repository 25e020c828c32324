"""Reads what a rule does: ``run``, ``deny``, ``allow``, and what belongs to a run."""

from __future__ import annotations

import re
from typing import Final

from rules import template, values, when
from rules.conditions import cautious, evaluate
from rules.faults import Faults, quoted
from rules.model import (
    Action,
    Allow,
    Condition,
    Deny,
    Operator,
    Passes,
    Reverse,
    Run,
    Step,
    Template,
    Test,
    never_passes,
)
from rules.text import Guess, Mapping, Node, Scalar, Sequence

#: More storlets in a row are refused.
MAX_STEPS: Final = 10
_MAX_MESSAGE: Final = 500
_MAX_PARAMETER: Final = 4096
_STEP_EXAMPLE: Final = "a storlet's name, {storlet: name, parameters: {...}}, or a list of these"
_PASS_NAME: Final = re.compile(r"[!#$%&'+.^_`|~0-9A-Za-z-]{0,128}\*?")


def read(name: str, node: Node, faults: Faults) -> Action:
    """The action that ``name`` (``run``, ``deny`` or ``allow``) stands for."""
    if name == "run":
        return Run(_steps(node, faults))
    if name == "deny":
        return Deny(values.line(node, "the message of deny", faults, _MAX_MESSAGE) or "")
    if values.truth(node, "allow", faults) is False:
        faults.add(
            "value.bad",
            node.place,
            "allow: false does nothing",
            "write allow: true, or deny with a message",
        )
    return Allow()


def _steps(node: Node, faults: Faults) -> tuple[Step, ...]:
    items = node.items if isinstance(node, Sequence) else (node,)
    if not 1 <= len(items) <= MAX_STEPS:
        text = f"run has {len(items)} storlets"
        faults.add(
            "value.bad", node.place, text, f"name 1 to {MAX_STEPS}, in the order in which they run"
        )
    return tuple(_step(item, faults) for item in items)


def _step(node: Node, faults: Faults) -> Step:
    if isinstance(node, Scalar):
        return Step(_storlet(node, faults), place=node.place)
    entries = values.mapping(node, "a storlet of run", faults, _STEP_EXAMPLE)
    known = values.fields(
        entries, "a storlet of run", ("storlet", "parameters", "on", "limits"), faults
    )
    if isinstance(node, Mapping) and "storlet" not in node:
        faults.add("key.missing", node.place, "the storlet is not named", "add storlet: its name")
    return Step(
        storlet=_storlet(known["storlet"], faults) if "storlet" in known else "",
        parameters=_parameters(known["parameters"], faults) if "parameters" in known else (),
        on=values.choice(known["on"], "on", ("object", "proxy"), faults) if "on" in known else None,
        limits=_limits(known["limits"], faults) if "limits" in known else (),
        place=node.place,
    )


def _storlet(node: Node, faults: Faults) -> str:
    name = values.line(node, "the storlet's name", faults, 255) or ""
    if "/" in name:
        help_ = (
            "write the name of the object in the account's storlet container, without the container"
        )
        faults.add("value.bad", node.place, f"the storlet's name {quoted(name)} has a slash", help_)
    return name


def _parameters(node: Node, faults: Faults) -> tuple[tuple[str, Template], ...]:
    entries = values.mapping(node, "parameters", faults, '{width: "128", name: "{object}"}')
    return tuple(
        (_parameter_name(key, faults), _template(key, value, faults))
        for key, value in entries.entries
    )


def _parameter_name(key: Scalar, faults: Faults) -> str:
    fits = (
        key.text.strip() and len(key.text) <= 128 and ":" not in key.text and key.text.isprintable()
    )
    if not fits:
        text = f"{quoted(key.text)} cannot be a parameter's name"
        faults.add(
            "value.bad", key.place, text, "write 1 to 128 printable characters without a colon"
        )
    if key.text.startswith("storlet_"):
        help_ = "choose another name; the engine's own parameters begin so"
        faults.add("value.bad", key.place, f"the parameter {quoted(key.text)} is reserved", help_)
    return key.text


def _template(key: Scalar, node: Node, faults: Faults) -> Template:
    text = values.string(node, f"the parameter {key.text}", faults) or ""
    if len(text) > _MAX_PARAMETER:
        said = f"the parameter {key.text} is longer than {_MAX_PARAMETER}"
        faults.add("value.bad", node.place, said, "put it into an object that the storlet reads")
    try:
        return template.parse(text)
    except template.TemplateError as error:
        help_ = "write {{ and }} for braces that are meant as such"
        faults.add("value.bad", node.place, f"the parameter {key.text}: {error}", help_)
        return Template(("",))


def _limits(node: Node, faults: Faults) -> tuple[tuple[str, str], ...]:
    entries = values.mapping(node, "limits", faults, "{memory: 64M, timeout-total: 30s}")
    found = []
    for key, value in entries.entries:
        if not re.fullmatch(r"[a-z]{1,32}(-[a-z]{1,32}){0,4}", key.text):
            text = f"{quoted(key.text)} cannot be a limit"
            faults.add(
                "value.bad",
                key.place,
                text,
                "write it as in X-Storlet-Limit-*, in lower case: memory, open-files",
            )
        if (
            isinstance(value, Scalar)
            and value.guess in (Guess.NUMBER, Guess.STRING)
            and value.text.strip()
        ):
            found.append((key.text, value.text.strip()))
        else:
            text = (
                f"the limit {quoted(key.text)} wants a value, and this is {values.describe(value)}"
            )
            faults.add(
                "value.type", value.place, text, "write it as in X-Storlet-Limit-*: 64M, 30s, 2"
            )
    return tuple(found)


def reverse(node: Node, faults: Faults) -> Reverse:
    """``and-reverse-on-read``.  It opens what the rule closed on the way in, so missing values count against it."""
    entries = values.mapping(node, "and-reverse-on-read", faults, "{run: ..., when: {...}}")
    known = values.fields(entries, "and-reverse-on-read", ("run", "when"), faults)
    if isinstance(node, Mapping) and "run" not in node:
        faults.add(
            "key.missing",
            node.place,
            "and-reverse-on-read runs nothing",
            "add run: the storlet that undoes it",
        )
    steps = _steps(known["run"], faults) if "run" in known else ()
    return (
        Reverse(steps, cautious(when.read(known["when"], faults)))
        if "when" in known
        else Reverse(steps)
    )


def can_be_put(condition: Condition) -> bool:
    """Whether ``condition`` leaves uploads in."""
    return evaluate(condition, _answer_for_put) is not False


def _answer_for_put(test: Test) -> bool | None:
    if test.fact != "method":
        return None
    operand = test.operand
    return (
        "PUT" in operand
        if test.operator is Operator.ONE_OF and isinstance(operand, frozenset)
        else operand == "PUT"
    )


def passes(node: Node, faults: Faults) -> Passes:
    """``pass``: what of the source leaves with the result."""
    entries = values.mapping(
        node, "pass", faults, "{metadata: [project, x-*], headers: [last-modified]}"
    )
    known = values.fields(entries, "pass", ("metadata", "headers"), faults)
    metadata = (
        _pass_names(known["metadata"], "pass metadata", faults) if "metadata" in known else ()
    )
    headers = _pass_names(known["headers"], "pass headers", faults) if "headers" in known else ()
    return Passes(metadata, headers)


def _never_help(name: str) -> str:
    """Of a wildcard as well: one that begins like these fits nothing else."""
    metadata = name.removeprefix("x-object-meta-")
    if metadata != name:
        return f'write it as metadata: ["{metadata}"]'
    return "leave it away; it is false of a result, or the cluster's own"


def _pass_names(node: Node, what: str, faults: Faults) -> tuple[str, ...]:
    found = []
    for item in values.scalars(node, what, faults):
        name = (values.string(item, f"a name in {what}", faults) or "x").lower()
        if not name or not _PASS_NAME.fullmatch(name):
            text = f"{quoted(item.text)} in {what} is no name"
            faults.add(
                "value.bad",
                item.place,
                text,
                "write a name such as last-modified; * only at the end, for any rest",
            )
        elif "_" in name:
            text = f"{quoted(item.text)} in {what} never occurs: in names of headers Swift reads _ as -"
            faults.add("value.bad", item.place, text, f"write {name.replace('_', '-')}")
        elif what == "pass headers" and never_passes(name):
            faults.add(
                "value.bad",
                item.place,
                f"{name} of the source never leaves with a result",
                _never_help(name),
            )
        found.append(name)
    return tuple(found)
