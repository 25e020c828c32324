"""The hand-over of an invocation to a worker: one message and the descriptors that travel with it.

The kernel gives the worker a duplicate of each descriptor.  A *lent* descriptor stays open here and
has an owner; a *donated* one is of no use here once it was sent, and :meth:`Handover.close` closes
it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from typing import Final

from storlet_daemon.protocol import framing, messages
from storlet_daemon.protocol.descriptors import Descriptors
from storlet_middleware.concurrency import monotonic, wait_writable
from storlet_middleware.errors import BadRequest, SandboxUnavailable

PIPE_BYTES: Final = 256 * 1024


class Handover:
    """Owner of the donated descriptors until they were sent."""

    __slots__ = ("_donated", "_sent", "message")

    def __init__(self) -> None:
        #: The encoded message, once it was made.
        self.message: bytes | None = None
        #: All descriptors, in the order in which the message counts them.
        self._sent: list[int] = []
        self._donated = Descriptors()

    def lend(self, fd: int) -> int:
        """Send a duplicate of ``fd``; its position in the message."""
        self._sent.append(fd)
        return len(self._sent) - 1

    def donate(self, fd: int) -> int:
        """Send ``fd``, which this object owns from here on; its position in the message."""
        self._donated.add(fd)
        return self.lend(fd)

    def encode(self, invoke: messages.Invoke) -> None:
        """Make the message."""
        try:
            self.message = framing.encode(invoke)
        except framing.ProtocolError as error:
            raise BadRequest(f"the invocation cannot be described: {error}") from error

    def send(self, connection: socket.socket, seconds: float) -> None:
        """Send message and descriptors.

        Raises ``WaitExpired`` when the worker takes none in ``seconds``.
        """
        give_up = monotonic() + seconds
        while True:
            try:
                framing.send_bytes(connection, self.message or b"", self._sent)
            except BlockingIOError:
                wait_writable(connection.fileno(), give_up - monotonic())
            except framing.ProtocolError as error:
                raise BadRequest(f"the invocation cannot be described: {error}") from error
            except OSError as error:
                raise SandboxUnavailable(
                    f"the sandbox ended while it took the invocation: {error}"
                ) from error
            else:
                return

    def close(self) -> None:
        """Close the donated descriptors; may be called twice."""
        self._sent.clear()
        self._donated.close()


def pipe(*, reader_is_ours: bool) -> tuple[int, int]:
    """Both ends of a pipe of :data:`PIPE_BYTES`; our end does not block, the storlet's does."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(reader if reader_is_ours else writer, False)
    # Unprivileged users may own a bounded amount of pipe memory; the default size works, only
    # slower.
    with contextlib.suppress(OSError):
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    return reader, writer
