"""Connections wait while descriptors are missing, and the loop does not spin."""

from __future__ import annotations

import asyncio
import os
import resource
import socket

import pytest

from storlet_middleware.sandboxd import acceptor
from storlet_middleware.sandboxd.acceptor import Acceptor


def test_without_descriptors_connections_wait_and_the_loop_sleeps(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceptor, "PAUSE_SECONDS", 0.05)
    caplog.set_level("INFO")
    used = []

    class Listener(socket.socket):
        def accept(self) -> tuple[socket.socket, object]:
            used.append(1)
            return super().accept()

    async def main() -> None:
        accepted: asyncio.Queue[socket.socket] = asyncio.Queue()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with Listener(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
            listener.bind("")
            listener.listen()
            listener.setblocking(False)
            accepting = Acceptor(listener, accepted.put_nowait)
            accepting.open()
            lowest = os.dup(0)
            os.close(lowest)
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
            try:
                client.connect(listener.getsockname())
                await asyncio.sleep(0.2)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            assert 2 <= len(used) <= 6
            (await asyncio.wait_for(accepted.get(), 5)).close()
            accepting.close()

    asyncio.run(main())
    lines = [one.getMessage() for one in caplog.records if "accepted" in one.getMessage()]
    assert len(lines) == 2
    assert "Too many open files" in lines[0]


def test_node_that_closes_during_the_pause_accepts_nothing_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(acceptor, "PAUSE_SECONDS", 0.02)

    async def main() -> None:
        with socket.socket(socket.AF_UNIX) as listener:
            accepting = Acceptor(listener, socket.socket.close)
            accepting._wait(OSError(24, "Too many open files"))
            accepting.close()
            await asyncio.sleep(0.05)
            assert not asyncio.get_running_loop().remove_reader(listener)

    asyncio.run(main())
