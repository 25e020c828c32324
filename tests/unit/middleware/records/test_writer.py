"""The writer of records: batches, repeated writes, and losses that fail nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import eventlet
import pytest
from swift.common.swob import Response

from storlet_middleware.records import queue
from storlet_middleware.records.writer import Writer
from storlet_middleware.wsgi.swift_paths import AccountPath
from tests.unit.middleware.logger import Logger
from tests.unit.middleware.records.made import ACCOUNT_PATH, record
from tests.unit.middleware.support import ACCOUNT, FakeSwift, make_config, wait_until

LOGS = f"/v1/{ACCOUNT}/storletlog"
Make = Callable[..., Writer]


@pytest.fixture
def logger() -> Logger:
    return Logger()


@pytest.fixture
def make(swift: FakeSwift, short_dir: Path, logger: Logger) -> Make:
    return lambda seconds=0.05: Writer(swift, make_config(short_dir), logger, seconds)


def lines(swift: FakeSwift) -> int:
    container = swift.containers.get("storletlog")
    objects = container.objects.values() if container else ()
    return sum(len(stored.body.splitlines()) for stored in objects)


def test_records_are_written_together_soon(swift: FakeSwift, make: Make) -> None:
    writer = make()
    for number in range(20):
        writer.keep({}, ACCOUNT_PATH, record(number))
    assert swift.seen == []  # nothing on the path of a request
    assert wait_until(lambda: lines(swift) == 20)
    assert len(swift.containers["storletlog"].objects) == 1
    assert wait_until(lambda: writer._task is None)
    writer.keep({}, ACCOUNT_PATH, record(20))
    assert wait_until(lambda: lines(swift) == 21)


def test_records_wait_for_the_interval_when_the_early_objects_are_used_up(
    swift: FakeSwift, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storlet_middleware.records.writer.EARLY", 2)
    writer, began = make(1.0), time.monotonic()
    for number in range(3):
        writer.keep({}, ACCOUNT_PATH, record(number))
        assert wait_until(lambda number=number: lines(swift) == number + 1)  # type: ignore[misc]
    assert time.monotonic() - began < 2, "one object, and two early ones"
    for number in range(3, 6):
        writer.keep({}, ACCOUNT_PATH, record(number))
    assert wait_until(lambda: lines(swift) == 6)
    assert time.monotonic() - began > 1
    assert len(swift.containers["storletlog"].objects) == 4


def test_the_interval_bounds_the_wait_of_a_record(swift: FakeSwift, make: Make) -> None:
    writer = make(0.05)
    for number in range(50):
        writer.keep({}, ACCOUNT_PATH, record(number))
        writer.flush()
    began = time.monotonic()
    writer.keep({}, ACCOUNT_PATH, record(50))
    assert wait_until(lambda: lines(swift) == 51)
    assert time.monotonic() - began < 0.5


def test_a_flush_returns_when_all_is_written(swift: FakeSwift, make: Make) -> None:
    writer = make()
    writer.keep({}, ACCOUNT_PATH, record())
    writer.flush()
    assert lines(swift) == 1


def test_requests_of_the_writer_use_swifts_cache_and_have_an_id(
    swift: FakeSwift, make: Make
) -> None:
    seen: list[dict[str, Any]] = []
    swift.hooks["PUT", LOGS] = lambda request: seen.append(dict(request.environ))
    writer, cache = make(), object()
    writer.keep({"swift.cache": cache}, ACCOUNT_PATH, record())
    writer.flush()
    (environ,) = seen
    assert environ["swift.cache"] is cache
    assert environ["swift.trans_id"].endswith("-records")


@pytest.mark.parametrize("failure", [503, 507, RuntimeError("no"), eventlet.Timeout(None)])
def test_a_write_that_fails_is_repeated_under_its_name(
    swift: FakeSwift, make: Make, logger: Logger, failure: Any
) -> None:
    swift.put("storletlog", "x")
    attempts: list[str] = []

    def put(request: Any) -> Any:
        if request.method == "PUT" and ".runs/" in request.path and len(attempts) < 2:
            attempts.append(request.path)
            if isinstance(failure, int):
                return Response(status=failure, request=request)
            raise failure
        return FakeSwift.respond(swift, request)

    swift.respond = put  # type: ignore[method-assign]
    writer = make()
    writer.keep({}, ACCOUNT_PATH, record())
    writer.flush()
    assert lines(swift) == 1
    assert len(set(attempts)) == 1
    assert logger.stats == ["storlet.records.written"]


@pytest.mark.parametrize(("status", "attempts"), [(413, 1), (403, 1), (507, 3)])
def test_records_that_swift_refuses_are_lost_counted_and_logged_once(
    swift: FakeSwift, make: Make, logger: Logger, status: int, attempts: int
) -> None:
    swift.hooks["PUT", LOGS] = lambda request: Response(status=status, request=request)
    writer = make()
    for _ in range(2):
        writer.keep({}, ACCOUNT_PATH, record())
        writer.flush()
    assert len(swift.requests("PUT", "/storletlog")) == 2 * attempts
    assert logger.stats == ["storlet.records.lost"] * 2
    assert logger.text == (f"records lost records=1 account={ACCOUNT} why=Swift answered {status}")


def test_a_container_that_does_not_answer_delays_no_other_account(
    swift: FakeSwift, make: Make
) -> None:
    waiting, other = eventlet.event.Event(), AccountPath("v1", "AUTH_stuck")

    def hang(request: Any) -> Any:
        waiting.wait()

    swift.hooks["PUT", "/v1/AUTH_stuck/storletlog"] = hang
    writer = make()
    writer.keep({}, other, record())
    for number in range(5):
        writer.keep({}, ACCOUNT_PATH, record(number))
    assert wait_until(lambda: lines(swift) == 5)
    writer.keep({}, ACCOUNT_PATH, record(6))
    assert wait_until(lambda: lines(swift) == 6)
    waiting.send()


def test_a_full_queue_loses_records_and_fails_nothing(
    make: Make, logger: Logger, swift: FakeSwift, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = make()
    writer._queue = queue.RecordQueue(account_bytes=record().size_bytes)
    for number in range(3):
        writer.keep({}, ACCOUNT_PATH, record(number))
    writer.flush()
    assert lines(swift) == 1
    assert logger.stats.count("storlet.records.lost") == 2
    assert "why=the queue is full" in logger.text
