"""Streams of records: each once, none from before, bounded."""

from __future__ import annotations

import json
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from swift.common.swob import Response

from storlet_middleware.errors import BackendFailed, NodeBusy, TenantBusy
from storlet_middleware.records import follow, reader
from storlet_middleware.records.follow import Follow, Followers, Interval, Stores
from storlet_middleware.records.query import Query
from storlet_middleware.records.record import Viewer
from storlet_middleware.records.store import RecordStore
from storlet_middleware.wsgi.swift_paths import AccountPath
from tests.unit.middleware.records.made import (
    ACCOUNT_PATH,
    NOON,
    record,
    store_of,
    stores_of,
    write,
)
from tests.unit.middleware.support import ACCOUNT, FakeSwift, Proxy

LOGS = f"/v1/{ACCOUNT}/storletlog"


@pytest.fixture
def store(swift: FakeSwift, short_dir: Path) -> RecordStore:
    return store_of(swift, short_dir)


@pytest.fixture
def stores(swift: FakeSwift, short_dir: Path) -> Stores:
    return stores_of(swift, short_dir)


def following(stores: Stores, viewer: Viewer | None = None) -> Follow:
    environ = {"PATH_INFO": f"/v1/{ACCOUNT}"}
    return Follow(stores, environ, ACCOUNT_PATH, viewer or Viewer(is_owner=True), lambda: NOON)


def new(stream: Follow, **query: Any) -> list[Any]:
    lines = [json.loads(line) for line in stream.poll(Query(**query))]
    return [line.get("id", line) for line in lines]


def test_each_new_record_comes_once_and_none_from_before(
    store: RecordStore, stores: Stores
) -> None:
    write(store, record(1, NOON - 1))
    stream = following(stores)
    assert new(stream) == []
    write(store, record(2, NOON + 1), record(3, NOON + 2))
    assert new(stream) == [record(2, NOON + 1).id, record(3, NOON + 2).id]
    assert new(stream) == []
    # A slower process lists an older object later.
    write(store, record(4, NOON + 0.5))
    assert new(stream) == [record(4, NOON + 0.5).id]


def test_a_record_of_before_in_a_new_object_is_left_out(store: RecordStore, stores: Stores) -> None:
    stream = following(stores)
    write(store, record(1, NOON - 1), record(2, NOON + 1))
    assert new(stream) == [record(2, NOON + 1).id]


def test_a_stream_has_what_the_query_and_the_caller_include(
    store: RecordStore, stores: Stores
) -> None:
    stream = following(stores, Viewer(False, "test:bob"))
    own = record(2, NOON + 1, caller="test:bob", code="storlet.failed")
    write(store, record(1, NOON + 1), own, record(3, NOON + 1, caller="test:bob"))
    assert new(stream, outcome="failed") == [own.id]


def test_too_many_objects_are_skipped_and_counted(
    store: RecordStore, stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "_OBJECTS", 2)
    stream = following(stores)
    for number in range(5):
        write(store, record(number, NOON + 1 + number))
    newest = [record(number, NOON + 1 + number).id for number in (3, 4)]
    assert new(stream) == [*newest, {"skipped_objects": 3}]
    assert new(stream) == []


def test_a_poll_that_fails_is_repeated_and_then_breaks_the_stream(
    store: RecordStore, stores: Stores, swift: FakeSwift, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "_POLL_SECONDS", 0)
    lines = following(stores).lines(Query())
    assert next(lines) == b"\n"
    swift.hooks["GET", LOGS] = lambda request: Response(status=503, request=request)
    write(store, record(1, NOON + 1))
    assert next(lines) == b"\n"
    del swift.hooks["GET", LOGS]
    assert json.loads(next(lines))["id"] == record(1, NOON + 1).id
    swift.hooks["GET", LOGS] = lambda request: Response(status=503, request=request)
    with pytest.raises(BackendFailed):
        list(lines)


def test_a_stream_ends(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "_POLL_SECONDS", 0)
    monkeypatch.setattr(follow, "MAX_SECONDS", 0.05)
    assert set(following(stores).lines(Query())) == {b"\n"}


@pytest.mark.parametrize(
    ("at", "took", "has_new", "seconds"),
    [
        (1, 0.005, False, 1.0),
        (6, 0.005, False, 2.0),
        (6, 0.005, True, 1.0),
        (1, 0.015, True, 1.5),
        (6, 0.015, False, 2.0),
        (6, 0.4, False, 3.0),
    ],
)
def test_a_stream_polls_less_often_if_it_has_nothing_new_or_polls_are_slow(
    monkeypatch: pytest.MonkeyPatch, at: float, took: float, has_new: bool, seconds: float
) -> None:
    clock = [100.0]
    monkeypatch.setattr(follow, "monotonic", lambda: clock[0])
    interval = Interval()
    assert interval.seconds == 1.0
    clock[0] += at
    interval.update(clock[0] - took, has_new=has_new)
    assert interval.seconds == pytest.approx(seconds)
    if has_new:
        clock[0] += 4
        interval.update(clock[0], has_new=False)
        assert interval.seconds == 1.0


def test_after_a_longer_interval_more_objects_are_read(
    store: RecordStore, stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "_OBJECTS", 2)
    monkeypatch.setattr(follow, "_POLL_SECONDS", 1.5)
    stream = following(stores)
    for number in range(5):
        write(store, record(number, NOON + 1 + number))
    newest = [record(number, NOON + 1 + number).id for number in (2, 3, 4)]
    assert new(stream) == [*newest, {"skipped_objects": 2}]


def test_a_stream_of_a_client_that_has_disconnected_ends_without_a_poll(
    stores: Stores, swift: FakeSwift, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "_POLL_SECONDS", 0)
    here, there = socket.socketpair()

    class Input:
        def get_socket(self) -> socket.socket:
            return here

    environ = {"PATH_INFO": f"/v1/{ACCOUNT}", "eventlet.input": Input()}
    with here:
        lines = Follow(stores, environ, ACCOUNT_PATH, Viewer(is_owner=True)).lines(Query())
        assert [next(lines), next(lines)] == [b"\n"] * 2
        there.close()
        polls = len(swift.requests("GET", LOGS))
        assert list(lines) == []
    assert len(swift.requests("GET", LOGS)) == polls == 2


def test_a_container_that_is_made_later_is_seen(stores: Stores, swift: FakeSwift) -> None:
    """Swift caches in the environment of a request that a container does not exist."""
    environ = {"swift.infocache": {"container/x/y": {"status": 404}}}
    caches: list[Any] = []
    swift.hooks["GET", LOGS] = lambda request: caches.append(request.environ.get("swift.infocache"))
    Follow(stores, environ, ACCOUNT_PATH, Viewer(is_owner=True)).poll(Query())
    assert caches == [{}]


def test_the_streams_of_an_account_and_of_a_process_are_bounded() -> None:
    followers = Followers()
    ends = [followers.acquire(ACCOUNT_PATH) for _ in range(4)]
    with pytest.raises(TenantBusy):
        followers.acquire(ACCOUNT_PATH)
    ends.pop()()
    followers.acquire(ACCOUNT_PATH)
    for number in range(28):
        followers.acquire(AccountPath("v1", str(number)))
    with pytest.raises(NodeBusy):
        followers.acquire(AccountPath("v1", "other"))


def test_a_stream_is_an_answer_that_ends_with_its_client(
    proxy: Proxy, store: RecordStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "_POLL_SECONDS", 0)
    answers = [proxy.start("GET", f"/v1/{ACCOUNT}?storlet-runs&follow") for _ in range(4)]
    refused = proxy.call("GET", f"/v1/{ACCOUNT}?storlet-runs&follow")
    assert (refused.status, refused.error) == (429, "tenant.busy")
    first = answers[0]
    assert first.headers["Content-Type"] == "application/jsonl; charset=utf-8"
    chunks = iter(first.app_iter)
    assert next(chunks) == b"\n"
    write(store, replace(record(1), time=4e9))
    assert json.loads(next(chunks))["id"] == record(1).id
    for answer in answers:
        answer.app_iter.close()
    again = proxy.start("GET", f"/v1/{ACCOUNT}?storlet-runs&follow")
    assert again.status == 200
    again.app_iter.close()


def test_a_stream_is_of_all_records_from_now_on(proxy: Proxy) -> None:
    answer = proxy.call("GET", f"/v1/{ACCOUNT}?storlet-runs&follow&limit=3&since=1")
    assert answer.status == 400
    for name in ("limit", "since"):
        assert f"{name}: not supported with follow: leave it out".encode() in answer.data


def put_lines(store: RecordStore, name: str, *rows: dict[str, Any]) -> None:
    body = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    assert store.write({}, ACCOUNT_PATH, f".lines/{name}-0123456789ab.jsonl", body) == 201


def row(number: int, storlet: str = "up.py") -> dict[str, Any]:
    time = f"2026-11-23T19:00:0{number}.000000Z"
    return {"id": f"tx-{number}", "time": time, "storlet": storlet, "lines": f"{number}\n"}


def test_lines_come_before_records_and_only_if_they_are_requested(
    store: RecordStore, stores: Stores, swift: FakeSwift
) -> None:
    stream, without = following(stores), following(stores)
    put_lines(stores.lines, "20261123T190003.000000Z", row(1), row(2, "other.py"), {
        "time": "2026-11-23T19:00:02Z", "skipped_bytes": 7,
    })  # fmt: skip
    write(store, record(2, NOON + 1))
    found = new(stream, lines=True, storlet="up.py")
    assert found == ["tx-1", {"time": "2026-11-23T19:00:02Z", "skipped_bytes": 7},
                     record(2, NOON + 1).id]  # fmt: skip
    assert new(stream, lines=True) == []
    assert len(swift.requests("POST", ACCOUNT)) == 1
    assert new(without) == [record(2, NOON + 1).id]


def test_a_caller_that_is_not_the_owner_gets_no_lines(
    proxy: Proxy, stores: Stores, swift: FakeSwift
) -> None:
    put_lines(stores.lines, "20261123T190003.000000Z", row(1))
    assert new(following(stores, Viewer(False, "test:bob")), lines=True) == []
    swift.seen.clear()
    refused = proxy.call("GET", f"/v1/{ACCOUNT}?storlet-runs&follow&lines", user="test:bob")
    assert refused.status == 403
    assert swift.requests("POST") == []


def test_a_poll_that_fails_after_the_records_repeats_them(
    store: RecordStore, stores: Stores, swift: FakeSwift
) -> None:
    stream = following(stores)
    write(store, record(2, NOON + 1))
    put_lines(stores.lines, "20261123T190003.000000Z", row(1))
    path = f"{LOGS}/.lines/20261123T190003.000000Z-0123456789ab.jsonl"
    swift.hooks["GET", path] = lambda request: Response(status=503, request=request)
    with pytest.raises(BackendFailed):
        stream.poll(Query(lines=True))
    del swift.hooks["GET", path]
    assert new(stream, lines=True) == ["tx-1", record(2, NOON + 1).id]


def test_a_stream_misses_none_of_an_account_that_many_processes_serve(
    store: RecordStore, stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "_OBJECTS", 200)
    stream = following(stores)
    for number in range(150):
        write(store, record(number, NOON + 1 + number / 100))
    assert new(stream) == [record(number, NOON + 1 + number / 100).id for number in range(150)]


def test_the_bytes_of_a_poll_are_bounded(
    store: RecordStore, stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "MAX_BYTES", 1500)
    stream = following(stores)
    for number in range(5):
        write(store, record(number, NOON + 1 + number, log="x" * 1000))
    newest = [record(number, NOON + 1 + number).id for number in (3, 4)]
    assert new(stream) == [*newest, {"skipped_objects": 3}]
