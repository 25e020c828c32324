"""One epoll and a function for each descriptor in it: all that a single-threaded supervisor needs of an event loop."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterable

Handler = Callable[[], None]


class Poller:
    """Call a handler when its descriptor is ready.

    A handler must stand being called without need: within one round an earlier handler may have closed a descriptor, and a
    new one may have got its number.
    """

    def __init__(self) -> None:
        """Open the epoll."""
        self._epoll = select.epoll()
        self._handlers: dict[int, Handler] = {}
        self.since = time.monotonic()
        """Since when nobody could hear what handlers find now: the beginning of a nap, else just now (monotonic seconds)."""

    def watch(self, fd: int, events: int, handler: Handler) -> None:
        """Call ``handler`` whenever ``events`` (or a hang-up) are there; the descriptor is not watched yet."""
        self._epoll.register(fd, events)
        self._handlers[fd] = handler

    def forget(self, fd: int) -> None:
        """Stop watching; must come before ``fd`` is closed, because a duplicate elsewhere would keep it in the epoll."""
        if self._handlers.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def wait(self, timeout_seconds: float) -> None:
        """Wait until something is ready or the time is over, and call the handlers of what is ready."""
        ready = self._epoll.poll(timeout_seconds)
        self.since = time.monotonic()
        self._call(ready)

    def nap(self, seconds: float, urgent: Iterable[int]) -> None:
        """Heed nothing but ``urgent`` descriptors for so long; then call the handlers of all that is ready, without waiting.

        What comes often costs less when it is read together: to wake up is most of it.
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
