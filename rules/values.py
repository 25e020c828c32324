"""Typed readers of nodes: each returns the value, or adds a fault and returns ``None``.

``what`` names the value in the fault, such as ``container`` or ``the rule's name``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from rules.faults import Faults, quoted
from rules.text import Guess, Mapping, Node, Scalar, Sequence

#: Longer texts are not quoted.
_SHOWN: Final = 60
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_SIZE: Final = re.compile(r"([0-9]{1,15}) ?([kmgt]?)(i?b)?", re.IGNORECASE)


def describe(node: Node) -> str:
    """The type of ``node``, for faults."""
    if isinstance(node, Mapping):
        return "a mapping"
    if isinstance(node, Sequence):
        return "a list"
    return node.guess.value


def string(node: Node, what: str, faults: Faults) -> str | None:
    if isinstance(node, Scalar) and node.guess is Guess.STRING:
        return node.text
    help_ = "write a string"
    if isinstance(node, Scalar) and node.text:
        help_ = f"""quote it: "{node.text}" """.rstrip() if len(node.text) <= _SHOWN else "quote it"
    faults.add("value.type", node.place, f"{what} must be a string, not {describe(node)}", help_)
    return None


def line(node: Node, what: str, faults: Faults, most: int) -> str | None:
    """A non-empty string of at most ``most`` characters, without control characters."""
    text = string(node, what, faults)
    if text is None:
        return None
    problem = _problem_of_line(text, most)
    if problem is not None:
        help_ = f"write 1 to {most} characters in one line"
        faults.add("value.bad", node.place, f"{what} {problem}", help_)
        return None
    return text


def _problem_of_line(text: str, most: int) -> str | None:
    if not text.strip():
        return "is empty"
    if len(text) > most:
        return f"is longer than {most}"
    return "contains line breaks or control characters" if _CONTROL.search(text) else None


def choice(node: Node, what: str, known: Iterable[str], faults: Faults) -> str | None:
    text = string(node, what, faults)
    names = list(known)
    if text is None or text in names:
        return text
    folded = {name.lower(): name for name in names}
    same = folded.get(text.lower())
    help_ = f"did you mean {same!r}?" if same else faults.suggestion(text, names)
    faults.add("value.bad", node.place, f"{what} cannot be {quoted(text)}", help_)
    return None


def boolean(node: Node, what: str, faults: Faults) -> bool | None:
    if isinstance(node, Scalar) and node.guess is Guess.BOOLEAN and node.text in {"true", "false"}:
        return node.text == "true"
    shown = quoted(node.text) if isinstance(node, Scalar) and node.text else describe(node)
    message = f"{what} must be true or false, not {shown}"
    faults.add("value.type", node.place, message, "write true or false, without quotes")
    return None


def size(node: Node, what: str, faults: Faults) -> int | None:
    """A number of bytes; units are powers of 1024."""
    if isinstance(node, Scalar) and (match := _SIZE.fullmatch(node.text)):
        return int(match[1]) << (10 * " kmgt".index(match[2].lower() or " "))
    shown = quoted(node.text) if isinstance(node, Scalar) else describe(node)
    help_ = "write a number of bytes such as 65536, 64K, 256M or 1G"
    faults.add("value.bad", node.place, f"{what} cannot be {shown}", help_)
    return None


def scalars(node: Node, what: str, faults: Faults) -> tuple[Scalar, ...]:
    """A scalar, or a non-empty list of scalars."""
    if isinstance(node, Scalar):
        return (node,)
    if isinstance(node, Sequence) and not node.items:
        message = f"the list of {what} is empty"
        faults.add("value.bad", node.place, message, "write at least one item, or remove it")
    elif isinstance(node, Mapping):
        message = f"{what} must be a string or a list of strings, not a mapping"
        faults.add("value.type", node.place, message, "write [a, b]")
    items = node.items if isinstance(node, Sequence) else ()
    for item in items:
        if not isinstance(item, Scalar):
            message = f"each item of {what} must be a string, not {describe(item)}"
            faults.add("value.type", item.place, message, "write a string")
    return tuple(item for item in items if isinstance(item, Scalar))


def mapping(node: Node, what: str, faults: Faults, wanted: str) -> Mapping:
    """``node`` if it is a mapping, else an empty one.

    :param wanted: an example, for the fault.
    """
    if isinstance(node, Mapping):
        return node
    message = f"{what} must be a mapping, not {describe(node)}"
    faults.add("value.type", node.place, message, f"write {wanted}")
    return Mapping((), node.place)


def fields(node: Mapping, what: str, known: Iterable[str], faults: Faults) -> dict[str, Node]:
    """The entries whose keys are in ``known``; other entries are faults."""
    names = list(known)
    found = {}
    for key, value in node.entries:
        if key.text in names:
            found[key.text] = value
        elif key.text == "<<":
            message = "merge keys are not supported"
            faults.add("syntax.unsupported", key.place, message, "write out the entries")
        else:
            message = f"{what} has no key {quoted(key.text)}"
            faults.add("key.unknown", key.place, message, faults.suggestion(key.text, names))
    return found
