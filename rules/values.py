"""Typed readers of nodes: each gives the value, or says what is wrong and gives ``None``.

``what`` names the value in the fault, such as ``container`` or ``the rule's name``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from rules.faults import Faults, quoted
from rules.text import Guess, Mapping, Node, Scalar, Sequence

#: Longer texts are not repeated.
_SHOWN: Final = 60
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_SIZE: Final = re.compile(r"([0-9]{1,15}) ?([kmgt]?)(i?b)?", re.IGNORECASE)


def describe(node: Node) -> str:
    """What is there instead."""
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
    faults.add(
        "value.type", node.place, f"{what} wants a string, and this is {describe(node)}", help_
    )
    return None


def line(node: Node, what: str, faults: Faults, most: int) -> str | None:
    """A string that can stand in a header: not empty, no longer than ``most``, without control characters."""
    text = string(node, what, faults)
    if text is None:
        return None
    if not text.strip() or len(text) > most or _CONTROL.search(text):
        said = (
            "is empty"
            if not text.strip()
            else f"is longer than {most}"
            if len(text) > most
            else "has line ends or control characters"
        )
        help_ = f"write 1 to {most} characters in one line"
        faults.add("value.bad", node.place, f"{what} {said}", help_)
        return None
    return text


def choice(node: Node, what: str, known: Iterable[str], faults: Faults) -> str | None:
    text = string(node, what, faults)
    names = list(known)
    if text is None or text in names:
        return text
    folded = {name.lower(): name for name in names}
    help_ = (
        f"did you mean {folded[text.lower()]!r}?"
        if text.lower() in folded
        else faults.among(text, names)
    )
    faults.add("value.bad", node.place, f"{what} cannot be {quoted(text)}", help_)
    return None


def truth(node: Node, what: str, faults: Faults) -> bool | None:
    if isinstance(node, Scalar) and node.guess is Guess.TRUTH and node.text in {"true", "false"}:
        return node.text == "true"
    said = quoted(node.text) if isinstance(node, Scalar) and node.text else describe(node)
    faults.add(
        "value.type",
        node.place,
        f"{what} wants true or false, and this is {said}",
        "write true or false, unquoted",
    )
    return None


def size(node: Node, what: str, faults: Faults) -> int | None:
    """A number of bytes, with units of 1024."""
    if isinstance(node, Scalar) and (match := _SIZE.fullmatch(node.text)):
        return int(match[1]) << (10 * " kmgt".index(match[2].lower() or " "))
    said = quoted(node.text) if isinstance(node, Scalar) else describe(node)
    faults.add(
        "value.bad",
        node.place,
        f"{what} is {said}",
        "write a number of bytes such as 65536, 64K, 256M or 1G",
    )
    return None


def scalars(node: Node, what: str, faults: Faults) -> tuple[Scalar, ...]:
    """One scalar, or a list of them that is not empty."""
    if isinstance(node, Scalar):
        return (node,)
    if isinstance(node, Sequence) and not node.items:
        faults.add(
            "value.bad",
            node.place,
            f"the list of {what} is empty",
            "name at least one, or leave it away",
        )
    elif isinstance(node, Mapping):
        faults.add(
            "value.type", node.place, f"{what} wants a string or a list of strings", "write [a, b]"
        )
    items = node.items if isinstance(node, Sequence) else ()
    for item in items:
        if not isinstance(item, Scalar):
            text = f"a value of {what} wants a string, and this is {describe(item)}"
            faults.add("value.type", item.place, text, "write a string")
    return tuple(item for item in items if isinstance(item, Scalar))


def mapping(node: Node, what: str, faults: Faults, wanted: str) -> Mapping:
    """With names as the keys; empty when it is something else.  ``wanted`` is an example."""
    if isinstance(node, Mapping):
        return node
    faults.add(
        "value.type",
        node.place,
        f"{what} wants a mapping, and this is {describe(node)}",
        f"write {wanted}",
    )
    return Mapping((), node.place)


def fields(node: Mapping, what: str, known: Iterable[str], faults: Faults) -> dict[str, Node]:
    """The entries whose keys are in ``known``; the others are faults."""
    names = list(known)
    found = {}
    for key, value in node.entries:
        if key.text in names:
            found[key.text] = value
        elif key.text == "<<":
            faults.add(
                "syntax.unsupported",
                key.place,
                "merge keys are not supported",
                "write the entries out",
            )
        else:
            faults.add(
                "key.unknown",
                key.place,
                f"{what} has no {quoted(key.text)}",
                faults.among(key.text, names),
            )
    return found
