"""Templates: ``{object}`` and the like in a storlet's parameters.

``{{`` and ``}}`` are literal braces.  A template cannot be rendered if a value is missing: with an
empty string in its place, the storlet would do something that the rule does not intend.
"""

from __future__ import annotations

import re
from typing import Final

from rules.conditions import TABLE, Group
from rules.facts import UNKNOWN, Facts
from rules.model import Rule, Run, Template

#: The names allowed in braces.
NAMES: Final = ("object", "container", "user", "project", "method", "metadata.<name>")
_PLAIN: Final = frozenset(name for name in NAMES if "." not in name)
#: Prefix of the names of metadata, before the key in lower case.
METADATA: Final = "metadata."
#: Keys of metadata; no underscore, because Swift reads it as a hyphen in header names.
_KEY: Final = re.compile(r"[!-^`-~]{1,128}")
_TOKEN: Final = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


class TemplateError(ValueError):
    """The text is not a valid template; the message states the reason."""


class MissingValue(LookupError):
    """A value of the template is missing in this request; ``name`` is the name in the braces."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{{{name}}} has no value in this request")
        self.name = name


def parse(text: str) -> Template:
    """Parse a template; raise :class:`TemplateError` if it is invalid."""
    parts = [""]
    position = 0
    for token in _TOKEN.finditer(text):
        parts[-1] += text[position : token.start()]
        position = token.end()
        if token[0] in ("{{", "}}"):
            parts[-1] += token[0][0]
        elif token[1] is None:
            raise TemplateError(f"unmatched {token[0]!r}; write {token[0] * 2} for a literal brace")
        else:
            parts += [_name(token[1]), ""]
    parts[-1] += text[position:]
    return Template(tuple(parts))


def _name(text: str) -> str:
    name = text.strip()
    if name in _PLAIN:
        return name
    if name.lower().startswith(METADATA) and _KEY.fullmatch(name[len(METADATA) :]):
        return name.lower()
    known = ", ".join(f"{{{each}}}" for each in NAMES)
    raise TemplateError(f"{{{text}}} is unknown; use one of {known}")


def names(template: Template) -> tuple[str, ...]:
    """The names in braces, in order."""
    return template.parts[1::2]


def names_of_rule(rule: Rule) -> frozenset[str]:
    """The names in braces in the parameters of all storlets of a rule."""
    if not isinstance(rule.action, Run):
        return frozenset()
    reverse = rule.action.reverse
    steps = (*rule.action.steps, *(reverse.steps if reverse is not None else ()))
    texts = (text for step in steps for _, text in step.parameters)
    return frozenset(name for text in texts for name in names(text))


def groups(template: Template) -> frozenset[Group]:
    """The groups of the facts that the template uses."""
    return frozenset(TABLE[_fact(name)[0]].group for name in names(template))


def render(template: Template, facts: Facts) -> str:
    """Render a template; raise :class:`MissingValue` if a value is missing.

    The facts in :func:`groups` must be known.
    """
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
    """The source text, without spaces inside braces."""
    shown = [
        f"{{{part}}}" if number % 2 else part.replace("{", "{{").replace("}", "}}")
        for number, part in enumerate(template.parts)
    ]
    return "".join(shown)
