"""The worker groups of one process, and their rows in the shared table."""

from __future__ import annotations

from pathlib import Path

import eventlet

from storlet_middleware.admission import shared_table
from storlet_middleware.admission.fairness import Capacity, Claim, Load
from storlet_middleware.admission.groups import Groups
from storlet_middleware.concurrency import spawn
from storlet_middleware.errors import StorletError, TenantBusy
from tests.unit.middleware.admission.slots import new, take, usage


def test_one_tenant_cannot_take_all_rows(run_dir: Path) -> None:
    one = new(
        run_dir,
        admission__queue="2048",
        admission__queue_per_tenant="2048",
        admission__invocations="100",
    )
    before = [take(one) for _ in range(50)]

    def refused(number: int) -> StorletError | None:
        try:
            take(one, group=f"group {number}")
        except StorletError as error:
            return error
        return None

    waiting = [spawn(refused, number) for number in range(shared_table.ROWS)]
    eventlet.sleep(0.01)
    assert 0 < usage(run_dir)["a"].waiting < shared_table.ROWS // 2
    late = [task.wait() for task in waiting[-10:]]
    assert all(isinstance(error, TenantBusy) for error in late)
    take(one, "b")
    for task in waiting:
        task.kill()
    for slot in before:
        slot.release()


def test_published_rows_shrink_after_a_burst(run_dir: Path) -> None:
    """Other processes read all published rows: a burst must not slow them down afterwards."""
    one = new(run_dir, admission__invocations="64", node__memory="1G")
    held = [take(one, group=f"{number}") for number in range(20)]
    assert one._counts.table is not None
    assert one._counts.table.is_last(19)
    for slot in held[:-1]:
        slot.release()
    assert take(one, group="again") is not None
    held[-1].release()
    assert one._counts.table.is_last(0)


def claim(tenant: bytes = b"a" * 16, group: bytes = b"g" * 16) -> Claim:
    return Claim(tenant, group, 1 << 20, 1.0)


def test_a_run_is_counted_from_its_start_to_its_end() -> None:
    groups = Groups(room=8)
    group = groups.find(claim())
    assert group is not None
    groups.begin(group, 10.0)
    groups.begin(group, 20.0)
    assert groups.find(claim()) is group
    assert (group.row().running, group.row().began, groups.held) == (2, 15.0, 2)
    groups.end(group, 10.0, 14.0)
    assert (group.row().running, group.row().began, group.row().mean) == (1, 20.0, 4.0)
    assert groups.has(group)
    groups.end(group, None, 25.0)
    assert (group.mean, groups.held, groups.by_key) == (4.0, 0, {})
    assert not groups.has(group)


def test_a_new_group_of_a_tenant_begins_with_its_mean_duration() -> None:
    groups = Groups(room=8)
    first = groups.find(claim())
    assert first is not None
    groups.begin(first, 0.0)
    groups.end(first, 0.0, 8.0)
    other, stranger = groups.find(claim(group=b"h" * 16)), groups.find(claim(tenant=b"b" * 16))
    assert other is not None
    assert stranger is not None
    assert (other.mean, stranger.mean) == (8.0, 0.0)


def test_waiters_run_in_the_order_of_their_arrival() -> None:
    groups = Groups(room=8)
    waiters = [groups.enqueue(claim(), now, ()) for now in (1.0, 2.0, 3.0)]
    first, second, third = (waiter for waiter in waiters if waiter is not None)
    group = first.group
    assert (group.row().waiting, group.row().oldest, groups.waiting) == (3, 1.0, 3)
    groups.leave_queue(first)
    groups.leave_queue(first)
    assert groups._begin_first(group, 5.0) is second
    assert (second.began, groups.waiting, groups.held) == (5.0, 1, 2)
    groups.leave_queue(third)
    groups.end(group, 5.0, 6.0)
    assert (groups.by_key, groups.waiting, groups.held) == ({}, 0, 0)


def test_a_process_at_its_maximum_has_no_group_for_one_more() -> None:
    groups = Groups(room=1)
    assert groups.enqueue(claim(), 1.0, ()) is not None
    assert groups.find(claim()) is None
    assert groups.enqueue(claim(), 2.0, ()) is None


def test_all_groups_are_found_or_none_is_kept() -> None:
    groups, capacity = Groups(room=8), Capacity(8, 64 << 20)
    one, other = claim(), claim(group=b"h" * 16)
    too_large = claim(group=b"i" * 16)._replace(memory=1 << 40)
    for unsatisfiable in ([one] * 9, [one, other, too_large]):
        assert groups.find_all(Load(capacity), unsatisfiable) is None
        assert groups.by_key == {}
    found = groups.find_all(Load(capacity), [one, other])
    assert found is not None
    assert [group.claim for group in found] == [one, other]
    assert groups.held == 0, "a group that was found does not run yet"
