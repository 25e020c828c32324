"""Blocking calls in threads: Docker's API, ``fsync`` and file locks.

Threads of the standard executor are joined at exit, so one call to a hung Docker would delay the
end of sandboxd for its whole timeout.  These are daemon threads, at most :data:`CALLS_MAX` at a
time; a call whose caller was cancelled runs on, and its result is dropped.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

#: More threads do not start containers faster, and would slow down other work of the node.
CALLS_MAX: Final = 6

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Threads:
    """Runs blocking functions for one loop; make it inside the loop."""

    def __init__(self, calls_max: int = CALLS_MAX) -> None:
        self._slots = asyncio.Semaphore(calls_max)

    async def call(self, function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Return the result of ``function(*args, **kwargs)``, or raise its exception.

        Its slot is released when the function returns, even if the caller was cancelled.
        """
        await self._slots.acquire()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_T] = loop.create_future()

        def settle(result: _T | None, error: BaseException | None) -> None:
            self._slots.release()
            if future.cancelled():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)  # type: ignore[arg-type]

        def run() -> None:
            result: _T | None = None
            failure: BaseException | None = None
            try:
                result = function(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001  raised in the caller
                failure = error
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, result, failure)

        thread = threading.Thread(target=run, name=f"blocking-{function.__name__}", daemon=True)
        try:
            thread.start()
        except BaseException:
            # The host has no thread left; the next call may get one.
            self._slots.release()
            raise
        return await future
