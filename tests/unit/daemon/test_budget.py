"""How many workers fit into a sandbox."""

from __future__ import annotations

from pathlib import Path

import pytest

from storlet_daemon import budget
from storlet_daemon.budget import MIB, Budget, Cost

WORKER = Cost(tasks=10, memory_bytes=20 * MIB)


def test_workers_fit_up_to_the_limit_and_not_beyond() -> None:
    assert Budget(tasks=30, memory_bytes=0).holds([WORKER] * 3)
    assert not Budget(tasks=30, memory_bytes=0).holds([WORKER] * 4)
    assert not Budget(tasks=0, memory_bytes=50 * MIB).holds([WORKER] * 3)


def test_no_limit_holds_everything() -> None:
    assert Budget(tasks=0, memory_bytes=0).holds([WORKER] * 10_000)


def test_limits_are_read_from_whichever_control_groups_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks, memory = tmp_path / "pids.max", tmp_path / "memory.max"
    tasks.write_text("500\n", encoding="ascii")
    memory.write_text("max\n", encoding="ascii")
    monkeypatch.setattr(budget, "TASKS_FILES", (str(tmp_path / "absent"), str(tasks)))
    monkeypatch.setattr(budget, "MEMORY_FILES", (str(memory),))
    assert Budget.of_this_sandbox() == Budget(tasks=400, memory_bytes=0)
