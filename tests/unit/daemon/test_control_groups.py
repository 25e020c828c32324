"""The kernel's counters, read from either version of control groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from storlet_daemon.control_groups import LEFT_SECONDS, ControlGroup, Counter


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="ascii")


@pytest.mark.parametrize("directory", ["", "group"])
def test_counts_of_version_2(tmp_path: Path, directory: str) -> None:
    place = tmp_path / directory
    write(place / "memory.events", "low 0\nhigh 0\nmax 7\noom 3\noom_kill 2\noom_group_kill 0\n")
    write(place / "memory.events.local", "low 0\nhigh 0\nmax 7\noom 1\noom_kill 2\n")
    write(place / "memory.stat", "anon 10\nfile 20\nshmem 4096\n")
    write(place / "pids.events", "max 5\n")
    write(place / "cpu.stat", "usage_usec 2500000\nuser_usec 1\n")
    group = ControlGroup(directory, str(tmp_path))
    assert (group.kills(), group.scratch_bytes(), group.refused_forks()) == (2, 4096, 5)
    assert group.cpu_seconds() == 2.5
    assert group.has_been_full(64 << 20)
    write(place / "memory.events.local", "low 0\nhigh 0\nmax 7\noom 0\noom_kill 2\n")
    assert not group.has_been_full(64 << 20)


@pytest.mark.parametrize("directory", ["", "group"])
def test_counts_of_version_1(tmp_path: Path, directory: str) -> None:
    memory = tmp_path / "memory" / directory
    write(memory / "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    write(memory / "memory.max_usage_in_bytes", f"{60 << 20}\n")
    write(memory / "memory.stat", "cache 20\nrss 10\nshmem 4096\ntotal_shmem 1\n")
    write(tmp_path / "pids" / directory / "pids.events", "max 5\n")
    write(tmp_path / "cpuacct" / directory / "cpuacct.usage", "2500000000\n")
    group = ControlGroup(directory, str(tmp_path))
    assert (group.kills(), group.scratch_bytes(), group.refused_forks()) == (2, 4096, 5)
    assert group.cpu_seconds() == 2.5
    assert group.has_been_full(63 << 20)
    assert not group.has_been_full(65 << 20)


def test_unreadable_counters_count_as_zero(tmp_path: Path) -> None:
    write(tmp_path / "memory.events", "oom_kill soup\n")
    group = ControlGroup("", str(tmp_path))
    assert (group.kills(), group.scratch_bytes(), group.refused_forks()) == (0, 0, 0)
    assert not group.has_been_full(64 << 20)
    assert group.cpu_seconds() == 0


def test_each_event_is_taken_once_and_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    count, now = 5, 100.0
    monkeypatch.setattr("storlet_daemon.control_groups.time.monotonic", lambda: now)
    counter = Counter(lambda: count)
    assert not counter.take_one()
    count += 2
    assert [counter.take_one() for _ in range(3)] == [True, True, False]
    count += 3
    assert counter.take_one()
    now += LEFT_SECONDS
    assert not counter.take_one(), "the others were not of workers"
    count += 1
    assert [counter.take_one() for _ in range(2)] == [True, False]


def test_a_counter_reports_growth_once() -> None:
    counts = iter([3, 3, 4, 4, 0])
    counter = Counter(lambda: next(counts))
    assert [counter.has_grown() for _ in range(4)] == [False, True, False, False]
