"""Evaluation of conditions: every operator, three values, missing values."""

from __future__ import annotations

import ipaddress
import itertools

import pytest
from hypothesis import given

from rules import model
from rules.conditions import TABLE, Kind
from rules.evaluation import holds
from rules.facts import Caller, ContainerFacts, Facts, ObjectFacts
from rules.model import Condition, Operator, Test
from tests.unit.rules import naive, strategies

ANONYMOUS = Facts("GET", "c", "o", stored=ObjectFacts(), holder=ContainerFacts())


def named(name: str) -> Test:
    return Test("user", Operator.EXACT, name)


REQUESTS = strategies.pool(60)


ALL_REQUESTS = [less for facts in REQUESTS for less in strategies.without(facts)]


@given(strategies.conditions())
def test_conditions_agree_with_the_naive_reference(condition: Condition) -> None:
    for facts in ALL_REQUESTS:
        assert holds(condition, facts) is naive.holds(condition, facts), facts


@pytest.mark.parametrize("fact", TABLE)
def test_every_operator_agrees_with_the_naive_reference(fact: str) -> None:
    keys = strategies.KEYS if TABLE[fact].kind is Kind.STRINGS else (None,)
    outcomes = set()
    for operator in TABLE[fact].operators:
        for operand, key in itertools.product(strategies.some_operands(fact, operator), keys):
            test = Test(fact, operator, operand, key)
            for facts in ALL_REQUESTS:
                outcome = holds(test, facts)
                assert outcome is naive.test_holds(test, facts), (test, facts)
                outcomes.add((operator, outcome))
    assert {(operator, True) for operator in TABLE[fact].operators} <= outcomes
    assert {(operator, False) for operator in TABLE[fact].operators} <= outcomes


@pytest.mark.parametrize(
    "parts", [(model.Not(named("a")), named("b")), (named("a"), model.Not(named("a")))]
)
def test_presence_can_be_tested(parts: tuple[Condition, ...]) -> None:
    absent = Test("user", Operator.PRESENT, operand=False)
    assert holds(model.Any((*parts, absent)), ANONYMOUS) is True
    assert holds(model.Not(absent), ANONYMOUS) is False


def test_an_unknown_part_is_ignored_once_the_others_decide() -> None:
    unknown = Test("size", Operator.AT_LEAST, 1)
    asked = Facts("GET", "c", "o", Caller(user="ann"))
    assert holds(unknown, asked) is None
    assert holds(model.Not(unknown), asked) is None
    assert holds(model.All((unknown, named("bob"))), asked) is False
    assert holds(model.All((unknown, named("ann"))), asked) is None
    assert holds(model.Any((unknown, named("ann"))), asked) is True
    assert holds(model.Any((unknown, named("bob"))), asked) is None


@pytest.mark.parametrize(
    ("written", "address", "is_within"),
    [
        ("10.0.0.0/8", "10.9.9.9", True),
        ("10.0.0.0/8", "11.0.0.1", False),
        ("10.0.0.0/8", "::ffff:10.1.1.1", True),
        ("::/0", "10.1.1.1", False),
        ("fd00::/8", "fd12::1", True),
        ("0.0.0.0/0", "unknown", False),
    ],
)
def test_networks(written: str, address: str, is_within: bool) -> None:
    import ipaddress  # noqa: PLC0415 - only here

    test = Test("client-address", Operator.WITHIN, (ipaddress.ip_network(written),))
    assert holds(test, Facts("GET", client_address=address)) is is_within


@pytest.mark.parametrize(
    ("address", "is_within"),
    [
        ("9.255.255.255", False),
        ("10.0.0.0", True),
        ("10.1.2.3", True),
        ("10.255.255.255", True),
        ("11.0.0.0", False),
        ("11.0.0.1", True),
        ("255.255.255.255", True),
        ("::ffff:10.1.2.3", True),
        ("::", False),
        ("fd00::", True),
        ("fdff:ffff::1", True),
        ("fe00::", False),
        (
            "a00::",
            False,
        ),  # the number of 10.0.0.0 is not looked for among networks of the other version
    ],
)
def test_networks_that_overlap_and_touch(address: str, is_within: bool) -> None:
    written = (
        "fd00::/8",
        "10.1.0.0/16",
        "10.0.0.0/8",
        "11.0.0.1/32",
        "255.255.255.255/32",
        "10.1.2.3/32",
    )
    test = Test("client-address", Operator.WITHIN, tuple(map(ipaddress.ip_network, written)))
    assert holds(test, Facts("GET", client_address=address)) is is_within
