"""Requests to Swift for records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from swift.common.swob import Response

from storlet_middleware.errors import BackendFailed
from storlet_middleware.records.batches import name_of_key
from storlet_middleware.wsgi.swift_paths import AccountPath
from tests.unit.middleware.records.made import ACCOUNT_PATH, NOON, record, store_of, write
from tests.unit.middleware.support import ACCOUNT, FakeSwift

NAME = name_of_key("20261123T190000.000000Z-0123456789ab")
LOGS = f"/v1/{ACCOUNT}/storletlog"


def answering(status: int) -> Any:
    return lambda request: Response(status=status, request=request)


def test_a_missing_container_is_made(swift: FakeSwift, short_dir: Path) -> None:
    store = store_of(swift, short_dir)
    assert store.names({}, ACCOUNT_PATH, {}, 10) == []
    (batch,) = write(store, record())
    assert [(seen.method, seen.path) for seen in swift.requests("PUT")] == [
        ("PUT", f"{LOGS}/{batch.name}"), ("PUT", LOGS), ("PUT", f"{LOGS}/{batch.name}"),
    ]  # fmt: skip
    stored = swift.containers["storletlog"].objects[batch.name]
    assert stored.headers["X-Object-Sysmeta-Storlet-Records"] == "true"
    assert stored.headers["X-Delete-After"] == str(14 * 86400)
    assert store.read({}, ACCOUNT_PATH, batch.name) == batch.body()
    assert {seen.source for seen in swift.seen} == {"ST"}


@pytest.mark.parametrize(("days", "header"), [("0", None), ("3", "259200")])
def test_records_expire_after_their_days(
    swift: FakeSwift, short_dir: Path, days: str, header: str | None
) -> None:
    store = store_of(swift, short_dir, storlet__records_days=days)
    (batch,) = write(store, record())
    stored = swift.containers["storletlog"].objects[batch.name]
    assert stored.headers.get("X-Delete-After") == header


def test_a_refusal_is_returned(swift: FakeSwift, short_dir: Path) -> None:
    store = store_of(swift, short_dir)
    swift.hooks["PUT", LOGS] = answering(507)
    assert store.write({}, ACCOUNT_PATH, NAME, b"x") == 507


def test_only_objects_of_the_system_are_listed_and_read(swift: FakeSwift, short_dir: Path) -> None:
    store = store_of(swift, short_dir)
    (batch,) = write(store, record())
    swift.put("storletlog", ".runs/mine", b"{}")
    swift.put("storletlog", "up.py/tx.log", b"log")
    swift.put("storletlog", NAME, b'{"id": "forged"}')
    assert (
        store.names({}, ACCOUNT_PATH, {"reverse": "true"}, 10) == sorted([batch.name, NAME])[::-1]
    )
    assert store.read({}, ACCOUNT_PATH, NAME) == b""
    assert store.read({}, ACCOUNT_PATH, name_of_key("20261123T190000.000000Z-000000000000")) == b""
    assert swift.unclosed() == 0


def test_the_bounds_of_a_listing_are_swifts(swift: FakeSwift, short_dir: Path) -> None:
    store = store_of(swift, short_dir)
    names = [write(store, record(time=NOON + number))[0].name for number in range(5)]
    assert store.names({}, ACCOUNT_PATH, {"marker": names[1]}, 2) == names[2:4]
    found = store.names({}, ACCOUNT_PATH, {"reverse": "true", "marker": names[3]}, 9)
    assert found == names[2::-1]


@pytest.mark.parametrize("status", [500, 503, 507])
def test_records_that_swift_cannot_give_are_an_error(
    swift: FakeSwift, short_dir: Path, status: int
) -> None:
    store = store_of(swift, short_dir)
    (batch,) = write(store, record())
    swift.hooks["GET", f"{LOGS}/{batch.name}"] = answering(status)
    with pytest.raises(BackendFailed):
        store.read({}, ACCOUNT_PATH, batch.name)
    swift.hooks["GET", LOGS] = answering(status)
    with pytest.raises(BackendFailed):
        store.names({}, ACCOUNT_PATH, {}, 10)


def test_a_short_body_is_an_error(swift: FakeSwift, short_dir: Path) -> None:
    store = store_of(swift, short_dir)
    (batch,) = write(store, record())
    stored = swift.containers["storletlog"].objects[batch.name]
    stored.chunks = lambda: [stored.body[:-1]]
    with pytest.raises(BackendFailed):
        store.read({}, ACCOUNT_PATH, batch.name)


def test_an_object_is_read_once(swift: FakeSwift, short_dir: Path) -> None:
    store = store_of(swift, short_dir)
    (batch,) = write(store, record())
    assert [store.read({}, ACCOUNT_PATH, batch.name) for _ in range(2)] == [batch.body()] * 2
    assert len(swift.requests("GET")) == 1
    # A deleted object is in no listing, and the object of another account is another one.
    del swift.containers["storletlog"].objects[batch.name]
    assert store.names({}, ACCOUNT_PATH, {}, 10) == []
    assert store.read({}, AccountPath("v1", "AUTH_other"), batch.name) == b""


def test_memory_of_objects_is_bounded(
    swift: FakeSwift, short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of(swift, short_dir)
    batches = [write(store, record(time=NOON + number))[0] for number in range(3)]
    size = len(batches[0].body())
    monkeypatch.setattr("storlet_middleware.records.store._RECENT_BYTES", 2 * size)
    store = store_of(swift, short_dir)

    def reads(*numbers: int) -> int:
        before = len(swift.requests("GET"))
        for number in numbers:
            assert store.read({}, ACCOUNT_PATH, batches[number].name) == batches[number].body()
        return len(swift.requests("GET")) - before

    assert reads(0, 1, 0) == 2
    # The one that was read least recently makes room.
    assert (reads(2), reads(0), reads(1)) == (1, 0, 1)
    monkeypatch.setattr("storlet_middleware.records.store._RECENT_OBJECT_BYTES", size - 1)
    assert (reads(2), reads(2)) == (1, 1)
