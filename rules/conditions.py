"""The condition table: what a rule may look at, how it is compared, and what a missing value means.

:data:`TABLE` has a row for each fact.  The parser, the engine, the command line and the reference page are made from it, so
a new condition is one row here and a field of :class:`rules.facts.Facts`.

**Three values.**  A test is true, false, or ``None``: unknown, because a fact has not been looked up yet
(:data:`rules.facts.UNKNOWN`).  ``all``, ``any`` and ``not`` treat unknown as the value it will turn out to have, so they
are decided as soon as nothing can change them (``all`` by one false part, ``any`` by one true part).

**Missing values.**  A value that is not there makes every test of it false, except ``present: false``.  So nothing matches
because a value happens to be missing, as long as no ``not`` is around it.  Under ``not`` there is no answer that is right
for every rule:

- ``not: {metadata: {classification: public}}`` of a *mandatory* rule must hold of an object that nobody classified, or the
  rule would be got around by leaving the metadata away.  The same goes for ``deny``.
- ``not: {user: intern}`` of an ``allow`` must not hold of somebody who has no user name at all, or a missing value would
  open what the rules close.  An ordinary ``run`` placed before a mandatory rule takes its place likewise.

Hence the rule's kind decides, always towards the closed side: in rules that restrict (``deny``, ``mandatory: true``), a test
of a missing value is false and its ``not`` is true; in rules that do not (``allow``, ordinary ``run``), neither holds.
Whoever means the missing value says ``present: false``.

A set of nothing is missing: a caller without any role has said as little of himself as one without a name, so
``not: {roles: intern}`` of an ``allow`` does not hold of the anonymous.

There is no third kind of evaluation for that.  Evaluation is plain logic, in which ``not`` of false is true; the parser
rewrites the conditions of rules that do not restrict by :func:`cautious`, which spells it out: below ``not``, a test
becomes "the test, or the value is missing".  What reads :class:`rules.model.Rule` therefore needs to know nothing of it.

**Facts of nothing.**  A request without an object (of a container, of the account) has no stored object to look up: the
values are missing, not unknown.  The same goes for the container of a request to the account.
"""

from __future__ import annotations

import functools
import ipaddress
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any as Anything
from typing import Final, TypeAlias

from rules import glob
from rules.facts import UNKNOWN, ContainerFacts, Facts, ObjectFacts, Unknown
from rules.intervals import Intervals, merged
from rules.model import Any, Condition, Not, Operator, Test

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
#: A fact's value, ``None`` when it is missing.
Value: TypeAlias = str | int | bool | frozenset[str] | Address | None


class Kind(Enum):
    """What sort of value a fact has, and so how a rule is written about it."""

    STRING = "string"  # scalar, list or {exact, glob, prefix, suffix, one-of, present}
    STRINGS = "string-map"  # name of an entry -> as STRING
    NUMBER = "number"  # {at-least, at-most, present}
    SET = "set"  # scalar or list: one of these is among the values; or {present}
    NETWORK = "network"  # scalar or list of networks
    TIME = "time"  # {days, from, to} or a list of these
    BOOL = "bool"  # true or false


class Group(Enum):
    """Where a fact comes from, and so what it costs."""

    REQUEST = "request"  # nothing
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
#: Which comparisons each kind takes.
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
    """One row: something a rule can look at.

    :param read: value of the fact in given :class:`Facts`; the second argument is the entry of a string map.
    :param help: one line for the reference.
    :param choices: the only values there are; such a fact is compared by ``exact`` and ``one-of`` alone.
    :param is_optional: it can be missing.
    :param ignores_case: the value is read in lower case, so operands are in lower case too.
    :param keys_ignore_case: likewise the names of a map's entries.
    :param may_be_empty: an empty string is a value, and not the same as a missing one.
    :param without: characters that no value has.
    """

    name: str
    kind: Kind
    group: Group
    read: Callable[[Facts, str], Value | Unknown]
    help: str
    choices: tuple[str, ...] = ()
    is_optional: bool = True
    ignores_case: bool = False
    keys_ignore_case: bool = True
    may_be_empty: bool = False
    without: str = ""

    @property
    def operators(self) -> tuple[Operator, ...]:
        return (Operator.EXACT, Operator.ONE_OF) if self.choices else OPERATORS[self.kind]


# --- readers ----------------------------------------------------------------------------------------------------------


def media_type(content_type: str | None) -> str | None:
    """``Text/CSV; charset=utf-8`` is ``text/csv``; an empty one is missing."""
    return (content_type or "").partition(";")[0].strip().lower() or None


@functools.lru_cache(maxsize=1024)
def address(text: str | None) -> Address | None:
    """``None`` for what is no address; an IPv4 address in IPv6 clothes is itself, else it would pass IPv4 networks by."""
    try:
        found = ipaddress.ip_address(text or "")
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


@functools.lru_cache(maxsize=1024)
def _roles(roles: frozenset[str]) -> frozenset[str] | None:
    """In lower case: Swift's keystoneauth compares them so, and whom it lets in as Admin a rule about admin must know."""
    return frozenset(map(str.lower, roles)) or None


def _stored(read: Callable[[ObjectFacts, str], Value]) -> Callable[[Facts, str], Value | Unknown]:
    def of_facts(facts: Facts, key: str) -> Value | Unknown:
        if facts.object is None or facts.container is None:
            return None
        return facts.stored if isinstance(facts.stored, Unknown) else read(facts.stored, key)

    return of_facts


def _holder(
    read: Callable[[ContainerFacts, str], Value],
) -> Callable[[Facts, str], Value | Unknown]:
    def of_facts(facts: Facts, key: str) -> Value | Unknown:
        if facts.container is None:
            return None
        return facts.holder if isinstance(facts.holder, Unknown) else read(facts.holder, key)

    return of_facts


# --- the table --------------------------------------------------------------------------------------------------------

_S, _M, _R = Kind.STRING, Kind.STRINGS, Group.REQUEST
_ROWS: Final = (
    Fact("method", _S, _R, lambda facts, _: facts.method,
         "GET, HEAD, PUT, POST, COPY or DELETE; a PUT with X-Copy-From is a COPY. In a mandatory rule GET is HEAD and COPY as well", choices=METHODS, is_optional=False),
    Fact("container", _S, _R, lambda facts, _: facts.container,
         "the container whose bytes leave, or into which they are stored", without="/"),
    Fact("object", _S, _R, lambda facts, _: facts.object,
         "the object's name"),
    Fact("content-type", _S, Group.STORED, _stored(lambda stored, _: media_type(stored.content_type)),
         "of the object itself, without parameters, in any case", ignores_case=True, without=";"),
    Fact("size", Kind.NUMBER, Group.STORED, _stored(lambda stored, _: stored.size_bytes),
         "of the object itself, in bytes or with K, M, G or T; missing for an upload of unknown length"),
    Fact("metadata", _M, Group.STORED, _stored(lambda stored, key: stored.metadata.get(key)),
         "the object's own metadata, by name without X-Object-Meta-; tags are metadata", may_be_empty=True),
    Fact("container-metadata", _M, Group.HOLDER, _holder(lambda holder, key: holder.metadata.get(key)),
         "the container's metadata, by name without X-Container-Meta-", may_be_empty=True),
    Fact("policy", _S, Group.HOLDER, _holder(lambda holder, _: holder.policy),
         "name of the container's storage policy"),
    Fact("header", _M, _R, lambda facts, key: facts.headers.get(key),
         "of the request, by name in any case", may_be_empty=True),
    Fact("query", _M, _R, lambda facts, key: facts.query.get(key),
         "parameter of the request's query string; of a repeated one the last value", keys_ignore_case=False,
         may_be_empty=True),
    Fact("client-address", Kind.NETWORK, _R, lambda facts, _: address(facts.client_address),
         "the client's address is in one of these networks"),
    Fact("time", Kind.TIME, _R, lambda facts, _: facts.minute_of_week,
         "when the request came, in UTC: days, and from when until before when; a window may pass midnight"),
    Fact("user", _S, _R, lambda facts, _: facts.caller.user,
         "who asks; missing for anonymous and signed requests"),
    Fact("project", _S, _R, lambda facts, _: facts.caller.project,
         "the caller's own project (tempauth: account), which need not be the one that is asked for"),
    Fact("domain", _S, _R, lambda facts, _: facts.caller.domain,
         "domain of the user (Keystone)"),
    Fact("roles", Kind.SET, _R, lambda facts, _: _roles(facts.caller.roles),
         "the caller has one of these roles (tempauth: groups), in any case; missing for callers without any",
         ignores_case=True),
    Fact("anonymous", Kind.BOOL, _R, lambda facts, _: facts.caller.is_anonymous,
         "nobody is logged in, and the request has no signature", is_optional=False),
    Fact("signed", Kind.BOOL, _R, lambda facts, _: facts.caller.is_signed,
         "a signature allows the request: a signed URL or form (tempurl, formpost), or container sync", is_optional=False),
)  # fmt: skip

#: Every fact by its name, in the order of the reference.
TABLE: Final[Mapping[str, Fact]] = {row.name: row for row in _ROWS}


# --- comparison -------------------------------------------------------------------------------------------------------

_COMPARISONS: Final[Mapping[Operator, Callable[[Anything], Callable[[Anything], bool]]]] = {
    Operator.EXACT: lambda operand: operand.__eq__,
    Operator.GLOB: glob.matcher,
    Operator.PREFIX: lambda operand: lambda value: value.startswith(operand),
    Operator.SUFFIX: lambda operand: lambda value: value.endswith(operand),
    Operator.ONE_OF: lambda operand: operand.__contains__,
    Operator.HAS: lambda operand: lambda value: not operand.isdisjoint(value),
    Operator.AT_LEAST: lambda operand: operand.__le__,
    Operator.AT_MOST: lambda operand: operand.__ge__,
    Operator.IS: lambda operand: lambda value: value is operand,
    Operator.PRESENT: lambda operand: lambda _: operand is True,
}


def comparison(test: Test) -> Callable[[Anything], bool]:
    """What ``test`` makes of a value that is there."""
    operand: Anything = test.operand
    if test.operator is Operator.WITHIN:
        return (
            _within_networks(operand) if TABLE[test.fact].kind is Kind.NETWORK else _within(operand)
        )
    return _COMPARISONS[test.operator](operand)


def holds_of_missing(test: Test) -> bool:
    """What ``test`` makes of a value that is not there."""
    return test.operator is Operator.PRESENT and test.operand is False


def _within_networks(
    networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...],
) -> Callable[[Address], bool]:
    """As numbers: the classes of the standard library take a microsecond for each network."""
    is_within = {
        version: _within(
            merged(
                (int(net.network_address), int(net.broadcast_address))
                for net in networks
                if net.version == version
            )
        )
        for version in (4, 6)
    }
    return lambda value: is_within[value.version](int(value))


def _within(intervals: Intervals) -> Callable[[int], bool]:
    """In a time that hardly depends on how many there are: a list of networks may be as long as a rules object."""
    firsts = [first for first, _ in intervals]

    def is_within(number: int) -> bool:
        at = bisect_right(firsts, number) - 1
        return at >= 0 and number <= intervals[at][1]

    return is_within


def value_of(test: Test, facts: Facts) -> Value | Unknown:
    """What ``test`` looks at."""
    return TABLE[test.fact].read(facts, test.key or "")


# --- evaluation, as the model says it ---------------------------------------------------------------------------------


def holds(condition: Condition, facts: Facts) -> bool | None:
    """Whether ``condition`` is true of ``facts``; ``None`` when that depends on facts that are not known yet.

    The engine gives the same answers from a compiled form.
    """
    return evaluate(condition, lambda test: holds_test(test, facts))


def holds_test(test: Test, facts: Facts) -> bool | None:
    """The same of a single test."""
    value = value_of(test, facts)
    if value is UNKNOWN:
        return None
    if value is None:
        return holds_of_missing(test)
    return comparison(test)(value)


def evaluate(condition: Condition, answer: Callable[[Test], bool | None]) -> bool | None:
    """The value of ``condition`` when each of its tests has the value that ``answer`` gives."""
    if isinstance(condition, Test):
        return answer(condition)
    if isinstance(condition, Not):
        value = evaluate(condition.part, answer)
        return None if value is None else not value
    values = [evaluate(part, answer) for part in condition.parts]
    decisive = isinstance(condition, Any)
    if decisive in values:
        return decisive
    return None if None in values else not decisive


def tests_of(condition: Condition) -> tuple[Test, ...]:
    """Every test in ``condition``, in its order."""
    if isinstance(condition, Test):
        return (condition,)
    if isinstance(condition, Not):
        return tests_of(condition.part)
    return tuple(test for part in condition.parts for test in tests_of(part))


def groups_of(condition: Condition) -> frozenset[Group]:
    """Where the facts of ``condition`` come from."""
    return frozenset(TABLE[test.fact].group for test in tests_of(condition))


# --- methods of mandatory rules ---------------------------------------------------------------------------------------

#: Each tells of the object what GET gives: its metadata and length, or all of it to whoever reads the copy.
READING: Final = frozenset(("GET", "HEAD", "COPY"))


def with_all_reads(condition: Condition) -> Condition:
    """``condition`` of a mandatory rule: where it asks for GET, it asks for HEAD and COPY as well, or these would get around it.

    Below ``not`` a test of GET stays as it is: there it leaves GET out of the rule, and leaving HEAD and COPY out with it would make
    the rule mean less, not more.  A ``not`` that leaves HEAD or COPY out by name stays, too: it is said plainly, and
    :mod:`rules.check.consistency` warns of it.
    """
    return _with_all_reads(condition, below_not=False)


def _with_all_reads(condition: Condition, *, below_not: bool) -> Condition:
    if isinstance(condition, Not):
        return Not(_with_all_reads(condition.part, below_not=not below_not))
    if isinstance(condition, Test):
        return condition if below_not else _or_other_reads(condition)
    parts = tuple(_with_all_reads(part, below_not=below_not) for part in condition.parts)
    return replace(condition, parts=parts)


def _or_other_reads(test: Test) -> Test:
    named = test.operand if isinstance(test.operand, frozenset) else frozenset((test.operand,))
    if test.fact != "method" or "GET" not in named:
        return test
    return replace(test, operator=Operator.ONE_OF, operand=named | READING)


# --- missing values below `not` ---------------------------------------------------------------------------------------


def cautious(condition: Condition) -> Condition:
    """``condition`` of a rule that does not restrict: where a value is missing, neither a test nor its ``not`` holds."""
    return _cautious(condition, below_not=False)


def _cautious(condition: Condition, *, below_not: bool) -> Condition:
    if isinstance(condition, Not):
        return Not(_cautious(condition.part, below_not=not below_not))
    if isinstance(condition, Test):
        return _or_missing(condition) if below_not else condition
    parts = tuple(_cautious(part, below_not=below_not) for part in condition.parts)
    return replace(condition, parts=parts)


def _or_missing(test: Test) -> Condition:
    if test.operator is Operator.PRESENT or not TABLE[test.fact].is_optional:
        return test
    return Any((test, replace(test, operator=Operator.PRESENT, operand=False)))
