"""A naive implementation of the semantics of rules, without any part of the engine, as a
reference."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable
from typing import Any

from rules import model
from rules.facts import UNKNOWN, Facts
from rules.model import Condition, Operator, Rule, Test

MISSING = None


def value(test: Test, facts: Facts) -> Any:  # noqa: C901, PLR0911, PLR0912 - one line for each fact is the point
    """The tested value, MISSING or UNKNOWN."""
    stored, holder = facts.stored, facts.holder
    if test.fact in ("content-type", "size", "metadata"):
        if facts.container is None or facts.object is None:
            return MISSING
        if stored is UNKNOWN:
            return UNKNOWN
    if test.fact in ("container-metadata", "policy"):
        if facts.container is None:
            return MISSING
        if holder is UNKNOWN:
            return UNKNOWN
    match test.fact:
        case "method" | "container" | "object":
            return getattr(facts, test.fact)
        case "content-type":
            return (stored.content_type or "").split(";")[0].strip().lower() or MISSING
        case "size":
            return stored.size_bytes
        case "metadata":
            return stored.metadata.get(test.key, MISSING)
        case "container-metadata":
            return holder.metadata.get(test.key, MISSING)
        case "policy":
            return holder.policy
        case "header":
            return facts.headers.get(test.key, MISSING)
        case "query":
            return facts.query.get(test.key, MISSING)
        case "client-address":
            return _address(facts.client_address)
        case "time":
            return facts.minute_of_week
        case "user" | "project" | "domain":
            return getattr(facts.caller, test.fact)
        case "roles":
            return {role.lower() for role in facts.caller.roles} or MISSING
        case "anonymous":
            return facts.caller.is_anonymous
        case "signed":
            return facts.caller.is_signed
    raise AssertionError(test.fact)


def _address(text: str | None) -> Any:
    try:
        address = ipaddress.ip_address(str(text))
    except ValueError:
        return MISSING
    return address.ipv4_mapped or address if address.version == 6 else address


def test_holds(test: Test, facts: Facts) -> bool | None:  # noqa: C901, PLR0911 - one line for each operator is the point
    seen, operand = value(test, facts), test.operand
    if seen is UNKNOWN:
        return None
    if test.operator is Operator.PRESENT:
        return (seen is not MISSING) == operand
    if seen is MISSING:
        return False
    match test.operator:
        case Operator.EXACT | Operator.IS:
            return seen == operand
        case Operator.GLOB:
            return glob_matches(operand, seen)
        case Operator.PREFIX:
            return seen[: len(operand)] == operand
        case Operator.SUFFIX:
            return operand == "" or seen[-len(operand) :] == operand
        case Operator.ONE_OF:
            return any(seen == one for one in operand)
        case Operator.HAS:
            return any(one in seen for one in operand)
        case Operator.AT_LEAST:
            return seen >= operand
        case Operator.AT_MOST:
            return seen <= operand
        case Operator.WITHIN if test.fact == "time":
            return any(seen in range(first, last + 1) for first, last in operand)
    return any(seen in network for network in operand if network.version == seen.version)


test_holds.__test__ = False  # type: ignore[attr-defined]  # no test of pytest's


def glob_matches(glob: str, name: str) -> bool:
    """By the words of the format: * ? [abc] [a-z] [!abc]; exponential, so for short ones only."""
    if not glob:
        return not name
    if glob[0] == "*":
        return any(glob_matches(glob[1:], name[count:]) for count in range(len(name) + 1))
    if not name:
        return False
    if glob[0] == "?":
        return glob_matches(glob[1:], name[1:])
    if glob[0] == "[":
        end = glob.index("]")
        return _in_set(glob[1:end], name[0]) and glob_matches(glob[end + 1 :], name[1:])
    return glob[0] == name[0] and glob_matches(glob[1:], name[1:])


def _in_set(inside: str, character: str) -> bool:
    if inside[0] == "!":
        return not _in_set(inside[1:], character)
    if len(inside) >= 3 and inside[1] == "-":
        return inside[0] <= character <= inside[2] or (
            len(inside) > 3 and _in_set(inside[3:], character)
        )
    return inside[0] == character or (len(inside) > 1 and _in_set(inside[1:], character))


#: The outcome of a test of facts that may be unknown.
Answer = Callable[[Test], bool | None]


def holds(condition: Condition, facts: Facts) -> bool | None:
    """Three values: with false 0, unknown 1, true 2, ``all`` is the minimum, ``any`` the maximum,
    and ``not`` inverts."""
    return evaluate(condition, lambda test: test_holds(test, facts))


_NUMBERS: dict[bool | None, int] = {False: 0, None: 1, True: 2}
_ANSWERS = {number: answer for answer, number in _NUMBERS.items()}


def evaluate(condition: Condition, answer: Answer) -> bool | None:
    return _ANSWERS[_number(condition, answer)]


def _number(condition: Condition, answer: Answer) -> int:
    match condition:
        case Test():
            return _NUMBERS[answer(condition)]
        case model.Not(part):
            return 2 - _number(part, answer)
        case model.All(parts):
            return min((_number(part, answer) for part in parts), default=2)
        case model.Any(parts):
            return max((_number(part, answer) for part in parts), default=0)
    raise AssertionError(condition)


def holds_cautiously(condition: Condition, facts: Facts, *, wants: bool = True) -> bool:
    """Whether ``condition`` certainly is ``wants``: a test of a missing value is certainly neither
    true nor false."""
    match condition:
        case Test():
            if value(condition, facts) is MISSING and condition.operator is not Operator.PRESENT:
                return False
            return test_holds(condition, facts) is wants
        case model.Not(part):
            return holds_cautiously(part, facts, wants=not wants)
        case model.All(parts):
            return (all if wants else any)(
                holds_cautiously(part, facts, wants=wants) for part in parts
            )
        case model.Any(parts):
            return (any if wants else all)(
                holds_cautiously(part, facts, wants=wants) for part in parts
            )
    raise AssertionError(condition)


def first_match(
    rules: Iterable[Rule], facts: Facts, *, explicit: bool = False
) -> Rule | str | None:
    """The rule that decides, ``"unknown"``, or ``None``."""
    for rule in rules:
        if explicit and not (rule.is_mandatory or isinstance(rule.action, model.Allow)):
            continue
        outcome = holds(rule.condition, facts)
        if outcome is not False:
            return rule if outcome else "unknown"
    return None
