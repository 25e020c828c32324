"""Fixtures for unit tests of the filter and the engine."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from storlet_middleware import child, concurrency
from tests.support import memory
from tests.unit.middleware import children
from tests.unit.middleware.support import (
    FakeSwift,
    Node,
    Proxy,
    Script,
    Workers,
    make_config,
    upper,
)


@pytest.fixture(autouse=True)
def _processes_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "run_process", children.run_here)
    monkeypatch.setattr(child, "conversation", children.conversation_here)


@pytest.fixture
def real_processes(_processes_here: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server starts processes, as outside of tests."""
    monkeypatch.setattr(child, "run_process", concurrency.run_process)
    monkeypatch.setattr(child, "conversation", concurrency.conversation)


@pytest.fixture
def short_dir() -> Iterator[Path]:
    """A directory with a short path: Unix socket paths have at most 107 bytes."""
    path = Path(tempfile.mkdtemp(prefix="st-", dir=memory.FOLDER))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def workers(short_dir: Path) -> Iterator[Workers]:
    made = Workers(short_dir / "w.sock")
    yield made
    made.close()
    assert not made.problems


@pytest.fixture
def node(short_dir: Path) -> Iterator[Node]:
    made = Node(short_dir, upper)
    yield made
    made.close()
    assert not made.workers.problems


@pytest.fixture
def swift() -> FakeSwift:
    made = FakeSwift()
    made.put("c", "o", b"hello")
    made.put_storlet()
    return made


@pytest.fixture
def make_proxy(node: Node, swift: FakeSwift, short_dir: Path) -> Callable[..., Proxy]:
    def make(script: Script | None = None, legacy_status: str = "false", **options: str) -> Proxy:
        if script is not None:
            node.workers.script = script
        return Proxy(swift, make_config(short_dir, **options), legacy_status=legacy_status)

    return make


@pytest.fixture
def proxy(make_proxy: Any) -> Proxy:
    made: Proxy = make_proxy()
    return made
