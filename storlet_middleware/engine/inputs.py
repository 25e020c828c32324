"""The inputs of an invocation: files that the worker reads, sources that are fed into streams, and
sources of which the worker requests ranges.

A source that fails is recorded here and cancels the invocation before its stream is closed.
The storlet may see the end of the stream before it is killed; its output is discarded.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import final

from storlet_daemon.protocol import messages
from storlet_middleware import errors
from storlet_middleware.engine.failure import Failure
from storlet_middleware.engine.feed import Feeder
from storlet_middleware.engine.handover import Handover, offset, stream
from storlet_middleware.engine.reads import ReadPace, Reads
from storlet_middleware.engine.task import (
    FileInput,
    Input,
    SeekableInput,
    ServiceLimits,
    StreamInput,
)
from storlet_middleware.errors import BackendFailed, InputIncomplete, StorletError


@final
class ContentFiles:
    """Files with a given content, until the end of a ``with`` statement.

    Each content is written once, also for many inputs: writing takes the time of all tasks.
    """

    def __init__(self) -> None:
        self._opened = contextlib.ExitStack()
        self._files: dict[bytes, int] = {}

    def __enter__(self) -> ContentFiles:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    @contextlib.contextmanager
    def open(
        self, content: bytes, metadata: Mapping[str, str], *, is_seekable: bool = False
    ) -> Iterator[FileInput]:
        """An input with a descriptor of its own, for reading only."""
        if content not in self._files:
            file = self._opened.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
            file.write(content)
            file.flush()
            self._files[content] = file.fileno()
        fd = os.open(f"/proc/self/fd/{self._files[content]}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            yield FileInput(fd, metadata, size=len(content) if is_seekable else None)
        finally:
            os.close(fd)


class Inputs:
    """Owner of the sources and their feeders; the files are the caller's.

    :param cancel: called when a source failed, before the storlet can see the end of its stream.
    :param rate: reads in a second of sources in which the storlet seeks.
    """

    __slots__ = (
        "_feeders",
        "_files",
        "_offsets",
        "_pace",
        "_pending",
        "_seekable",
        "failure",
        "is_output_awaited",
        "rate",
        "reported_bytes",
    )

    def __init__(
        self,
        items: Sequence[Input],
        cancel: Callable[[], None],
        rate: int = ServiceLimits.rate,
    ) -> None:
        #: The first failure of a source, or of another task of the invocation.
        self.failure = Failure(cancel)
        #: Inputs that were not handed over yet.
        self._pending = list(items)
        self._feeders: list[Feeder | Reads] = []
        #: See the class; used at the first such source.
        self.rate = rate
        self._pace: ReadPace | None = None
        #: Descriptors of files, with the offset at which each begins.
        self._files: dict[int, int] = {}
        #: How far the storlet had read each at the last sample.
        self._offsets: dict[int, int] = {}
        #: Those of them in which the storlet seeks.
        self._seekable: set[int] = set()
        #: Bytes that the storlet has read from them, as its worker reported at the end.
        self.reported_bytes = 0
        #: Whether a reader waits for the storlet's output.
        self.is_output_awaited = False

    @property
    def has_streams(self) -> bool:
        """Whether the hand-over would begin to read a source."""
        for item in self._pending:  # noqa: SIM110 - a generator would be one more call per input
            if not isinstance(item, FileInput):
                return True
        return False

    def describe(self, handover: Handover) -> list[messages.Input]:
        """Add the descriptors of all inputs to ``handover``; begin to feed the sources."""
        described = []
        while self._pending:
            item = self._pending[0]
            if isinstance(item, FileInput):
                described.append(self._describe_file(item, handover))
            elif isinstance(item, SeekableInput):
                position, size = handover.donate(self._serve(item)), item.source.size
                reads = messages.SEEK_READS
                described.append(messages.Input(position, item.metadata, seekable=reads, size=size))
            else:
                described.append(messages.Input(handover.donate(self._feed(item)), item.metadata))
            # Only now: after a failure above, close() closes the source.
            del self._pending[0]
        return described

    def _describe_file(self, item: FileInput, handover: Handover) -> messages.Input:
        if fcntl.fcntl(item.fd, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY:
            raise AssertionError("the descriptor of an input can be written")
        self._files[item.fd] = item.first or 0
        # Not offset(): before the hand-over no storlet can hold the lock.
        self._offsets[item.fd] = os.lseek(item.fd, 0, os.SEEK_CUR)
        position = handover.lend(item.fd)
        if item.size is None:
            return messages.Input(position, item.metadata, item.first, item.last)
        self._seekable.add(item.fd)
        file = messages.SEEK_FILE
        return messages.Input(position, item.metadata, seekable=file, size=item.size)

    def _serve(self, item: SeekableInput) -> int:
        self._pace = self._pace or ReadPace(self.rate)
        reads = Reads(item.source, self._pace, self._fail)
        position = reads.begin()
        self._feeders.append(reads)
        return position

    def _feed(self, item: StreamInput) -> int:
        reader, writer = stream(reader_is_ours=False)
        self._feeders.append(
            Feeder(item.source, writer, self._fail, drains=item.drains, is_ours=item.is_ours)
        )
        return reader

    @property
    def waits_for_source(self) -> bool:
        """Whether the storlet has taken all input that the sources have given so far."""
        return any(feeder.waits_for_source for feeder in self._feeders)

    def _fail(self, error: BaseException) -> None:
        is_stall = isinstance(error, StorletError) and error.code == errors.TIMEOUT_IDLE
        if is_stall and not self.is_output_awaited:
            # The storlet could not write its output, so it took no input.
            error = BackendFailed(f"the reader of the output stalled: {error}")
        if not isinstance(error, StorletError):
            broken = InputIncomplete(f"the input broke off: {error!r}"[:300])
            broken.__cause__ = error
            error = broken
        self.failure.record(error)

    def were_read(self) -> bool:
        """Whether the storlet has read from a file since the last sample, or the hand-over.

        Its descriptor of a file shares the offset of ours.
        """
        last, self._offsets = self._offsets, {fd: offset(fd) for fd in self._files}
        return self._offsets != last

    def were_fed_since(self, moment: float) -> bool:
        """Whether a storlet took input from a stream after ``moment``, or waits for a source."""
        return any(
            feeder.waits_for_source or feeder.last_progress > moment for feeder in self._feeders
        )

    def bytes_taken(self) -> int:
        """Bytes written into streams, and the offsets up to which the storlet has read files; of
        files in which it seeks, what its worker reported.
        """
        # Loops: most runs have one input, and a generator would be two more calls.
        taken = self.reported_bytes
        for feeder in self._feeders:
            taken += feeder.bytes_taken
        for fd, first in self._files.items():
            if fd not in self._seekable:
                # max(): a storlet may seek in any file.
                taken += max(0, offset(fd) - first)
        return taken

    def finish(self) -> None:
        """The storlet has succeeded: drain the sources that need it, and check all of them."""
        for feeder in self._feeders:
            if not feeder.is_over:
                if feeder.drains:
                    feeder.wait()
                else:
                    feeder.stop()
        self.failure.raise_error()

    def close(self) -> None:
        """Stop all feeders and close all sources; may be called twice."""
        feeders, self._feeders = self._feeders, []
        self._files = {}
        _close_all(feeders, self._pending)


def _close_all(feeders: list[Feeder | Reads], pending: list[Input]) -> None:
    """Empty both lists; a source that cannot be closed leaves no other open.

    Not an exit stack: for the one source of most runs that is nine calls.
    """
    try:
        while pending:
            item = pending.pop(0)
            if not isinstance(item, FileInput):
                item.source.close()
        while feeders:
            feeders.pop().stop()
    except BaseException:
        _close_all(feeders, pending)
        raise
