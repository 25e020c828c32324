"""Parses actions: ``run``, ``deny``, ``allow``, and the options of ``run``."""

from __future__ import annotations

import re
from typing import Final

from rules import template, values, when
from rules.evaluation import evaluate
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
from rules.rewriting import cautious
from rules.text import Guess, Mapping, Node, Scalar, Sequence

#: The maximum length of a pipeline.
MAX_STEPS: Final = 10
_MAX_MESSAGE: Final = 500
_MAX_PARAMETER: Final = 4096
_STEP_EXAMPLE: Final = "a storlet's name, {storlet: name, parameters: {...}}, or a list of these"
_PASS_NAME: Final = re.compile(r"[!#$%&'+.^_`|~0-9A-Za-z-]{0,128}\*?")


def read(name: str, node: Node, faults: Faults) -> Action:
    """Parse the value of the key ``name`` (``run``, ``deny`` or ``allow``)."""
    if name == "run":
        return Run(_steps(node, faults))
    if name == "deny":
        return Deny(values.line(node, "the message of deny", faults, _MAX_MESSAGE) or "")
    if values.boolean(node, "allow", faults) is False:
        help_ = "write allow: true, or deny with a message"
        faults.add("value.bad", node.place, "allow: false has no effect", help_)
    return Allow()


def _steps(node: Node, faults: Faults) -> tuple[Step, ...]:
    items = node.items if isinstance(node, Sequence) else (node,)
    if not 1 <= len(items) <= MAX_STEPS:
        help_ = f"list 1 to {MAX_STEPS} storlets, in the order in which they run"
        faults.add("value.bad", node.place, f"run has {len(items)} storlets", help_)
    return tuple(_step(item, faults) for item in items)


def _step(node: Node, faults: Faults) -> Step:
    if isinstance(node, Scalar):
        return Step(_storlet(node, faults), place=node.place)
    entries = values.mapping(node, "a storlet of run", faults, _STEP_EXAMPLE)
    known = values.fields(
        entries, "a storlet of run", ("storlet", "parameters", "on", "limits"), faults
    )
    if isinstance(node, Mapping) and "storlet" not in node:
        faults.add("key.missing", node.place, "the storlet has no name", "add storlet: its name")
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
        message = f"the storlet's name {quoted(name)} contains a slash"
        help_ = "write the name of its object in the storlet container, without the container"
        faults.add("value.bad", node.place, message, help_)
    return name


def _parameters(node: Node, faults: Faults) -> tuple[tuple[str, Template], ...]:
    entries = values.mapping(node, "parameters", faults, '{width: "128", name: "{object}"}')
    return tuple(
        (_parameter_name(key, faults), _template(key, value, faults))
        for key, value in entries.entries
    )


def _parameter_name(key: Scalar, faults: Faults) -> str:
    name = key.text
    if not name.strip() or len(name) > 128 or ":" in name or not name.isprintable():
        help_ = "write 1 to 128 printable characters without a colon"
        faults.add("value.bad", key.place, f"{quoted(name)} is not a valid parameter name", help_)
    if name.startswith("storlet_"):
        help_ = "choose another name; names of the engine's own parameters start with storlet_"
        faults.add("value.bad", key.place, f"the parameter {quoted(name)} is reserved", help_)
    return name


def _template(key: Scalar, node: Node, faults: Faults) -> Template:
    text = values.string(node, f"the parameter {key.text}", faults) or ""
    if len(text) > _MAX_PARAMETER:
        message = f"the parameter {key.text} is longer than {_MAX_PARAMETER}"
        faults.add("value.bad", node.place, message, "store it in an object that the storlet reads")
    try:
        return template.parse(text)
    except template.TemplateError as error:
        help_ = "write {{ and }} for literal braces"
        faults.add("value.bad", node.place, f"the parameter {key.text}: {error}", help_)
        return Template(("",))


def _limits(node: Node, faults: Faults) -> tuple[tuple[str, str], ...]:
    entries = values.mapping(node, "limits", faults, "{memory: 64M, timeout-total: 30s}")
    found = []
    for key, value in entries.entries:
        if not re.fullmatch(r"[a-z]{1,32}(-[a-z]{1,32}){0,4}", key.text):
            help_ = "write it as in X-Storlet-Limit-*, in lower case: memory, open-files"
            message = f"{quoted(key.text)} is not a valid limit"
            faults.add("value.bad", key.place, message, help_)
        has_value = isinstance(value, Scalar) and value.guess in (Guess.NUMBER, Guess.STRING)
        if isinstance(value, Scalar) and has_value and value.text.strip():
            found.append((key.text, value.text.strip()))
        else:
            help_ = "write it as in X-Storlet-Limit-*: 64M, 30s, 2"
            shown = values.describe(value)
            message = f"the limit {quoted(key.text)} must be a value, not {shown}"
            faults.add("value.type", value.place, message, help_)
    return tuple(found)


def reverse(node: Node, faults: Faults) -> Reverse:
    """Parse ``and-reverse-on-read``.

    A reverse reveals what the rule protected, so its condition must not hold by a missing value.
    """
    entries = values.mapping(node, "and-reverse-on-read", faults, "{run: ..., when: {...}}")
    known = values.fields(entries, "and-reverse-on-read", ("run", "when"), faults)
    if isinstance(node, Mapping) and "run" not in node:
        help_ = "add run: the storlet that undoes the rule"
        faults.add("key.missing", node.place, "and-reverse-on-read has no run", help_)
    steps = _steps(known["run"], faults) if "run" in known else ()
    if "when" not in known:
        return Reverse(steps)
    return Reverse(steps, cautious(when.read(known["when"], faults)))


def can_be_put(condition: Condition) -> bool:
    """Whether ``condition`` can hold for a PUT."""
    return evaluate(condition, _answer_for_put) is not False


def _answer_for_put(test: Test) -> bool | None:
    if test.fact != "method":
        return None
    if test.operator is Operator.ONE_OF and isinstance(test.operand, frozenset):
        return "PUT" in test.operand
    return test.operand == "PUT"


def passes(node: Node, faults: Faults) -> Passes:
    """Parse ``pass``: metadata and headers of the source that the result keeps."""
    example = "{metadata: [project, x-*], headers: [last-modified]}"
    entries = values.mapping(node, "pass", faults, example)
    known = values.fields(entries, "pass", ("metadata", "headers"), faults)
    names = {key: _pass_names(known[key], f"pass {key}", faults) for key in known}
    return Passes(names.get("metadata", ()), names.get("headers", ()))


def _never_help(name: str) -> str:
    """Also for a wildcard: one with a prefix of these headers matches nothing else."""
    metadata = name.removeprefix("x-object-meta-")
    if metadata != name:
        return f'write it as metadata: ["{metadata}"]'
    return "remove it; it would be wrong for a result, or is internal to the cluster"


def _pass_names(node: Node, what: str, faults: Faults) -> tuple[str, ...]:
    found = []
    for item in values.scalars(node, what, faults):
        name = (values.string(item, f"a name in {what}", faults) or "x").lower()
        if not name or not _PASS_NAME.fullmatch(name):
            message = f"{quoted(item.text)} in {what} is not a valid name"
            help_ = "write a name such as last-modified; a * is allowed at the end only"
            faults.add("value.bad", item.place, message, help_)
        elif "_" in name:
            shown = quoted(item.text)
            message = f"{shown} in {what} never occurs: Swift reads _ in header names as -"
            faults.add("value.bad", item.place, message, f"write {name.replace('_', '-')}")
        elif what == "pass headers" and never_passes(name):
            message = f"a result never has the source's header {name}"
            faults.add("value.bad", item.place, message, _never_help(name))
        found.append(name)
    return tuple(found)
