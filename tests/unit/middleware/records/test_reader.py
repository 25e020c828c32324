"""Pages of records: complete, without repetition, with bounded work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storlet_middleware.errors import BackendFailed
from storlet_middleware.records import reader
from storlet_middleware.records.query import Query
from storlet_middleware.records.reader import RecordReader
from storlet_middleware.records.record import Record, Viewer
from storlet_middleware.records.store import RecordStore
from tests.unit.middleware.records.made import ACCOUNT_PATH, NOON, record, store_of, write
from tests.unit.middleware.support import FakeSwift

OWNER = Viewer(is_owner=True)


@pytest.fixture
def store(swift: FakeSwift, short_dir: Path) -> RecordStore:
    return store_of(swift, short_dir)


def pages(store: RecordStore, query: Query, viewer: Viewer = OWNER) -> Iterator[list[Any]]:
    for _ in range(200):
        page = RecordReader(store, {}, ACCOUNT_PATH, viewer).page(query)
        yield page.records
        if page.next is None:
            return
        query = replace(query, marker=page.next)
    raise AssertionError("the pages have no end")


def ids(store: RecordStore, query: Query, viewer: Viewer = OWNER) -> list[str]:
    return [found["id"] for page in pages(store, query, viewer) for found in page]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(
    written=st.lists(
        st.lists(st.integers(0, 40_000), min_size=1, max_size=6), min_size=1, max_size=8
    ),
    limit=st.integers(1, 9),
    bounds=st.tuples(st.integers(0, 41_000), st.integers(0, 41_000)),
    objects=st.integers(1, 4),
)
def test_the_pages_have_each_record_of_the_period_once(
    short_dir: Path, written: list[list[int]], limit: int, bounds: tuple[int, int], objects: int
) -> None:
    store = store_of(FakeSwift(), short_dir)
    records: list[Record] = []
    for times in written:
        batch = [record(len(records) + n, NOON + ms / 1000) for n, ms in enumerate(times)]
        records += batch
        write(store, *batch)
    since, until = (NOON + ms / 1000 for ms in bounds)
    query = Query(limit=limit, since=since, until=until)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "MAX_OBJECTS", objects)
        found = ids(store, query)
    expected = [each.id for each in records if since <= each.time < until]
    assert sorted(found) == sorted(expected)


def test_a_page_is_newest_first_also_across_objects(store: RecordStore) -> None:
    write(store, record(1, NOON), record(4, NOON + 3))
    write(store, record(2, NOON + 1), record(3, NOON + 2))
    (page,) = pages(store, Query())
    times = [found["time"] for found in page]
    assert times == sorted(times, reverse=True)
    assert len(times) == 4


def test_the_work_of_a_request_is_bounded(
    store: RecordStore, swift: FakeSwift, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "MAX_OBJECTS", 3)
    for number in range(7):
        write(store, record(number, NOON + 10 * number))
    swift.seen.clear()
    page = RecordReader(store, {}, ACCOUNT_PATH, OWNER).page(Query(storlet="none.py"))
    assert page.records == []
    assert page.next is not None
    assert len(swift.requests("GET")) == 4  # a listing and three objects
    assert len(list(pages(store, Query(storlet="none.py")))) == 3


def test_the_bytes_of_a_request_are_bounded(
    store: RecordStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "MAX_BYTES", 1)
    for number in range(3):
        write(store, record(number, NOON + 10 * number))
    assert [len(page) for page in pages(store, Query())] == [1, 1, 1, 0]


def test_a_caller_gets_its_own_runs(store: RecordStore) -> None:
    write(store, record(1), record(2, caller="test:bob"), record(3, caller=""))
    bob = Viewer(False, "test:bob")
    assert ids(store, Query(), bob) == [record(2).id]
    assert RecordReader(store, {}, ACCOUNT_PATH, bob).find(Query(id=record(1).id)).records == []
    assert RecordReader(store, {}, ACCOUNT_PATH, bob).find(Query(id=record(2).id)).records != []


@pytest.mark.parametrize("ran_seconds", [0, 3600])
def test_a_record_is_found_by_its_id_from_the_start_of_the_request_on(
    store: RecordStore, swift: FakeSwift, ran_seconds: int
) -> None:
    for number in range(20):
        write(store, record(number, NOON - 1000 + number))
    wanted = replace(record(99, NOON), time=NOON + ran_seconds)
    write(store, wanted)
    swift.seen.clear()
    page = RecordReader(store, {}, ACCOUNT_PATH, OWNER).find(Query(id=wanted.id))
    assert [found["id"] for found in page.records] == [wanted.id]
    assert len(swift.requests("GET")) == 2


def test_a_search_by_id_continues_from_its_marker(
    store: RecordStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "MAX_OBJECTS", 2)
    for number in range(5):
        write(store, record(number, NOON + 10 * number))
    query = Query(id=replace(record(4, NOON + 40), id="other").id)
    for _ in range(2):
        page = RecordReader(store, {}, ACCOUNT_PATH, OWNER).find(query)
        assert (page.records, page.next is None) == ([], False)
        query = replace(query, marker=page.next)
    assert RecordReader(store, {}, ACCOUNT_PATH, OWNER).find(query).next is None


@pytest.mark.parametrize("line", [b"{", b"[]\n"])
def test_a_damaged_object_is_an_error_and_no_shorter_page(store: RecordStore, line: bytes) -> None:
    (batch,) = write(store, record())
    assert store.write({}, ACCOUNT_PATH, batch.name, batch.body() + line) == 201
    with pytest.raises(BackendFailed):
        list(pages(store, Query()))


def test_objects_of_others_make_no_page_smaller(
    store: RecordStore, swift: FakeSwift, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "MAX_OBJECTS", 2)
    records = [record(number, NOON + number * 10) for number in range(4)]
    for each in records:
        write(store, each)
    for name in (".runs/20261123T190015-mine", ".runs/mine"):
        swift.put("storletlog", name, b"{}")
    assert sorted(ids(store, Query())) == sorted(each.id for each in records)
    for number in range(20):
        swift.put("storletlog", f".runs/a{number}", b"{}")
    with pytest.raises(BackendFailed, match="too many other objects"):
        ids(store, Query())
