"""Counters and timers over UDP, in the format of StatsD and with the methods of Swift's logger.

sandboxd does not import Swift, so it has this small client.  Packets are sent without waiting and
without errors: a metric that cannot be sent is dropped.
"""

from __future__ import annotations

import contextlib
import socket
from typing import Final

#: ``log_name`` of Swift's servers begins each of their metrics; this one begins sandboxd's.
SERVER: Final = "storlet-sandboxd"


class NoStats:
    """Drops everything: no StatsD host is configured."""

    def timing(self, name: str, value: float) -> None:
        """Emit a timer in milliseconds."""

    def update_stats(self, name: str, value: int) -> None:
        """Add to a counter."""

    def increment(self, name: str) -> None:
        """Add one to a counter."""


class StatsdClient(NoStats):
    """Sends to ``host``; ``prefix`` is put before the server's name, as Swift does."""

    def __init__(self, host: str, port: int, prefix: str = "") -> None:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[
            0
        ]
        self._socket = socket.socket(family, kind, protocol)
        self._socket.setblocking(False)
        self._address: tuple[object, ...] = address
        self._prefix = ".".join(part for part in (prefix.strip("."), SERVER) if part)

    def timing(self, name: str, value: float) -> None:
        self._send(f"{name}:{round(value, 4)}|ms")

    def update_stats(self, name: str, value: int) -> None:
        self._send(f"{name}:{value}|c")

    def increment(self, name: str) -> None:
        self.update_stats(name, 1)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _send(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self._socket.sendto(f"{self._prefix}.{text}".encode(), self._address)
