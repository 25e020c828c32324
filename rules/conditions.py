"""The condition table: the facts that a rule can test, and how their values are read.

:data:`TABLE` has one row for each fact.  The parser, the engine, the solver, the command line and
the reference page are driven by it: a new condition is one row here and a field in
:mod:`rules.facts`.  :mod:`rules.evaluation` evaluates conditions, :mod:`rules.rewriting` adapts
them to the kind of their rule.

**Facts of absent objects.**  A request without an object (to a container or the account) has no
stored object to look up: the object's facts are missing, not unknown.  The same is true for the
container of a request to the account.
"""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from operator import attrgetter
from typing import Any as Anything
from typing import Final, TypeAlias

from rules.facts import UNKNOWN, Caller, ContainerFacts, Facts, ObjectFacts, Unknown
from rules.model import Operator

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
#: A fact's value, ``None`` if it is missing.
Value: TypeAlias = str | int | bool | frozenset[str] | Address | None
#: Returns a fact's value; the second argument is the key of a map entry.
Reader: TypeAlias = Callable[[Facts, str], Value | Unknown]


class Kind(Enum):
    """The type of a fact; it determines how rules are written about the fact."""

    STRING = "string"  # scalar, list or {exact, glob, prefix, suffix, one-of, present}
    STRINGS = "string-map"  # name of an entry -> as STRING
    NUMBER = "number"  # {at-least, at-most, present}
    SET = "set"  # scalar or list: the set contains one of these; or {present}
    NETWORK = "network"  # scalar or list of networks
    TIME = "time"  # {days, from, to} or a list of these
    BOOL = "bool"  # true or false


class Group(Enum):
    """The source of a fact, and so the cost of reading it."""

    REQUEST = "request"  # free
    STORED = "stored"  # one HEAD of the object
    HOLDER = "holder"  # the container's information, which Swift caches


_STRING_OPERATORS: Final = (
    Operator.EXACT,
    Operator.GLOB,
    Operator.PREFIX,
    Operator.SUFFIX,
    Operator.ONE_OF,
    Operator.PRESENT,
)
#: The comparisons that each kind supports.
OPERATORS: Final[Mapping[Kind, tuple[Operator, ...]]] = {
    Kind.STRING: _STRING_OPERATORS,
    Kind.STRINGS: _STRING_OPERATORS,
    Kind.NUMBER: (Operator.AT_LEAST, Operator.AT_MOST, Operator.PRESENT),
    Kind.SET: (Operator.HAS, Operator.PRESENT),
    Kind.NETWORK: (Operator.WITHIN, Operator.PRESENT),
    Kind.TIME: (Operator.WITHIN, Operator.PRESENT),
    Kind.BOOL: (Operator.IS,),
}

METHODS: Final = ("GET", "HEAD", "PUT", "POST", "COPY", "DELETE")
#: Minutes of a week.
WEEK: Final = 7 * 24 * 60


@dataclass(frozen=True)
class Fact:
    """One row of the table.

    :param name: the key in ``when``.
    :param field: the field of :class:`Facts` that holds the value; dotted, as ``caller.user``.
    :param help: one line for the reference page.
    :param normalize: converts the field's value to the one that tests compare.
    :param choices: the only possible values; such a fact supports only ``exact`` and ``one-of``.
    :param is_optional: the value can be missing.
    :param ignores_case: values are in lower case, so operands are converted to lower case.
    :param keys_ignore_case: the same for the keys of a map.
    :param may_be_empty: an empty string is a value, different from a missing one.
    :param without: characters that occur in no value.
    :param may_be_lost: see :mod:`rules.facts`.
    """

    name: str
    kind: Kind
    field: str
    help: str
    normalize: Callable[[Anything], Value] | None = None
    choices: tuple[str, ...] = ()
    is_optional: bool = True
    ignores_case: bool = False
    keys_ignore_case: bool = True
    may_be_empty: bool = False
    without: str = ""
    may_be_lost: bool = False

    @property
    def operators(self) -> tuple[Operator, ...]:
        return (Operator.EXACT, Operator.ONE_OF) if self.choices else OPERATORS[self.kind]

    @functools.cached_property
    def group(self) -> Group:
        return _GROUPS.get(self.field.partition(".")[0], Group.REQUEST)

    @functools.cached_property
    def read(self) -> Reader:
        """Reads the value as tests compare it."""
        read = _IF_KNOWN[self.group](_value_reader(self))
        return _if_not_lost(self.name, read) if self.may_be_lost else read

    def raw(self, facts: Facts) -> Anything:
        """The field's value before :attr:`normalize`; ``None`` if it is missing or unknown."""
        read = _IF_KNOWN[self.group](lambda facts, _: attrgetter(self.field)(facts))
        value = read(facts, "")
        return None if value is UNKNOWN else value


# --- readers --------------------------------------------------------------------------------------


def _value_reader(fact: Fact) -> Reader:
    field, normalize = attrgetter(fact.field), fact.normalize
    if fact.kind is Kind.STRINGS:
        return lambda facts, key: field(facts).get(key)
    if normalize is not None:
        return lambda facts, _: normalize(field(facts))
    return lambda facts, _: field(facts)


def _if_not_lost(name: str, read: Reader) -> Reader:
    def guarded(facts: Facts, key: str) -> Value | Unknown:
        value = read(facts, key)
        return UNKNOWN if value is None and name in facts.lost else value

    return guarded


def _if_stored_known(read: Reader) -> Reader:
    def guarded(facts: Facts, key: str) -> Value | Unknown:
        if facts.object is None or facts.container is None:
            return None
        return UNKNOWN if facts.stored is UNKNOWN else read(facts, key)

    return guarded


def _if_holder_known(read: Reader) -> Reader:
    def guarded(facts: Facts, key: str) -> Value | Unknown:
        if facts.container is None:
            return None
        return UNKNOWN if facts.holder is UNKNOWN else read(facts, key)

    return guarded


#: The group of a field, by its first component.
_GROUPS: Final = {"stored": Group.STORED, "holder": Group.HOLDER}
_IF_KNOWN: Final[Mapping[Group, Callable[[Reader], Reader]]] = {
    Group.REQUEST: lambda read: read,
    Group.STORED: _if_stored_known,
    Group.HOLDER: _if_holder_known,
}


def media_type(content_type: str | None) -> str | None:
    """``Text/CSV; charset=utf-8`` becomes ``text/csv``; an empty type is missing."""
    return (content_type or "").partition(";")[0].strip().lower() or None


@functools.lru_cache(maxsize=1024)
def address(text: str | None) -> Address | None:
    """``None`` if ``text`` is not an address.

    An IPv4-mapped IPv6 address becomes IPv4; otherwise it would evade tests for IPv4 networks.
    """
    try:
        found = ipaddress.ip_address(text or "")
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


@functools.lru_cache(maxsize=1024)
def _roles(roles: frozenset[str]) -> frozenset[str] | None:
    """In lower case, as Swift's keystoneauth compares them: it accepts ``Admin`` as ``admin``."""
    return frozenset(map(str.lower, roles)) or None


# --- the table ------------------------------------------------------------------------------------

_S, _M = Kind.STRING, Kind.STRINGS
_ROWS: Final = (
    Fact("method", _S, "method",
         "GET, HEAD, PUT, POST, COPY or DELETE; a PUT with X-Copy-From is a COPY."
         " In a mandatory rule, GET includes HEAD and COPY", choices=METHODS, is_optional=False),
    Fact("container", _S, "container",
         "the container of the object that is read or stored", without="/"),
    Fact("object", _S, "object",
         "the name of the object"),
    Fact("content-type", _S, "stored.content_type",
         "the object's content type, without parameters, in any case",
         normalize=media_type, ignores_case=True, without=";"),
    Fact("size", Kind.NUMBER, "stored.size_bytes",
         "the object's size in bytes, or with K, M, G or T; missing for an upload of unknown"
         " length"),
    Fact("metadata", _M, "stored.metadata",
         "the object's user metadata, by name without X-Object-Meta-; tags are metadata",
         may_be_empty=True),
    Fact("container-metadata", _M, "holder.metadata",
         "the container's user metadata, by name without X-Container-Meta-", may_be_empty=True),
    Fact("policy", _S, "holder.policy",
         "the name of the container's storage policy"),
    Fact("header", _M, "headers",
         "a header of the request, by name in any case", may_be_empty=True, may_be_lost=True),
    Fact("query", _M, "query",
         "a parameter of the query string; the last value of a repeated parameter",
         keys_ignore_case=False, may_be_empty=True),
    Fact("client-address", Kind.NETWORK, "client_address",
         "the client's address is in one of these networks", normalize=address, may_be_lost=True),
    Fact("time", Kind.TIME, "minute_of_week",
         "the time of the request in UTC: days, start (inclusive) and end (exclusive); a window"
         " can span midnight"),
    Fact("user", _S, "caller.user",
         "the caller's user name; missing for anonymous and signed requests"),
    Fact("project", _S, "caller.project",
         "the caller's own project (tempauth: account), which can differ from the account in the"
         " request"),
    Fact("domain", _S, "caller.domain",
         "the domain of the user (Keystone)"),
    Fact("roles", Kind.SET, "caller.roles",
         "the caller has one of these roles (tempauth: groups), in any case; missing for callers"
         " without roles", normalize=_roles, ignores_case=True),
    Fact("anonymous", Kind.BOOL, "caller.is_anonymous",
         "no user is logged in, and the request has no signature", is_optional=False),
    Fact("signed", Kind.BOOL, "caller.is_signed",
         "a signature authorizes the request: a signed URL or form (tempurl, formpost), or"
         " container sync", is_optional=False),
)  # fmt: skip

#: Every fact by its name, in the order of the reference page.
TABLE: Final[Mapping[str, Fact]] = {row.name: row for row in _ROWS}
#: Facts that the requests of Swift's middlewares lack.
LOST: Final = frozenset(row.name for row in _ROWS if row.may_be_lost)


def facts_from(values: Mapping[str, Anything]) -> Facts:
    """Facts with these field values, by fact name.

    All other facts are missing, none is unknown; the method is GET unless given.
    """
    parts: dict[str, dict[str, Anything]] = {"": {}, "caller": {}, "stored": {}, "holder": {}}
    for name, value in values.items():
        part, _, attribute = TABLE[name].field.rpartition(".")
        if value is not None:
            parts[part][attribute] = value
    return Facts(
        **{"method": "GET", **parts[""]},
        caller=Caller(**parts["caller"]),
        stored=ObjectFacts(exists="object" in parts[""], **parts["stored"]),
        holder=ContainerFacts(**parts["holder"]),
    )
