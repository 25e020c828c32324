"""Shared folders are emptied while nothing runs."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from storlet_daemon import cleaner, homes, scratch
from storlet_daemon.budget import Budget
from storlet_daemon.cleaner import Cleaner
from storlet_daemon.worker_group.group import WorkerGroup
from storlet_daemon.worker_group.worker_process import State
from storlet_daemon.worker_groups import WorkerGroups
from tests.unit.daemon.loads import load_of
from tests.unit.daemon.worker_group.groups import World


class Sandbox:
    """The shared folders of a sandbox, below ``folder``; this process is its process 1."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.scratch, self.homes, self.memory = (folder / name for name in ("tmp", "homes", "shm"))
        for path in (self.scratch, self.homes, self.memory):
            path.mkdir()
        monkeypatch.setattr(cleaner, "WORKING_DIRECTORY", str(self.scratch))
        monkeypatch.setattr(cleaner, "SHARED_MEMORY", str(self.memory))
        monkeypatch.setattr(homes, "HOMES", str(self.homes))
        monkeypatch.setattr(os, "getpid", lambda: 1)
        self.groups = WorkerGroups(Budget(0, 0))
        self.cleaner = Cleaner(self.groups)

    def await_child(self) -> None:
        """Reap the child that removes files."""
        pid = self.cleaner.pid
        assert pid
        assert os.waitpid(pid, 0)[1] == 0
        self.cleaner.exited(pid)
        assert self.cleaner.pid == 0


@pytest.fixture
def sandbox(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Sandbox:
    return Sandbox(monkeypatch, tmp_path)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[World]:
    made = World(monkeypatch, tmp_path)
    yield made
    made.close()


def test_the_scratch_space_is_emptied_once_per_request(sandbox: Sandbox) -> None:
    (sandbox.scratch / "file").write_text("x")
    sandbox.cleaner.tick()
    assert sandbox.cleaner.pid == 0
    sandbox.cleaner.request()
    sandbox.cleaner.tick()
    sandbox.await_child()
    assert list(sandbox.scratch.iterdir()) == []
    sandbox.cleaner.tick()
    assert sandbox.cleaner.pid == 0


def test_a_request_that_fails_is_tried_again_later(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a sandbox that has no memory or process left for the child."""

    def refuse(_paths: object) -> int:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    (sandbox.scratch / "file").write_text("x")
    sandbox.cleaner.request()
    with monkeypatch.context() as patched:
        patched.setattr(scratch, "begin_to_remove", refuse)
        sandbox.cleaner.tick()
    sandbox.cleaner.tick()
    assert sandbox.cleaner.pid == 0
    later = time.monotonic() + cleaner.AGAIN_SECONDS
    monkeypatch.setattr(time, "monotonic", lambda: later)
    sandbox.cleaner.tick()
    sandbox.await_child()
    assert list(sandbox.scratch.iterdir()) == []


def test_it_is_emptied_when_the_last_storlet_has_ended(sandbox: Sandbox, world: World) -> None:
    group = WorkerGroup(load_of(), world.listen(), world.runtime, world.hooks)
    world.states.append(group.state)
    one = world.add(group.state, State.BUSY)
    sandbox.groups.add("a", group)
    (sandbox.scratch / "file").write_text("x")
    sandbox.cleaner.request()
    sandbox.cleaner.tick()
    assert sandbox.cleaner.pid == 0
    one.state = State.IDLE
    sandbox.cleaner.tick()
    sandbox.await_child()
    assert list(sandbox.scratch.iterdir()) == []


def test_shared_memory_and_folders_of_former_groups_are_removed(sandbox: Sandbox) -> None:
    (sandbox.memory / "segment").write_text("x")
    (sandbox.homes / "former").mkdir()
    sandbox.cleaner.remove_leftovers()
    sandbox.await_child()
    assert list(sandbox.memory.iterdir()) == []
    assert not (sandbox.homes / "former").exists()


def test_without_leftovers_no_child_is_started(sandbox: Sandbox) -> None:
    sandbox.cleaner.remove_leftovers()
    assert sandbox.cleaner.pid == 0


def test_outside_of_a_sandbox_nothing_is_removed(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getpid", lambda: 2)
    (sandbox.memory / "segment").write_text("x")
    sandbox.cleaner.request()
    sandbox.cleaner.tick()
    sandbox.cleaner.remove_leftovers()
    assert sandbox.cleaner.pid == 0
    assert (sandbox.memory / "segment").exists()
