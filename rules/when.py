"""Parses ``when``: conditions, as the condition table defines them.

All entries of a mapping must hold.  The keys are the facts of :data:`rules.conditions.TABLE`,
``all`` and ``any`` (lists of conditions) and ``not`` (a condition).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Final, TypeAlias

from rules import glob, values
from rules.conditions import TABLE, WEEK, Fact, Kind, media_type
from rules.faults import Faults, quoted
from rules.intervals import merged
from rules.model import All, Any, Condition, Not, Operator, Test
from rules.text import Guess, Mapping, Node, Scalar, Sequence

_KEYS: Final = (*TABLE, "all", "any", "not")
_KEY_PATTERN: Final = re.compile(r"[!-~]{1,128}")
_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_LONG_DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_CLOCK: Final = re.compile(r"([01]?[0-9]|2[0-4]):([0-5][0-9])")
_DAY: Final = 24 * 60
#: The length of the prefix of IPv4-mapped IPv6 addresses.
_MAPPED_BITS: Final = 96

_Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
#: Replaces a condition that cannot be parsed; a text with a fault yields no rules anyway.
_INVALID: Final = All()


def read(node: Node, faults: Faults, what: str = "when") -> Condition:
    """Parse a condition; faults are added to ``faults``."""
    entries = values.mapping(
        node, what, faults, "{method: GET, container: logs}, or all: and any: for lists"
    )
    known = values.fields(entries, "a condition", _KEYS, faults)
    return _all([_entry(name, value, faults) for name, value in known.items()])


def _all(parts: list[Condition]) -> Condition:
    return parts[0] if len(parts) == 1 else All(tuple(parts))


def _entry(name: str, node: Node, faults: Faults) -> Condition:
    if name in ("all", "any"):
        return _list(name, node, faults)
    if name == "not":
        return Not(_subcondition(node, faults))
    fact = TABLE[name]
    return _READERS[fact.kind](fact, node, faults)


def _list(name: str, node: Node, faults: Faults) -> Condition:
    if not isinstance(node, Sequence) or not node.items:
        found = "an empty one" if isinstance(node, Sequence) else values.describe(node)
        text = f"{name} must be a list of conditions, not {found}"
        help_ = f"write {name}: [{{method: GET}}, {{container: logs}}]"
        faults.add("value.type", node.place, text, help_)
        return _INVALID
    parts = tuple(_subcondition(item, faults) for item in node.items)
    return All(parts) if name == "all" else Any(parts)


def _subcondition(node: Node, faults: Faults) -> Condition:
    if isinstance(node, Mapping) and not node.entries:
        text = "an empty condition holds for every request"
        faults.add("value.bad", node.place, text, "add a test, or remove the condition")
    return read(node, faults, "a condition")


# --- one parser for each kind of fact -------------------------------------------------------------


def _string(fact: Fact, node: Node, faults: Faults) -> Condition:
    return _string_test(fact, None, fact.name, node, faults)


def _strings(fact: Fact, node: Node, faults: Faults) -> Condition:
    entries = values.mapping(node, fact.name, faults, f"{fact.name}: {{name: value}}")
    if isinstance(node, Mapping) and not node.entries:
        faults.add(
            "value.bad", node.place, f"{fact.name} is empty", f"write {fact.name}: {{name: value}}"
        )
    seen: set[str] = set()
    parts = []
    for key, value in entries.entries:
        name = _map_key(fact, key, seen, faults)
        parts.append(_string_test(fact, name, f"{fact.name} {name}", value, faults))
    return _all(parts)


def _map_key(fact: Fact, key: Scalar, seen: set[str], faults: Faults) -> str:
    name = key.text.lower() if fact.keys_ignore_case else key.text
    if fact.keys_ignore_case and not _KEY_PATTERN.fullmatch(name):
        text = f"{quoted(key.text)} is not a valid name in {fact.name}"
        faults.add("value.bad", key.place, text, "write 1 to 128 visible ASCII characters")
    elif fact.keys_ignore_case and "_" in name:
        text = f"{quoted(key.text)} never occurs in {fact.name}: Swift reads _ in header names as -"
        faults.add("value.bad", key.place, text, f"write {name.replace('_', '-')}")
    if name in seen:
        text = f"{quoted(key.text)} is a duplicate: names are case-insensitive"
        faults.add("key.duplicate", key.place, text, "keep one of them")
    seen.add(name)
    return name


def _string_test(fact: Fact, key: str | None, what: str, node: Node, faults: Faults) -> Condition:
    if isinstance(node, Mapping):
        return _operators(fact, key, what, node, faults)
    if isinstance(node, Sequence):
        return Test(fact.name, Operator.ONE_OF, _one_of(fact, what, node, faults), key, node.place)
    return Test(fact.name, Operator.EXACT, _exact(fact, what, node, faults), key, node.place)


def _operators(fact: Fact, key: str | None, what: str, node: Mapping, faults: Faults) -> Condition:
    names = {operator.value: operator for operator in fact.operators}
    known = values.fields(node, what, names, faults)
    if not node.entries:
        faults.add("value.bad", node.place, f"{what} is empty", f"write one of {', '.join(names)}")
    parts: list[Condition] = [
        Test(
            fact.name,
            names[name],
            _OPERANDS[names[name]](fact, f"{name} of {what}", value, faults),
            key,
            value.place,
        )
        for name, value in known.items()
    ]
    return _all(parts)


def _operand(fact: Fact, what: str, node: Node, faults: Faults) -> str:
    text = (
        values.choice(node, what, fact.choices, faults)
        if fact.choices
        else values.string(node, what, faults)
    )
    text = text or ""
    return text.lower() if fact.ignores_case else text


def _exact(fact: Fact, what: str, node: Node, faults: Faults) -> str:
    """The operand of ``exact``, or of one item of a list."""
    text = _operand(fact, what, node, faults)
    plain = media_type(text) if fact.name == "content-type" else text
    if plain is not None and plain != text:
        message = f"{quoted(text)} never matches: content types are compared without parameters"
        faults.add("value.bad", node.place, message, f"write {plain}")
    elif not text and not (fact.may_be_empty or fact.choices) and _is_string(node):
        message = f"{what} is empty, but no {fact.name} is ever empty"
        help_ = "remove it; write present: false to match a missing value"
        faults.add("value.bad", node.place, message, help_)
    else:
        _refuse_impossible(fact, what, text, node, faults)
    return text


def _is_string(node: Node) -> bool:
    """Whether ``node`` is a string; if it is not, a fault has been added already."""
    return isinstance(node, Scalar) and node.guess is Guess.STRING


def _refuse_impossible(fact: Fact, what: str, plain: str, node: Node, faults: Faults) -> None:
    """Refuse characters that occur in no value; the consistency check misses them in a list."""
    found = next((each for each in fact.without if each in plain), None)
    if found is not None:
        message = f"{what} contains {quoted(found)}, but no {fact.name} ever does"
        help_ = f"remove the {found}"
        if found == "/":
            help_ = "write the container's name only, and test object for the rest"
        faults.add("value.bad", node.place, message, help_)


def _one_of(fact: Fact, what: str, node: Node, faults: Faults) -> frozenset[str]:
    return frozenset(
        _exact(fact, what, item, faults) for item in values.scalars(node, what, faults)
    )


def _affix(fact: Fact, what: str, node: Node, faults: Faults) -> str:
    """The operand of ``prefix`` or ``suffix``."""
    text = _operand(fact, what, node, faults)
    if not text and _is_string(node):
        message = f"{what} is empty, so it matches every value"
        faults.add("value.bad", node.place, message, "write present: true instead")
    _refuse_impossible(fact, what, text, node, faults)
    return text


def _glob(fact: Fact, what: str, node: Node, faults: Faults) -> str:
    text = _operand(fact, what, node, faults)
    try:
        pieces = glob.parse(text)
    except glob.GlobError as error:
        help_ = "in a glob, * matches any characters, ? one, [abc], [a-z] and [!abc] one of a set"
        faults.add("value.bad", node.place, f"{what}: {error}", help_)
        return ""
    if not pieces and not fact.may_be_empty and _is_string(node):
        message = f"{what} is empty, but no {fact.name} is ever empty"
        faults.add("value.bad", node.place, message, "write the pattern to match")
    plain = "".join(piece for piece in pieces if isinstance(piece, str))
    _refuse_impossible(fact, what, plain, node, faults)
    return text


def _present(fact: Fact, what: str, node: Node, faults: Faults) -> bool:
    return bool(values.boolean(node, what, faults))


def _number(fact: Fact, what: str, node: Node, faults: Faults) -> int:
    return values.size(node, what, faults) or 0


_OPERANDS: Final[dict[Operator, Callable[[Fact, str, Node, Faults], object]]] = {
    Operator.EXACT: _exact,
    Operator.ONE_OF: _one_of,
    Operator.GLOB: _glob,
    Operator.PREFIX: _affix,
    Operator.SUFFIX: _affix,
    Operator.AT_LEAST: _number,
    Operator.AT_MOST: _number,
    Operator.PRESENT: _present,
}


def _bounds(fact: Fact, node: Node, faults: Faults) -> Condition:
    entries = values.mapping(node, fact.name, faults, "{at-least: 1K, at-most: 2G}")
    return _operators(fact, None, fact.name, entries, faults) if entries is node else _INVALID


def _set(fact: Fact, node: Node, faults: Faults) -> Condition:
    if isinstance(node, Mapping) and Operator.PRESENT.value in node:
        known = values.fields(node, fact.name, (Operator.PRESENT.value,), faults)
        value = known[Operator.PRESENT.value]
        operand = _present(fact, f"present of {fact.name}", value, faults)
        return Test(fact.name, Operator.PRESENT, operand, None, value.place)
    return Test(fact.name, Operator.HAS, _one_of(fact, fact.name, node, faults), None, node.place)


def _truth(fact: Fact, node: Node, faults: Faults) -> Condition:
    operand = bool(values.boolean(node, fact.name, faults))
    return Test(fact.name, Operator.IS, operand, None, node.place)


def _networks(fact: Fact, node: Node, faults: Faults) -> Condition:
    found = [_network(item, faults) for item in values.scalars(node, fact.name, faults)]
    networks = tuple(network for network in found if network is not None)
    return Test(fact.name, Operator.WITHIN, networks, None, node.place)


def _network(node: Scalar, faults: Faults) -> _Network | None:
    if "%" in node.text:
        message = f"{quoted(node.text)} has a zone, but no client address has one"
        faults.add("value.bad", node.place, message, "remove the zone: the % and all after it")
        return None
    try:
        network = ipaddress.ip_network(node.text, strict=False)
    except ValueError:
        help_ = "write an address or a network such as 10.0.0.0/8 or 2001:db8::/32"
        faults.add("value.bad", node.place, f"{quoted(node.text)} is not a network", help_)
        return None
    if "/" in node.text and ipaddress.ip_interface(node.text).ip != network.network_address:
        message = f"{node.text} has bits set beyond the prefix length"
        faults.add("value.bad", node.place, message, f"did you mean {network}?")
    mapped = getattr(network.network_address, "ipv4_mapped", None)
    if mapped:
        message = f"{node.text} never matches: IPv4-mapped IPv6 addresses are compared as IPv4"
        help_ = f"did you mean {mapped}/{network.prefixlen - _MAPPED_BITS}?"
        faults.add("value.bad", node.place, message, help_)
    return network


# --- time -----------------------------------------------------------------------------------------


def _time(fact: Fact, node: Node, faults: Faults) -> Condition:
    windows = node.items if isinstance(node, Sequence) else (node,)
    if not windows:
        faults.add("value.bad", node.place, "the list of times is empty", _TIME_HELP)
    minutes = [part for window in windows for part in _window(window, faults)]
    return Test(fact.name, Operator.WITHIN, merged(minutes), None, node.place)


_TIME_HELP: Final = 'write {days: [mon, tue], from: "22:00", to: "06:00"}, in UTC'


def _window(node: Node, faults: Faults) -> list[tuple[int, int]]:
    """First and last minutes of the week; the window of a day is the one that starts on it."""
    entries = values.mapping(node, "time", faults, _TIME_HELP.removeprefix("write "))
    known = values.fields(entries, "time", ("days", "from", "to"), faults)
    if isinstance(node, Mapping) and not node.entries:
        faults.add("value.bad", node.place, "time is empty", _TIME_HELP)
    days = _days(known["days"], faults) if "days" in known else list(range(7))
    first = _minute(known["from"], "from", faults) if "from" in known else 0
    end = _minute(known["to"], "to", faults) if "to" in known else _DAY
    if first in (end, _DAY):
        help_ = "omit from and to for the whole day; to is the first minute after the window"
        place = known["from"].place if "from" in known else node.place
        faults.add("value.bad", place, "the time between from and to is empty", help_)
    length = (end - first) % _DAY or _DAY
    return [part for day in days for part in _minutes_of_week(day * _DAY + first, length)]


def _minutes_of_week(first: int, length: int) -> list[tuple[int, int]]:
    last = first + length - 1
    return [(first, last)] if last < WEEK else [(first, WEEK - 1), (0, last - WEEK)]


def _days(node: Node, faults: Faults) -> list[int]:
    found = []
    for item in values.scalars(node, "days", faults):
        text = item.text.lower()
        day = values.choice(
            Scalar(text, item.guess, item.place), "a day", (*_DAYS, *_LONG_DAYS), faults
        )
        found += [_DAYS.index(day[:3])] if day else []
    return found


def _minute(node: Node, what: str, faults: Faults) -> int:
    """Minute of the day.  YAML reads an unquoted 22:00 as a number; here its text is parsed."""
    match = _CLOCK.fullmatch(node.text) if isinstance(node, Scalar) else None
    minute = int(match[1]) * 60 + int(match[2]) if match else _DAY + 1
    if minute > _DAY:
        shown = quoted(node.text) if isinstance(node, Scalar) else values.describe(node)
        help_ = 'write a time of the day such as "22:00", in UTC'
        faults.add("value.bad", node.place, f"{what} of time cannot be {shown}", help_)
        return 0
    return minute


_READERS: Final[dict[Kind, Callable[[Fact, Node, Faults], Condition]]] = {
    Kind.STRING: _string,
    Kind.STRINGS: _strings,
    Kind.NUMBER: _bounds,
    Kind.SET: _set,
    Kind.NETWORK: _networks,
    Kind.TIME: _time,
    Kind.BOOL: _truth,
}
