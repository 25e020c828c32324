"""Waiting for slots: order, heartbeats, ends of a wait, bounds of the queues."""

from __future__ import annotations

import time
from pathlib import Path

import eventlet
import pytest

from storlet_middleware.admission.controller import Slot
from storlet_middleware.concurrency import spawn
from storlet_middleware.errors import NodeBusy, TenantBusy
from tests.unit.middleware.admission.slots import MIB, new, take, take_together, usage


def test_waiters_of_a_tenant_go_first_come_first_served(run_dir: Path) -> None:
    one, order = new(run_dir, admission__invocations="2"), []

    def wait(number: int) -> Slot:
        slot = take(one, group=f"group {number % 3}")
        order.append(number)
        return slot

    slot = take(one)
    waiting = [spawn(wait, number) for number in range(6)]
    eventlet.sleep(0.01)
    for task in waiting:
        slot.release()
        slot = task.wait()
    assert order == list(range(6))


def test_a_wait_has_beats(run_dir: Path) -> None:
    one = new(run_dir, admission__invocations="1")
    slot = take(one)
    waiting = one.acquire(one.claim("b", "g", MIB), (0.01, 0.02))
    began = time.monotonic()
    next(waiting)
    next(waiting)
    assert 0.03 <= time.monotonic() - began < 1
    eventlet.spawn_after(0.01, slot.release)
    for _ in waiting:
        assert time.monotonic() - began < 5
    assert usage(run_dir) == {"b": (1, 0)}


def test_a_waiter_that_leaves_gives_up_its_place(run_dir: Path) -> None:
    """By closing the generator, by the end of its task, and at the moment when a slot is free."""
    one = new(run_dir, admission__invocations="1")
    slot = take(one)
    closed = one.acquire(one.claim("b", "g", MIB), (0.01, 0.01))
    next(closed)
    killed, late = spawn(take, one, "b"), spawn(take, one, "c")
    eventlet.sleep(0.01)
    assert usage(run_dir) == {"a": (1, 0), "b": (0, 2), "c": (0, 1)}
    closed.close()
    killed.kill()
    assert usage(run_dir) == {"a": (1, 0), "c": (0, 1)}
    slot.release()
    assert usage(run_dir) == {"c": (1, 0)}, "handed on, but not yet taken"
    late.kill()
    assert usage(run_dir) == {}
    take(one, "d").release()


def test_a_wait_ends_in_429_at_the_own_share_and_else_in_503(run_dir: Path) -> None:
    one = new(run_dir, invocation__queue_seconds="0.05", admission__invocations="4")
    held = [take(one), take(one), take(one, "b")]
    with pytest.raises(TenantBusy, match=r"share of this node's invocations") as caught:
        take(one)
    assert (caught.value.status, caught.value.retry_after) == (429, 1)
    held.append(take(one, "c"))
    with pytest.raises(NodeBusy, match="no room") as refused:
        take(one, "d")
    assert (refused.value.status, refused.value.code) == (503, "node.busy")
    assert usage(run_dir) == {"a": (2, 0), "b": (1, 0), "c": (1, 0)}
    refused = [name for name in one._logger.stats if ".refused" in name]
    assert refused == [
        "storlet.admission.refused", "storlet.admission.refused.tenant-busy",
        "storlet.admission.refused", "storlet.admission.refused.node-busy",
    ]  # fmt: skip


def test_queues_are_bounded_for_a_tenant_and_for_the_node(run_dir: Path) -> None:
    one = new(
        run_dir, admission__invocations="1", admission__queue_per_tenant="2", admission__queue="3"
    )
    slot = take(one)
    tasks = [spawn(take, one, name) for name in ("a", "a", "b")]
    eventlet.sleep(0.01)
    with pytest.raises(TenantBusy, match="too many of its"):
        take(one)
    with pytest.raises(NodeBusy, match="too many invocations"):
        take(one, "c")
    for task in tasks:
        task.kill()
    slot.release()
    assert usage(run_dir) == {}


# --- several slots at a time ----------------------------------------------------------------------


def test_a_waiter_for_several_slots_holds_none_and_precedes_later_waiters(
    run_dir: Path,
) -> None:
    one, order = new(run_dir), []
    slots = take_together(one, 4)

    def wait(name: str, count: int) -> list[Slot]:
        got = take_together(one, count) if count > 1 else [take(one)]
        order.append(name)
        return got

    tasks = [spawn(wait, "three", 3), spawn(wait, "one", 1)]
    eventlet.sleep(0.02)
    assert usage(run_dir) == {"a": (4, 2)}
    for left in (3, 2):
        slots.pop().release()
        eventlet.sleep(0.02)
        assert usage(run_dir) == {"a": (left, 2)}
    slots.pop().release()
    eventlet.sleep(0.02)
    assert (order, usage(run_dir)) == (["three"], {"a": (4, 1)})
    slots += tasks[0].wait()
    slots.pop().release()
    slots += tasks[1].wait()
    for slot in slots:
        slot.release()
    assert (usage(run_dir), one._counts.own.held, one._counts.own.waiting) == ({}, 0, 0)


def test_a_waiter_for_several_slots_that_leaves_gives_all_of_them_up(run_dir: Path) -> None:
    one = new(run_dir)
    slots = take_together(one, 4)
    waiting, late = spawn(take_together, one, 2), spawn(take_together, one, 2)
    eventlet.sleep(0.01)
    waiting.kill()
    assert usage(run_dir) == {"a": (4, 1)}
    for slot in slots:
        slot.release()
    assert usage(run_dir) == {"a": (2, 0)}, "handed on, but not yet taken"
    late.kill()
    assert (usage(run_dir), one._counts.own.held, one._counts.own.waiting) == ({}, 0, 0)
