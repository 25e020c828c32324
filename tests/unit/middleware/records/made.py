"""Records and requests of the tests in this folder."""

from __future__ import annotations

from typing import Any

from storlet_middleware.records.batches import Batch, batches_of
from storlet_middleware.records.follow import Stores
from storlet_middleware.records.record import Record, StorletRef
from storlet_middleware.records.store import RecordStore
from storlet_middleware.wsgi.swift_paths import AccountPath
from tests.unit.middleware.support import ACCOUNT, FakeSwift, make_config

ACCOUNT_PATH = AccountPath("v1", ACCOUNT)
#: 2026-11-23T19:00:00Z.
NOON = 1795460400.0


def record(number: int = 0, time: float = NOON, **changes: Any) -> Record:
    given: dict[str, Any] = {
        "id": f"tx{number:021x}-{int(time):010x}-1",
        "time": time,
        "account": ACCOUNT,
        "storlets": (StorletRef("up.py", "5f" * 32),),
        "caller": "test:tester",
        "method": "GET",
        "object": "c/o",
        "code": "ok",
        "total_seconds": 0.25,
    }
    return Record(**(given | changes))


def store_of(swift: FakeSwift, directory: Any, **options: str) -> RecordStore:
    return RecordStore(swift, make_config(directory, **options))


def stores_of(swift: FakeSwift, directory: Any) -> Stores:
    return Stores(swift, make_config(directory))


def write(store: RecordStore, *records: Record) -> list[Batch]:
    """Store ``records`` in one object, or in several if they span too much time."""
    batches = list(batches_of(ACCOUNT_PATH, records))
    for batch in batches:
        assert store.write({}, ACCOUNT_PATH, batch.name, batch.body()) == 201
    return batches
