"""Kinds that the caller declares as regular expressions, in a syntax of bounded cost.

The matcher of Python goes back: ``(a+)+b`` needs a time that is exponential in the length of a
text.  So an expression may have literal characters, sets, ``.``, ``\\b``, groups, ``|`` and
repetitions with an upper bound.  The number of steps that an attempt to match may need is computed
from it, and bounded.  A search then needs a time that is linear in the length of the text.
"""

from __future__ import annotations

import re
from typing import Any

from contract import ContractError, object_of
from parameters import shown
from text_kinds import KINDS, Kind, by_pattern

try:
    from re import _parser as parser
except ImportError:  # before Python 3.11
    import sre_parse as parser

MOST_KINDS = 20
#: Bound of the length of an expression, and of the texts that it matches.
MOST_CHARACTERS = 200
#: Bound of the steps at one place of a text, for all expressions together.
MOST_STEPS = 2000
NAME = re.compile("[a-z][a-z0-9-]{0,31}", re.ASCII)
CHARACTERS = ("LITERAL", "NOT_LITERAL", "ANY", "IN")
PLACES = ("AT_BOUNDARY", "AT_NON_BOUNDARY")
SYNTAX = "want characters, sets, ., \\b, groups, | and {m,n}"


class Refused(ValueError):
    """The expression is not in the syntax."""


def declared_kinds(text: str) -> tuple[Kind, ...]:
    """The kinds of a JSON object of names and expressions.

    :raises ContractError: with every fault.
    """
    given = object_of("patterns", "pattern", text, '{"ticket": "T-[0-9]{6}"}')
    if len(given) > MOST_KINDS:
        raise ContractError(f"patterns: {len(given)} patterns: want at most {MOST_KINDS}")
    faults, kinds, steps = [], [], 0
    own = {kind.name for kind in KINDS}
    for name, expression in given.items():
        if not NAME.fullmatch(name) or name in own:
            faults.append(
                f"patterns: {shown(name)}: want a name of up to 32 of a-z, 0-9 and -, other than "
                + ", ".join(sorted(own))
            )
        try:
            steps += steps_of(expression)
        except Refused as error:
            faults.append(f"patterns: {shown(name)}: {error}")
            continue
        kinds.append(Kind(name, by_pattern(re.compile(str(expression))), "patterns"))
    if steps > MOST_STEPS:
        faults.append(
            f"patterns: an attempt to match may need {steps} steps: want at most {MOST_STEPS} "
            "for all patterns together"
        )
    if faults:
        raise ContractError("; ".join(faults))
    return tuple(kinds)


def steps_of(expression: object) -> int:
    """The most steps that one attempt to match needs.

    :raises Refused: the expression is not in the syntax.
    """
    if not isinstance(expression, str) or not 0 < len(expression) <= MOST_CHARACTERS:
        raise Refused(f"want an expression of 1 to {MOST_CHARACTERS} characters")
    try:
        parsed = parser.parse(expression)
        re.compile(expression)
    except (re.error, OverflowError, RecursionError) as error:
        raise Refused(f"is no regular expression: {error}") from None
    if parsed.state.flags & ~(re.UNICODE | re.IGNORECASE):
        raise Refused("has a flag: only (?i) is supported")
    steps, _ = cost_of(parsed)
    least, most = parsed.getwidth()
    if least < 1 or most > MOST_CHARACTERS:
        raise Refused(f"may match {least} to {most} characters: want 1 to {MOST_CHARACTERS}")
    return steps


def cost_of(nodes: Any) -> tuple[int, int]:
    """Of a parsed sequence: its most steps, and the number of its ways to match at one place."""
    steps, ways = 0, 1
    for code, value in nodes:
        inner_steps, inner_ways = cost_of_node(str(code), value)
        steps += ways * inner_steps
        ways *= inner_ways
        bounded(steps, ways)
    return steps, ways


def cost_of_node(name: str, value: Any) -> tuple[int, int]:
    if name in CHARACTERS or (name == "AT" and str(value) in PLACES):
        return 1, 1
    if name == "BRANCH":
        costs = [cost_of(each) for each in value[1]]
        return sum(steps + 1 for steps, _ in costs), sum(ways for _, ways in costs)
    if name == "SUBPATTERN":
        _, added, removed, inner = value
        if not added and not removed:
            steps, ways = cost_of(inner)
            return steps + 1, ways
    if name in ("MAX_REPEAT", "MIN_REPEAT"):
        least, most, inner = value
        if most > MOST_CHARACTERS:
            raise Refused(f"has a repetition without a bound of up to {MOST_CHARACTERS}: {SYNTAX}")
        return cost_of_repetition(least, most, *cost_of(inner))
    raise Refused(f"has a construct that is not supported: {SYNTAX}")


def cost_of_repetition(least: int, most: int, steps: int, ways: int) -> tuple[int, int]:
    """The matcher repeats an empty group, too, so each time is a step."""
    total_steps, total_ways, ways_so_far = 1, int(least == 0), 1
    for count in range(1, most + 1):
        total_steps += ways_so_far * max(steps, 1)
        ways_so_far *= ways
        total_ways += ways_so_far if count >= least else 0
        bounded(total_steps, ways_so_far)
    return total_steps, total_ways


def bounded(steps: int, ways: int) -> None:
    if max(steps, ways) > MOST_STEPS:
        raise Refused(f"an attempt to match may need more than {MOST_STEPS} steps")
