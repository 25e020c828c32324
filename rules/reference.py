"""The reference page of the conditions, made from the condition table; ``python3 -m rules.reference`` prints it.

``docs/reference/rules.rst`` is its output, and a test compares the two.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import Final

from rules import template
from rules.conditions import OPERATORS, TABLE, Fact, Group, Kind
from rules.model import Operator

_WIDTH: Final = 110

#: How a test of each kind is written.
_WRITTEN: Final = {
    Kind.STRING: "a string, a list of strings of which it must be one, or a mapping of comparisons",
    Kind.STRINGS: "``{name: test}``, several names must all hold; each test as for a string",
    Kind.NUMBER: "a mapping of comparisons",
    Kind.SET: "a string, a list of strings of which one must be among the values, or a mapping of the comparison",
    Kind.NETWORK: "an address or a network, or a list of these",
    Kind.TIME: '``{days: [mon, fri], from: "22:00", to: "06:00"}``, or a list of these; at least one of the three',
    Kind.BOOL: "``true`` or ``false``",
}
_KINDS: Final = {
    Kind.STRING: "string",
    Kind.STRINGS: "map of strings",
    Kind.NUMBER: "number",
    Kind.SET: "set",
    Kind.NETWORK: "address",
    Kind.TIME: "time",
    Kind.BOOL: "truth",
}
_GROUPS: Final = {
    Group.REQUEST: "the request itself, nothing to look up",
    Group.STORED: "the object: one HEAD of it; of a PUT, what the request says of the object to be stored",
    Group.HOLDER: "the container's information, which Swift caches",
}
_COMPARISONS: Final = {
    Operator.EXACT: "equal",
    Operator.GLOB: "``*`` any characters, also ``/``; ``?`` one; ``[abc]``, ``[a-z]`` one of these; ``[!abc]`` one that is none of"
    " these; all of the text must match",
    Operator.PREFIX: "begins with it",
    Operator.SUFFIX: "ends with it",
    Operator.ONE_OF: "a list; equal to one of these",
    Operator.AT_LEAST: "bytes, or with ``K``, ``M``, ``G``, ``T`` in units of 1024",
    Operator.AT_MOST: "likewise",
    Operator.PRESENT: "``true``: there is a value; ``false``: it is missing (of a set: there is none)",
}

_HEAD: Final = """\
.. Made by python3 -m rules.reference; do not edit.

Conditions of rules
===================

What stands below ``when`` in a rule; :doc:`/user/rules` explains rules as a whole. All entries of a mapping must hold.
"""


def page() -> str:
    """The text of ``docs/reference/rules.rst``."""
    parts = [
        _HEAD,
        _titled(
            "Facts", _table(("key", "kind", "looks at"), [_row(fact) for fact in TABLE.values()])
        ),
        _titled("Combinations", _table(("key", "value", "holds when"), _COMBINATIONS)),
        _titled(
            "Kinds", _table(("kind", "written as", "comparisons"), [_kind(kind) for kind in Kind])
        ),
        _titled(
            "Comparisons",
            _table(
                ("key", "meaning"),
                [(f"``{each.value}``", said) for each, said in _COMPARISONS.items()],
            ),
        ),
        _titled("Missing values", _MISSING, _bullets(_optional())),
        _titled(
            "What a condition costs",
            _COSTS,
            _table(("facts", "come from"), [_cost(group) for group in Group]),
        ),
        _titled("Templates", _TEMPLATES, _bullets(f"``{{{name}}}``" for name in template.NAMES)),
    ]
    return "\n".join(parts)


_COMBINATIONS: Final = (
    ("``all``", "a list of conditions", "each of them holds"),
    ("``any``", "a list of conditions", "at least one of them holds"),
    ("``not``", "a condition", "it does not hold; see `Missing values`_"),
)

_MISSING: Final = """\
A test of a value that is missing does not hold, unless it is ``{present: false}``. Under ``not`` the rule's kind decides, always towards the
closed side: in a rule that restricts (``deny``, or ``mandatory: true``) the ``not`` of such a test holds, so that nobody gets around the rule
by leaving something away; in any other rule (``allow``, or an ordinary ``run``) it does not. These can be missing:
"""

_COSTS: Final = """\
Nothing is looked up unless the decision depends on it.
"""

_TEMPLATES: Final = """\
In the values of a storlet's ``parameters``; ``{{`` and ``}}`` are braces. A request that lacks the value is refused.
"""


def _row(fact: Fact) -> tuple[str, str, str]:
    choices = (
        f" (``{'``, ``'.join(each.value for each in fact.operators)}`` only)"
        if fact.choices
        else ""
    )
    return f"``{fact.name}``", _KINDS[fact.kind] + choices, fact.help


def _kind(kind: Kind) -> tuple[str, str, str]:
    named = [f"``{operator.value}``" for operator in OPERATORS[kind] if operator in _COMPARISONS]
    written = kind in {Kind.STRING, Kind.STRINGS, Kind.NUMBER, Kind.SET}
    return _KINDS[kind], _WRITTEN[kind], ", ".join(named) if written else ""


def _optional() -> Iterable[str]:
    return (f"``{fact.name}``" for fact in TABLE.values() if fact.is_optional)


def _cost(group: Group) -> tuple[str, str]:
    return ", ".join(f"``{fact.name}``" for fact in TABLE.values() if fact.group is group), _GROUPS[
        group
    ]


# --- reStructuredText -------------------------------------------------------------------------------------------------


def _titled(title: str, *parts: str) -> str:
    return "\n".join([title, "-" * len(title), "", *parts])


def _bullets(lines: Iterable[str]) -> str:
    return "".join(f"* {line}\n" for line in lines)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A list-table: wide cells need no columns to be drawn."""
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for row in (head, *rows):
        for number, cell in enumerate(row):
            lead = "   * - " if number == 0 else "     - "
            wrapped = textwrap.wrap(
                cell, _WIDTH, break_long_words=False, break_on_hyphens=False
            ) or [""]
            lines += [
                (lead + wrapped[0]).rstrip(),
                *(" " * len(lead) + line for line in wrapped[1:]),
            ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
