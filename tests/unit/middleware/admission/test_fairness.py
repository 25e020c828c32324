"""The next claim: shares, reserve, memory, order, and Retry-After; no clocks, no processes."""

from __future__ import annotations

import random

import pytest

from storlet_middleware.admission.fairness import Capacity, Claim, Load, Obstacle, Row

GIB = 1 << 30
NOW = 1000.0


def name(letter: str) -> bytes:
    return letter.encode().ljust(16, b"\0")


def row(
    tenant: str,
    running: int = 0,
    waiting: int = 0,
    *,
    group: str = "g",
    oldest: float = NOW,
    memory: int = GIB,
    weight: float = 1,
    began: float = NOW,
    mean: float = 0.0,
) -> Row:
    return Row(name(tenant), name(group), running, waiting, oldest, memory, weight, began, mean)


def claim(tenant: str, group: str = "g", memory: int = GIB, weight: float = 1) -> Claim:
    return Claim(name(tenant), name(group), memory, weight)


def load(*rows: Row, invocations: int = 64, memory: int = 64 * GIB) -> Load:
    made = Load(Capacity(invocations, memory))
    made.count(rows)
    return made


def order(made: Load) -> str:
    """First letters of the admitted tenants, in order, until no claim can be admitted."""
    letters = ""
    while (turn := made.next()) is not None:
        letters += turn.claim.tenant[:1].decode()
        made.take(turn)
    return letters


def test_a_tenant_alone_leaves_the_reserved_share() -> None:
    assert load(row("a", 31)).obstacle(claim("a")) is None
    assert load(row("a", 32)).obstacle(claim("a")) is Obstacle.SHARE


def test_shares_shrink_with_competing_tenants_and_grow_with_the_weight() -> None:
    assert load(row("a", 21), row("b", 1)).obstacle(claim("a")) is Obstacle.SHARE
    assert load(row("a", 20), row("b", 1)).obstacle(claim("a")) is None
    heavy = load(row("a", 31, weight=2), row("b", 1))
    assert heavy.share(name("a")) == 32
    assert heavy.share(name("b")) == 16


def test_the_smallest_weight_still_gets_one() -> None:
    made = load(row("a", 3, weight=100), invocations=8)
    assert made.obstacle(claim("b", weight=0.01)) is None
    assert made.share(name("b")) == 1


def test_the_last_eighth_is_for_accounts_without_running_invocations() -> None:
    """32 and 21 and 3 of 64: what is left of the node no tenant that has some may take."""
    made = load(row("a", 32), row("b", 21), row("c", 3))
    assert made.obstacle(claim("c")) is Obstacle.NODE
    for letter in "defghijk":
        one = claim(letter)
        assert made.obstacle(one) is None
        made.count([row(letter, 1)])
    assert made.obstacle(claim("l")) is Obstacle.NODE


@pytest.mark.parametrize("invocations", [1, 2, 3, 8])
def test_small_nodes_run_as_many_as_they_may(invocations: int) -> None:
    made = load(
        *(row(chr(97 + index), 1) for index in range(invocations - 1)), invocations=invocations
    )
    assert made.obstacle(claim("z")) is None
    made.count([row("z", 1)])
    assert made.obstacle(claim("y")) is Obstacle.NODE


def test_memory_is_counted_once_for_each_worker_group() -> None:
    made = load(row("a", 5), row("a", 3), row("b", 1), memory=4 * GIB)
    assert made.obstacle(claim("b")) is None
    assert made.obstacle(claim("c")) is None
    assert made.obstacle(claim("c", memory=3 * GIB)) is Obstacle.NODE


def test_memory_is_shared_like_places() -> None:
    made = load(row("a", 1, group="1"), row("a", 1, group="2"), memory=4 * GIB)
    assert made.obstacle(claim("a", "3")) is Obstacle.SHARE
    assert made.obstacle(claim("a", "2")) is None, "a group that runs needs no more"
    assert made.obstacle(claim("b")) is None


def test_the_last_eighth_of_the_memory_is_kept_too() -> None:
    made = load(
        row("a", 1, group="1", memory=7 * GIB), row("b", 1, group="1", weight=9), memory=8 * GIB
    )
    assert made.obstacle(claim("b", "2", memory=GIB // 2, weight=9)) is Obstacle.NODE
    made = load(row("a", 1, group="1", memory=7 * GIB), memory=8 * GIB)
    assert made.obstacle(claim("c")) is None


def test_a_group_larger_than_the_node_runs_alone() -> None:
    assert load(memory=GIB).obstacle(claim("a", memory=2 * GIB)) is None
    assert (
        load(row("b", 1, memory=1), memory=GIB).obstacle(claim("a", memory=2 * GIB))
        is Obstacle.NODE
    )
    assert (
        load(row("a", 1, memory=2 * GIB), memory=GIB).obstacle(claim("b", memory=1))
        is Obstacle.NODE
    )


def test_the_account_with_least_for_its_weight_is_first_then_the_oldest() -> None:
    made = load(
        row("a", 3, 5, oldest=1),
        row("b", 1, 2, oldest=3),
        row("c", 0, 2, oldest=4),
        row("d", 0, 1, oldest=2),
    )
    assert order(made) == "dcbcbaaaaa"
    made = load(row("a", 2, 9, weight=4), row("b", 1, 9, oldest=1), invocations=16)
    assert order(made).startswith("aab")


def test_within_a_tenant_the_oldest_is_first_in_any_group_and_process() -> None:
    made = load(
        row("a", 0, 1, group="1", oldest=3),
        row("a", 0, 1, group="2", oldest=1),
        row("a", 0, 1, oldest=2),
    )
    groups = []
    while (turn := made.next()) is not None:
        groups.append(turn.claim.group[:1])
        made.take(turn)
    assert groups == [b"2", b"g", b"1"]


def test_a_waiter_that_cannot_start_does_not_delay_others() -> None:
    made = load(
        row("a", 32, 5, oldest=1),
        row("b", 0, 1, oldest=9, memory=100 * GIB),
        row("c", 0, 2, oldest=10),
    )
    assert order(made) == "cc"


def test_waiters_of_absent_processes_take_no_turn_but_count() -> None:
    made = load(row("b", 0, 1))
    made.count([row("a", 0, 3, oldest=1)], take_turns=False)
    assert order(made) == "b"
    assert (made.waiting_of(name("a")), made.waiting) == (3, 4)


def test_a_new_claim_joins_behind_those_of_its_tenant() -> None:
    made = load(row("a", 0, 1, oldest=1), invocations=2)
    head = made._join(claim("a"), NOW)
    turn = made.next()
    assert turn is not None
    assert turn.head is not head


def test_a_new_claim_is_next_if_there_is_room_after_all_that_precede_it() -> None:
    assert load(invocations=2).is_next(claim("a"), NOW)
    assert not load(row("a", 0, 1, oldest=1), invocations=2).is_next(claim("a"), NOW)
    assert load(row("b", 0, 1, oldest=1), invocations=8).is_next(claim("a"), NOW)
    assert not load(row("b", 8), invocations=8).is_next(claim("a"), NOW)


def test_claims_run_together_or_the_first_that_cannot_is_the_obstacle() -> None:
    made = load(invocations=8)
    assert made.obstacle_of_all([claim("a", group) for group in "xyz"]) is None
    assert made.obstacle(claim("a")) is None, "a share of four"
    assert made.obstacle_of_all([claim("a"), claim("a")]) is Obstacle.SHARE
    assert load(row("b", 8), invocations=8).obstacle_of_all([claim("a")]) is Obstacle.NODE


def test_shares_hold_and_no_slot_is_idle_under_random_load() -> None:
    """Random load: each tenant gets its share by weight, and the node's limits always hold."""
    chance = random.Random(3)  # noqa: S311 - the same each time
    weights = {"a": 1.0, "b": 2.0, "c": 0.5}
    running = dict.fromkeys(weights, 0)
    served = dict.fromkeys(weights, 0)
    for _ in range(3000):
        made = load(
            *(row(letter, running[letter], 50, weight=weights[letter]) for letter in weights),
            invocations=32,
        )
        for letter in order(made):
            running[letter] += 1
            served[letter] += 1
        assert sum(running.values()) <= 32
        ended = chance.choice([letter for letter in weights for _ in range(running[letter])])
        running[ended] -= 1
    assert served["b"] / served["a"] == pytest.approx(2, rel=0.35)
    assert served["a"] / served["c"] == pytest.approx(2, rel=0.35)


@pytest.mark.parametrize(
    ("mean", "waiting", "running", "seconds"),
    [
        (0.0, 0, 32, 1),
        (5.0, 0, 32, 1),
        (5.0, 63, 32, 10),
        (5.0, 511, 32, 60),
        (0.2, 31, 32, 1),
        (20.0, 1, 1, 40),
    ],
)
def test_retry_after_is_what_the_queue_will_take(
    mean: float, waiting: int, running: int, seconds: int
) -> None:
    made = load(row("a", running, waiting, mean=mean))
    assert made.retry_after(name("a"), Obstacle.SHARE, NOW) == seconds


def test_the_wait_is_estimated_from_the_time_of_runs_in_progress() -> None:
    made = load(row("a", 2, 1, began=NOW - 8))
    assert made.retry_after(name("a"), Obstacle.SHARE, NOW) == 8
    assert (
        load(row("a", 1, began=NOW - 9), row("b", 1, 3, began=NOW - 3)).retry_after(
            name("c"), Obstacle.NODE, NOW
        )
        == 12
    )
