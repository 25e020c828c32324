"""Example requests: facts as readable text that commands accept, and the parser for that text.

Findings show examples, case files contain them, ``--request`` takes one on the command line.  An
example lists names from the condition table with their values; a dot precedes the key of a map::

    method=COPY container=patients-7 object=a.csv metadata.classification=secret roles=intern
    roles=nurse time='mon 22:05'

The same as a mapping (YAML, JSON), in which maps and lists can also be nested::

    {method: COPY, container: patients-7, metadata: {classification: secret},
     roles: [intern, nurse], size: 2048}

Facts that are not listed are missing, not unknown; the method is GET unless given.  Header and
metadata names are case-insensitive.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any as Anything
from typing import Final
from urllib.parse import unquote

from rules.conditions import TABLE, Fact, Group, Kind, address, facts_from
from rules.explanation import wanted
from rules.facts import Facts
from rules.model import Any, Condition, Not, Test

_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY_MINUTES: Final = 24 * 60
_TIME: Final = re.compile(r"(mon|tue|wed|thu|fri|sat|sun) ([01][0-9]|2[0-3]):([0-5][0-9])")
_SIZE: Final = re.compile(r"([0-9]{1,30})([KMGT]?)")
_FACTORS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class ExampleError(ValueError):
    """The text is not a valid example.

    :param faults: one line for each fault.
    """

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = tuple(faults)


# --- writing --------------------------------------------------------------------------------------


def describe(facts: Facts) -> str:
    """``facts`` as words for the command line, without unknown facts.

    The inverse of :func:`read_words`.
    """
    return shlex.join(f"{name}={value}" for name, value in _pairs(to_mapping(facts)))


def to_mapping(facts: Facts) -> dict[str, Anything]:
    """``facts`` as plain values, without missing and unknown facts."""
    found: dict[str, Anything] = {}
    for name, fact in TABLE.items():
        value = _plain(fact, facts)
        if value is not None and value is not False and value not in ({}, []):
            found[name] = value
    return found


def _plain(fact: Fact, facts: Facts) -> Anything:
    """The raw value: a normalized one would lack parameters of the content type, or the case."""
    value = fact.raw(facts)
    if value is None:
        return None
    match fact.kind:
        case Kind.STRINGS:
            return dict(value)
        case Kind.SET:
            return sorted(value)
        case Kind.TIME:
            return _time(value)
        case Kind.NETWORK:
            return value if address(value) else None
    return value


def _time(minute: int) -> str:
    return f"{_DAYS[minute // _DAY_MINUTES]} {minute % _DAY_MINUTES // 60:02}:{minute % 60:02}"


def _pairs(mapping: Mapping[str, Anything]) -> Iterable[tuple[str, str]]:
    for name, value in mapping.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}.{_quote(key)}", entry) for key, entry in sorted(value.items()))
        elif isinstance(value, list):
            yield from ((name, each) for each in value)
        else:
            yield name, "true" if value is True else str(value)


def _quote(key: str) -> str:
    """Escapes ``=`` in a key, because the first ``=`` of a word ends the name."""
    return key.replace("%", "%25").replace("=", "%3D")


def show(condition: Condition) -> str:
    """``condition`` on one line, similar to its source."""
    if isinstance(condition, Test):
        subject = condition.fact if condition.key is None else f"{condition.fact}.{condition.key}"
        return f"{subject}: {wanted(condition)}"
    if isinstance(condition, Not):
        return f"not ({show(condition.part)})"
    name = "any" if isinstance(condition, Any) else "all"
    return f"{name} ({'; '.join(map(show, condition.parts))})"


# --- reading --------------------------------------------------------------------------------------


def read_words(words: Iterable[str]) -> Facts:
    """Parse ``name=value`` words; raise :class:`ExampleError` with all faults."""
    faults = []
    mapping: dict[str, Anything] = {}
    for word in words:
        name, equals, value = word.partition("=")
        name = unquote(name)
        if not equals:
            faults.append(f"{word!r} is not name=value")
        elif name in mapping and _is_set(name):
            mapping[name].append(value)
        elif name in mapping:
            faults.append(f"{name} is given twice")
        else:
            mapping[name] = [value] if _is_set(name) else value
    if faults:
        raise ExampleError(faults)
    return read(mapping)


def _is_set(name: str) -> bool:
    return name in TABLE and TABLE[name].kind is Kind.SET


def read(mapping: Mapping[str, Anything]) -> Facts:
    """Parse a mapping; raise :class:`ExampleError` with all faults."""
    faults: list[str] = []
    one: dict[str, Anything] = {}
    maps: dict[str, dict[str, str]] = {
        name: {} for name, fact in TABLE.items() if fact.kind is Kind.STRINGS
    }
    for name, value in mapping.items():
        try:
            _read_entry(name, value, one, maps)
        except ExampleError as error:
            faults += error.faults
    faults += _without_owner({*one, *(name for name, entries in maps.items() if entries)})
    if faults:
        raise ExampleError(faults)
    return facts_from({**one, **maps})


def _without_owner(named: Collection[str]) -> Iterable[str]:
    """Facts of an object or container that the example does not name: they would be ignored."""
    for needed, group in (("object", Group.STORED), ("container", Group.HOLDER)):
        for name in TABLE:
            if name in named and needed not in named and TABLE[name].group is group:
                yield f"{name} requires {needed}: name the {needed} as well"
    if "object" in named and "container" not in named:
        yield "object requires container: name the container as well"


def _read_entry(
    name: Anything, value: Anything, one: dict[str, Anything], maps: Mapping[str, dict[str, str]]
) -> None:
    head, dot, key = name.partition(".") if isinstance(name, str) else (name, "", "")
    if head not in TABLE or (dot and head not in maps):
        near = difflib.get_close_matches(str(head), TABLE, 1)
        raise ExampleError(
            [f"unknown fact {name!r}" + (f"; did you mean {near[0]!r}?" if near else "")]
        )
    if head not in maps:
        one[head] = _READERS[TABLE[head].kind](head, value)
    elif dot:
        maps[head][_key(head, key)] = _text(name, value)
    elif isinstance(value, Mapping):
        maps[head].update(
            {_key(head, each): _text(f"{head}.{each}", entry) for each, entry in value.items()}
        )
    else:
        raise ExampleError([f"{head} requires the name of an entry: {head}.NAME"])


def _key(name: str, key: Anything) -> str:
    text = _text(f"a name in {name}", key)
    return text.lower() if TABLE[name].keys_ignore_case else text


def _text(name: str, value: Anything) -> str:
    if not isinstance(value, str):
        raise ExampleError([f"{name} must be a string; quote it"])
    choices = TABLE[name].choices if name in TABLE else ()
    if choices and value not in choices:
        raise ExampleError([f"{name} must be one of {', '.join(choices)}"])
    return value


def _size(name: str, value: Anything) -> int:
    found = _SIZE.fullmatch(str(value)) if not isinstance(value, bool) else None
    if not found:
        raise ExampleError([f"{name} must be a number of bytes, such as 2048 or 2K"])
    return int(found[1]) * _FACTORS[found[2]]


def _roles(name: str, value: Anything) -> frozenset[str]:
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
        raise ExampleError([f"{name} must be a string or a list of strings"])
    return frozenset(values)


def _address(name: str, value: Anything) -> str:
    if not isinstance(value, str) or address(value) is None:
        raise ExampleError([f"{name} must be an IPv4 or IPv6 address"])
    return value


def _minute(name: str, value: Anything) -> int:
    found = _TIME.fullmatch(value) if isinstance(value, str) else None
    if not found:
        raise ExampleError([f"{name} must be a day and a time in UTC, such as 'mon 22:05'"])
    return _DAYS.index(found[1]) * _DAY_MINUTES + int(found[2]) * 60 + int(found[3])


def _flag(name: str, value: Anything) -> bool:
    is_other_number = isinstance(value, int) and not isinstance(value, bool)
    if is_other_number or value not in (True, False, "true", "false"):
        raise ExampleError([f"{name} must be true or false"])
    return value in (True, "true")


_READERS: Final[Mapping[Kind, Callable[[str, Anything], Anything]]] = {
    Kind.STRING: _text,
    Kind.NUMBER: _size,
    Kind.SET: _roles,
    Kind.NETWORK: _address,
    Kind.TIME: _minute,
    Kind.BOOL: _flag,
}
