"""The input of a called storlet that the calling storlet writes itself.

It comes in a stream of frames: the length of a piece in 4 bytes, most significant first, and the
piece.  A frame of length 0 is the end.  A stream that ends without it is incomplete, so the called
storlet fails: the calling one may have been killed while it wrote.

A sandbox chooses the lengths.  Small frames are therefore read together, and each counts for the
pace of the run: a storlet that sends single bytes, to a storlet that reads none of them, would
occupy the hub without end.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable
from typing import Final

from storlet_middleware.concurrency import forget, monotonic, socket_class, wait_readable
from storlet_middleware.engine.handover import stream
from storlet_middleware.engine.output_stream import ReadPace
from storlet_middleware.errors import BackendFailed
from storlet_middleware.services.requests import StoreRefusal

_HEADER_BYTES: Final = 4
_READ_BYTES: Final = 65536
#: Bytes that are read at once where a header is expected: 800 frames of single bytes take about a
#: millisecond.
_AHEAD_BYTES: Final = 4096


class CallInput:
    """The body of a request, as ``wsgi.input``.  Owns the reading end until :meth:`close`.

    :param fd: does not block.
    :param count: called with the bytes of each piece; raises above a limit.
    :param pace: of the run that writes.
    """

    def __init__(self, fd: int, count: Callable[[int], None], pace: ReadPace) -> None:
        self._socket = socket_class(socket.AF_UNIX, socket.SOCK_STREAM, fileno=fd)
        self._count = count
        self._pace = pace
        self._is_closed = False
        #: A green task waits for the calling storlet, since :attr:`last_progress`.
        self.is_waiting = False
        self.last_progress = monotonic()
        self._has_ended = False
        #: Bytes of the current frame that are still to be read.
        self._left = 0
        #: Bytes that were read ahead: a part of a frame, or several.
        self._ahead = b""
        #: The limit that the input exceeds; the called storlet sees an incomplete input.
        self.refusal: StoreRefusal | None = None

    def read(self, size: int = _READ_BYTES) -> bytes:
        """At most ``size`` bytes, none at the end.

        :raises OSError: the stream is incomplete.
        """
        pieces: list[bytes] = []
        room = size
        while room and not self._has_ended and (not pieces or self._has_more_ahead()):
            if self._left:
                pieces.append(self._piece(min(room, self._left)))
                room -= len(pieces[-1])
            else:
                self._begin_frame()
        return b"".join(pieces)

    def _has_more_ahead(self) -> bool:
        """Whether more of the input is here, so that the reader does not wait for it."""
        return len(self._ahead) >= (1 if self._left else _HEADER_BYTES)

    def _begin_frame(self) -> None:
        while len(self._ahead) < _HEADER_BYTES:
            self._ahead += self._some(_AHEAD_BYTES)
        header, self._ahead = self._ahead[:_HEADER_BYTES], self._ahead[_HEADER_BYTES:]
        self._left = int.from_bytes(header, "big")
        self._has_ended = not self._left

    def _piece(self, size: int) -> bytes:
        """At most ``size`` bytes of the current frame."""
        if self._ahead:
            piece, self._ahead = self._ahead[:size], self._ahead[size:]
        else:
            piece = self._some(size)
        self._left -= len(piece)
        self._pace.after_read(len(piece))
        try:
            self._count(len(piece))
        except StoreRefusal as refusal:
            self.refusal = refusal
            raise OSError(str(refusal)) from refusal
        return piece

    def close(self) -> None:
        """Close the stream, and end its reader; may be called twice."""
        self._is_closed = True
        if self.is_waiting:
            # The reader sees the end, and closes the stream: the hub still watches the descriptor.
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RD)
            return
        self._socket.close()

    def _some(self, size: int) -> bytes:
        self._pace.before_read()
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


def donated(send: Callable[[int], None], count: Callable[[int], None], pace: ReadPace) -> CallInput:
    """An input, of which ``send`` has sent the writing end to the worker.

    :param count: and ``pace``, see :class:`CallInput`.
    :raises BackendFailed: the kernel has none, or the worker takes none.
    """
    try:
        reading, writing = stream(reader_is_ours=True)
    except OSError as error:
        raise _no_stream(error) from error
    taken = CallInput(reading, count, pace)
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
