"""One epoll with a handler per descriptor: the event loop of a single-threaded supervisor."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterable

Handler = Callable[[], None]


class Poller:
    """Calls a handler when its descriptor is ready.

    A handler must accept spurious calls: within one round an earlier handler may have closed a
    descriptor, and a new one may have its number.

    ``since`` is a moment before which nothing happened that the current handlers find (monotonic
    seconds): the beginning of a batch, or the return of the last wait.
    """

    def __init__(self) -> None:
        """Open the epoll."""
        self._epoll = select.epoll()
        self._handlers: dict[int, Handler] = {}
        self.since = time.monotonic()

    def watch(self, fd: int, events: int, handler: Handler) -> None:
        """Call ``handler`` on ``events`` or a hang-up of ``fd``, which is not watched yet."""
        self._epoll.register(fd, events)
        self._handlers[fd] = handler

    def forget(self, fd: int) -> None:
        """Stop watching ``fd``, before it is closed.

        A duplicate elsewhere would keep a closed descriptor in the epoll.
        """
        if self._handlers.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def wait(self, timeout_seconds: float) -> None:
        """Wait until a descriptor is ready or the timeout is over, and call the handlers."""
        ready = self._epoll.poll(timeout_seconds)
        self.since = time.monotonic()
        self._call(ready)

    def wait_batched(self, seconds: float, urgent: Iterable[int]) -> None:
        """Wait for ``urgent`` descriptors only; then call the handlers of all that are ready.

        Frequent events cost less if they are read together: most of the cost is the wake-up.
        """
        self.since = time.monotonic()
        alarm = select.poll()
        for fd in urgent:
            alarm.register(fd, select.POLLIN)
        alarm.poll(seconds * 1000)
        self._call(self._epoll.poll(0))

    def _call(self, ready: Iterable[tuple[int, int]]) -> None:
        for fd, _ in ready:
            handler = self._handlers.get(fd)
            if handler is not None:
                handler()
