"""Random facts, conditions and rules out of a small world, so that matches are as usual as misses.

Conditions and rules come from hypothesis, which makes a failing one small.  Facts come from a fixed
pool (:func:`pool`), and each set of rules is evaluated for all of it: this finds more in a second
than a few examples of both.
"""

from __future__ import annotations

import ipaddress
import itertools
import random
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from hypothesis import strategies as st

from rules import model
from rules.conditions import METHODS, TABLE, Kind
from rules.facts import UNKNOWN, Caller, ContainerFacts, Facts, ObjectFacts
from rules.model import Allow, Condition, Deny, Operator, Rule, RuleSet, Run, Step, Template, Test

NAMES = ("a", "ab", "b", "ba", "", "a/b", "abc")
GLOBS = ("*", "a*", "*b", "?", "[ab]", "[!a]*", "a*b", "ab", "*a*", "[a-b][b-c]*", "")
KEYS = ("k", "x-m")
TYPES = ("text/csv", "text/plain", "image/png")
ROLES = ("admin", "reader", "guest")
NETWORKS = tuple(
    map(
        ipaddress.ip_network,
        ("10.0.0.0/8", "10.1.0.0/16", "192.168.1.1/32", "fd00::/8", "0.0.0.0/0"),
    )
)
ADDRESSES = (
    "10.1.2.3",
    "10.2.0.1",
    "192.168.1.1",
    "fd00::1",
    "2001:db8::1",
    "::ffff:10.1.2.3",
    "not an address",
)
SIZES = (0, 1, 1023, 1024, 4096)
MINUTES = (0, 1, 719, 720, 1439, 1440, 10079)

_CONTENT_TYPES = (None, "", *TYPES, "Text/CSV; charset=utf-8")


def _map(chance: random.Random) -> dict[str, str]:
    return {key: chance.choice(NAMES) for key in KEYS if chance.random() < 0.6}


def _facts(chance: random.Random) -> Facts:
    maybe_name = (None, *NAMES)
    return Facts(
        method=chance.choice((*METHODS, "OPTIONS")),
        container=chance.choice(maybe_name),
        object=chance.choice(maybe_name),
        caller=Caller(
            user=chance.choice(maybe_name),
            project=chance.choice(maybe_name),
            domain=chance.choice(maybe_name),
            roles=frozenset(
                chance.choice((role, role.title())) for role in ROLES if chance.random() < 0.4
            ),
            is_anonymous=chance.random() < 0.5,
            is_signed=chance.random() < 0.5,
        ),
        headers=_map(chance),
        query=_map(chance),
        client_address=chance.choice((None, *ADDRESSES)),
        minute_of_week=chance.choice((None, *MINUTES)),
        stored=ObjectFacts(
            exists=chance.random() < 0.5,
            content_type=chance.choice(_CONTENT_TYPES),
            size_bytes=chance.choice((None, *SIZES)),
            metadata=_map(chance),
        ),
        holder=ContainerFacts(metadata=_map(chance), policy=chance.choice(maybe_name)),
    )


def pool(count: int) -> tuple[Facts, ...]:
    """``count`` requests with all facts known."""
    chance = random.Random(4)  # noqa: S311 - the same on every machine is the point
    return tuple(_facts(chance) for _ in range(count))


def without(facts: Facts) -> tuple[Facts, ...]:
    """The same request with everything known, and with each of the ways not to know everything."""
    no_object, no_container = replace(facts, stored=UNKNOWN), replace(facts, holder=UNKNOWN)
    return (facts, no_object, no_container, replace(no_object, holder=UNKNOWN))


_WINDOWS = (((0, 0),), ((1, 719), (1440, 10079)), ((720, 1439),), ((0, 10078),))


def _strings(fact: str) -> tuple[str, ...]:
    return {"method": METHODS, "content-type": TYPES}.get(fact, NAMES)


@cache
def some_operands(fact: str, operator: Operator) -> tuple[Any, ...]:
    """Enough to try an operator with."""
    strings = _strings(fact)
    operands: Mapping[Operator, tuple[Any, ...]] = {
        Operator.GLOB: ("t*", *GLOBS),
        Operator.PREFIX: ("text", *strings),
        Operator.SUFFIX: ("csv", *strings),
        Operator.ONE_OF: tuple(map(frozenset, itertools.pairwise(strings))),
        Operator.HAS: (frozenset(ROLES[:1]), frozenset(ROLES[1:])),
        Operator.AT_LEAST: SIZES,
        Operator.AT_MOST: SIZES,
        Operator.WITHIN: _WINDOWS
        if fact == "time"
        else (*((network,) for network in NETWORKS), NETWORKS[1:3]),
        Operator.IS: (True, False),
        Operator.PRESENT: (True, False),
    }
    return operands.get(operator, strings)


#: Special cases of the engine are generated more often.
_FACTS = (
    *TABLE,
    "method",
    "container",
    "object",
    "object",
    "user",
    "roles",
    "header",
    "size",
    "metadata",
    "policy",
)


@st.composite
def tests(draw: st.DrawFn) -> Test:
    fact = TABLE[draw(st.sampled_from(_FACTS))]
    operator = draw(st.sampled_from(fact.operators))
    key = draw(st.sampled_from(KEYS)) if fact.kind is Kind.STRINGS else None
    return Test(fact.name, operator, draw(st.sampled_from(some_operands(fact.name, operator))), key)


def conditions(leaves: int = 6) -> st.SearchStrategy[Condition]:
    def larger(parts: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
        some = st.lists(parts, min_size=1, max_size=3).map(tuple)
        return st.builds(model.All, some) | st.builds(model.Any, some) | st.builds(model.Not, parts)

    return st.recursive(tests() | st.just(model.All()), larger, max_leaves=leaves)


_PLAIN = Run((Step("s.py"),))
_OF_METADATA = Run((Step("s.py", (("p", Template(("", "metadata.k", ""))),)),))
actions = st.sampled_from((_PLAIN, _OF_METADATA, Deny("no"), Allow()))


#: A strategy that is made for each example is validated for each example.
_RULES = st.lists(st.tuples(conditions(), actions, st.booleans()), max_size=6)


@st.composite
def rule_sets(draw: st.DrawFn) -> RuleSet:
    found = draw(_RULES)
    return RuleSet(
        tuple(
            Rule(f"r{number}", condition, action, is_mandatory and not isinstance(action, Allow))
            for number, (condition, action, is_mandatory) in enumerate(found)
        )
    )
