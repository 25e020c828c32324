"""The bounds of the queue of records."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from storlet_middleware.records.queue import RecordQueue
from storlet_middleware.wsgi.swift_paths import AccountPath
from tests.unit.middleware.records.made import ACCOUNT_PATH, record

OTHER = AccountPath("v1", "AUTH_other")
SIZE = record().size_bytes


def test_records_are_taken_in_their_order() -> None:
    queue = RecordQueue()
    records = [record(number) for number in range(3)]
    assert [queue.add(ACCOUNT_PATH, each) for each in records] == [None] * 3
    assert (len(queue), queue.account_paths) == (1, [ACCOUNT_PATH])
    assert queue.take(ACCOUNT_PATH) == records
    assert len(queue) == 0


def test_an_account_that_floods_loses_its_own_records() -> None:
    queue = RecordQueue(account_bytes=2 * SIZE)
    assert [queue.add(ACCOUNT_PATH, record(number)) for number in range(4)] == [
        None,
        None,
        ACCOUNT_PATH,
        ACCOUNT_PATH,
    ]
    assert queue.add(OTHER, record()) is None
    assert len(queue.take(ACCOUNT_PATH)) == 2
    assert queue.add(ACCOUNT_PATH, record()) is None


def test_the_longest_queue_loses_when_the_process_is_full() -> None:
    queue = RecordQueue(account_bytes=9 * SIZE, process_bytes=3 * SIZE)
    for number in range(3):
        assert queue.add(ACCOUNT_PATH, record(number)) is None
    assert queue.add(OTHER, record()) == ACCOUNT_PATH
    assert (len(queue.take(ACCOUNT_PATH)), len(queue.take(OTHER))) == (2, 1)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3000)), max_size=60))
def test_the_bounds_hold_for_any_records(added: list[tuple[int, int]]) -> None:
    """Every record is kept or its loss reported, and the memory is bounded."""
    queue = RecordQueue(account_bytes=8000, process_bytes=20_000)
    lost = 0
    for account, length in added:
        lost += queue.add(AccountPath("v1", str(account)), record(log="x" * length)) is not None
    kept = {account_path: queue.take(account_path) for account_path in queue.account_paths}
    assert sum(map(len, kept.values())) + lost == len(added)
    sizes = [sum(each.size_bytes for each in records) for records in kept.values()]
    assert all(size <= 8000 for size in sizes)
    assert sum(sizes) <= 20_000 + 4500
    assert len(queue) == 0
