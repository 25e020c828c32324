"""Templates: ``{object}`` and the like in a storlet's parameters.

``{{`` and ``}}`` are braces.  A template whose value is missing cannot be rendered: an empty string in its place would let a
storlet work on something else than the rule means.
"""

from __future__ import annotations

import re
from typing import Final

from rules.conditions import TABLE, Group
from rules.facts import UNKNOWN, Facts
from rules.model import Template

#: What may stand in braces; ``metadata`` takes a name after a dot.
NAMES: Final = ("object", "container", "user", "project", "method", "metadata.<name>")
_PLAIN: Final = frozenset(name for name in NAMES if "." not in name)
_METADATA: Final = "metadata."
#: Of metadata; in names of headers Swift reads an underscore as a hyphen.
_KEY: Final = re.compile(r"[!-^`-~]{1,128}")
_TOKEN: Final = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


class TemplateError(ValueError):
    """This is no template; the text says why."""


class MissingValue(LookupError):
    """The template speaks of a value that this request does not have; ``name`` is what stands in the braces."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{{{name}}} has no value in this request")
        self.name = name


def parse(text: str) -> Template:
    """Raises :class:`TemplateError`."""
    parts = [""]
    position = 0
    for token in _TOKEN.finditer(text):
        parts[-1] += text[position : token.start()]
        position = token.end()
        if token[0] in ("{{", "}}"):
            parts[-1] += token[0][0]
        elif token[1] is None:
            raise TemplateError(f"a single {token[0]!r}; a brace itself is written {token[0] * 2}")
        else:
            parts += [_name(token[1]), ""]
    parts[-1] += text[position:]
    return Template(tuple(parts))


def _name(text: str) -> str:
    name = text.strip()
    if name in _PLAIN:
        return name
    if name.lower().startswith(_METADATA) and _KEY.fullmatch(name[len(_METADATA) :]):
        return name.lower()
    raise TemplateError(
        f"{{{text}}} is not known; there are {', '.join(f'{{{known}}}' for known in NAMES)}"
    )


def names(template: Template) -> tuple[str, ...]:
    """What stands in braces, in order."""
    return template.parts[1::2]


def groups(template: Template) -> frozenset[Group]:
    """Where the values come from."""
    return frozenset(TABLE[_fact(name)[0]].group for name in names(template))


def render(template: Template, facts: Facts) -> str:
    """Raises :class:`MissingValue`.  The facts in :func:`groups` must be known."""
    return "".join(
        _value(part, facts) if number % 2 else part for number, part in enumerate(template.parts)
    )


def _fact(name: str) -> tuple[str, str]:
    fact, _, key = name.partition(".")
    return fact, key


def _value(name: str, facts: Facts) -> str:
    fact, key = _fact(name)
    value = TABLE[fact].read(facts, key)
    if value is UNKNOWN:
        raise ValueError(f"{{{name}}} has not been looked up")
    if value is None:
        raise MissingValue(name)
    return str(value)


def describe(template: Template) -> str:
    """As it was written, but for the braces' inner spaces."""
    shown = [
        f"{{{part}}}" if number % 2 else part.replace("{", "{{").replace("}", "}}")
        for number, part in enumerate(template.parts)
    ]
    return "".join(shown)
