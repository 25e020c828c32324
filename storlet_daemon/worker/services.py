"""A run's way to the store: requests and replies on the socket that came with the invocation.

Threads of a storlet may send requests at the same time.  One of those that wait reads the socket
and hands each reply to the thread that it is for.
"""

from __future__ import annotations

import socket
import threading
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import Any

from storlet_daemon.author import services as author
from storlet_daemon.protocol import framing, messages
from storlet_daemon.protocol.descriptors import Descriptors

_KINDS: Mapping[str, type[messages.ServiceRequest]] = messages.SERVICE_REQUESTS  # type: ignore[assignment]


class ServiceChannel:
    """Owner of the worker's end of the socket pair.

    :param operations: those that the storlet declares.
    """

    def __init__(self, fd: int, operations: Sequence[str]) -> None:
        self._socket = socket.socket(fileno=fd)
        self._socket.setblocking(True)
        self._operations = tuple(operations)
        self._sending = threading.Lock()
        self._changed = threading.Condition()
        self._is_reading = False
        self._last = 0
        #: Requests without an answer.
        self._asked: set[int] = set()
        #: Replies that their threads have not taken yet, by id, in order: a request may have two
        #: answers.
        self._answers: dict[int, deque[author.Answer | author.ServiceError]] = defaultdict(deque)
        self._ends: dict[int, deque[int | author.ServiceError]] = defaultdict(deque)

    def begin(self) -> None:
        """Begin a run: the author's functions use this channel."""
        author.begin(self)

    @staticmethod
    def end() -> None:
        """End the run: close the files that it left open."""
        author.end()

    def ask(self, operation: str, fields: Mapping[str, Any]) -> author.Answer:
        """The answer to one request; raises :class:`author.ServiceError`."""
        kind = _KINDS[operation]
        if kind.SERVICE not in self._operations:
            declared = ", ".join(self._operations)
            raise author.Denied(
                f"{operation} needs the service {kind.SERVICE}; the storlet declares {declared}",
                messages.SERVICE_UNDECLARED,
                403,
            )
        number = self._send(operation, {k: v for k, v in fields.items() if v is not None})
        return self._answer_to(number)

    def further_answer(self, answer: author.Answer) -> author.Answer:
        """The next answer to the same request; raises :class:`author.ServiceError`."""
        return self._answer_to(answer.id)

    def _answer_to(self, number: int) -> author.Answer:
        answer = self._await(self._answers, number)
        if isinstance(answer, author.ServiceError):
            raise answer
        return answer  # type: ignore[no-any-return]

    def _send(self, operation: str, fields: Mapping[str, Any]) -> int:
        """Send a request; its id, which is above those of all requests before."""
        with self._sending:
            self._last += 1
            record = {"type": operation, "id": self._last, **fields}
            try:
                messages.parse(record, messages.SERVICE_REQUESTS)
                data = framing.encode_fields(record)
            except messages.ProtocolError as error:
                raise author.ServiceError(
                    f"{operation}: {error}", messages.BAD_REQUEST, 400
                ) from None
            with self._changed:
                self._asked.add(self._last)
            try:
                framing.send_bytes(self._socket, data)
            except OSError as error:
                raise _gone(error) from error
            return self._last

    def end_of(self, answer: author.Answer) -> int:
        """How many bytes the stream of ``answer`` had; raises if it is not complete."""
        found = self._await(self._ends, answer.id)
        if isinstance(found, author.ServiceError):
            raise found
        return int(found)

    def close(self) -> None:
        """Close the socket and the descriptors that no thread took."""
        self._socket.close()
        for answers in self._answers.values():
            fds = [answer.fd for answer in answers if isinstance(answer, author.Answer)]
            Descriptors([fd for fd in fds if fd >= 0]).close()
        self._answers.clear()

    def _await(self, replies: dict[int, deque[Any]], number: int) -> Any:
        while True:
            with self._changed:
                while number not in replies and self._is_reading:
                    self._changed.wait()
                if number in replies:
                    found = replies[number].popleft()
                    if not replies[number]:
                        del replies[number]
                    return found
                self._is_reading = True
            try:
                self._read()
            finally:
                with self._changed:
                    self._is_reading = False
                    self._changed.notify_all()

    def _read(self) -> None:
        """Read one reply into its table."""
        try:
            received = framing.receive(self._socket)
        except OSError as error:
            raise _gone(error) from error
        if received is None:
            raise _gone("the run is being ended")
        reply = received.message(messages.SERVICE_REPLIES)
        if isinstance(reply, messages.StreamEnded):
            self._ends[reply.id].append(reply.bytes)
        elif isinstance(reply, messages.ServiceFailed):
            failure = author.error_of(reply.message, reply.code, reply.status, reply.storlet or "")
            # A request that was answered has a stream, which has failed.
            table: dict[int, deque[Any]] = self._answers if reply.id in self._asked else self._ends
            table[reply.id].append(failure)
            self._asked.discard(reply.id)
        else:
            if not isinstance(reply, messages.Feeding):  # another answer follows
                self._asked.discard(reply.id)
            fd = received.descriptors.take(0) if len(received.descriptors) else -1
            facts = reply.fields().get("facts", {})
            has_more = isinstance(reply, messages.Opened) and reply.has_more
            self._answers[reply.id].append(author.Answer(reply.id, facts, fd, has_more))


def _gone(reason: object) -> author.Unavailable:
    return author.Unavailable(f"the store does not answer: {reason}", messages.SERVICE_GONE, 503)
