"""A node per test."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from storlet_middleware.sandboxd.directories.paths import NodePaths
from tests.support import memory
from tests.unit.sandboxd.doubles import FakeDocker, FakeEngine, FakeNode


@pytest.fixture
def make_node() -> Iterator[Callable[..., FakeNode]]:
    """Makes started nodes with the options of ``[sandbox]`` that a test names."""
    nodes: list[FakeNode] = []

    def make(docker: FakeDocker | None = None, **options: object) -> FakeNode:
        nodes.append(FakeNode(docker or FakeDocker(), **options))
        return nodes[-1].start()

    yield make
    for node in nodes:
        node.remove()


@pytest.fixture
def node(make_node: Callable[..., FakeNode]) -> FakeNode:
    """A started node with default options."""
    return make_node()


@pytest.fixture
def idle_node() -> Iterator[FakeNode]:
    """A node that is not started: its options, its paths, its Docker."""
    node = FakeNode(FakeDocker())
    yield node
    node.remove()


@pytest.fixture
def with_options() -> Iterator[Callable[..., FakeNode]]:
    """Makes started nodes with these sections at the end of their options."""
    nodes: list[FakeNode] = []

    def make(more_options: str, docker: FakeDocker | None = None, **options: object) -> FakeNode:
        nodes.append(FakeNode(docker or FakeDocker(), **options))
        nodes[-1].more_options = more_options
        return nodes[-1].start()

    yield make
    for node in nodes:
        node.remove()


@pytest.fixture
def home() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="sd-", dir=memory.FOLDER))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def paths(home: Path) -> NodePaths:
    made = NodePaths(home / "run", home / "state", os.getuid(), os.getgid())
    made.make()
    return made


@pytest.fixture
def slow_removals(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Docker removes nothing before this is set."""
    real, go = FakeEngine.remove, threading.Event()

    def slow(engine: FakeEngine, container_id: str) -> None:
        go.wait(10)
        real(engine, container_id)

    monkeypatch.setattr(FakeEngine, "remove", slow)
    yield go
    go.set()
