"""One run of one storlet: start and cancel; the owner of its descriptors.

Owners of the descriptors::

    made by            filter keeps until                 sandbox holds
    input file         close(); the caller owns it and    a copy of its own (SCM_RIGHTS)
                       closes it after that
    input stream       writing end: its Feeder            reading end
    output streams     reading ends: close()              writing ends
    log (memfd)        close()                            a copy
    connection         close(); closing it cancels        the worker, duplicate in supervisor

States: ``start`` -> ``output.first`` (the first output or the end of the storlet is known) ->
``output.read`` until ``b""`` -> ``close``.  ``close`` is valid at any time and is the cancel: the
supervisor kills the worker's whole process group.

Further outputs are read by tasks of their own (:mod:`~storlet_middleware.engine.further_outputs`).

The engine relies on one invariant: **the end of the data stream means nothing; only ``done`` with
outcome ``ok`` is a success.**

:mod:`~storlet_middleware.engine.first_output` reads the output,
:mod:`~storlet_middleware.engine.progress` has the deadlines, and
:mod:`~storlet_middleware.engine.events` handles the worker's events.
"""

from __future__ import annotations

import binascii
import socket
from collections.abc import Callable, Mapping, Sequence

from storlet_daemon.protocol import messages
from storlet_daemon.protocol.redaction import Redaction
from storlet_middleware import errors
from storlet_middleware.concurrency import WaitExpired
from storlet_middleware.engine.connection import Connection
from storlet_middleware.engine.events import Events
from storlet_middleware.engine.first_output import FirstOutput
from storlet_middleware.engine.further_outputs import FurtherOutputs, Sink
from storlet_middleware.engine.handover import Handover, stream
from storlet_middleware.engine.inputs import Inputs
from storlet_middleware.engine.output import OutputCount
from storlet_middleware.engine.output_stream import OutputStream, ReadPace, Turns
from storlet_middleware.engine.progress import Progress
from storlet_middleware.engine.run_log import RunLog
from storlet_middleware.engine.services import Services, ServiceUsage
from storlet_middleware.engine.start_times import StartTimes
from storlet_middleware.engine.task import Input, Task
from storlet_middleware.errors import InputIncomplete, StorletError, Unprocessable


class _HeldSlot:
    """The slot of an invocation; released once.

    A separate object, so that no reference cycle delays the release of an invocation's memory.
    """

    #: Returns the slot to the node; ``None`` while no slot is held.
    held: Callable[[], None] | None = None

    def release(self) -> None:
        """Release the slot, if one is held."""
        release, self.held = self.held, None
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
        self._slot = _HeldSlot()
        self._connection = Connection()
        self._inputs = Inputs(inputs, self._connection.cancel, task.limits.services.rate)
        self._progress = Progress(task.deadlines, self._inputs)
        self._handover = Handover()
        self._stream, self._pace = OutputStream(), ReadPace()
        failure = self._inputs.failure
        self._count = OutputCount(self._progress, failure)
        self._further = FurtherOutputs(sinks, self._count, failure, self._pace) if sinks else None
        self._services: Services | None = None
        self._events = Events(
            self._connection,
            self._inputs,
            self._progress,
            self._stream,
            self._count,
            self._slot.release,
        )
        self._events.further = self._further
        self.metadata, self.usage = self._events.metadata, self._events.usage
        self.output = FirstOutput(
            self._stream, self._pace, self._count, self._events, self._inputs, self._further
        )
        self.log = RunLog(task)
        #: The parts of the time until a worker has begun it.
        self.start_times: StartTimes = self._progress.start_times

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
        self._slot.held = release

    def share_turns(self, make_turns: Callable[[], Turns]) -> None:
        """Take turns with the other runs of the account where output comes in small pieces.

        :param make_turns: gives the turns of the account; called at the first need.
        """
        self._pace.make_turns = make_turns

    def replace_task(self, task: Task) -> None:
        """Run another version of the storlet, which has replaced the one of the former task.

        Nothing was handed over yet, and nothing was prepared.
        """
        if self._handover.message is not None:
            raise AssertionError("the message of the former task is made")
        self.task = self.log.task = task
        self._progress.replace_deadlines(task.deadlines)
        self._inputs.rate = task.limits.services.rate

    def adopt_services(self, services: Services | None) -> None:
        """Own the services of the run, which the storlet may use; before the start.

        They replace those of a version of the storlet that was replaced; ``None``: it has none.
        """
        if self._services is not None:
            self._services.close()
        self._services = self._progress.services = self.output.services = services

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

    def start(self, connection: socket.SocketType) -> None:
        """Hand the invocation to a worker; the invocation owns ``connection`` from here on."""
        self._connection.open(connection)
        self._progress.begin_stage()
        try:
            if self._handover.message is None:
                self._handover.encode(self._describe())
            self._handover.send(connection, self._progress.queue_seconds)
        except WaitExpired:
            raise self._events.blamed(self._progress.exceeded_queue()) from None
        finally:
            self._handover.close()

    def _describe(self) -> messages.Invoke:
        """The message; makes the descriptors that go with it."""
        handover, limits = self._handover, self.task.limits
        secrets: dict[str, str] | None = None
        if self.task.secrets:
            secrets = _as_texts(self.task.secrets)
            self._events.redaction = self.log.redaction = Redaction(self.task.secrets.values())
        inputs = self._inputs.describe(handover)
        self._stream.fd, end = stream(reader_is_ours=True)
        output = messages.Output(handover.donate(end))
        further = None if self._further is None else self._further.describe(handover)
        log = self.log.open(handover)
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
            self.task.id, inputs, output, self.task.parameters, log, of_worker, further, services,
            secrets,
        )  # fmt: skip

    def await_start(self) -> None:
        """Return when a worker has loaded the storlet and begins to run it; raises if it cannot."""
        while not self.has_started:
            self._events.take(None)

    def stalled(self, reason: str) -> StorletError:
        """The error of a reader that has waited for output too long, for ``reason``."""
        if self._inputs.waits_for_source:
            return InputIncomplete(f"the input stalled: {reason}")
        text = f"the storlet stalled: {reason}"
        return self._events.blamed(Unprocessable(text, code=errors.TIMEOUT_IDLE))

    # --- end --------------------------------------------------------------------------------------

    def bytes_in(self) -> int:
        """Bytes of input that the storlet has taken."""
        return self._inputs.bytes_taken()

    @property
    def service_usage(self) -> ServiceUsage | None:
        """The run's use of the store; ``None`` if it has no services."""
        return None if self._services is None else self._services.usage

    def close(self) -> None:
        """Release everything; cancels a storlet that has not ended.  May be called twice.

        An exception that is thrown into this task while it waits leaves nothing open.
        """
        self._slot.release()
        self._connection.close()
        # Not an exit stack, which would be further calls in each run.
        try:
            self._inputs.close()
        finally:
            try:
                if self._further is not None:
                    self._further.close()
            finally:
                try:
                    if self._services is not None:
                        self._services.close()
                finally:
                    self._handover.close()
                    self._stream.close()
                    self.log.close()


def _as_texts(secrets: Mapping[str, bytes]) -> dict[str, str]:
    """The values of secrets as the message has them."""
    return {
        name: binascii.b2a_base64(value, newline=False).decode() for name, value in secrets.items()
    }
