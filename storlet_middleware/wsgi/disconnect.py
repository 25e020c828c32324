"""Detects clients that disconnect while the server does not write to them, and breaks connections.

A WSGI server notices a disconnected client only when it writes.  A storlet that computes for a
minute before its first byte would run to its end for a client that has disconnected.  So a timer
polls the client's socket, from a fifth of a second into a request, and raises :class:`ClientGone`
in the request's own green thread, as eventlet's timeouts do.  A shorter request costs one timer.

A request that a storlet sends has no client's socket.  It has a :class:`Cancellation` instead,
which the end of the storlet's run sets.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Mapping
from typing import Any, Final

import greenlet

from storlet_middleware.concurrency import Timer, call_later, has_hung_up, holds_pooled_connection

#: Time until the next poll if the green thread holds a pooled connection; memcached answers within
#: milliseconds.
_RETRY_SECONDS: Final = 0.02
#: Time between polls, each of which may be a tenth of a second late.  A worker has to end within a
#: second after its client has disconnected.  Before that come a poll at the proxy, the headers of
#: an object node whose run has just begun, and a poll there.
_POLL_SECONDS: Final = 0.2


class ClientGone(BaseException):
    """The client closed its connection.

    Not an ``Exception``: Swift's handlers of ``Exception`` would take it for a failed backend.
    """


#: Key of a WSGI environment.
CANCELLATION: Final = "storlets.cancellation"


class Cancellation:
    """Whether the sender of a request still waits for its answer.

    :param outer: of the request that the sender belongs to; it cancels this one, too.
    """

    def __init__(self, outer: Cancellation | None = None) -> None:
        self._outer = outer
        self._is_cancelled = False

    @property
    def is_cancelled(self) -> bool:
        return self._is_cancelled or (self._outer is not None and self._outer.is_cancelled)

    def cancel(self) -> None:
        """Nothing waits for the answer any more; may be called twice."""
        self._is_cancelled = True


def client_socket(environ: Mapping[str, Any]) -> socket.socket | None:
    """The client's socket; ``None`` if the server is not eventlet's."""
    get_socket = getattr(environ.get("eventlet.input"), "get_socket", None)
    try:
        return get_socket() if get_socket else None
    except AttributeError:
        return None


def break_connection(environ: Mapping[str, Any]) -> None:
    """Break the client's connection, so that a partial answer does not look complete.

    An HTTP/1.1 client sees a chunked body without its last chunk.  An HTTP/1.0 client takes the end
    of the connection for the end of the body, so the connection is reset.  It is always reset,
    because eventlet does not give the version to applications.
    """
    client = client_socket(environ)
    if client is not None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        # eventlet calls shutdown before it closes a connection, and a FIN that arrives before the
        # reset hides it.
        client.shutdown = _no_shutdown  # type: ignore[method-assign]


def _no_shutdown(how: int) -> None:
    """Replaces a socket's ``shutdown``."""


class ClientWatch:
    """Watches one client, from construction until :meth:`stop`.

    :class:`ClientGone` is raised in the green thread that made the watch.
    """

    def __init__(self, environ: Mapping[str, Any]) -> None:
        client = client_socket(environ)
        self._thread = greenlet.getcurrent()
        self._fd = -1
        self._timer: Timer | None = None
        self._is_armed = True
        self._cancellation: Cancellation | None = environ.get(CANCELLATION)
        if client is not None:
            self._fd = client.fileno()
        if client is not None or self._cancellation is not None:
            self._timer = call_later(_POLL_SECONDS, self._poll)

    def stop(self) -> None:
        """End the watch; may be called twice."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def guard(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """Yield ``chunks``; the watch pauses while the server writes one.

        A server that writes notices a disconnected client itself.
        """
        self._is_armed = True
        for chunk in chunks:
            self._is_armed = False
            yield chunk
            self._is_armed = True
        self._is_armed = False

    def until_end(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """Yield ``chunks``, in any green thread; the watch pauses at their end."""
        yield from chunks
        self.pause()

    def pause(self) -> None:
        """Raise nothing until :meth:`guard` waits for a chunk: other code, which runs until then,
        does not expect :class:`ClientGone`."""
        self._is_armed = False

    def _poll(self) -> None:
        """Runs in eventlet's hub, so it must not block."""
        self._timer = None
        if self._thread.dead:
            return  # another green thread reads the answer, and its owner ends it
        if not self._is_armed or not self._is_gone():
            self._timer = call_later(_POLL_SECONDS, self._poll)
        elif holds_pooled_connection(self._thread):
            self._timer = call_later(_RETRY_SECONDS, self._poll)
        else:
            self._thread.throw(ClientGone())

    def _is_gone(self) -> bool:
        if self._cancellation is not None and self._cancellation.is_cancelled:
            return True
        return self._fd >= 0 and has_hung_up(self._fd)
