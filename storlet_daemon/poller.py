"""One epoll and a function for each descriptor in it: all that a single-threaded supervisor needs of an event loop."""

from __future__ import annotations

import select
from collections.abc import Callable

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
        for fd, _ in self._epoll.poll(timeout_seconds):
            handler = self._handlers.get(fd)
            if handler is not None:
                handler()
