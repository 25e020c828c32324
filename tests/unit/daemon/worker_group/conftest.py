"""A world for worker groups without processes."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from storlet_daemon import kernel
from tests.unit.daemon.worker_group.groups import World


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[World]:
    made = World(monkeypatch, tmp_path)
    yield made
    made.close()


@pytest.fixture
def channel() -> Iterator[socket.socket]:
    """Our end of a worker's channel."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        theirs.setblocking(False)
        yield ours


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Process ids that were killed; no signal is sent."""
    pids: list[int] = []
    monkeypatch.setattr(kernel, "kill", lambda pid, _number: pids.append(pid))
    monkeypatch.setattr(kernel, "kill_group", lambda _leader: None)
    return pids
