"""Random facts, conditions and rules out of a small world, so that matches are as usual as misses."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
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
NETWORKS = tuple(map(ipaddress.ip_network, ("10.0.0.0/8", "10.1.0.0/16", "192.168.1.1/32", "fd00::/8", "0.0.0.0/0")))
ADDRESSES = ("10.1.2.3", "10.2.0.1", "192.168.1.1", "fd00::1", "2001:db8::1", "::ffff:10.1.2.3", "not an address")
SIZES = (0, 1, 1023, 1024, 4096)
MINUTES = (0, 1, 719, 720, 1439, 1440, 10079)

names = st.sampled_from(NAMES)
maybe_name = st.none() | names
maps = st.dictionaries(st.sampled_from(KEYS), names, max_size=2)

callers = st.builds(
    Caller,
    user=maybe_name,
    project=maybe_name,
    domain=maybe_name,
    roles=st.frozensets(st.sampled_from(ROLES)),
    is_anonymous=st.booleans(),
    is_signed=st.booleans(),
)
objects = st.builds(
    ObjectFacts,
    exists=st.booleans(),
    content_type=st.none() | st.sampled_from((*TYPES, "Text/CSV; charset=utf-8", "")),
    size_bytes=st.none() | st.sampled_from(SIZES),
    metadata=maps,
)
containers = st.builds(ContainerFacts, metadata=maps, policy=maybe_name)


def facts(*, known: bool = False) -> st.SearchStrategy[Facts]:
    """With ``known``, everything has been looked up."""
    unknown = st.nothing() if known else st.just(UNKNOWN)
    return st.builds(
        Facts,
        method=st.sampled_from((*METHODS, "OPTIONS")),
        container=maybe_name,
        object=maybe_name,
        caller=callers,
        headers=maps,
        query=maps,
        client_address=st.none() | st.sampled_from(ADDRESSES),
        minute_of_week=st.none() | st.sampled_from(MINUTES),
        stored=unknown | objects,
        holder=unknown | containers,
    )


def _windows() -> st.SearchStrategy[tuple[tuple[int, int], ...]]:
    ordered = st.tuples(st.sampled_from(MINUTES), st.sampled_from(MINUTES)).map(lambda pair: (min(pair), max(pair)))
    return st.lists(ordered, min_size=1, max_size=2).map(tuple)


def _strings(fact: str) -> st.SearchStrategy[str]:
    return st.sampled_from({"method": METHODS, "content-type": TYPES}.get(fact, NAMES))


def operands(fact: str, operator: Operator) -> st.SearchStrategy[Any]:
    values: Mapping[Operator, st.SearchStrategy[Any]] = {
        Operator.GLOB: st.sampled_from(GLOBS),
        Operator.ONE_OF: st.frozensets(_strings(fact), min_size=1, max_size=3),
        Operator.HAS: st.frozensets(st.sampled_from(ROLES), min_size=1, max_size=2),
        Operator.AT_LEAST: st.sampled_from(SIZES),
        Operator.AT_MOST: st.sampled_from(SIZES),
        Operator.IS: st.booleans(),
        Operator.PRESENT: st.booleans(),
    }
    if operator is Operator.WITHIN:
        return _windows() if fact == "time" else st.lists(st.sampled_from(NETWORKS), min_size=1, max_size=2).map(tuple)
    return values.get(operator, _strings(fact))


@st.composite
def tests(draw: st.DrawFn) -> Test:
    fact = draw(st.sampled_from(list(TABLE.values())))
    operator = draw(st.sampled_from(fact.operators))
    key = draw(st.sampled_from(KEYS)) if fact.kind is Kind.STRINGS else None
    return Test(fact.name, operator, draw(operands(fact.name, operator)), key)


def conditions(leaves: int = 6) -> st.SearchStrategy[Condition]:
    def larger(parts: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
        some = st.lists(parts, min_size=1, max_size=3).map(tuple)
        return st.builds(model.All, some) | st.builds(model.Any, some) | st.builds(model.Not, parts)

    return st.recursive(tests() | st.just(model.All()), larger, max_leaves=leaves)


_PLAIN = Run((Step("s.py"),))
_OF_METADATA = Run((Step("s.py", (("p", Template(("", "metadata.k", ""))),)),))
actions = st.sampled_from((_PLAIN, _OF_METADATA, Deny("no"), Allow()))


@st.composite
def rule_sets(draw: st.DrawFn) -> RuleSet:
    found = draw(st.lists(st.tuples(conditions(), actions), max_size=6))
    return RuleSet(tuple(Rule(f"r{number}", condition, action) for number, (condition, action) in enumerate(found)))
