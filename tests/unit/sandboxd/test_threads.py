"""Blocking calls in threads: results, slots, and a loop that keeps running."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from storlet_middleware.sandboxd.threads import Threads


def test_a_blocking_call_gives_its_result_or_its_error() -> None:
    async def main() -> None:
        threads = Threads()
        assert await threads.call(lambda: 7) == 7
        with pytest.raises(ZeroDivisionError):
            await threads.call(divmod, 1, 0)

    asyncio.run(main())


def test_an_abandoned_blocking_call_keeps_its_thread_until_it_ends() -> None:
    release = threading.Event()

    async def main() -> None:
        threads = Threads(calls_max=1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await threads.call(release.wait)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await threads.call(lambda: "too early")
        release.set()
        assert await threads.call(lambda: "now") == "now"

    asyncio.run(main())


def test_a_thread_that_cannot_start_keeps_no_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a host at its limit of threads, which may be over soon."""

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def main() -> None:
        threads = Threads(calls_max=1)
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refuse)
            with pytest.raises(RuntimeError, match="new thread"):
                await threads.call(lambda: "never")
        async with asyncio.timeout(5):
            assert await threads.call(lambda: "later") == "later"

    asyncio.run(main())


def test_the_loop_runs_while_a_call_blocks() -> None:
    async def main() -> float:
        began = time.monotonic()
        await asyncio.gather(*(Threads().call(time.sleep, 1) for _ in range(5)))
        return time.monotonic() - began

    assert asyncio.run(main()) < 3
