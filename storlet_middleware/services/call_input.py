"""The input of a called storlet that the calling storlet writes itself.

It comes in a stream of frames: the length of a piece in 4 bytes, most significant first, and the
piece.  A frame of length 0 is the end.  A stream that ends without it is incomplete, so the called
storlet fails: the calling one may have been killed while it wrote.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable
from typing import Final

from storlet_middleware.concurrency import forget, monotonic, socket_class, wait_readable
from storlet_middleware.engine.handover import stream
from storlet_middleware.errors import BackendFailed
from storlet_middleware.services.requests import StoreRefusal

_HEADER_BYTES: Final = 4
_READ_BYTES: Final = 65536


class CallInput:
    """The body of a request, as ``wsgi.input``.  Owns the reading end until :meth:`close`.

    :param fd: does not block.
    :param count: called with the bytes of each piece; raises above a limit.
    """

    def __init__(self, fd: int, count: Callable[[int], None]) -> None:
        self._socket = socket_class(socket.AF_UNIX, socket.SOCK_STREAM, fileno=fd)
        self._count = count
        self._is_closed = False
        #: A green task waits for the calling storlet, since :attr:`last_progress`.
        self.is_waiting = False
        self.last_progress = monotonic()
        self._has_ended = False
        #: Bytes of the current piece that are still to be read.
        self._left = 0
        #: The limit that the input exceeds; the called storlet sees an incomplete input.
        self.refusal: StoreRefusal | None = None

    def read(self, size: int = _READ_BYTES) -> bytes:
        """At most ``size`` bytes, none at the end.

        :raises OSError: the stream is incomplete.
        """
        if self._has_ended:
            return b""
        if not self._left:
            self._left = int.from_bytes(self._whole(_HEADER_BYTES), "big")
            if not self._left:
                self._has_ended = True
                return b""
        chunk = self._some(min(size, self._left))
        self._left -= len(chunk)
        try:
            self._count(len(chunk))
        except StoreRefusal as refusal:
            self.refusal = refusal
            raise OSError(str(refusal)) from refusal
        return chunk

    def close(self) -> None:
        """Close the stream, and end its reader; may be called twice."""
        self._is_closed = True
        if self.is_waiting:
            # The reader sees the end, and closes the stream: the hub still watches the descriptor.
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RD)
            return
        self._socket.close()

    def _whole(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += self._some(size - len(data))
        return data

    def _some(self, size: int) -> bytes:
        while not self._is_closed:
            try:
                chunk = self._socket.recv(size)
            except BlockingIOError:
                self._wait()
                continue
            if not chunk:
                break
            self.last_progress = monotonic()
            return chunk
        raise OSError("the calling storlet has not written all of it")

    def _wait(self) -> None:
        self.is_waiting = True
        try:
            wait_readable(self._socket.fileno(), None)
        finally:
            self.is_waiting = False
            if self._is_closed:
                forget(self._socket.fileno())
                self._socket.close()


def donated(send: Callable[[int], None], count: Callable[[int], None]) -> CallInput:
    """An input, of which ``send`` has sent the writing end to the worker.

    :raises BackendFailed: the kernel has none, or the worker takes none.
    """
    try:
        reading, writing = stream(reader_is_ours=True)
    except OSError as error:
        raise _no_stream(error) from error
    taken = CallInput(reading, count)
    try:
        send(writing)
    except BaseException as error:
        taken.close()
        if isinstance(error, OSError):
            raise _no_stream(error) from error
        raise
    finally:
        os.close(writing)
    return taken


def _no_stream(error: OSError) -> BackendFailed:
    return BackendFailed(f"no stream for the storlet: {os.strerror(error.errno or 0)}")
