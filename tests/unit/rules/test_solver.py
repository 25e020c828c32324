"""The solver against every request of a small world, and on questions that show its world and its bounds."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.budget import Budget, UndecidedError
from rules.conditions import holds
from rules.facts import Facts
from rules.model import All, Any, Condition, Not, Operator, Test
from rules.solver import Solver
from tests.unit.rules import naive, strategies
from tests.unit.rules.small_world import WORLDS, World


def solve(*conditions: Condition, steps: int = 20_000) -> Facts | None:
    return Solver().solve(conditions, Budget(steps))


def exact(fact: str, operand: str, key: str | None = None) -> Test:
    return Test(fact, Operator.EXACT, operand, key)


def flag(fact: str, *, operand: bool = True) -> Test:
    return Test(fact, Operator.IS, operand)


def missing(fact: str) -> Test:
    return Test(fact, Operator.PRESENT, operand=False)


def size(operator: Operator, operand: int) -> Test:
    return Test("size", operator, operand)


@pytest.mark.parametrize(
    "conditions",
    [
        [exact("container", "a"), exact("container", "b")],
        [exact("container", "a/b")],
        [exact("object", "")],
        [exact("content-type", "text/CSV")],
        [exact("method", "GET"), Test("method", Operator.ONE_OF, frozenset({"PUT", "HEAD"}))],
        [Not(Test("method", Operator.ONE_OF, frozenset({"GET", "HEAD", "PUT", "POST", "COPY", "DELETE"})))],
        [size(Operator.AT_LEAST, 10), size(Operator.AT_MOST, 9)],
        [exact("metadata", "x", "k"), Not(exact("metadata", "x", "k"))],
        [flag("anonymous"), flag("signed")],
        [flag("anonymous"), Test("roles", Operator.HAS, frozenset({"admin"}))],
        [flag("signed"), exact("user", "bob")],
        [missing("object"), exact("content-type", "text/csv")],
        [missing("container"), exact("object", "o")],
        [missing("container"), exact("policy", "gold")],
        [missing("time")],
        [Not(Test("time", Operator.WITHIN, ((0, 10079),)))],
        [Test("client-address", Operator.WITHIN, (ipaddress.ip_network("::ffff:0:0/96"),))],
        [Any(())],
        [Not(All())],
        [Test("roles", Operator.HAS, frozenset({"a"})), Not(Test("roles", Operator.HAS, frozenset({"a", "b"})))],
        [Test("object", Operator.GLOB, "*.csv"), Not(Test("object", Operator.SUFFIX, "csv"))],
        [Test("object", Operator.PREFIX, "a"), Not(Test("object", Operator.GLOB, "[a-c]*"))],
    ],
)
def test_no_request_meets_these(conditions: list[Condition]) -> None:
    assert solve(*conditions) is None


@pytest.mark.parametrize(
    "conditions",
    [
        [],
        [missing("user"), Not(flag("anonymous")), Not(flag("signed"))],
        [missing("container"), exact("header", "x", "x-purpose")],
        [Not(exact("container", "container")), Not(exact("object", "object"))],
        [flag("signed"), Test("roles", Operator.HAS, frozenset({"a"}))],
        [Not(Test("client-address", Operator.WITHIN, (ipaddress.ip_network("0.0.0.0/0"),)))],
        [Not(Test("object", Operator.GLOB, "?" * 5 + "*")), Test("object", Operator.GLOB, "*[!a-z]*")],
        [Any((All((exact("object", "a"), exact("object", "b"))), exact("user", "bob")))],
        [size(Operator.AT_LEAST, 1 << 60)],
        [exact("query", "", "q")],
    ],
)
def test_what_is_found_meets_them(conditions: list[Condition]) -> None:
    found = solve(*conditions)
    assert found is not None
    assert all(holds(each, found) for each in conditions)


def test_an_example_of_anything_is_a_plain_get() -> None:
    found = solve()
    assert found is not None
    assert (found.method, found.container, found.object) == ("GET", "container", "object")


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
@given(st.data())
def test_the_solver_agrees_with_counting_out(world: World, data: st.DataObject) -> None:
    conditions = data.draw(st.lists(world.conditions, min_size=1, max_size=3))
    found = solve(*conditions)
    if found is None:
        assert not any(all(naive.holds(each, facts) for each in conditions) for facts in world.requests)
    else:
        assert all(naive.holds(each, found) for each in conditions)


@given(strategies.conditions(leaves=12), strategies.facts(known=True))
def test_a_request_that_was_seen_is_not_denied(condition: Condition, facts: Facts) -> None:
    """Of anything in the table; either the condition or its opposite holds of these facts."""
    found = [solve(condition), solve(Not(condition))]
    assert found != [None, None]
    for wanted, each in zip((condition, Not(condition)), found, strict=True):
        assert each is None or naive.holds(wanted, each)
    if _is_of_this_world(facts):
        assert found[0 if naive.holds(condition, facts) else 1] is not None


def _is_of_this_world(facts: Facts) -> bool:
    """Random facts need not go together: these do, by the words of :mod:`rules.solver`."""
    caller = facts.caller
    is_nobody = caller.user is caller.project is caller.domain is None and not caller.roles
    return (
        facts.method != "OPTIONS"
        and facts.minute_of_week is not None
        and facts.container not in {"", "a/b"}
        and facts.object != ""
        and "" not in {caller.user, caller.project, caller.domain, getattr(facts.holder, "policy", None)}
        and (facts.container is not None or facts.object is None)
        and (not caller.is_anonymous or (is_nobody and not caller.is_signed))
        and (not caller.is_signed or caller.user is None)
    )


def test_what_is_refused_while_searching_is_not_found_again() -> None:
    seen: list[str | None] = []

    def refine(facts: Facts) -> Condition | None:
        seen.append(facts.container)
        return None if facts.container == "d" else Not(exact("container", str(facts.container)))

    one_of = Test("container", Operator.ONE_OF, frozenset("abcd"))
    found = Solver().solve([one_of], Budget(1000), refine)
    assert found is not None
    assert sorted(map(str, seen)) == ["a", "b", "c", "d"]


def test_pigeons_are_not_decided_within_a_small_budget() -> None:
    """Nine pigeons in eight holes: true to life for what makes a search long, and no tenant's rule."""
    pigeons = [Any(tuple(exact("header", str(hole), f"p{pigeon}") for hole in range(8))) for pigeon in range(9)]
    apart = [
        Not(All((exact("header", str(hole), f"p{one}"), exact("header", str(hole), f"p{other}"))))
        for hole in range(8)
        for one in range(9)
        for other in range(one)
    ]
    with pytest.raises(UndecidedError):
        solve(*pigeons, *apart, steps=5_000)


def test_hundreds_of_alternatives_that_do_not_matter_cost_little() -> None:
    clauses = [
        Any((exact("header", "x", f"h{number}"), Not(exact("header", "y", f"g{number}")))) for number in range(500)
    ]
    assert solve(*clauses, steps=5_000) is not None
