"""The hand-over of an invocation to a worker: one message and the descriptors that travel with it.

The kernel gives the worker a duplicate of each descriptor.  A *lent* descriptor stays open here and
has an owner; a *donated* one is of no use here once it was sent, and :meth:`Handover.close` closes
it.

A storlet may do anything with its descriptors, so no system call on ours may wait for it:

* A pipe has one lock, which a writer or reader holds while the kernel copies from or to its
  memory.  If that memory is a file that has to be read from disk, the other end waits.  So data
  travels through :func:`stream`, a pair of sockets, where the kernel holds no lock during the copy.
* A duplicate of a file shares its offset and the lock of the offset, which a reader holds while
  the disk works.  So an offset is read by :func:`offset`, which takes no lock.
* Closing a descriptor can take milliseconds.  So the kernel refuses messages with descriptors to
  our sockets (:func:`~storlet_middleware.concurrency.refuse_descriptors`).
"""

from __future__ import annotations

import _socket
import functools
import os
import socket
from typing import Final

from storlet_daemon.protocol import framing, messages
from storlet_daemon.protocol.descriptors import close_quietly
from storlet_middleware.concurrency import monotonic, refuse_descriptors, when_writable
from storlet_middleware.errors import BadRequest, SandboxUnavailable

#: Bytes in flight between filter and storlet, with the kernel's own data; the kernel doubles the
#: value, and lowers it to ``net.core.wmem_max``.
BUFFER_BYTES: Final = 256 * 1024


class Handover:
    """Owner of the donated descriptors until they were sent."""

    __slots__ = ("_donated", "_sent", "message")

    def __init__(self) -> None:
        #: The encoded message, once it was made.
        self.message: bytes | None = None
        #: All descriptors, in the order in which the message counts them.
        self._sent: list[int] = []
        self._donated: list[int] = []

    def lend(self, fd: int) -> int:
        """Send a duplicate of ``fd``; its position in the message."""
        self._sent.append(fd)
        return len(self._sent) - 1

    def donate(self, fd: int) -> int:
        """Send ``fd``, which this object owns from here on; its position in the message."""
        self._donated.append(fd)
        self._sent.append(fd)
        return len(self._sent) - 1

    def encode(self, invoke: messages.Invoke) -> None:
        """Make the message."""
        try:
            self.message = framing.encode(invoke)
        except framing.ProtocolError as error:
            raise BadRequest(f"the invocation cannot be described: {error}") from error

    def send(self, connection: socket.SocketType, seconds: float) -> None:
        """Send message and descriptors.

        Raises ``WaitExpired`` when the worker takes none in ``seconds``.
        """
        send = functools.partial(framing.send_bytes, connection, self.message or b"", self._sent)
        try:
            when_writable(connection.fileno(), send, monotonic() + seconds)
        except framing.ProtocolError as error:
            raise BadRequest(f"the invocation cannot be described: {error}") from error
        except OSError as error:
            raise SandboxUnavailable(
                f"the sandbox ended while it took the invocation: {error}"
            ) from error

    def close(self) -> None:
        """Close the donated descriptors; may be called twice."""
        self._sent.clear()
        donated, self._donated = self._donated, []
        for fd in donated:
            close_quietly(fd)


def stream(*, reader_is_ours: bool) -> tuple[int, int]:
    """Reading and writing end of a one-way stream; our end does not block, the storlet's does."""
    # The function of the standard library makes two more objects, and four more system calls.
    reading, writing = _socket.socketpair()
    ours, direction = (reading, socket.SHUT_WR) if reader_is_ours else (writing, socket.SHUT_RD)
    ours.setblocking(False)
    ours.shutdown(direction)
    refuse_descriptors(ours)
    writing.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
    return reading.detach(), writing.detach()


def exchange() -> tuple[int, int]:
    """Our end of a socket pair that carries bytes in both directions, which does not block, and the
    storlet's end, which does.
    """
    ours, theirs = _socket.socketpair()
    ours.setblocking(False)
    refuse_descriptors(ours)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
    return ours.detach(), theirs.detach()


def offset(fd: int) -> int:
    """The file offset of ``fd``, read without the lock of the offset."""
    info = os.open(f"/proc/self/fdinfo/{fd}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        # "pos:" is the first line.
        return int(os.read(info, 64).split(None, 2)[1])
    finally:
        os.close(info)
