"""The outputs of an invocation after the first: each is read by a task, which gives it to a sink.

A storlet may write its outputs in any order, and may leave one until the others are complete.  So
no reader may wait for another one: the first output is read as its receiver takes it, and each
further one as its sink takes it.  A storlet waits only where it writes more than a receiver takes.

The bytes of a further output are part of the result only after ``done`` with outcome ``ok``, as
those of the first.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Protocol

from storlet_daemon.protocol import messages
from storlet_middleware.concurrency import GreenTask, Killed, Signal, end, spawn
from storlet_middleware.engine.failure import Failure
from storlet_middleware.engine.handover import Handover, stream
from storlet_middleware.engine.output import OutputCount
from storlet_middleware.engine.output_stream import OutputStream, ReadPace, next_chunk


class Sink(Protocol):
    """Receives one further output.  Both methods may raise, which fails the run."""

    def begin(self, metadata: Mapping[str, str]) -> None:
        """Called once, before any byte; must not wait."""

    def write(self, chunk: bytes) -> None:
        """Take ``chunk``; waits while there is no room for it."""


class FurtherOutput:
    """One further output: its stream, its metadata and its reader.

    Owns the stream's reading end from :meth:`open` until :meth:`close`.
    """

    def __init__(self, sink: Sink, count: OutputCount, failure: Failure, pace: ReadPace) -> None:
        self._sink = sink
        self._count = count
        self._failure = failure
        self._stream = OutputStream()
        self._pace = pace
        self._begun = Signal()
        self._task: GreenTask | None = None
        #: Whether the reader waits for its sink.
        self.is_held_up = False

    def open(self, handover: Handover) -> messages.Output:
        """Make the stream, add the writing end to ``handover``, and begin to read."""
        self._stream.fd, writing = stream(reader_is_ours=True)
        described = messages.Output(handover.donate(writing))
        self._task = spawn(self._run)
        return described

    @property
    def has_metadata(self) -> bool:
        return self._begun.is_set

    def begin(self, metadata: Mapping[str, str]) -> None:
        """The storlet has set the metadata."""
        self._sink.begin(metadata)
        self._begun.set()

    def end_here(self) -> None:
        """The storlet has succeeded: the bytes in the stream are the rest."""
        self._stream.end_here()

    @property
    def is_over(self) -> bool:
        """Whether all was read and taken, or the reader has failed."""
        return self._task is None or bool(self._task.dead)

    def wait(self) -> None:
        """Return when the output is over."""
        if self._task is not None:
            self._task.wait()

    def close(self) -> None:
        """Stop reading, and close the stream; may be called twice."""
        task, self._task = self._task, None
        try:
            if task is not None:
                end(task)
        finally:
            self._stream.close()

    def _run(self) -> None:
        try:
            while chunk := next_chunk(self._stream, self._pace, self._count.add):
                self._begun.wait(None)
                self.is_held_up = True
                self._sink.write(chunk)
                self.is_held_up = False
                self._count.begin_stage()
        except Killed:
            raise
        except BaseException as error:  # noqa: BLE001 - the reader of the result raises it
            self._failure.record(error)


class FurtherOutputs:
    """All further outputs of one invocation that has some."""

    def __init__(
        self, sinks: Sequence[Sink], count: OutputCount, failure: Failure, pace: ReadPace
    ) -> None:
        self._outputs = [FurtherOutput(sink, count, failure, pace) for sink in sinks]
        self._failure = failure

    def describe(self, handover: Handover) -> list[messages.Output]:
        """Begin to read all outputs; their descriptions."""
        return [output.open(handover) for output in self._outputs]

    @property
    def have_metadata(self) -> bool:
        """Whether the metadata of all is known."""
        return all(output.has_metadata for output in self._outputs)

    def is_missing(self, number: int) -> bool:
        """Whether the output with this number exists, and has no metadata yet."""
        return 1 <= number <= len(self._outputs) and not self._outputs[number - 1].has_metadata

    def begin(self, number: int, metadata: Mapping[str, str]) -> None:
        """The storlet has set the metadata of the output with this number."""
        self._outputs[number - 1].begin(metadata)

    def end_here(self) -> None:
        """The storlet has succeeded."""
        for output in self._outputs:
            output.end_here()

    @property
    def are_held_up(self) -> bool:
        """Whether a reader waits for its sink."""
        return any(output.is_held_up for output in self._outputs)

    @property
    def are_over(self) -> bool:
        """Whether the sinks have taken all bytes."""
        return all(output.is_over for output in self._outputs)

    def finish(self) -> None:
        """After :meth:`end_here`: return when the sinks have taken all bytes."""
        for output in self._outputs:
            output.wait()
        self._failure.raise_error()

    def close(self) -> None:
        """Stop all readers; may be called twice."""
        with contextlib.ExitStack() as stack:
            for output in self._outputs:
                stack.callback(output.close)
