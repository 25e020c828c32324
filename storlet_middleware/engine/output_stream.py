"""A stream that a storlet writes, and the pace of all readers of a run."""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import termios
from collections.abc import Callable
from typing import Final

from storlet_middleware.concurrency import WaitExpired, forget, monotonic, sleep, wait_readable

CHUNK_BYTES: Final = 256 * 1024
#: The size of reads until one is full.  The C library maps memory for each larger one, which takes
#: 20 microseconds, and a small output needs two reads.
_SMALL_CHUNK_BYTES: Final = 64 * 1024
#: A storlet that writes faster than its reader reads would otherwise occupy the hub: after these
#: bytes, about two milliseconds, other requests have their turn.  A read counts as much as
#: ``_READ_BYTES``, because a small one takes about as long.
_FAIRNESS_BYTES: Final = 4 << 20
_READ_BYTES: Final = 32 << 10
#: A storlet that writes small pieces, and never lets its readers wait, would keep a processor busy
#: with reads.  After ``_SMALL_READS`` reads of less than ``_SMALL_BYTES``, output gathers: one read
#: of all such runs of the account in each ``_GATHER_SECONDS``.  A larger read makes up for as many
#: small ones as it is times ``_SMALL_BYTES``.  The interval is not shorter because eventlet's hub
#: spins through the last millisecond of each sleep, and the kernel needs a third of a millisecond
#: to free the hundreds of single bytes that are in a full stream.
_SMALL_BYTES: Final = 4096
_SMALL_READS: Final = 16
_GATHER_SECONDS: Final = 0.01
#: Interval at which a reader that waits for data looks for the end of the run, and at which the
#: reader of the first output looks for data of the others.
POLL_SECONDS: Final = 0.25


class OutputStream:
    """Owner of the read end, which does not block."""

    __slots__ = ("_left", "_most", "fd", "has_end")

    def __init__(self) -> None:
        self.fd = -1
        #: The end of the output is known; only ``_left`` bytes belong to it.
        self.has_end = False
        self._left = 0
        self._most = _SMALL_CHUNK_BYTES

    def end_here(self) -> None:
        """The storlet has succeeded: what is in the stream now is the rest of its output.

        A child process that the storlet left behind may hold the stream open and write on: those
        bytes are never read, and the reader does not wait for the end of the stream.
        """
        self.has_end = True
        self._left = _available(self.fd)

    def read(self) -> bytes | None:
        """Bytes, ``b""`` at the end of the data, ``None`` when there are none now."""
        most = min(self._most, self._left) if self.has_end else self._most
        try:
            chunk = os.read(self.fd, most) if most else b""
        except BlockingIOError:
            return None
        if len(chunk) == _SMALL_CHUNK_BYTES:
            self._most = CHUNK_BYTES
        self._left -= len(chunk) if self.has_end else 0
        return chunk

    def close(self) -> None:
        """Close the stream; may be called twice."""
        if self.fd >= 0:
            fd, self.fd = self.fd, -1
            forget(fd)
            os.close(fd)


class Turns:
    """When the next stream of an account may be read, of those whose output gathers."""

    __slots__ = ("__weakref__", "_next_read")

    def __init__(self) -> None:
        self._next_read = 0.0

    def wait(self) -> None:
        """Take the next turn, and sleep until then."""
        now = monotonic()
        self._next_read = max(self._next_read, now) + _GATHER_SECONDS
        sleep(self._next_read - now)


class ReadPace:
    """Keeps the readers of one run from occupying the hub: of its outputs, and of the objects that
    it creates.

    They share one pace, and the runs of an account their turns: with one for each, many streams
    that get a byte each would wake the hub as many times as often.
    """

    __slots__ = ("_small_reads", "_turns", "_unfair_bytes", "make_turns")

    def __init__(self) -> None:
        #: Gives the turns of the account.
        self.make_turns: Callable[[], Turns] = Turns
        self._turns: Turns | None = None
        #: Small reads that no larger one has made up for.
        self._small_reads = 0
        self._unfair_bytes = 0

    @property
    def turns(self) -> Turns:
        """Those of the account; most runs never need them."""
        if self._turns is None:
            self._turns = self.make_turns()
        return self._turns

    def before_read(self) -> None:
        """Let output gather if it comes in small pieces."""
        if self._small_reads > _SMALL_READS:
            self.turns.wait()

    def after_read(self, size: int) -> None:
        """Give other requests their turn after some reads."""
        if size < _SMALL_BYTES:
            self._small_reads = min(self._small_reads, _SMALL_READS) + 1
        else:
            self._small_reads = max(0, self._small_reads - size // _SMALL_BYTES)
        self._unfair_bytes += size + _READ_BYTES
        if self._unfair_bytes > _FAIRNESS_BYTES:
            self._unfair_bytes = 0
            sleep()


def next_chunk(stream: OutputStream, pace: ReadPace, count: Callable[[int], None]) -> bytes:
    """The next bytes of a stream whose reader is a task of its own; empty at the end.

    :param count: called with the number of bytes before they are returned; may raise.
    """
    pace.before_read()
    while True:
        chunk = stream.read()
        if chunk:
            count(len(chunk))
            pace.after_read(len(chunk))
            return chunk
        if chunk == b"" or stream.has_end:
            return b""
        with contextlib.suppress(WaitExpired):
            wait_readable(stream.fd, POLL_SECONDS)


def _available(fd: int) -> int:
    """The number of bytes that can be read from ``fd``."""
    return int(struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, bytes(4)))[0])
