"""Process 1 of a sandbox, killed; here any process of ours."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator

import pytest

from storlet_middleware.sandboxd import process


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as running:
        yield running
        running.kill()


def test_its_end_is_told_when_it_has_ended(child: subprocess.Popen[bytes]) -> None:
    async def kill() -> None:
        ended = asyncio.Event()
        process.kill(child.pid, lambda: True, ended.set)
        await asyncio.wait_for(ended.wait(), 5)
        assert child.poll() == -9

    asyncio.run(kill())


def test_one_that_has_taken_the_pid_of_another_is_left_alone(
    child: subprocess.Popen[bytes],
) -> None:
    async def kill() -> None:
        with pytest.raises(ProcessLookupError):
            process.kill(child.pid, lambda: False, lambda: None)

    asyncio.run(kill())
    assert child.poll() is None


def test_one_that_is_gone_is_no_process(child: subprocess.Popen[bytes]) -> None:
    async def kill() -> None:
        child.kill()
        child.wait()
        with pytest.raises(ProcessLookupError):
            process.kill(child.pid, lambda: True, lambda: None)

    asyncio.run(kill())
