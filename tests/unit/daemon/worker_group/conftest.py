"""Doubles for tests of worker groups: a channel, and kills without signals."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from storlet_daemon import kernel


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
