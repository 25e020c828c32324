"""The connection of an invocation to its worker: events come in, an acknowledgement goes out.

Closing it without the acknowledgement cancels the invocation.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping
from typing import Final

from storlet_daemon.protocol import framing, messages
from storlet_middleware.concurrency import forget
from storlet_middleware.errors import InternalError, SandboxUnavailable, Unprocessable

_TAKEN: Final = framing.encode(messages.Taken())
#: The first two events of nearly every invocation, by their bytes.
_USUAL: Final[Mapping[bytes, messages.Message]] = {
    framing.encode(event): event for event in (messages.Started(), messages.Metadata({}))
}


class Connection:
    """Owner of the socket, from :meth:`open` until :meth:`close`."""

    __slots__ = ("_socket",)

    def __init__(self) -> None:
        self._socket: socket.SocketType | None = None

    def open(self, sock: socket.SocketType) -> None:
        """Become the owner of ``sock``, which does not block."""
        self._socket = sock

    def fileno(self) -> int:
        if self._socket is None:
            raise _closed()
        return self._socket.fileno()

    def receive(self) -> messages.Message:
        """The next event; raises ``BlockingIOError`` when there is none now."""
        if self._socket is None:
            raise _closed()
        try:
            event: messages.Message | None = framing.receive_message(
                self._socket, messages.INVOCATION_EVENTS, _USUAL
            )
        except BlockingIOError:
            raise
        except framing.ProtocolError as error:
            # Our own daemon does not send this: the storlet has obtained the connection.
            text = f"the storlet's sandbox sent an invalid event: {error}"
            raise Unprocessable(text) from error
        except ConnectionError as error:
            raise SandboxUnavailable(f"the sandbox broke off: {error}") from error
        if event is None:
            text = "the sandbox ended before it reported the outcome of the storlet"
            raise SandboxUnavailable(text)
        return event

    def finish(self) -> None:
        """Acknowledge ``done`` and close.

        Without that, closing cancels a worker that still cleans up.
        """
        if self._socket is None:
            raise _closed()
        try:
            framing.send_bytes(self._socket, _TAKEN)
        except OSError:
            pass
        finally:
            self.close()

    def cancel(self) -> None:
        """Cancel the storlet; the socket stays open here."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the socket; may be called twice."""
        sock, self._socket = self._socket, None
        if sock is not None:
            forget(sock.fileno())
            sock.close()


def _closed() -> InternalError:
    return InternalError("the invocation is closed")
