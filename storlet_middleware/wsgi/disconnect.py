"""Notices that a client has gone while nobody writes to it.

A WSGI server learns that its client has left when it writes.  A storlet that computes for a minute before its first
byte would compute on for nobody.  So from a quarter of a second into a request a timer looks at the client's socket, and raises
:class:`ClientGone` in the request's own green thread, in the way in which eventlet's timeouts do.  A request that is
quicker than that pays one timer.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Mapping
from typing import Any, Final

import greenlet

from storlet_middleware.concurrency import Timer, call_later, has_hung_up, holds_pooled_connection

#: Until the next look when it was the wrong moment; memcached answers within milliseconds.
_AGAIN_SECONDS: Final = 0.02
#: Proxy and object node each need one to notice, and a worker shall be dead within a second.
_INTERVAL_SECONDS: Final = 0.25


class ClientGone(BaseException):
    """The client closed its connection.  Not an ``Exception``: nothing on the way may take it for a failed backend."""


def client_socket(environ: Mapping[str, Any]) -> socket.socket | None:
    """The client's socket, where the server is eventlet's."""
    get_socket = getattr(environ.get("eventlet.input"), "get_socket", None)
    try:
        return get_socket() if get_socket else None
    except AttributeError:
        return None


def break_connection(environ: Mapping[str, Any]) -> None:
    """Make sure that a client whose answer is cut cannot take it for whole.

    HTTP/1.1 sees a chunked body without its end.  HTTP/1.0 takes the closing of the connection for the end of the body,
    so the connection is reset instead.  (Always: eventlet does not tell an application which of the two it talks to.)
    """
    client = client_socket(environ)
    if client is not None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        # eventlet shuts a connection down before it closes it, and an orderly end that arrives first hides the reset.
        client.shutdown = _do_not_shut_down  # type: ignore[method-assign]


def _do_not_shut_down(how: int) -> None:
    """In the place of a socket's ``shutdown``."""


class ClientWatch:
    """Watches one client from construction until :meth:`stop`, for the green thread that made it."""

    def __init__(self, environ: Mapping[str, Any]) -> None:
        client = client_socket(environ)
        self._thread = greenlet.getcurrent()
        self._fd = -1
        self._timer: Timer | None = None
        self._is_armed = True
        if client is not None:
            self._fd = client.fileno()
            self._timer = call_later(_INTERVAL_SECONDS, self._look)

    def stop(self) -> None:
        """Watch no more; may be called twice."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def guard(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """``chunks``; while the server writes one, it finds out by itself that the client has gone."""
        self._is_armed = True
        for chunk in chunks:
            self._is_armed = False
            yield chunk
            self._is_armed = True
        self._is_armed = False

    def pause(self) -> None:
        """Raise nothing until :meth:`guard` waits again: the code that runs next belongs to others."""
        self._is_armed = False

    def _look(self) -> None:
        """Runs in the hub: must not wait."""
        self._timer = None
        if not self._is_armed or not has_hung_up(self._fd):
            self._timer = call_later(_INTERVAL_SECONDS, self._look)
        elif holds_pooled_connection(self._thread):
            self._timer = call_later(_AGAIN_SECONDS, self._look)
        else:
            self._thread.throw(ClientGone())
