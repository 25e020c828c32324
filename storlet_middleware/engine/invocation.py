"""One run of one storlet: start, output and cancel; the owner of its descriptors.

Owners of the descriptors::

    made by            filter keeps until                 sandbox holds
    input file         close(); the caller owns it and    a copy of its own (SCM_RIGHTS)
                       closes it after that
    input stream       writing end: its Feeder            reading end
    output streams     reading ends: close()              writing ends
    log (memfd)        close()                            a copy
    connection         close(); closing it cancels        the worker, duplicate in supervisor

States: ``start`` -> ``first`` (the first output or the end of the storlet is known) -> ``read``
until ``b""`` -> ``close``.  ``close`` is valid at any time and is the cancel: the supervisor kills
the worker's whole process group.

Further outputs are read by tasks of their own (:mod:`~storlet_middleware.engine.further_outputs`).

The module relies on one invariant: **the end of the data stream means nothing; only ``done`` with
outcome ``ok`` is a success.**  :meth:`Invocation.read` returns ``b""`` only after it.

:mod:`~storlet_middleware.engine.progress` has the deadlines, and
:mod:`~storlet_middleware.engine.events` handles the worker's events.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from storlet_daemon.protocol import messages
from storlet_daemon.protocol.descriptors import sealed_memory
from storlet_middleware import errors
from storlet_middleware.concurrency import WaitExpired, monotonic
from storlet_middleware.engine.connection import Connection
from storlet_middleware.engine.events import Events
from storlet_middleware.engine.further_outputs import FurtherOutputs, Sink
from storlet_middleware.engine.handover import Handover, offset, stream
from storlet_middleware.engine.inputs import Inputs
from storlet_middleware.engine.log_pieces import LogPiece, LogPieces
from storlet_middleware.engine.output import OutputCount
from storlet_middleware.engine.output_stream import OutputStream, ReadPace
from storlet_middleware.engine.progress import Progress
from storlet_middleware.engine.services import Services, ServiceUsage
from storlet_middleware.engine.task import Input, Task
from storlet_middleware.errors import InputIncomplete, StorletError, Unprocessable

#: The end of a log that the record of a failed run has.
LOG_TAIL_BYTES: Final = 4096
#: Interval at which the connection is polled while no data comes: ``done`` may have arrived.
_POLL_SECONDS: Final = 0.25


class _HeldSlot:
    """The slot of an invocation; released once.

    A separate object, so that no reference cycle delays the release of an invocation's memory.
    """

    __slots__ = ("_release",)

    def __init__(self) -> None:
        self._release: Callable[[], None] | None = None

    def hold(self, release: Callable[[], None]) -> None:
        """Own a slot; ``release`` returns it to the node."""
        self._release = release

    def release(self) -> None:
        """Release the slot, if one is held."""
        release, self._release = self._release, None
        if release is not None:
            release()


class Invocation:
    """See the module's text.  Only one green task may use it at a time.

    :param sinks: receivers of further outputs, which the caller owns.
    """

    def __init__(
        self,
        task: Task,
        inputs: Sequence[Input],
        sinks: Sequence[Sink] = (),
    ) -> None:
        self.task = task
        #: Bytes of the first output.
        self.length = 0
        self._slot = _HeldSlot()
        self._connection = Connection()
        self._inputs = Inputs(inputs, self._connection.cancel, task.limits.services.rate)
        self._progress = Progress(task.deadlines, self._inputs)
        self._handover = Handover()
        self._output, self._pace = OutputStream(), ReadPace()
        failure = self._inputs.failure
        self._count = OutputCount(self._progress, failure)
        self._further = FurtherOutputs(sinks, self._count, failure, self._pace)
        self._services: Services | None = None
        self._events = Events(
            self._connection,
            self._inputs,
            self._progress,
            self._output,
            self._further,
            self._slot.release,
        )
        self.metadata, self.usage = self._events.metadata, self._events.usage
        self._log, self._log_pieces = -1, LogPieces(task.log_delay_seconds)
        self._head: bytes | None = None
        self._is_finished = False
        #: Output that :meth:`has_ended` has read.
        self._ahead: deque[bytes] = deque()

    @property
    def bytes_out(self) -> int:
        """Bytes of all outputs."""
        return self._count.total

    @property
    def waited_seconds(self) -> float:
        """Seconds in the queue of the node."""
        return self._progress.waited

    @property
    def has_started(self) -> bool:
        """Whether a worker has begun to run the storlet."""
        return self._progress.has_started

    # --- start ------------------------------------------------------------------------------------

    def adopt_slot(self, waited_seconds: float, release: Callable[[], None]) -> None:
        """Own a slot of the node; ``release`` is called at the end of the run or by :meth:`close`.

        The time in the node's queue counts for the queue deadline only.
        """
        self._progress.add_waiting(waited_seconds)
        self._slot.hold(release)

    def adopt_services(self, services: Services) -> None:
        """Own the services of the run, which the storlet may use; before the start."""
        self._services = self._progress.services = services

    def adopt_node_check(self, node_fault: Callable[[], str]) -> None:
        """Call ``node_fault`` before a stall is blamed on the storlet; see :class:`Events`."""
        self._events.node_fault = node_fault

    def prepare(self) -> None:
        """Encode the message for the worker before the connection, if that does not start to read a
        source.

        The connection wakes the worker; if the message follows at once, no second wake-up is
        needed.  The message is fixed from here on, and after a failure here the invocation cannot
        be started.
        """
        if self._handover.message is None and not self._inputs.has_streams:
            self._handover.encode(self._describe())

    def start(self, connection: socket.socket) -> None:
        """Hand the invocation to a worker; the invocation owns ``connection`` from here on."""
        self._connection.open(connection)
        self._progress.begin_stage()
        try:
            if self._handover.message is None:
                self._handover.encode(self._describe())
            self._handover.send(connection, self._progress.queue_seconds())
        except WaitExpired:
            raise self._events.blamed(self._progress.exceeded_queue()) from None
        finally:
            self._handover.close()

    def _describe(self) -> messages.Invoke:
        """The message; makes the descriptors that go with it."""
        handover, limits = self._handover, self.task.limits
        inputs = self._inputs.describe(handover)
        self._progress.begin_files()
        self._output.fd, end = stream(reader_is_ours=True)
        output = messages.Output(handover.donate(end))
        further = self._further.describe(handover)
        log = None
        if self.task.wants_log or self.task.keeps_log_tail:
            self._log = sealed_memory("storlet-log", limits.log)
            log = messages.Log(handover.lend(self._log), limits.log)
        self._count.limit = limits.output
        self._events.max_metadata_bytes = limits.metadata
        of_worker = messages.Limits(limits.metadata)
        services = None
        if self._services is not None:
            begun = self._services.begin(
                self._inputs.failure.record, self._count.add_created, self._pace
            )
            given = handover.donate(begun)
            services = messages.Services(given, self._services.operations)
        return messages.Invoke(
            self.task.id, inputs, output, self.task.parameters, log, of_worker, further, services
        )

    def await_start(self) -> None:
        """Return when a worker has loaded the storlet and begins to run it; raises if it cannot."""
        while not self.has_started:
            self._events.take(None)

    # --- output -----------------------------------------------------------------------------------

    def first(self, wait: float | None = None) -> bool:
        """True when the first output or the successful end is known; raises if the storlet failed
        before.

        With ``wait``, False after that many seconds without either: the caller sends a heartbeat
        and calls again.
        """
        until = None if wait is None else monotonic() + wait
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
        while not self._output.has_end:
            # The first event may only say that the storlet has begun.
            if not self._events.take(0.0):
                return False
        while not self._is_finished:
            if not self._further.are_over:
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
            if self.length > most_bytes:
                return False
            chunk = self._read(until)
            if chunk is None:
                return False
            if chunk:
                self._ahead.append(chunk)
        return True

    def _read(self, until: float | None) -> bytes | None:
        self._pace.before_read()
        while True:
            chunk = self._output.read()
            if chunk:
                break
            if chunk is None and self._output.has_end:
                # The storlet kept a duplicate of its output; all output before ``done`` was read.
                chunk = b""
            if chunk == b"" and self._output.has_end:
                self._inputs.finish()
                self._further.finish()
                if self._services is not None:
                    self._services.finish()
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
        poll = monotonic() + _POLL_SECONDS
        if self._events.wait(self._output.fd, poll if until is None else min(poll, until)):
            return True
        if self._events.take(0.0):
            return True
        return until is None or monotonic() < until

    def stalled(self, reason: str) -> StorletError:
        """The error of a reader that has waited for output too long, for ``reason``."""
        if self._inputs.waits_for_source:
            return InputIncomplete(f"the input stalled: {reason}")
        text = f"the storlet stalled: {reason}"
        return self._events.blamed(Unprocessable(text, code=errors.TIMEOUT_IDLE))

    # --- end --------------------------------------------------------------------------------------

    def log_bytes(self) -> bytes:
        """The storlet's log so far, also of one that was killed; its end if only that is kept."""
        if self._log < 0:
            return b""
        size = min(offset(self._log), self.task.limits.log)
        begin = 0 if self.task.wants_log else max(0, size - LOG_TAIL_BYTES)
        return os.pread(self._log, size - begin, begin)

    def due_log_piece(self) -> LogPiece | None:
        """The new lines of the log of a run that is followed; does not wait."""
        return self._log_pieces.due(self._log, self.task.limits.log)

    def last_log_piece(self) -> LogPiece | None:
        """The rest of the log, after the end of the run and before :meth:`close`."""
        return self._log_pieces.last(self._log, self.task.limits.log)

    def bytes_in(self) -> int:
        """Bytes of input that the storlet has taken."""
        return self._inputs.bytes_taken()

    @property
    def service_usage(self) -> ServiceUsage | None:
        """The run's use of the store; ``None`` if it has no services."""
        return None if self._services is None else self._services.usage

    def close(self) -> None:
        """Release everything; cancels a storlet that has not ended.  May be called twice."""
        self._slot.release()
        self._connection.close()
        try:
            self._inputs.close()
        finally:
            self._further.close()
            if self._services is not None:
                self._services.close()
            self._handover.close()
            self._output.close()
            if self._log >= 0:
                log, self._log = self._log, -1
                os.close(log)
