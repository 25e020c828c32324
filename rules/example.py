"""Requests as examples: facts written as text that people read and commands take, and read back.

A finding shows one, a file of cases holds many, ``--request`` gives one on the command line.  An example is the condition
table's names with values; entries of maps after a dot::

    method=COPY container=patients-7 object=a.csv metadata.classification=secret roles=intern roles=nurse time='mon 22:05'

The same as a mapping (YAML, JSON), where maps and lists may also be written as such::

    {method: COPY, container: patients-7, metadata: {classification: secret}, roles: [intern, nurse], size: 2048}

What is not named is missing, not unknown; the method is GET.  Names of headers and metadata are in any case.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any as Anything
from typing import Final
from urllib.parse import unquote

from rules.conditions import TABLE, Group, Kind, address
from rules.explanation import wanted
from rules.facts import Caller, ContainerFacts, Facts, ObjectFacts, Unknown
from rules.model import Any, Condition, Not, Test

_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY_MINUTES: Final = 24 * 60
_TIME: Final = re.compile(r"(mon|tue|wed|thu|fri|sat|sun) ([01][0-9]|2[0-3]):([0-5][0-9])")
_SIZE: Final = re.compile(r"([0-9]{1,30})([KMGT]?)")
_FACTORS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class ExampleError(ValueError):
    """This is no example of a request.

    :param faults: what is wrong, a line each.
    """

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = tuple(faults)


# --- writing ----------------------------------------------------------------------------------------------------------


def describe(facts: Facts) -> str:
    """``facts`` as words for the command line; :func:`read_words` of them gives ``facts`` back (what is unknown is left out)."""
    return shlex.join(f"{name}={value}" for name, value in _pairs(to_mapping(facts)))


def to_mapping(facts: Facts) -> dict[str, Anything]:
    """``facts`` as plain values, without what is missing."""
    found: dict[str, Anything] = {}
    for name, fact in TABLE.items():
        value = _entries(facts, name) if fact.kind is Kind.STRINGS else _plain(facts, name)
        if value is not None and value is not False and value not in ({}, []):
            found[name] = value
    return found


def _plain(facts: Facts, name: str) -> Anything:
    if name == "content-type":  # as it is, with its parameters: reading it would take them off
        stored = facts.stored
        return None if isinstance(stored, Unknown) else stored.content_type
    if name == "roles":  # likewise in their own case
        return sorted(facts.caller.roles)
    value: Anything = TABLE[name].read(facts, "")
    match TABLE[name].kind:
        case _ if isinstance(value, Unknown) or value is None:
            return None
        case Kind.TIME:
            return _time(value)
        case Kind.NETWORK:
            return facts.client_address
    return value


def _time(minute: int) -> str:
    return f"{_DAYS[minute // _DAY_MINUTES]} {minute % _DAY_MINUTES // 60:02}:{minute % 60:02}"


def _entries(facts: Facts, name: str) -> Mapping[str, str]:
    match name:
        case "header":
            return dict(facts.headers)
        case "query":
            return dict(facts.query)
        case "metadata":
            return {} if isinstance(facts.stored, Unknown) else facts.stored.metadata
    return {} if isinstance(facts.holder, Unknown) else facts.holder.metadata


def _pairs(mapping: Mapping[str, Anything]) -> Iterable[tuple[str, str]]:
    for name, value in mapping.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}.{_quote(key)}", entry) for key, entry in sorted(value.items()))
        elif isinstance(value, list):
            yield from ((name, each) for each in value)
        else:
            yield name, "true" if value is True else str(value)


def _quote(key: str) -> str:
    """The first ``=`` of a word ends the name, so names have none; other characters stay readable."""
    return key.replace("%", "%25").replace("=", "%3D")


def show(condition: Condition) -> str:
    """``condition`` on one line, close to how it is written."""
    if isinstance(condition, Test):
        subject = condition.fact if condition.key is None else f"{condition.fact}.{condition.key}"
        return f"{subject}: {wanted(condition)}"
    if isinstance(condition, Not):
        return f"not ({show(condition.part)})"
    name = "any" if isinstance(condition, Any) else "all"
    return f"{name} ({'; '.join(map(show, condition.parts))})"


# --- reading ----------------------------------------------------------------------------------------------------------


def read_words(words: Iterable[str]) -> Facts:
    """The request of ``name=value`` words; raises :class:`ExampleError` with every fault."""
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
    """The request of a mapping; raises :class:`ExampleError` with every fault."""
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
    faults += _out_of_place({*one, *(name for name, entries in maps.items() if entries)})
    if faults:
        raise ExampleError(faults)
    return Facts(
        method=one.get("method", "GET"),
        container=one.get("container"),
        object=one.get("object"),
        caller=Caller(
            user=one.get("user"),
            project=one.get("project"),
            domain=one.get("domain"),
            roles=one.get("roles", frozenset()),
            is_anonymous=one.get("anonymous", False),
            is_signed=one.get("signed", False),
        ),
        headers=maps["header"],
        query=maps["query"],
        client_address=one.get("client-address"),
        minute_of_week=one.get("time"),
        stored=ObjectFacts(
            "object" in one, one.get("content-type"), one.get("size"), maps["metadata"]
        ),
        holder=ContainerFacts(maps["container-metadata"], one.get("policy")),
    )


def _out_of_place(named: Collection[str]) -> Iterable[str]:
    """Facts of an object or a container without its name: nobody would look at them."""
    for needed, group in (("object", Group.STORED), ("container", Group.HOLDER)):
        for name in TABLE:
            if name in named and needed not in named and TABLE[name].group is group:
                yield f"{name} is said of no {needed}: name the {needed} as well"
    if "object" in named and "container" not in named:
        yield "object is in no container: name the container as well"


def _read_entry(
    name: Anything, value: Anything, one: dict[str, Anything], maps: Mapping[str, dict[str, str]]
) -> None:
    head, dot, key = name.partition(".") if isinstance(name, str) else (name, "", "")
    if head not in TABLE or (dot and head not in maps):
        near = difflib.get_close_matches(str(head), TABLE, 1)
        raise ExampleError(
            [f"there is no {name!r}" + (f"; do you mean {near[0]!r}?" if near else "")]
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
        raise ExampleError([f"{head} needs the name of an entry: {head}.x"])


def _key(name: str, key: Anything) -> str:
    return (
        _text(f"a name in {name}", key).lower()
        if TABLE[name].keys_ignore_case
        else _text(f"a name in {name}", key)
    )


def _text(name: str, value: Anything) -> str:
    if not isinstance(value, str):
        raise ExampleError([f"{name} is text; quote it"])
    choices = TABLE[name].choices if name in TABLE else ()
    if choices and value not in choices:
        raise ExampleError([f"{name} is one of {', '.join(choices)}"])
    return value


def _size(name: str, value: Anything) -> int:
    found = _SIZE.fullmatch(str(value)) if not isinstance(value, bool) else None
    if not found:
        raise ExampleError([f"{name} is a number of bytes, such as 2048 or 2K"])
    return int(found[1]) * _FACTORS[found[2]]


def _roles(name: str, value: Anything) -> frozenset[str]:
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
        raise ExampleError([f"{name} is text or a list of texts"])
    return frozenset(values)


def _address(name: str, value: Anything) -> str:
    if not isinstance(value, str) or address(value) is None:
        raise ExampleError([f"{name} is an IPv4 or IPv6 address"])
    return value


def _minute(name: str, value: Anything) -> int:
    found = _TIME.fullmatch(value) if isinstance(value, str) else None
    if not found:
        raise ExampleError([f"{name} is a day and a time in UTC, such as 'mon 22:05'"])
    return _DAYS.index(found[1]) * _DAY_MINUTES + int(found[2]) * 60 + int(found[3])


def _flag(name: str, value: Anything) -> bool:
    if value not in (True, False, "true", "false") or isinstance(value, int) is not isinstance(
        value, bool
    ):
        raise ExampleError([f"{name} is true or false"])
    return value in (True, "true")


_READERS: Final[Mapping[Kind, Callable[[str, Anything], Anything]]] = {
    Kind.STRING: _text,
    Kind.NUMBER: _size,
    Kind.SET: _roles,
    Kind.NETWORK: _address,
    Kind.TIME: _minute,
    Kind.BOOL: _flag,
}
