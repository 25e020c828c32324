"""The lock of a fetch is kept by a holder that makes progress.

:mod:`.test_code_cache` has the one that stalls.
"""

from __future__ import annotations

from pathlib import Path

import eventlet
import pytest

from storlet_middleware.engine import fetch_lock
from tests.unit.middleware.engine.storlet_code import left
from tests.unit.middleware.logger import Logger


def test_holder_that_makes_progress_keeps_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_lock, "STALL_SECONDS", 0.2)
    monkeypatch.setattr(fetch_lock, "_MARK_SECONDS", 0.0)
    order: list[str] = []

    def hold(name: str, marks: int) -> None:
        lock = fetch_lock.FetchLock(tmp_path / "lock", Logger())
        with lock.held():
            order.append(name)
            for _ in range(marks):
                lock.mark()
                eventlet.sleep(0.05)
            order.append(name)

    tasks = [eventlet.spawn(hold, name, 10) for name in ("first", "second")]
    for task in tasks:
        task.wait()
    assert order == ["first", "first", "second", "second"]
    assert left(tmp_path) == []
