"""The first output of an invocation, read by its receiver.

:meth:`FirstOutput.first` waits until the first bytes or the end are known, so that a storlet that
fails early gives a proper error.  After that, the output may be read ahead while its end is
awaited.

:meth:`FirstOutput.read` returns ``b""`` only after ``done`` with outcome ``ok``, when the inputs,
the further outputs and the services have finished, too.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from storlet_middleware.concurrency import monotonic
from storlet_middleware.engine.events import Events
from storlet_middleware.engine.further_outputs import FurtherOutputs
from storlet_middleware.engine.inputs import Inputs
from storlet_middleware.engine.output import OutputCount
from storlet_middleware.engine.output_stream import POLL_SECONDS, OutputStream, ReadPace
from storlet_middleware.engine.services import Services

#: A storlet that gives output this soon costs its reader one wake-up.  A worker sends three
#: messages before the first byte, and the kernel would let the reader preempt it for each of them.
_SOON_SECONDS: Final = 0.01


class FirstOutput:
    """See the module.  Only one green task may use it at a time."""

    def __init__(
        self,
        stream: OutputStream,
        pace: ReadPace,
        count: OutputCount,
        events: Events,
        inputs: Inputs,
        further: FurtherOutputs | None,
    ) -> None:
        self._stream = stream
        self._pace = pace
        self._count = count
        self._events = events
        self._inputs = inputs
        self._further = further
        self.services: Services | None = None
        #: Bytes that were read.
        self.length = 0
        self._head: bytes | None = None
        self._is_finished = False
        #: Output that :meth:`has_ended` has read.
        self._ahead: deque[bytes] = deque()

    def first(self, wait: float | None = None) -> bool:
        """True when the first output or the successful end is known; raises if the storlet failed
        before.

        With ``wait``, False after that many seconds without either: the caller sends a heartbeat
        and calls again.
        """
        until = None if wait is None else monotonic() + wait
        if self._events.is_new:
            self._await_soon(until)
        while not self._events.has_metadata:
            if not self._events.take(until):
                return False
        if self._head is None:
            self._head = self._read(until)
        return self._head is not None

    def read(self, wait: float | None = None) -> bytes | None:
        """The next bytes of output; ``b""`` at its end, a success; ``None`` after ``wait`` seconds.

        Every other outcome raises its :class:`~storlet_middleware.errors.StorletError`.
        """
        if self._head is not None:
            head, self._head = self._head, None
            if head:
                return head
            # first() has reached and verified the end.
            self._head = b""
            return b""
        if self._ahead:
            return self._ahead.popleft()
        if self._is_finished:
            return b""
        return self._read(None if wait is None else monotonic() + wait)

    def has_ended(self) -> bool:
        """After :meth:`first`, without waiting: whether the storlet has succeeded; all output is
        here then.

        Raises what :meth:`read` would raise later, if that is known already.
        """
        while not self._stream.has_end:
            # The first event may only say that the storlet has begun.
            if not self._events.take(0.0):
                return False
        while not self._is_finished:
            if self._further is not None and not self._further.are_over:
                return False
            chunk = self._read(0.0)
            if chunk:
                self._ahead.append(chunk)
        return True

    def end_within(self, seconds: float, most_bytes: int) -> bool:
        """After :meth:`first`: as :meth:`has_ended`, but wait for the end for ``seconds``, as long
        as there is no more output than ``most_bytes``.
        """
        until = monotonic() + seconds
        while not self._is_finished:
            # A read that finds data does not look at the time: bytes may come one by one.
            if self.length > most_bytes or monotonic() >= until:
                return False
            chunk = self._read(until)
            if chunk is None:
                return False
            if chunk:
                self._ahead.append(chunk)
        return True

    def _await_soon(self, until: float | None) -> None:
        """Wait for output, or its end, for a short time in which events cause no wake-up."""
        soon = monotonic() + _SOON_SECONDS
        self._events.wait(self._stream.fd, soon if until is None else min(soon, until))

    def _read(self, until: float | None) -> bytes | None:
        self._pace.before_read()
        while True:
            chunk = self._stream.read()
            if chunk:
                break
            if chunk is None and self._stream.has_end:
                # The storlet kept a duplicate of its output; all output before ``done`` was read.
                chunk = b""
            if chunk == b"" and self._stream.has_end:
                self._inputs.finish()
                if self._further is not None:
                    self._further.finish()
                if self.services is not None:
                    self.services.finish()
                self._is_finished = True
                return b""
            if not self._wait_for_more(chunk, until):
                return None
        self.length += len(chunk)
        self._count.add(len(chunk))
        self._pace.after_read(len(chunk))
        return chunk

    def _wait_for_more(self, chunk: bytes | None, until: float | None) -> bool:
        """Wait for data, polling for events.

        At the end of the data for events.  False at ``until``.
        """
        if chunk == b"":
            return self._events.take(until)
        # ``done`` may have arrived while no data comes.
        poll = monotonic() + POLL_SECONDS
        if self._events.wait(self._stream.fd, poll if until is None else min(poll, until)):
            return True
        if self._events.take(0.0):
            return True
        return until is None or monotonic() < until
