"""Small worlds with all of their requests and tests: a checker's result can be verified by brute
force."""

from __future__ import annotations

import ipaddress
import itertools
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any

from hypothesis import strategies as st

from rules import model
from rules.facts import RUN_HEADER, Caller, ContainerFacts, Facts, ObjectFacts
from rules.model import Condition, Operator, Rule, Test
from tests.unit.rules import naive

NAMES = ("a", "b", "ab", "ba")
GLOBS = ("*", "a*", "*b", "?", "[ab]*", "[!a]*", "a*b", "*a*", "?b", "[!ab]")
TYPES = ("text/a", "text/b", "image/a")
NETWORKS = tuple(
    map(ipaddress.ip_network, ("10.0.0.0/8", "10.1.0.0/16", "fd00::/8", "0.0.0.0/0", "::/0"))
)


@dataclass(frozen=True)
class World:
    """:param tests: the tests that conditions consist of; ``requests``: one for every combination
    that these tests distinguish."""

    name: str
    tests: tuple[Test, ...]
    requests: tuple[Facts, ...]

    @cached_property
    def asking(self) -> tuple[Facts, ...]:
        """Each request as it is, and with a storlet that the client requests."""
        with_storlet = (replace(each, headers={RUN_HEADER: "s"}) for each in self.requests)
        return (*self.requests, *with_storlet)

    def met(self, rules: Sequence[Rule]) -> list[list[Rule]]:
        """The rules that each of :attr:`asking` meets; the first one decides it."""
        found: list[list[Rule]] = [[] for _ in self.asking]
        for rule in rules:
            is_firm = rule.is_mandatory or isinstance(rule.action, model.Allow)
            bound = found if is_firm else found[: len(self.requests)]
            for rules_met, is_met in zip(bound, self.held(rule.condition), strict=False):
                if is_met:
                    rules_met.append(rule)
        return found

    def held(self, condition: Condition) -> list[bool]:
        """Whether each of :attr:`asking` meets ``condition``.

        :func:`naive.holds` for all of them would take most of the time of a test.
        """
        width = len(self.requests)
        return [digit == "1" for digit in f"{self._bits(condition):0{width}b}"] * 2

    def _bits(self, condition: Condition) -> int:
        """A bit for each of the requests: no test of a world is about a header."""
        everything = (1 << len(self.requests)) - 1
        match condition:
            case Test():
                if condition not in self._answers:
                    met = (naive.test_holds(condition, facts) for facts in self.requests)
                    self._answers[condition] = int("".join("1" if each else "0" for each in met), 2)
                return self._answers[condition]
            case model.Not(part):
                return everything ^ self._bits(part)
            case model.All(parts):
                return reduce(operator.and_, map(self._bits, parts), everything)
            case model.Any(parts):
                return reduce(operator.or_, map(self._bits, parts), 0)
        raise AssertionError(condition)

    @cached_property
    def _answers(self) -> dict[Test, int]:
        return {}

    @cached_property
    def conditions(self) -> st.SearchStrategy[Condition]:
        def larger(parts: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
            some = st.lists(parts, max_size=3).map(tuple)
            return (
                st.builds(model.All, some)
                | st.builds(model.Any, some)
                | st.builds(model.Not, parts)
            )

        return st.recursive(st.sampled_from(self.tests), larger, max_leaves=5)


def of_strings(fact: str, key: str | None = None) -> list[Test]:
    words: list[tuple[Operator, Any]] = [(Operator.EXACT, name) for name in NAMES]
    words += [
        (Operator.PREFIX, "a"),
        (Operator.PREFIX, "ab"),
        (Operator.SUFFIX, "b"),
        (Operator.SUFFIX, "ba"),
    ]
    words += [(Operator.GLOB, glob) for glob in GLOBS]
    words += [
        (Operator.ONE_OF, frozenset({"a", "ab"})),
        (Operator.PRESENT, True),
        (Operator.PRESENT, False),
    ]
    return [Test(fact, operator, operand, key) for operator, operand in words]


def strings(longest: int) -> list[str]:
    """Every string of a, b and a character that no test knows."""
    return [
        "".join(each)
        for length in range(longest + 1)
        for each in itertools.product("abz", repeat=length)
    ]


def _names() -> World:
    tests = [
        *of_strings("object"),
        Test("method", Operator.EXACT, "GET"),
        Test("method", Operator.ONE_OF, frozenset({"PUT", "COPY"})),
        Test("method", Operator.ONE_OF, frozenset({"GET", "HEAD", "POST", "DELETE"})),
        Test("roles", Operator.HAS, frozenset({"r"})),
        Test("roles", Operator.HAS, frozenset({"s"})),
        Test("roles", Operator.HAS, frozenset({"r", "s"})),
        Test("roles", Operator.PRESENT, operand=True),
        Test("roles", Operator.PRESENT, operand=False),
    ]
    requests = [
        Facts(method, "container", name, Caller(user="u", roles=frozenset(roles)), minute_of_week=0,
              stored=ObjectFacts(), holder=ContainerFacts())
        for name in [None, *strings(4)[1:]]
        for method in ("GET", "PUT", "COPY", "HEAD")
        for roles in ("", "r", "s", "Rs", "z")
    ]  # fmt: skip
    return World("names", tuple(tests), tuple(requests))


def _numbers() -> World:
    tests = [Test("size", Operator.AT_LEAST, number) for number in (0, 1, 2)]
    tests += [Test("size", Operator.AT_MOST, number) for number in (0, 1, 2)]
    windows = (((0, 5),), ((3, 10079),), ((0, 2), (6, 10079)), ((4, 4),))
    tests += [Test("time", Operator.WITHIN, window) for window in windows]
    tests += [Test("client-address", Operator.WITHIN, (network,)) for network in NETWORKS]
    tests += [Test("client-address", Operator.WITHIN, NETWORKS[1:3])]
    tests += [Test("anonymous", Operator.IS, operand) for operand in (True, False)]
    tests += [Test("signed", Operator.IS, operand) for operand in (True, False)]
    tests += [Test("user", Operator.EXACT, "a"), Test("user", Operator.PRESENT, operand=False)]
    tests += [
        Test("size", Operator.PRESENT, operand=True),
        Test("client-address", Operator.PRESENT, operand=False),
    ]
    callers = [
        Caller(),
        Caller("a"),
        Caller("z"),
        Caller(is_anonymous=True),
        Caller(is_signed=True),
    ]
    requests = [
        Facts("GET", "container", "object", caller, client_address=address, minute_of_week=minute,
              stored=ObjectFacts(size_bytes=size), holder=ContainerFacts())
        for caller in callers
        for address in (None, "10.0.0.1", "10.1.0.1", "192.0.2.1", "fd00::1", "2001:db8::1")
        for minute in (0, 3, 4, 5, 6)
        for size in (None, 0, 1, 2, 3)
    ]  # fmt: skip
    return World("numbers", tuple(tests), tuple(requests))


def _looked_up() -> World:
    tests = [Test("content-type", Operator.EXACT, each) for each in TYPES]
    tests += [
        Test("content-type", Operator.PREFIX, "text/"),
        Test("content-type", Operator.SUFFIX, "/a"),
    ]
    tests += [
        Test("content-type", Operator.PRESENT, operand=False),
        Test("policy", Operator.EXACT, "a"),
    ]
    tests += [Test("metadata", Operator.EXACT, each, "k") for each in ("", "a")]
    tests += [
        Test("metadata", Operator.GLOB, "?*", "k"),
        Test("metadata", Operator.PRESENT, False, "l"),
    ]
    tests += [
        Test("container-metadata", Operator.EXACT, "a", "k"),
        Test("method", Operator.EXACT, "PUT"),
    ]
    tests += [
        Test(fact, Operator.PRESENT, operand)
        for fact in ("object", "container")
        for operand in (True, False)
    ]
    holders = [
        ContainerFacts({} if value is None else {"k": value}, policy)
        for value in (None, "a", "z")
        for policy in (None, "a", "z")
    ]
    objects = [
        ObjectFacts(exists=True, content_type=each, metadata=dict(k) | dict(other))
        for each in (None, *TYPES, "z/z", "z/a", "text/z", "text/z/a")
        for k in ({}, {"k": ""}, {"k": "a"}, {"k": "z"})
        for other in ({}, {"l": "z"})
    ]
    places: list[tuple[str | None, str | None, ObjectFacts, ContainerFacts]] = [
        ("container", "object", stored, holder) for stored in objects for holder in holders
    ]
    places += [("container", None, ObjectFacts(), holder) for holder in holders]
    places += [(None, None, ObjectFacts(), ContainerFacts())]
    requests = [
        Facts(method, container, name, minute_of_week=0, stored=stored, holder=holder)
        for container, name, stored, holder in places
        for method in ("GET", "PUT")
    ]
    return World("looked up", tuple(tests), tuple(requests))


NAMES_WORLD, NUMBERS_WORLD, LOOKED_UP_WORLD = _names(), _numbers(), _looked_up()
WORLDS: Sequence[World] = (NAMES_WORLD, NUMBERS_WORLD, LOOKED_UP_WORLD)
