"""One run of one storlet: descriptors and their owners, events, deadlines, cancel.

Who owns which descriptor, at every step::

    made by            filter keeps until                 sandbox holds
    input file         close(); it is the caller's, who   a copy of its own (SCM_RIGHTS)
                       closes it after that
    input pipe         write end: its Feeder              read end
    output pipe        read end: close()                  write end
    log (memfd)        close()                            a copy
    connection         close(); closing it cancels        the worker, and a duplicate in the supervisor

States: ``start`` -> ``first`` (the storlet's first bytes or its end are known) -> ``read`` until ``b""`` -> ``close``.
``close`` may come at any time and is the cancel: the supervisor kills the worker's whole process group.

The rule that the rest stands on: **the end of the data pipe means nothing; only ``done`` with outcome ``ok`` is a
success.**  :meth:`Invocation.read` returns ``b""`` only after it.

Deadlines count time in which the storlet neither gives output nor takes input while input is at hand: a client that
uploads slowly or reads slowly does not use up its storlet's time.  The total deadline counts everything.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import re
import socket
import struct
import termios
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from storlet_daemon.protocol import framing, messages
from storlet_daemon.protocol.descriptors import Descriptors, sealed_memory
from storlet_middleware import errors
from storlet_middleware.concurrency import WaitExpired, forget, monotonic, sleep, wait_readable, wait_writable
from storlet_middleware.engine.feed import Feeder, Source
from storlet_middleware.errors import (
    BadRequest,
    InputIncomplete,
    InternalError,
    SandboxUnavailable,
    StorletError,
    TenantBusy,
    Unprocessable,
    from_code,
)

PIPE_BYTES: Final = 256 * 1024
CHUNK_BYTES: Final = 256 * 1024
_SPLICE: Final = os.SPLICE_F_MOVE | os.SPLICE_F_NONBLOCK
#: A storlet that writes faster than its reader reads would keep the hub for itself.
_FAIRNESS_BYTES: Final = 4 << 20
#: What HTTP lets a header's name be, and UTF-8 as Swift does.  Swift's clients cannot send it anything else, and a ':' or
#: a space would fail the connections to its object servers, for which it blames them.
_METADATA_KEY: Final = re.compile(r"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]|[^\x00-\xa0\s])+")
#: While no data comes: how often the connection is looked at, where a ``done`` may have come all the same.
_LOOK_SECONDS: Final = 0.25
_TAKEN: Final = framing.encode(messages.Taken())


@dataclass(frozen=True)
class FileInput:
    """A regular file: ``fd`` stays the caller's, who keeps it open until the invocation is closed.

    ``first`` and ``last`` are inclusive offsets, ``None`` for the file's own start and end.
    """

    fd: int
    metadata: Mapping[str, str]
    first: int | None = None
    last: int | None = None


@dataclass(frozen=True)
class StreamInput:
    """A source that the invocation reads and closes.

    ``drains``: read it to its end in any case.  ``is_ours``: it is nobody's connection, so that a read may be cut short.
    """

    source: Source
    metadata: Mapping[str, str]
    drains: bool = False
    is_ours: bool = False


@dataclass(frozen=True)
class Deadlines:
    """Seconds; see the module's text for what counts."""

    queue: float
    first_byte: float
    idle: float
    total: float


@dataclass(frozen=True)
class Limits:
    """Bytes; 0 in ``output`` means no limit."""

    output: int
    metadata: int
    log: int


@dataclass(frozen=True)
class Task:
    """Everything that describes an invocation, and nothing of how it goes.  ``resources`` are its worker group's."""

    id: str
    parameters: Mapping[str, str]
    deadlines: Deadlines
    limits: Limits
    wants_log: bool = False
    resources: messages.Resources = field(default_factory=messages.Resources)


class Invocation:
    """See the module's text.  Not for use by two green tasks at a time."""

    def __init__(self, task: Task, inputs: Sequence[FileInput | StreamInput]) -> None:
        self.task = task
        self.metadata: dict[str, str] = {}
        self.usage: dict[str, Any] = {}
        self.bytes_out = 0
        #: How long the node let it wait before it could start.
        self.waited_seconds = 0.0
        self._leave_node: Callable[[], None] | None = None
        self._inputs = list(inputs)
        self._connection: socket.socket | None = None
        self._feeders: list[Feeder] = []
        #: Descriptors of input files, with the offset that each begins at; they are the caller's.
        self._watched: dict[int, int] = {}
        self._message: bytes | None = None
        #: What goes to the worker with the message, in the order that it says.
        self._sent: list[int] = []
        #: Those of them that are of no use here once they have gone.
        self._theirs = Descriptors()
        self._out = -1
        self._log = -1
        self._head: bytes | None = None
        self.has_started = False
        self._has_metadata = False
        self._is_done = False
        self._is_finished = False
        #: Output that has been read before it was asked for.
        self._ahead: deque[bytes] = deque()
        #: Bytes that still belong to the output, once ``done`` has come.
        self._left = 0
        self._offsets: tuple[int, ...] = ()
        self._input_error: BaseException | None = None
        self._unfair_bytes = 0
        self._began = self._stage_began = monotonic()

    # --- start ---------------------------------------------------------------------------------------------------

    def admitted(self, waited_seconds: float, leave: Callable[[], None]) -> None:
        """The node has let the invocation in; ``leave`` is called when it is over, or with :meth:`close`.

        To wait for the node is nothing that the storlet does: it counts for the deadline of the queue only.
        """
        self.waited_seconds += waited_seconds
        self._began += waited_seconds
        self._leave_node = leave

    def _leave(self) -> None:
        leave, self._leave_node = self._leave_node, None
        if leave is not None:
            leave()

    def prepare(self) -> None:
        """Make what goes to the worker before there is a connection, where that touches no source.

        A worker is woken by the connection: when the message follows at once, it need not be woken again.  What is prepared is
        the task as it is now; one that fails here cannot be started any more.
        """
        if self._message is None and not any(isinstance(item, StreamInput) for item in self._inputs):
            self._message = self._encoded()

    def _encoded(self) -> bytes:
        message = self._describe()
        try:
            return framing.encode(message)
        except framing.ProtocolError as error:
            raise BadRequest(f"the invocation cannot be described: {error}") from error

    def start(self, connection: socket.socket) -> None:
        """Hand the invocation to a worker; ``connection`` is the invocation's from here on."""
        self._connection = connection
        self._stage_began = monotonic()
        try:
            self._send(connection, self._encoded() if self._message is None else self._message)
        finally:
            self._sent.clear()
            self._theirs.close()

    def _describe(self) -> messages.Invoke:
        """The description of the invocation and of the descriptors that go with it, which are made here."""
        inputs = []
        while self._inputs:
            item = self._inputs[0]
            if isinstance(item, FileInput):
                self._watched[item.fd] = item.first or 0
                inputs.append(messages.Input(self._goes(item.fd), item.metadata, item.first, item.last))
            else:
                end = self._feed(item)
                self._theirs.add(end)
                inputs.append(messages.Input(self._goes(end), item.metadata))
            # Only now: what fails before leaves the source with close().
            del self._inputs[0]
        self._begin_stage()
        self._out, end = _pipe(reader_is_ours=True)
        self._theirs.add(end)
        output = messages.Output(self._goes(end))
        log = None
        if self.task.wants_log:
            self._log = sealed_memory("storlet-log", self.task.limits.log)
            log = messages.Log(self._goes(self._log), self.task.limits.log)
        limits = messages.Limits(self.task.limits.metadata)
        return messages.Invoke(self.task.id, inputs, output, self.task.parameters, log, limits)

    def _goes(self, fd: int) -> int:
        """The position at which a duplicate of ``fd`` goes to the worker."""
        self._sent.append(fd)
        return len(self._sent) - 1

    def _feed(self, item: StreamInput) -> int:
        end, ours = _pipe(reader_is_ours=False)
        feeder = Feeder(item.source, ours, self._source_failed, drains=item.drains, is_ours=item.is_ours)
        self._feeders.append(feeder)
        return end

    def _send(self, connection: socket.socket, message: bytes) -> None:
        give_up = monotonic() + self._queue_seconds()
        while True:
            try:
                framing.send_bytes(connection, message, self._sent)
            except BlockingIOError:
                try:
                    wait_writable(connection.fileno(), give_up - monotonic())
                except WaitExpired:
                    raise self._too_long_in_queue() from None
            except framing.ProtocolError as error:
                raise BadRequest(f"the invocation cannot be described: {error}") from error
            except OSError as error:
                raise SandboxUnavailable(f"sandbox ended while it took the invocation: {error}") from error
            else:
                return

    # --- progress ------------------------------------------------------------------------------------------------

    def first(self, wait: float | None = None) -> bool:
        """True when the storlet's first bytes or its successful end are known; raises when it failed before.

        With ``wait``, False after that many seconds without either (the caller sends a heartbeat and calls again).
        """
        until = None if wait is None else monotonic() + wait
        while not self._has_metadata:
            if not self._take_event(until):
                return False
        if self._head is None:
            self._head = self._read(until)
        return self._head is not None

    def read(self, wait: float | None = None) -> bytes | None:
        """The next bytes of output; ``b""`` at its end, which is a success; ``None`` when ``wait`` seconds passed.

        Raises the :class:`~storlet_middleware.errors.StorletError` of any other end.
        """
        if self._head is not None:
            head, self._head = self._head, None
            if head:
                return head
            # The end was reached and verified by first(): stay there.
            self._head = b""
            return b""
        if self._ahead:
            return self._ahead.popleft()
        if self._is_finished:
            return b""
        return self._read(None if wait is None else monotonic() + wait)

    def has_ended(self) -> bool:
        """After :meth:`first`, without waiting: whether the storlet has succeeded; its whole output is at hand then.

        Raises what :meth:`read` would have raised later, when that is known already.
        """
        while not self._is_done:
            # What came first may only say that the storlet has begun.
            if not self._take_event(0.0):
                return False
        while not self._is_finished:
            chunk = self._read(0.0)
            if chunk:
                self._ahead.append(chunk)
        return True

    def _read(self, until: float | None) -> bytes | None:
        while True:
            chunk = self._read_pipe()
            if chunk:
                break
            if chunk is None and self._is_done:
                # The storlet has kept a duplicate of its output; what it wrote before ``done`` has all been read.
                chunk = b""
            if chunk == b"" and self._is_done:
                self._finish()
                return b""
            if not self._wait_for_more(chunk, until):
                return None
        self._count(len(chunk))
        return chunk

    def _count(self, size: int) -> None:
        """So many bytes of output have come: the checks of each piece."""
        # What follows on a broken source may be made from half of it.
        self._raise_input_error()
        self.bytes_out += size
        if self.task.limits.output and self.bytes_out > self.task.limits.output:
            raise Unprocessable(
                f"the storlet wrote more than the {self.task.limits.output} bytes allowed", code=errors.LIMIT_OUTPUT
            )
        self._unfair_bytes += size
        if self._unfair_bytes > _FAIRNESS_BYTES:
            self._unfair_bytes = 0
            sleep()
        self._begin_stage()
        if self._stage_began > self._began + self.task.deadlines.total:
            # A storlet that always has output never waits, where the deadlines are looked at otherwise.
            raise self._too_long()

    def pour(self, sink: int) -> int | None:
        """As :meth:`read`, into a pipe whose end ``sink`` does not block: the kernel moves the pages, nothing is copied here.

        Returns how many bytes went, 0 at the end of the output, ``None`` when the pipe is full.  ``BrokenPipeError``: nobody
        reads it any more.
        """
        if self._head == b"" or (self._is_finished and not self._head and not self._ahead):
            return 0
        if self._head or self._ahead:
            return self._pour_ahead(sink)
        while True:
            # Nothing may follow into the pipe: what is in it goes to somebody who is cancelled with the error.
            self._raise_input_error()
            size = self._splice(sink)
            if size:
                break
            if size is None and _at_hand(self._out) and (self._left or not self._is_done):
                return None
            if self._is_done:
                self._finish()
                return 0
            self._wait_for_more(b"" if size == 0 else None, None)
        self._count(size)
        return size

    def _pour_ahead(self, sink: int) -> int | None:
        """The same with what has been read already."""
        chunk = self._head or self._ahead[0]
        try:
            size = os.write(sink, chunk)
        except BlockingIOError:
            return None
        rest = chunk[size:]
        if self._head:
            self._head = rest or None
        elif rest:
            self._ahead[0] = rest
        else:
            self._ahead.popleft()
        return size

    def _splice(self, sink: int) -> int | None:
        """Bytes moved, 0 at the end of the data, ``None`` when there are none now or ``sink`` is full."""
        most = min(CHUNK_BYTES, self._left) if self._is_done else CHUNK_BYTES
        try:
            size = os.splice(self._out, sink, most, flags=_SPLICE) if most else 0
        except BlockingIOError:
            return None
        self._left -= size if self._is_done else 0
        return size

    def _read_pipe(self) -> bytes | None:
        """Bytes, ``b""`` at the end of the data, ``None`` when there are none now."""
        # Whoever writes on after ``done`` (a child that the storlet has left) gets no further, and keeps nobody reading.
        most = min(CHUNK_BYTES, self._left) if self._is_done else CHUNK_BYTES
        try:
            chunk = os.read(self._out, most) if most else b""
        except BlockingIOError:
            return None
        self._left -= len(chunk) if self._is_done else 0
        return chunk

    def _wait_for_more(self, chunk: bytes | None, until: float | None) -> bool:
        """After the end of the data wait for events, else for data and now and then for events; False: ``until`` came."""
        if chunk == b"":
            return self._take_event(until)
        look = monotonic() + _LOOK_SECONDS
        if self._wait(self._out, look if until is None else min(look, until)):
            return True
        if self._take_event(0.0):
            return True
        return until is None or monotonic() < until

    def _finish(self) -> None:
        """The storlet has succeeded: the checks of the sources."""
        for feeder in self._feeders:
            if not feeder.is_over:
                self._await_feeder(feeder)
        self._raise_input_error()
        self._is_finished = True

    def _await_feeder(self, feeder: Feeder) -> None:
        if feeder.drains:
            feeder.wait()
        else:
            feeder.stop()

    def _take_event(self, until: float | None) -> bool:
        """Handle one event; False when there was none ``until`` then."""
        connection = self._live_connection()
        while True:
            try:
                received = framing.receive(connection)
                event = received.message(messages.INVOCATION_EVENTS) if received else None
            except BlockingIOError:
                if until is not None and until <= monotonic():
                    return False
                if not self._wait(connection.fileno(), until):
                    return False
                continue
            except framing.ProtocolError as error:
                # Our own daemon does not: the storlet got hold of the connection.
                self._raise_input_error()
                raise Unprocessable(f"the storlet's sandbox sent what is no event: {error}") from error
            except ConnectionError as error:
                self._raise_input_error()
                raise SandboxUnavailable(f"sandbox broke off: {error}") from error
            break
        self._raise_input_error()
        if event is None:
            raise SandboxUnavailable("sandbox ended before it said how the storlet did")
        self._handle(event)
        return True

    def _handle(self, event: messages.Message) -> None:
        if isinstance(event, messages.Started) and not self.has_started:
            self.has_started = True
        elif isinstance(event, messages.Metadata) and not self._has_metadata:
            self.metadata = _clean_metadata(event.metadata, self.task.limits.metadata)
            self._has_metadata = True
        elif isinstance(event, messages.Done) and not self._is_done:
            self._take_done(event)
        else:
            raise Unprocessable(f"the storlet's sandbox sent an event out of order: {type(event).TYPE}")
        self._begin_stage()

    def _take_done(self, done: messages.Done) -> None:
        self._leave()
        self._part()
        if done.usage is not None:
            self.usage = {
                "cpu_seconds": done.usage.cpu_seconds,
                "peak_memory_bytes": done.usage.peak_memory_bytes,
            }
        if done.is_ok and self._has_metadata:
            self._is_done = True
            self._left = _at_hand(self._out)
            return
        # A sandbox may blame its own tenant's code, never us or another.
        code = done.code if done.code in messages.SANDBOX_CODES and done.code != messages.PROTOCOL else None
        text = messages.one_line(done.message or "the storlet did not say why")
        detail = messages.cut_middle(done.traceback or "")
        raise from_code(code or messages.FAILED, text, detail=detail)

    def _part(self) -> None:
        """Close the connection of a run that is over, and say so: else it would be a cancel, and the worker is still cleaning up."""
        with contextlib.suppress(OSError):
            framing.send_bytes(self._live_connection(), _TAKEN)
        self._close_connection()

    # --- waiting and deadlines -----------------------------------------------------------------------------------

    def _begin_stage(self) -> None:
        """Something happened: the deadline of the stage counts from now, and so does the reading of files."""
        self._stage_began = monotonic()
        self._offsets = self._read_offsets()

    def _wait(self, fd: int, until: float | None) -> bool:
        """True when ``fd`` may be read; False when it is ``until``; raises when a deadline passed."""
        due, error_of = self._deadline()
        is_short = until is not None and until < due
        end = until if until is not None and is_short else due
        try:
            wait_readable(fd, max(end - monotonic(), 0.001))
        except WaitExpired:
            self._raise_input_error()
            if is_short:
                return False
            if not self._has_progressed():
                raise error_of() from None
        return True

    def _deadline(self) -> tuple[float, Callable[[], StorletError]]:
        """When the wait has to end, and what makes the error that is raised then."""
        limits = self.task.deadlines
        total = self._began + limits.total
        error_of: Callable[[], StorletError]
        if not self.has_started:
            due, error_of = self._stage_began + self._queue_seconds(), self._too_long_in_queue
        elif not self.bytes_out:
            due, error_of = self._stage_began + limits.first_byte, self._no_output
        else:
            due, error_of = self._stage_began + limits.idle, self._stalled
        return (total, self._too_long) if total < due else (due, error_of)

    def _no_output(self) -> StorletError:
        seconds = self.task.deadlines.first_byte
        return Unprocessable(f"the storlet gave no output within {seconds:g} s", code=errors.TIMEOUT_FIRST_BYTE)

    def _stalled(self) -> StorletError:
        return Unprocessable(f"the storlet stalled for {self.task.deadlines.idle:g} s", code=errors.TIMEOUT_IDLE)

    def _too_long(self) -> StorletError:
        return Unprocessable(f"the storlet ran for {self.task.deadlines.total:g} s", code=errors.TIMEOUT_TOTAL)

    def _has_progressed(self) -> bool:
        """Whether the storlet took input since the stage began, or waits for a source; begins a new stage if so."""
        now = monotonic()
        if not self.has_started or now >= self._began + self.task.deadlines.total:
            return False
        # The file's description is shared with the worker, so its offset tells how far the storlet has read.
        fed = any(feeder.waits_for_source or feeder.last_progress > self._stage_began for feeder in self._feeders)
        if not fed and self._read_offsets() == self._offsets:
            return False
        self._begin_stage()
        return True

    def _read_offsets(self) -> tuple[int, ...]:
        return tuple(os.lseek(fd, 0, os.SEEK_CUR) for fd in self._watched)

    def _queue_seconds(self) -> float:
        """How long it may wait for a worker.  Who has waited for the node to the end gets a last chance."""
        queue = self.task.deadlines.queue
        return max(queue - self.waited_seconds, queue / 10)

    def _too_long_in_queue(self) -> TenantBusy:
        queue = self.task.deadlines.queue
        # Nobody here knows how long the runs before it will take, but it was longer than this.
        retry_after = min(max(math.ceil(queue), 1), 60)
        return TenantBusy(f"no worker was free for this storlet within {queue:g} s", retry_after=retry_after)

    # --- ends ----------------------------------------------------------------------------------------------------

    def _source_failed(self, error: BaseException) -> None:
        """A source broke: cancel before its pipe is closed. The storlet may see an end there before it is killed; nobody takes its output."""
        self._input_error = error
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.shutdown(socket.SHUT_RDWR)

    def _raise_input_error(self) -> None:
        if self._input_error is not None:
            if isinstance(self._input_error, StorletError):
                raise self._input_error
            raise InputIncomplete(f"the input broke off: {self._input_error!r}"[:300]) from self._input_error

    def log_bytes(self) -> bytes:
        """What the storlet logged so far, also when it was killed."""
        if self._log < 0:
            return b""
        size = min(os.lseek(self._log, 0, os.SEEK_CUR), self.task.limits.log)
        return os.pread(self._log, size, 0)

    def bytes_in(self) -> int:
        """Bytes that were fed into pipes, or the offsets that the storlet has read files to."""
        # Nobody keeps a storlet from moving about in its file.
        return sum(feeder.bytes_taken for feeder in self._feeders) + sum(
            max(0, os.lseek(fd, 0, os.SEEK_CUR) - first) for fd, first in self._watched.items()
        )

    def close(self) -> None:
        """Release everything; cancels the storlet when it is not done.  May be called twice."""
        self._leave()
        self._close_connection()
        try:
            self._close_inputs()
        finally:
            self._close_files()

    def _close_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            forget(connection.fileno())
            connection.close()

    def _close_inputs(self) -> None:
        feeders, self._feeders = self._feeders, []
        with contextlib.ExitStack() as all_of_them:
            for feeder in feeders:
                all_of_them.callback(feeder.stop)
            while self._inputs:
                item = self._inputs.pop()
                if isinstance(item, StreamInput):
                    all_of_them.callback(item.source.close)

    def _close_files(self) -> None:
        self._watched = {}
        self._theirs.close()
        if self._out >= 0:
            out, self._out = self._out, -1
            forget(out)
            os.close(out)
        if self._log >= 0:
            log, self._log = self._log, -1
            os.close(log)

    def _live_connection(self) -> socket.socket:
        if self._connection is None:
            raise InternalError("the invocation is closed")
        return self._connection


def _pipe(*, reader_is_ours: bool) -> tuple[int, int]:
    """A pipe of :data:`PIPE_BYTES`; our end does not block, the storlet's does."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(reader if reader_is_ours else writer, False)
    # Unprivileged users may own only so much pipe memory; the default size works as well, only slower.
    with contextlib.suppress(OSError):
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    return reader, writer


def _at_hand(pipe: int) -> int:
    """How many bytes a read of ``pipe`` could give now."""
    return int(struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0])


def _clean_metadata(metadata: Mapping[str, str], max_bytes: int) -> dict[str, str]:
    """Metadata of the output; a sandbox is not trusted to have checked it."""
    clean = dict(metadata)
    if sum(len(key.encode()) + len(value.encode()) for key, value in clean.items()) > max_bytes:
        raise Unprocessable(f"the storlet's metadata is longer than {max_bytes} bytes", code=errors.LIMIT_METADATA)
    for key, value in clean.items():
        if any(ord(char) < 32 or ord(char) == 127 for char in key + value):
            raise Unprocessable("the storlet's metadata has a control character", code=errors.STORLET_FAILED)
        if not _METADATA_KEY.fullmatch(key):
            raise Unprocessable(
                f"the storlet's metadata has a key that no header can have: {key!r}", code=errors.STORLET_FAILED
            )
    return clean
