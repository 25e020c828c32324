"""The events that a worker sends about one invocation, and waits that end at its deadlines.

A deadline that passed is the storlet's fault only if this process ran, the output had a reader,
and the node is well; see :meth:`Events.wait`.

``started``, ``metadata`` (one for each output) and ``done`` arrive on the connection, in this
order. An event out of order, or an invalid one, is a failure of the storlet: its sandbox is not
trusted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from storlet_daemon.protocol import messages
from storlet_daemon.protocol.redaction import Redaction
from storlet_middleware import errors
from storlet_middleware.concurrency import WaitExpired, monotonic, wait_readable
from storlet_middleware.engine.connection import Connection
from storlet_middleware.engine.further_outputs import FurtherOutputs
from storlet_middleware.engine.inputs import Inputs
from storlet_middleware.engine.output import OutputCount, checked_metadata
from storlet_middleware.engine.output_stream import POLL_SECONDS, OutputStream
from storlet_middleware.engine.progress import Progress
from storlet_middleware.errors import SandboxUnavailable, StorletError, Unprocessable, from_code

#: A wait that ends this long after its deadline did not run in time: the process was stopped or
#: starved, or the deadline passed while the output had no reader.
_LATE_SECONDS: Final = 1.0


class Events:
    """The events of one invocation.

    :param connection: to the worker; closed after ``done``.
    :param output: the first output; its end is set at a successful ``done``.
    :param count: of the bytes of all outputs.
    :param on_done: called at ``done``, before the connection is closed.
    """

    def __init__(
        self,
        connection: Connection,
        inputs: Inputs,
        progress: Progress,
        output: OutputStream,
        count: OutputCount,
        on_done: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._inputs = inputs
        self._failure = inputs.failure
        self._progress = progress
        self._output = output
        self._count = count
        self._on_done = on_done
        #: The outputs after the first, whose end is set likewise; ``None`` if there are none.
        self.further: FurtherOutputs | None = None
        #: The limit of the task, set before the first event.
        self.max_metadata_bytes = 0
        #: Removes the values of the run's secrets from the texts of an error.
        self.redaction: Redaction | None = None
        #: Returns why the node, and not the storlet, has stalled; empty if the node is well.
        self.node_fault: Callable[[], str] = str
        #: Whether the metadata of the first output is known.
        self.has_metadata = False
        #: Filled by the events ``metadata`` and ``done``.
        self.metadata: dict[str, str] = {}
        self.usage: dict[str, Any] = {}
        #: No event was read or waited for yet.
        self.is_new = True

    def take(self, until: float | None) -> bool:
        """Handle one event; False if none came until ``until``."""
        # No worker begins within the microseconds since the hand-over: a first attempt would fail,
        # and costs as much as an event. A later one may find an event that came in between.
        must_wait = self.is_new and (until is None or monotonic() < until)
        self.is_new = False
        while True:
            if must_wait and not self.wait(self._connection.fileno(), until):
                return False
            try:
                event = self._connection.receive()
                break
            except BlockingIOError:
                if until is not None and until <= monotonic():
                    return False
                must_wait = True
            except StorletError:
                self._failure.raise_error()
                raise
        if self._failure.error is not None:
            raise self._failure.error
        self._handle(event)
        return True

    def wait(self, fd: int, until: float | None) -> bool:
        """True when ``fd`` may be readable; False at ``until``; raises when a deadline passed.

        Time in which this process did not run, or in which the output had no reader (a slow client,
        a storage node that stalls), is no time of the storlet's: it gets the deadline again.
        """
        due = self._progress.deadline(self._count.total)
        self.is_new = False
        is_short = until is not None and until < due
        end = until if until is not None and is_short else due
        # A byte of a further output, which a task of its own reads, changes the deadline.
        has_further = self.further is not None
        is_poll = not is_short and has_further and due - monotonic() > POLL_SECONDS
        if is_poll:
            end = monotonic() + POLL_SECONDS
        self._inputs.is_output_awaited = True
        try:
            wait_readable(fd, max(end - monotonic(), 0.001))
        except WaitExpired:
            self._failure.raise_error()
            if is_short:
                self._progress.sample()
                return False
            if is_poll or self._progress.has_progressed() or self._have_outputs_progressed(due):
                return True
            if monotonic() - due > _LATE_SECONDS and not self._progress.is_over:
                self._progress.begin_stage()
                return True
            raise self.blamed(self._progress.exceeded(self._count.total)) from None
        finally:
            self._inputs.is_output_awaited = False
        return True

    def _have_outputs_progressed(self, due: float) -> bool:
        """Whether a further output was read before ``due``, or waits for its receiver."""
        is_held_up = self.further is not None and self.further.are_held_up
        if is_held_up and not self._progress.is_over:
            self._progress.begin_stage()
            return True
        return self._progress.deadline(self._count.total) > due

    def blamed(self, stalled: StorletError) -> StorletError:
        """``stalled``, or an error of the node if that is what has stalled."""
        fault = self.node_fault()
        return SandboxUnavailable(f"the node stalled: {fault}") if fault else stalled

    def _handle(self, event: messages.Message) -> None:
        if isinstance(event, messages.Started) and not self._progress.has_started:
            self._progress.start()
            return
        if isinstance(event, messages.Metadata) and self._is_expected(event.output or 0):
            self._handle_metadata(event)
        elif isinstance(event, messages.Done) and not self._output.has_end:
            self._handle_done(event)
        else:
            text = f"the storlet's sandbox sent an event out of order: {type(event).TYPE}"
            raise Unprocessable(text)
        self._progress.begin_stage()

    def _is_expected(self, number: int) -> bool:
        """Whether the output with this number exists, and has no metadata yet."""
        if not number:
            return not self.has_metadata
        return self.further is not None and self.further.is_missing(number)

    def _handle_metadata(self, event: messages.Metadata) -> None:
        metadata = checked_metadata(event.metadata, self.max_metadata_bytes)
        if event.output and self.further is not None:
            self.further.begin(event.output, metadata)
        else:
            self.metadata.update(metadata)
            self.has_metadata = True

    def _handle_done(self, done: messages.Done) -> None:
        self._on_done()
        self._connection.finish()
        if done.usage is not None:
            self.usage |= {
                "cpu_seconds": done.usage.cpu_seconds,
                "peak_memory_bytes": done.usage.peak_memory_bytes,
            }
            self._inputs.reported_bytes = done.usage.input_bytes or 0
        further = self.further
        if done.is_ok and self.has_metadata and (further is None or further.have_metadata):
            self._output.end_here()
            if further is not None:
                further.end_here()
            return
        # A sandbox may attribute an error to its own tenant's code only.
        is_known = done.code in messages.SANDBOX_CODES and done.code != messages.PROTOCOL
        code = done.code if done.code and is_known else errors.STORLET_FAILED
        text, detail = done.message or "the storlet gave no reason", done.traceback or ""
        if self.redaction is not None:
            text, detail = self.redaction.text(text), self.redaction.text(detail)
        raise from_code(code, messages.one_line(text), detail=messages.cut_middle(detail))
