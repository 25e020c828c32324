"""The streams of bytes that a storlet reads: objects, and the results of storlets that it calls.

A stream is an open file until the storlet has read or closed it: the kernel keeps the unread bytes,
at the expense of this process.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
import termios
from collections.abc import Callable, Iterator

from storlet_daemon.protocol.messages import Opened, StreamEnded
from storlet_middleware.concurrency import socket_class
from storlet_middleware.engine.feed import Feeder
from storlet_middleware.engine.handover import stream
from storlet_middleware.services.operations import Body, Stream
from storlet_middleware.services.replies import Replies


class ReplyStreams:
    """All streams of one run.

    :param count: called with the bytes of each piece; raises above a limit.
    """

    def __init__(self, replies: Replies, count: Callable[[int], None]) -> None:
        self._replies = replies
        self._count = count
        self._feeders: set[Feeder] = set()
        self._unread = _Unread()

    def reply(self, number: int, outcome: Stream) -> None:
        """Send a stream as the reply to the request with this number, and begin to fill it."""
        try:
            reading, writing = stream(reader_is_ours=False)
        except OSError as error:
            outcome.body.close()
            self._replies.send_no_stream(number, error)
            return
        body = _Counted(outcome.body, self._count, lambda size: self._end(number, size))
        feeder = Feeder(
            body,
            writing,
            lambda error: self._break(number, error),
            release=self._unread.take,
        )
        self._feeders.add(feeder)
        try:
            self._replies.send(Opened(number, outcome.facts, outcome.has_more), reading)
        except BaseException as error:
            self._feeders.discard(feeder)
            feeder.stop()
            if not isinstance(error, OSError):
                raise
            # The kernel limits the descriptors in messages that are not received yet.
            self._replies.send_no_stream(number, error)
        finally:
            os.close(reading)

    def count_open(self) -> int:
        """How many streams are open files."""
        self._feeders = {feeder for feeder in self._feeders if not feeder.is_over}
        return len(self._feeders) + self._unread.count()

    @property
    def are_filled(self) -> bool:
        """Whether no stream waits for more bytes."""
        return all(feeder.is_over for feeder in self._feeders)

    def were_active_since(self, moment: float) -> bool:
        """Whether a stream waits for the store, or was filled since ``moment``."""
        return any(
            feeder.waits_for_source or feeder.last_progress > moment for feeder in self._feeders
        )

    def close(self) -> None:
        """End all streams; may be called twice."""
        feeders, self._feeders = self._feeders, set()
        with contextlib.ExitStack() as stack:
            # A feeder that is stopped may pass its stream on.
            stack.callback(self._unread.close)
            for feeder in feeders:
                stack.callback(feeder.stop)

    def _end(self, number: int, size: int) -> None:
        """All ``size`` bytes are in the stream."""
        with contextlib.suppress(OSError):
            self._replies.send(StreamEnded(number, size))

    def _break(self, number: int, error: BaseException) -> None:
        """Called before the stream is closed."""
        with contextlib.suppress(OSError):
            self._replies.send_failure(number, error)


class _Counted:
    """A body that counts its bytes and announces its end, with their number."""

    def __init__(
        self, body: Body, count: Callable[[int], None], announce: Callable[[int], None]
    ) -> None:
        self._body = body
        self._count = count
        self._announce = announce

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for chunk in self._body:
            size += len(chunk)
            self._count(len(chunk))
            yield chunk
        self._announce(size)

    def abandon(self) -> None:
        self._body.abandon()

    def close(self) -> None:
        self._body.close()


class _Unread:
    """Streams that have ended here, with bytes that the storlet has not read yet.

    The storlet sees the end of the stream; our end stays open, because only it shows whether all
    was read.
    """

    def __init__(self) -> None:
        self._streams: list[socket.socket] = []

    def take(self, fd: int) -> None:
        """End the stream of which ``fd`` is the writing end, and own it."""
        ended = socket_class(socket.AF_UNIX, socket.SOCK_STREAM, fileno=fd)
        ended.shutdown(socket.SHUT_WR)
        self._streams.append(ended)

    def count(self) -> int:
        """How many are unread; closes the others."""
        unread = []
        for ended in self._streams:
            if _unread_bytes(ended):
                unread.append(ended)
            else:
                ended.close()
        self._streams = unread
        return len(unread)

    def close(self) -> None:
        """Close all; the storlet may read the rest."""
        streams, self._streams = self._streams, []
        for ended in streams:
            ended.close()


def _unread_bytes(ours: socket.socket) -> int:
    """The bytes in a stream, as the kernel counts them for the writer: 0 if all was read, or the
    reader has closed it.
    """
    return int(struct.unpack("i", fcntl.ioctl(ours, termios.TIOCOUTQ, bytes(4)))[0])
