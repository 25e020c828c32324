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
import os
import socket
from collections.abc import Callable, Sequence
from typing import Any

from storlet_daemon.protocol import framing, messages
from storlet_daemon.protocol.messages import CallStorlet, Feeding, Message, ServiceRequest
from storlet_middleware import errors
from storlet_middleware.concurrency import (
    GreenTask,
    Killed,
    end,
    monotonic,
    refuse_descriptors,
    semaphore,
    socket_pair,
    spawn,
    wait_readable,
)
from storlet_middleware.engine.output_stream import ReadPace
from storlet_middleware.engine.services import ServiceUsage
from storlet_middleware.engine.task import ServiceLimits
from storlet_middleware.errors import StorletError, Unprocessable
from storlet_middleware.services import call_input
from storlet_middleware.services.call_input import CallInput
from storlet_middleware.services.creations import Donation
from storlet_middleware.services.nesting import OperationPace
from storlet_middleware.services.operations import Operations, Stream
from storlet_middleware.services.quota import Quota
from storlet_middleware.services.replies import Replies
from storlet_middleware.services.reply_streams import ReplyStreams
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
        self._quota = Quota(limits)
        self._replies = Replies(logger)
        self._streams = ReplyStreams(self._replies, self._quota.add_read)
        self._fail: Callable[[BaseException], None] = _nothing_begun
        #: Counts bytes of created objects for the limits of the run.
        self._count_created: Callable[[int], None] = _nothing_counted
        #: Of all that is read of the run.
        self._read_pace = ReadPace()
        self._reader: GreenTask | None = None
        self._tasks: set[GreenTask] = set()
        #: Inputs of called storlets that the storlet writes, until the call has an answer.
        self._call_inputs: set[CallInput] = set()
        self._room = semaphore(limits.concurrency)
        self._last_id = -1
        #: Requests for a stream that is not there yet.
        self._opening = 0
        #: Operations that wait for the store or the pace, and when the last of them ended.
        self._waiting = 0
        self._last_active = 0.0

    @property
    def usage(self) -> ServiceUsage:
        return self._quota.usage

    def begin(
        self, fail: Callable[[BaseException], None], count: Callable[[int], None], pace: ReadPace
    ) -> int:
        """See :class:`~storlet_middleware.engine.services.Services`."""
        self._count_created, self._read_pace = count, pace
        self._creations.begin(self._add_created, pace)
        ours, theirs = socket_pair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        refuse_descriptors(ours)
        self._fail = fail
        self._replies.begin(ours)
        self._reader = spawn(self._read_all, ours)
        return theirs.detach()

    def were_active_since(self, moment: float) -> bool:
        """See :class:`~storlet_middleware.engine.services.Services`."""
        if self._replies.is_blocked:
            return False
        starved = sum(given.is_waiting for given in self._call_inputs)
        if self._waiting > starved or self._last_active > moment:
            return True
        if any(given.last_progress > moment for given in self._call_inputs):
            return True
        return self._creations.were_active_since(moment) or self._streams.were_active_since(moment)

    def finish(self) -> None:
        """See :class:`~storlet_middleware.engine.services.Services`."""
        self._creations.finish()

    def close(self) -> None:
        """End all operations and streams; may be called twice."""
        reader, self._reader = self._reader, None
        with contextlib.ExitStack() as stack:
            stack.callback(self._replies.close)
            # Only now: a task may make a stream or a file until it has ended.
            stack.callback(self._streams.close)
            stack.callback(self._creations.close)
            for task in [*self._tasks]:
                stack.callback(end, task)
            if reader is not None:
                end(reader)

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
            return self._replies.failure(request.id, error)
        finally:
            self._opening -= request.HAS_STREAM
            self._waiting -= 1
            self._last_active = monotonic()

    def _call_on(self, request: CallStorlet) -> Message | Stream | Donation:
        """Call a storlet on data that the storlet writes, which may stall meanwhile."""
        reply = Feeding(request.id)
        data = call_input.donated(
            lambda fd: self._replies.send(reply, fd), self._quota.add_written, self._read_pace
        )
        self._call_inputs.add(data)
        try:
            return self._performer.call_on(request, data)
        finally:
            self._call_inputs.discard(data)

    def _require_allowed(self, request: ServiceRequest) -> None:
        self._quota.add_operation()
        if request.SERVICE not in self.operations:
            declared = ", ".join(self.operations)
            text = f"{request.TYPE} needs the service {request.SERVICE}; declared: {declared}"
            raise StoreRefusal(messages.SERVICE_UNDECLARED, 403, text)
        self._quota.require_operations()
        if not request.HAS_STREAM:
            return
        held = self._streams.count_open() + self._creations.open_count
        if held + self._opening > self._limits.files:
            raise limit_refusal(f"more than {self._limits.files} open files (Service-Files)")

    # --- replies ----------------------------------------------------------------------------------

    def _reply(self, number: int, outcome: Message | Stream | Donation) -> None:
        if isinstance(outcome, Donation):
            self._donate(number, outcome)
        elif isinstance(outcome, Stream):
            self._streams.reply(number, outcome)
        else:
            self._replies.send(outcome)

    def _donate(self, number: int, donation: Donation) -> None:
        try:
            self._replies.send(donation.reply, donation.fd)
        except OSError as error:
            # The kernel limits the descriptors in messages that are not received yet.
            donation.cancel()
            self._replies.send_no_stream(number, error)
        finally:
            os.close(donation.fd)

    def _add_created(self, size: int) -> None:
        """Count bytes of a created object; above the limit of output they end the run."""
        self._quota.add_written(size)
        try:
            self._count_created(size)
        except BaseException as error:
            self._fail(error)
            raise


def _nothing_counted(size: int) -> None:
    raise AssertionError(f"{size} bytes before the services have begun")


def _nothing_begun(error: BaseException) -> None:
    raise AssertionError("the services have not begun") from error
