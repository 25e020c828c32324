"""Serves the reads of a seekable input whose bytes are not in a file of this node.

::

    worker                       Reads                        source
      | -- offset, length ---------> |                            |
      |                              | -- read(offset, length) -> |
      |                              | <-- all of these bytes --- |
      | <== the bytes ============== |                            |

A range is read completely into memory before its first byte is sent.  So no connection to a storage
node is open while a storlet does not read, and a storlet that requests ranges and reads none costs
at most ``READ_MAX`` bytes of memory for each read in progress.

**Bounds.**  A sandbox is not trusted.  An input has one read at a time; the next request is not
read from the socket before the answer to the last one was taken.  All inputs of a run together have
``_AT_A_TIME`` reads at a time and ``Service-Rate`` reads in a second; more wait.  A request that is
outside of the object, or longer than ``READ_MAX``, ends the run.

A read that fails ends the run, too: the storlet must not make a result of a part of its input.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from typing import Final, Protocol

from storlet_daemon.protocol.messages import READ_MAX
from storlet_middleware.concurrency import (
    GreenTask,
    Killed,
    end,
    forget,
    monotonic,
    semaphore,
    sleep,
    spawn,
    wait_readable,
    write_all,
)
from storlet_middleware.engine.handover import exchange
from storlet_middleware.errors import Unprocessable

_REQUEST: Final = struct.Struct(">QQ")
#: Reads of one run at a time.  A worker takes an answer completely before it does anything else, so
#: one thread never waits for another one's answer.
_AT_A_TIME: Final = 2
#: The reads that may come at once after a pause, in seconds of the rate.
_BURST_SECONDS: Final = 1.0


class RandomSource(Protocol):
    """Bytes of which any range can be read."""

    @property
    def size(self) -> int:
        """Their number."""

    def read(self, first: int, length: int) -> bytes:
        """Exactly these bytes; raises if they are not complete, or of another version."""

    def close(self) -> None:
        """Release everything; may be called twice."""


class ReadPace:
    """Bounds the reads of all inputs of one run.

    :param rate: reads in a second.
    """

    def __init__(self, rate: int) -> None:
        self._step = 1 / rate
        self._due = monotonic()
        self._room = semaphore(_AT_A_TIME)

    def await_turn(self) -> None:
        """Wait until the rate allows the next read."""
        self._due = max(self._due + self._step, monotonic() - _BURST_SECONDS)
        sleep(max(0.0, self._due - monotonic()))

    def acquire(self) -> None:
        """Wait until another read may be in progress."""
        self._room.acquire()

    def release(self) -> None:
        """A read is over: the worker has its bytes."""
        self._room.release()


class Reads:
    """Answers the reads of one input; owns its source from :meth:`begin` until :meth:`stop`.

    :param pace: of the run.
    :param on_failure: called with the exception of a failed read, before the socket is closed.
    """

    drains = False

    def __init__(
        self, source: RandomSource, pace: ReadPace, on_failure: Callable[[BaseException], None]
    ) -> None:
        self._source = source
        self._pace = pace
        self._on_failure = on_failure
        self._fd = -1
        self._task: GreenTask | None = None
        self.bytes_taken = 0
        self.waits_for_source = False
        self.last_progress = monotonic()

    def begin(self) -> int:
        """Serve reads; the worker's end of the socket pair, which the caller owns."""
        self._fd, theirs = exchange()
        self._task = spawn(self._run)
        return theirs

    @property
    def is_over(self) -> bool:
        return self._task is None or bool(self._task.dead)

    def wait(self) -> None:
        """Return when the worker has closed the input."""
        if self._task is not None:
            self._task.wait()

    def stop(self) -> None:
        """End the read in progress, and close the source."""
        if self._task is not None:
            end(self._task)
        self._close()

    def _run(self) -> None:
        """The task: a task must not raise."""
        try:
            while (asked := self._request()) is not None:
                self._answer(*asked)
        except Killed:
            raise
        except (BrokenPipeError, ConnectionResetError):
            pass  # the storlet has closed its input
        except BaseException as error:  # noqa: BLE001 - Swift's timeouts are no Exception
            self._on_failure(error)
        finally:
            self._close()

    def _request(self) -> tuple[int, int] | None:
        """Offset and length of the next read; ``None`` at the end."""
        data = b""
        while len(data) < _REQUEST.size:
            try:
                piece = os.read(self._fd, _REQUEST.size - len(data))
            except BlockingIOError:
                wait_readable(self._fd, None)
                continue
            if not piece:
                return None
            data += piece
        self.last_progress = monotonic()
        first, length = _REQUEST.unpack(data)
        if not 1 <= length <= READ_MAX or first + length > self._source.size:
            text = f"the storlet's sandbox sent an invalid read of an input: {length} at {first}"
            raise Unprocessable(text)
        return first, length

    def _answer(self, first: int, length: int) -> None:
        self.waits_for_source = True
        try:
            self._pace.await_turn()
        finally:
            self.waits_for_source = False
        self._pace.acquire()
        try:
            self.waits_for_source = True
            try:
                data = self._source.read(first, length)
            finally:
                self.waits_for_source = False
                self.last_progress = monotonic()
            self.bytes_taken += len(data)
            write_all(self._fd, data, self._note_progress)
        finally:
            self._pace.release()

    def _note_progress(self, _count: int) -> None:
        self.last_progress = monotonic()

    def _close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            forget(fd)
            os.close(fd)
        self._source.close()
