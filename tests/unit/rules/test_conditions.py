"""The condition table: every fact, every operator, three values, and what a missing value means."""

from __future__ import annotations

import ipaddress
import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules import conditions, model
from rules.conditions import METHODS, TABLE, Group, Kind, cautious, holds, with_all_reads
from rules.facts import UNKNOWN, Caller, ContainerFacts, Facts, ObjectFacts
from rules.model import Condition, Operator, Test
from tests.unit.rules import naive, strategies

NOBODY = Facts("GET", "c", "o", stored=ObjectFacts(), holder=ContainerFacts())


def named(name: str) -> Test:
    return Test("user", Operator.EXACT, name)


def method(*names: str) -> Test:
    return (
        Test("method", Operator.ONE_OF, frozenset(names))
        if names[1:]
        else Test("method", Operator.EXACT, *names)
    )


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


@given(strategies.conditions())
def test_rules_that_do_not_restrict_need_a_value_for_a_test_and_for_its_not(
    condition: Condition,
) -> None:
    for facts in REQUESTS:
        assert holds(cautious(condition), facts) is naive.holds_cautiously(condition, facts), facts


@given(strategies.conditions())
def test_the_restrictive_reading_only_removes_requests(condition: Condition) -> None:
    for facts in REQUESTS:
        assert holds(condition, facts) or not holds(cautious(condition), facts), facts


@given(strategies.conditions())
def test_a_condition_on_get_includes_head_and_copy(condition: Condition) -> None:
    """It removes no request, and adds only requests that match with GET in some of its tests of the
    method."""
    widened = with_all_reads(condition)
    for facts in REQUESTS:
        assert holds(widened, facts) or not holds(condition, facts), facts
        if facts.method not in ("HEAD", "COPY"):
            assert holds(widened, facts) is holds(condition, facts), facts


_METHOD_TESTS = [Test("method", Operator.EXACT, method) for method in METHODS]
_METHOD_TESTS += [
    Test("method", Operator.ONE_OF, frozenset(some)) for some in itertools.combinations(METHODS, 2)
]


@given(
    st.lists(
        st.sampled_from([*_METHOD_TESTS, named("a"), model.Not(named("a"))]), min_size=1, max_size=4
    ),
    st.booleans(),
)
def test_without_a_negated_method_no_read_bypasses_a_mandatory_rule(
    parts: list[Condition], is_any: bool
) -> None:
    some = tuple(parts)
    widened = with_all_reads(model.Any(some) if is_any else model.All(some))
    for user, method in itertools.product(("a", "b", None), ("HEAD", "COPY")):
        facts = Facts("GET", "c", "o", Caller(user=user))
        assert holds(widened, replace(facts, method=method)) or not holds(widened, facts)


@pytest.mark.parametrize(
    ("condition", "methods"),
    [
        (method("GET"), "GET HEAD COPY"),
        (method("GET", "PUT"), "GET HEAD COPY PUT"),
        (method("HEAD"), "HEAD"),
        (method("PUT", "COPY"), "PUT COPY"),
        (model.Not(method("GET")), "HEAD COPY PUT POST DELETE"),
        (model.Not(method("HEAD")), "GET COPY PUT POST DELETE"),
        (model.Not(method("PUT", "POST")), "GET HEAD COPY DELETE"),
        (model.Not(model.Not(method("GET"))), "GET HEAD COPY"),
        (model.Any((method("GET"), method("POST"))), "GET HEAD COPY POST"),
        (model.All((method("GET", "PUT"), model.Not(method("COPY")))), "GET HEAD PUT"),
        (model.Not(model.Any((method("GET"), model.Not(method("GET", "PUT"))))), "PUT HEAD COPY"),
    ],
)
def test_methods_of_a_mandatory_rule(condition: Condition, methods: str) -> None:
    widened = with_all_reads(condition)
    assert {each for each in METHODS if holds(widened, Facts(each, "c", "o"))} == set(
        methods.split()
    )


def test_only_the_method_means_other_methods_as_well() -> None:
    some = model.All(
        (named("GET"), Test("header", Operator.ONE_OF, frozenset({"GET"}), "x-http-method"))
    )
    assert with_all_reads(some) == some


def test_the_not_of_a_missing_value_fails_closed() -> None:
    condition = model.Not(named("intern"))
    assert holds(condition, NOBODY) is True, "a mandatory rule would be got around"
    assert holds(cautious(condition), NOBODY) is False, "an allow would open for nobody"
    ann = Facts("GET", "c", "o", Caller(user="ann"))
    assert holds(condition, ann) is holds(cautious(condition), ann) is True


@pytest.mark.parametrize(
    "parts", [(model.Not(named("a")), named("b")), (named("a"), model.Not(named("a")))]
)
def test_presence_can_be_tested(parts: tuple[Condition, ...]) -> None:
    absent = Test("user", Operator.PRESENT, operand=False)
    assert holds(model.Any((*parts, absent)), NOBODY) is True
    assert holds(model.Not(absent), NOBODY) is False


def test_unknown_is_decided_as_soon_as_nothing_can_change_it() -> None:
    unknown = Test("size", Operator.AT_LEAST, 1)
    asked = Facts("GET", "c", "o", Caller(user="ann"))
    assert holds(unknown, asked) is None
    assert holds(model.Not(unknown), asked) is None
    assert holds(model.All((unknown, named("bob"))), asked) is False
    assert holds(model.All((unknown, named("ann"))), asked) is None
    assert holds(model.Any((unknown, named("ann"))), asked) is True
    assert holds(model.Any((unknown, named("bob"))), asked) is None


@pytest.mark.parametrize(
    "fact", [row.name for row in TABLE.values() if row.group is not Group.REQUEST]
)
def test_a_fact_that_does_not_exist_is_missing_and_never_unknown(fact: str) -> None:
    test = Test(
        fact, Operator.PRESENT, operand=False, key="k" if TABLE[fact].kind is Kind.STRINGS else None
    )
    assert holds(test, Facts("GET")) is True, (
        "a request to the account has no object and no container"
    )
    assert holds(test, Facts("GET", "c")) is (True if TABLE[fact].group is Group.STORED else None)
    assert holds(test, Facts("GET", "c", "o")) is None


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
    ("stored", "media_type"),
    [
        ("Text/CSV; charset=utf-8", "text/csv"),
        ("text/csv", "text/csv"),
        (" text/csv ;x", "text/csv"),
        ("", None),
        (None, None),
    ],
)
def test_content_types_lose_case_and_parameters(stored: str | None, media_type: str | None) -> None:
    assert conditions.media_type(stored) == media_type


def test_every_row_reads_a_fact_and_documents_it() -> None:
    full = Facts(
        "GET", "c", "o", Caller("u", "p", "d", frozenset({"r"}), is_anonymous=True, is_signed=True),
        {"k": "v"}, {"k": "v"}, "10.0.0.1", 5,
        ObjectFacts(exists=True, content_type="a/b", size_bytes=1, metadata={"k": "v"}), ContainerFacts({"k": "v"}, "gold"),
    )  # fmt: skip
    for row in TABLE.values():
        assert row.read(full, "k") not in (None, UNKNOWN), row.name
        assert row.help
        assert row.operators
        is_missing = (
            row.read(Facts("GET", "c", "o", stored=ObjectFacts(), holder=ContainerFacts()), "k")
            is None
        )
        assert is_missing == (row.is_optional and row.name not in ("container", "object")), row.name


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
