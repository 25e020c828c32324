"""Accepts connections at a listening socket, also after sandboxd has run out of descriptors.

Then a connection stays in the backlog and the socket stays readable, so the loop would call again
at once, without an end.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from typing import Final

log = logging.getLogger("storlet.sandboxd")

#: Connections accepted before other work of the loop.
BURST: Final = 16
#: The pause without descriptors or memory.
PAUSE_SECONDS: Final = 0.5
_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Acceptor:
    """Calls ``on_connection``, which owns the connection, from the loop.  The caller owns
    ``listener``.
    """

    def __init__(
        self, listener: socket.socket, on_connection: Callable[[socket.socket], None]
    ) -> None:
        self._listener = listener
        self._on_connection = on_connection
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        self._is_exhausted = False

    def open(self) -> None:
        """Begin to accept connections."""
        self._pause = None
        self._loop.add_reader(self._listener, self._accept)

    def close(self) -> None:
        """Accept no more."""
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._listener)

    def _accept(self) -> None:
        for _ in range(BURST):
            try:
                connection, _address = self._listener.accept()
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._wait(error)
                return  # else there is none, or its client has disconnected
            if self._is_exhausted:
                self._is_exhausted = False
                log.info("connections accepted again")
            self._on_connection(connection)

    def _wait(self, error: OSError) -> None:
        if not self._is_exhausted:
            self._is_exhausted = True
            log.error("no connection can be accepted, and others wait: %s", error.strerror)
        self._loop.remove_reader(self._listener)
        self._pause = self._loop.call_later(PAUSE_SECONDS, self.open)
