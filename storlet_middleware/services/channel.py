"""The socket to a worker for requests of its storlet to the store, and the streams of the replies.

Requests are read one after the other and performed at the same time, each in a green task::

    worker                          channel                            store
      | -- open /c/o (id 7) ---------> |                                 |
      |                                | -- GET /c/o, as the caller ---> |
      |                                | <-- 200, headers -------------- |
      | <-- opened 7, a stream ------- |                                 |
      | <== bytes in the stream ====== | <== bytes ===================== |
      | <-- ended 7, 1000 bytes ------ |                                 |

A stream without ``ended`` is incomplete, with any data in it: before the stream of a broken read is
closed, ``failed`` is sent.  In the other direction, :mod:`~storlet_middleware.services.creations`
reads the streams of the objects that the storlet creates.

**Bounds.**  A sandbox is not trusted.  A request that is no message of the protocol, or whose id is
not above those before, ends the run.  Above ``concurrency`` nothing is read until an operation has
ended; above ``rate`` the next request waits; above ``operations``, ``files`` and ``bytes`` the
request or the stream fails.  A stream is an open file until the storlet has read or closed it: the
kernel keeps the unread bytes, at the expense of this process.  A worker that never reads its
replies blocks its own operations only: what is in flight is bounded, no system call waits for it,
and the deadlines of the run hold.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
import termios
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from storlet_daemon.protocol import framing, messages
from storlet_daemon.protocol.messages import (
    CallStorlet,
    Feeding,
    Message,
    Opened,
    ServiceFailed,
    ServiceRequest,
)
from storlet_middleware import errors
from storlet_middleware.concurrency import (
    GreenTask,
    Killed,
    Timeout,
    end,
    forget,
    monotonic,
    refuse_descriptors,
    semaphore,
    socket_class,
    socket_pair,
    spawn,
    wait_readable,
    wait_writable,
)
from storlet_middleware.engine.feed import Feeder
from storlet_middleware.engine.handover import stream
from storlet_middleware.engine.output_stream import ReadPace
from storlet_middleware.engine.services import ServiceUsage
from storlet_middleware.engine.task import ServiceLimits
from storlet_middleware.errors import BackendFailed, StorletError, Unprocessable
from storlet_middleware.services import call_input
from storlet_middleware.services.call_input import CallInput
from storlet_middleware.services.creations import Donation
from storlet_middleware.services.nesting import OperationPace
from storlet_middleware.services.operations import Body, Operations, Stream
from storlet_middleware.services.requests import StoreRefusal, limit_refusal


class Channel:
    """The services of one run: an :class:`~storlet_middleware.engine.services.Services`.

    :param operations: performs the requests.
    :param declared: the services of the storlet.
    :param pace: shared with the runs that this one is in, and with those in it.
    """

    def __init__(
        self,
        operations: Operations,
        declared: Sequence[str],
        limits: ServiceLimits,
        logger: Any,
        pace: OperationPace | None = None,
    ) -> None:
        self._performer = operations
        self._creations = operations.creations
        self.operations = tuple(declared)
        self._limits = limits
        self._pace = pace or OperationPace()
        self._logger = logger
        self._fail: Callable[[BaseException], None] = _nothing_begun
        #: Counts bytes of created objects for the limits of the run.
        self._count_created: Callable[[int], None] = _nothing_counted
        self._socket: socket.socket | None = None
        self._reader: GreenTask | None = None
        self._tasks: set[GreenTask] = set()
        self._feeders: set[Feeder] = set()
        #: Inputs of called storlets that the storlet writes, until the call has an answer.
        self._call_inputs: set[CallInput] = set()
        self._unread = _Unread()
        self._room = semaphore(limits.concurrency)
        self._sending = semaphore(1)
        self._last_id = -1
        #: Requests for a stream that is not there yet.
        self._opening = 0
        #: The worker reads no replies.
        self._is_blocked = False
        self._count = self._bytes_in = self._bytes_out = 0
        #: Operations that wait for the store or the pace, and when the last of them ended.
        self._waiting = 0
        self._last_active = 0.0

    @property
    def usage(self) -> ServiceUsage:
        return ServiceUsage(self._count, self._bytes_in, self._bytes_out)

    def begin(
        self, fail: Callable[[BaseException], None], count: Callable[[int], None], pace: ReadPace
    ) -> int:
        """See :class:`~storlet_middleware.engine.services.Services`."""
        self._count_created = count
        self._creations.begin(self.add_created, pace)
        ours, theirs = socket_pair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        refuse_descriptors(ours)
        self._socket, self._fail = ours, fail
        self._reader = spawn(self._read_all, ours)
        return theirs.detach()

    def were_active_since(self, moment: float) -> bool:
        """See :class:`~storlet_middleware.engine.services.Services`."""
        if self._is_blocked:
            return False
        starved = sum(given.is_waiting for given in self._call_inputs)
        if self._waiting > starved or self._last_active > moment:
            return True
        if any(given.last_progress > moment for given in self._call_inputs):
            return True
        if self._creations.were_active_since(moment):
            return True
        return any(
            feeder.waits_for_source or feeder.last_progress > moment for feeder in self._feeders
        )

    def finish(self) -> None:
        """See :class:`~storlet_middleware.engine.services.Services`."""
        self._creations.finish()

    def close(self) -> None:
        """End all operations and streams; may be called twice."""
        reader, self._reader = self._reader, None
        with contextlib.ExitStack() as stack:
            stack.callback(self._close_socket)
            stack.callback(self._unread.close)
            # Only now: a task may make a feeder or a file until it has ended.
            stack.callback(self._stop_feeders)
            stack.callback(self._creations.close)
            for task in [*self._tasks]:
                stack.callback(end, task)
            if reader is not None:
                end(reader)

    def _stop_feeders(self) -> None:
        feeders, self._feeders = self._feeders, set()
        with contextlib.ExitStack() as stack:
            for feeder in feeders:
                stack.callback(feeder.stop)

    def _close_socket(self) -> None:
        sock, self._socket = self._socket, None
        if sock is not None:
            forget(sock.fileno())
            sock.close()

    # --- requests ---------------------------------------------------------------------------------

    def _read_all(self, sock: socket.socket) -> None:
        """The reader's task."""
        try:
            while self._read_one(sock):
                pass
        except Killed:
            raise
        except StorletError as error:
            self._fail(error)
        except framing.ProtocolError as error:
            text = f"the storlet's sandbox sent an invalid request for a service: {error}"
            self._fail(Unprocessable(text, code=errors.SERVICES_REFUSED))
        except OSError:
            pass  # the worker has ended, and its connection says how

    def _read_one(self, sock: socket.socket) -> bool:
        """Read one request and begin to perform it; False at the end."""
        self._room.acquire()
        is_taken = False
        try:
            self._keep_pace()
            wait_readable(sock.fileno(), None)
            try:
                received = framing.receive(sock)
            except BlockingIOError:
                return True
            if received is None:
                return False
            request: ServiceRequest = received.message(messages.SERVICE_REQUESTS)
            if request.id <= self._last_id:
                raise framing.ProtocolError([f"id {request.id} after id {self._last_id}"])
            self._last_id = request.id
            is_taken = True
        finally:
            if not is_taken:
                self._room.release()
        self._tasks.add(task := spawn(self._perform, request))
        task.link(self._tasks.discard)
        return True

    def _keep_pace(self) -> None:
        """Wait until the rate allows the next request: the storlet does not stall meanwhile."""
        self._waiting += 1
        try:
            self._pace.keep(self._limits.rate)
        finally:
            self._waiting -= 1

    def _perform(self, request: ServiceRequest) -> None:
        """The task of one request."""
        try:
            try:
                self._reply(request.id, self._outcome(request))
            finally:
                self._room.release()
        except Killed:
            raise
        except OSError:
            pass  # the worker has ended

    def _outcome(self, request: ServiceRequest) -> Message | Stream | Donation:
        """The reply, also of a failure: a task must not raise."""
        self._waiting += 1
        self._opening += request.HAS_STREAM
        try:
            self._require_allowed(request)
            if isinstance(request, CallStorlet) and request.path is None:
                return self._call_on(request)
            return self._performer.perform(request)
        except Killed:
            raise
        except BaseException as error:  # noqa: BLE001 - Swift's timeouts are no Exception
            return self._failed(request.id, error)
        finally:
            self._opening -= request.HAS_STREAM
            self._waiting -= 1
            self._last_active = monotonic()

    def _call_on(self, request: CallStorlet) -> Message | Stream | Donation:
        """Call a storlet on data that the storlet writes, which may stall meanwhile."""
        reply = framing.encode(Feeding(request.id))
        data = call_input.donated(lambda fd: self._send(reply, fd), self.add_written)
        self._call_inputs.add(data)
        try:
            return self._performer.call_on(request, data)
        finally:
            self._call_inputs.discard(data)

    def _require_allowed(self, request: ServiceRequest) -> None:
        self._count += 1
        limits = self._limits
        if request.SERVICE not in self.operations:
            declared = ", ".join(self.operations)
            text = f"{request.TYPE} needs the service {request.SERVICE}; declared: {declared}"
            raise StoreRefusal("services.undeclared", 403, text)
        if self._count > limits.operations:
            text = f"more than {limits.operations} operations (Service-Operations)"
            raise limit_refusal(text)
        self._feeders = {feeder for feeder in self._feeders if not feeder.is_over}
        if not request.HAS_STREAM:
            return
        held = len(self._feeders) + self._unread.count() + self._creations.open_count
        if held + self._opening > limits.files:
            raise limit_refusal(f"more than {limits.files} open files (Service-Files)")

    def _failed(self, number: int, error: BaseException) -> ServiceFailed:
        if isinstance(error, StoreRefusal):
            called = error.storlet or None
            return ServiceFailed(number, error.code, error.status, str(error), called)
        if isinstance(error, StorletError):
            text = messages.one_line(str(error))
            return ServiceFailed(number, error.code, error.status, text)
        if isinstance(error, Timeout):
            return ServiceFailed(number, errors.BACKEND_FAILED, 503, "Swift does not answer")
        self._logger.error("ERROR storlets: a service failed: %r", error)
        return ServiceFailed(number, errors.INTERNAL, 500, "Internal server error")

    # --- replies ----------------------------------------------------------------------------------

    def _reply(self, number: int, outcome: Message | Stream | Donation) -> None:
        if isinstance(outcome, Donation):
            self._donate(number, outcome)
            return
        if not isinstance(outcome, Stream):
            self._send(framing.encode(outcome))
            return
        reply = framing.encode(Opened(number, outcome.facts, outcome.has_more))
        try:
            reading, writing = stream(reader_is_ours=False)
        except OSError as error:
            outcome.body.close()
            self._send(framing.encode(self._failed(number, _no_stream(error))))
            return
        body = _Counted(outcome.body, number, self)
        feeder = Feeder(
            body,
            writing,
            lambda error: self._break_stream(number, error),
            release=self._unread.take,
        )
        self._feeders.add(feeder)
        try:
            self._send(reply, reading)
        except BaseException as error:
            self._feeders.discard(feeder)
            feeder.stop()
            if not isinstance(error, OSError):
                raise
            # The kernel limits the descriptors in messages that are not received yet.
            self._send(framing.encode(self._failed(number, _no_stream(error))))
        finally:
            os.close(reading)

    def _donate(self, number: int, donation: Donation) -> None:
        try:
            self._send(framing.encode(donation.reply), donation.fd)
        except OSError as error:
            # As above.
            donation.cancel()
            self._send(framing.encode(self._failed(number, _no_stream(error))))
        finally:
            os.close(donation.fd)

    def _send(self, data: bytes, *fds: int) -> None:
        """Send one record; waits while the worker reads none."""
        self._sending.acquire()
        try:
            while (sock := self._socket) is not None:
                try:
                    framing.send_bytes(sock, data, fds)
                except BlockingIOError:
                    self._is_blocked = True
                    wait_writable(sock.fileno())
                else:
                    return
        finally:
            self._is_blocked = False
            self._sending.release()

    def add_bytes(self, size: int) -> None:
        """Count bytes that the storlet reads; raises above the limit."""
        self._bytes_in += size
        self._require_bytes()

    def add_written(self, size: int) -> None:
        """Count bytes that the storlet writes; raises above the limit."""
        self._bytes_out += size
        self._require_bytes()

    def add_created(self, size: int) -> None:
        """The same for a created object; above the limit of output it ends the run."""
        self.add_written(size)
        try:
            self._count_created(size)
        except BaseException as error:
            self._fail(error)
            raise

    def _require_bytes(self) -> None:
        most = self._limits.bytes
        if most and self._bytes_in + self._bytes_out > most:
            raise limit_refusal(f"more than {most} bytes (Service-Bytes)")

    def end_stream(self, number: int, size: int) -> None:
        """All ``size`` bytes are in the stream."""
        with contextlib.suppress(OSError):
            self._send(framing.encode(messages.StreamEnded(number, size)))

    def _break_stream(self, number: int, error: BaseException) -> None:
        """Called before the stream is closed."""
        with contextlib.suppress(OSError):
            self._send(framing.encode(self._failed(number, error)))


class _Counted:
    """A body that counts its bytes and announces its end."""

    def __init__(self, body: Body, number: int, channel: Channel) -> None:
        self._body = body
        self._number = number
        self._channel = channel

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for chunk in self._body:
            size += len(chunk)
            self._channel.add_bytes(len(chunk))
            yield chunk
        self._channel.end_stream(self._number, size)

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


def _no_stream(error: OSError) -> BackendFailed:
    return BackendFailed(f"no stream for the storlet: {os.strerror(error.errno or 0)}")


def _nothing_counted(size: int) -> None:
    raise AssertionError(f"{size} bytes before the services have begun")


def _nothing_begun(error: BaseException) -> None:
    raise AssertionError("the services have not begun") from error
