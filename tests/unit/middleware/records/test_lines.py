"""Log lines of running storlets: stored only if they are followed, and within bounds."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from swift.common.swob import Response

from storlet_middleware.engine.log_pieces import LogPiece
from storlet_middleware.records import lines
from storlet_middleware.records.lines import LogLines
from tests.unit.middleware.logger import Logger
from tests.unit.middleware.records.made import ACCOUNT_PATH
from tests.unit.middleware.records.test_followed import PATH, marked
from tests.unit.middleware.support import FakeSwift, make_config, wait_until

Tell = Callable[[LogPiece], None]


@pytest.fixture
def log_lines(swift: FakeSwift, short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> LogLines:
    monkeypatch.setattr(lines, "_INTERVAL_SECONDS", 0.02)
    monkeypatch.setattr(lines, "_IDLE_SECONDS", 0.1)
    return LogLines(swift, make_config(short_dir), Logger())


@pytest.fixture
def tell(log_lines: LogLines) -> Tell:
    return log_lines.receiver({}, ACCOUNT_PATH, "tx-1", "up.py")


def stored(swift: FakeSwift) -> list[dict[str, Any]]:
    container = swift.containers.get("storletlog")
    objects = container.objects if container else {}
    return [json.loads(row) for name in sorted(objects) for row in objects[name].body.splitlines()]


def follow(swift: FakeSwift) -> None:
    marked(swift, str(int(time.time()) + 900))


def settled(log_lines: LogLines) -> bool:
    return wait_until(lambda: not log_lines._waiting) and log_lines._bytes == 0


def test_lines_of_a_followed_account_are_stored_and_expire(
    swift: FakeSwift, log_lines: LogLines, tell: Tell
) -> None:
    follow(swift)
    tell(LogPiece("one\n"))
    assert swift.seen == []  # nothing on the path of a run
    tell(LogPiece("two\n", 70))
    assert wait_until(lambda: len(stored(swift)) == 2)
    first, second = stored(swift)
    assert (first["id"], first["storlet"], first["lines"]) == ("tx-1", "up.py", "one\n")
    assert (second["lines"], second["skipped_bytes"]) == ("two\n", 70)
    (name,) = swift.containers["storletlog"].objects
    assert name.startswith(".lines/2")
    put = swift.requests("PUT", name)[-1]
    assert put.headers["X-Delete-After"] == "600"
    assert settled(log_lines)


def test_an_account_without_followers_costs_one_lookup_in_some_seconds(
    swift: FakeSwift, log_lines: LogLines, tell: Tell
) -> None:
    for _ in range(20):
        tell(LogPiece("x" * 4000))
        assert wait_until(lambda: log_lines._bytes == 0)
    assert [seen.method for seen in swift.seen] == ["HEAD"]
    assert settled(log_lines)


def test_a_follower_that_comes_later_gets_the_lines_from_then_on(
    swift: FakeSwift, log_lines: LogLines, tell: Tell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "_CHECK_SECONDS", 0)
    tell(LogPiece("before\n"))
    assert wait_until(lambda: log_lines._bytes == 0)
    follow(swift)
    tell(LogPiece("after\n"))
    assert wait_until(lambda: [row["lines"] for row in stored(swift)] == ["after\n"])
    # The follower leaves, and the mark ends.
    marked(swift, "1")
    tell(LogPiece("unseen\n"))
    assert settled(log_lines)
    assert len(stored(swift)) == 1


def test_too_many_lines_are_left_out_and_counted(
    swift: FakeSwift, log_lines: LogLines, tell: Tell
) -> None:
    follow(swift)
    for _ in range(100):
        tell(LogPiece("x" * 4000, 6))
    assert wait_until(lambda: stored(swift))
    rows = stored(swift)
    kept = sum(len(row.get("lines", "")) for row in rows)
    assert kept < 64 << 10
    assert kept + sum(row.get("skipped_bytes", 0) for row in rows) == 100 * 4006
    assert set(rows[-1]) == {"time", "skipped_bytes"}
    assert settled(log_lines)


def test_lines_that_cannot_be_written_are_counted_in_the_next_object(
    swift: FakeSwift, log_lines: LogLines, tell: Tell
) -> None:
    follow(swift)
    container = f"{PATH}/storletlog"
    swift.hooks["PUT", container] = lambda request: Response(status=507, request=request)
    tell(LogPiece("lost\n"))
    assert wait_until(lambda: len(swift.requests("PUT", container)) >= 2)
    del swift.hooks["PUT", container]
    assert wait_until(lambda: [row.get("skipped_bytes") for row in stored(swift)] == [5])
    assert settled(log_lines)


def test_a_lookup_that_fails_drops_lines_and_fails_nothing(
    swift: FakeSwift, log_lines: LogLines, tell: Tell
) -> None:
    def fail(request: Any) -> Any:
        raise RuntimeError("no")

    swift.hooks["HEAD", PATH] = fail
    tell(LogPiece("line\n"))
    assert settled(log_lines)
    assert stored(swift) == []


def test_all_accounts_of_a_process_are_bounded(
    swift: FakeSwift, log_lines: LogLines, tell: Tell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "_PROCESS_BYTES", 1000)
    tell(LogPiece("x" * 700))
    tell(LogPiece("x" * 700))
    assert log_lines._bytes < 1000
    assert settled(log_lines)
