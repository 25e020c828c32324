"""Sweeps: the processes that they kill, and the time of the next one."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Collection
from types import SimpleNamespace

import pytest

from storlet_daemon import kernel, sweeper
from storlet_daemon.sweeper import SWEEP_SECONDS, SWEEPS_MAX, Sweeper


class Machine:
    """The processes that a sweep finds, and the signals that it sends."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.strays: list[int] = []
        self.kept: list[Collection[int]] = []
        self.killed: list[tuple[int, int]] = []
        monkeypatch.setattr(kernel, "strays", self._find)
        monkeypatch.setattr(kernel, "kill", self._kill)

    def _find(self, root: int, kept: Collection[int]) -> list[int]:
        assert root == os.getpid()
        self.kept.append(kept)
        return self.strays

    def _kill(self, pid: int, number: int) -> None:
        self.killed.append((pid, number))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_no_sweep_is_due_before_it_is_requested() -> None:
    made = Sweeper(set)
    assert made.due == math.inf
    made.request()
    assert made.due <= time.monotonic()


def test_sweeps_repeat_until_one_finds_nothing(machine: Machine) -> None:
    made = Sweeper(lambda: {7})
    machine.strays = [11, 12]
    began = time.monotonic()
    made.sweep()
    assert machine.killed == [(11, signal.SIGKILL), (12, signal.SIGKILL)]
    assert began <= made.due - SWEEP_SECONDS <= time.monotonic()
    machine.strays = []
    made.sweep()
    assert len(machine.killed) == 2
    assert made.due == math.inf
    assert machine.kept == [{7}, {7}]


def test_the_kept_processes_are_those_at_the_time_of_the_sweep(machine: Machine) -> None:
    kept = {1}
    made = Sweeper(lambda: set(kept))
    made.sweep()
    kept.add(2)
    made.sweep()
    assert machine.kept == [{1}, {1, 2}]


@pytest.mark.parametrize(("pid", "kills_all"), [(1, True), (2, False)])
def test_process_1_ends_a_fork_bomb_by_killing_every_process(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, pid: int, kills_all: bool
) -> None:
    """Outside of a sandbox, the same call would kill every process of the machine."""
    signals: list[tuple[int, int]] = []
    fake = SimpleNamespace(getpid=lambda: pid, kill=lambda *sent: signals.append(sent))
    monkeypatch.setattr(sweeper, "os", fake)
    monkeypatch.setattr(kernel, "strays", lambda _root, _kept: [11])
    made = Sweeper(set)
    for _ in range(SWEEPS_MAX):
        made.sweep()
    assert signals == []
    made.sweep()
    assert signals == ([(-1, signal.SIGKILL)] if kills_all else [])
    made.sweep()
    assert len(signals) == kills_all, "the count starts again"


def test_a_sweep_that_finds_nothing_resets_the_count(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    signals: list[tuple[int, int]] = []
    fake = SimpleNamespace(getpid=lambda: 1, kill=lambda *sent: signals.append(sent))
    monkeypatch.setattr(sweeper, "os", fake)
    found = iter([[11]] * SWEEPS_MAX + [[]] + [[11]] * SWEEPS_MAX)
    monkeypatch.setattr(kernel, "strays", lambda _root, _kept: next(found))
    made = Sweeper(set)
    for _ in range(2 * SWEEPS_MAX + 1):
        made.sweep()
    assert signals == []
