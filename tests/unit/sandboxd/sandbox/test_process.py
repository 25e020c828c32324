"""Process 1 of a sandbox, killed; here any process of ours."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator

import pytest

from storlet_middleware.sandboxd.sandbox import process


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as running:
        yield running
        running.kill()


def test_the_end_of_a_process_is_reported(child: subprocess.Popen[bytes]) -> None:
    async def kill() -> None:
        ended = asyncio.Event()
        process.kill(child.pid, lambda: True, ended.set)
        await asyncio.wait_for(ended.wait(), 5)
        assert child.poll() == -9

    asyncio.run(kill())


def test_a_process_with_a_reused_pid_is_left_alone(
    child: subprocess.Popen[bytes],
) -> None:
    async def kill() -> None:
        with pytest.raises(ProcessLookupError):
            process.kill(child.pid, lambda: False, lambda: None)

    asyncio.run(kill())
    assert child.poll() is None


def test_an_ended_process_is_not_found(child: subprocess.Popen[bytes]) -> None:
    async def kill() -> None:
        child.kill()
        child.wait()
        with pytest.raises(ProcessLookupError):
            process.kill(child.pid, lambda: True, lambda: None)

    asyncio.run(kill())
