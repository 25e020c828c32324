"""A channel with its worker's end, and operations of which a test decides all but creations."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import eventlet
import pytest
from swift.common.swob import Request

from storlet_daemon.protocol import framing, messages
from storlet_daemon.protocol.descriptors import Descriptors
from storlet_middleware.engine.output_stream import ReadPace
from storlet_middleware.engine.task import ServiceLimits
from storlet_middleware.errors import BadRequest
from storlet_middleware.services.channel import Channel
from storlet_middleware.services.creations import Creations
from storlet_middleware.services.requests import require_storable
from tests.unit.middleware.logger import Logger
from tests.unit.middleware.support import wait_until


class Bytes:
    """A body of a reply, from chunks or from a function that gives them."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks
        self.is_closed = False

    def __iter__(self) -> Iterator[bytes]:
        yield from self._chunks

    def abandon(self) -> None: ...

    def close(self) -> None:
        self.is_closed = True


class NewObject:
    """An object that a storlet creates; takes all that it gets."""

    def __init__(self, objects: NewObjects) -> None:
        self._objects = objects
        self.content = b""
        self.is_discarded = False

    def write(self, chunk: bytes) -> None:
        self._objects.before_write()
        self.content += chunk

    def discard(self) -> None:
        self.is_discarded = True


class NewObjects:
    """The objects of a run, by their path; a test sets ``before_write``."""

    def __init__(self) -> None:
        self.made: dict[str, NewObject] = {}
        self.before_write: Callable[[], None] = lambda: None

    def require_free(self, path: str) -> None:
        if path in self.made:
            raise BadRequest(f"{path}: created already")

    def add(self, path: str, put: Any) -> NewObject:
        self.require_free(path)
        self.made[path] = NewObject(self)
        return self.made[path]


def refuse_to_send_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the kernel have too many descriptors in messages that are not received yet."""
    send = framing.send_bytes

    def refuse(sock: Any, data: bytes, fds: Any = ()) -> None:
        if fds:
            raise OSError(errno.ETOOMANYREFS, os.strerror(errno.ETOOMANYREFS))
        send(sock, data)

    monkeypatch.setattr(framing, "send_bytes", refuse)


class NoMemory:
    """Memory without a bound."""

    def add(self, count: int) -> None: ...

    def remove(self, count: int) -> None: ...


class Asking:
    """The peers of a channel: a store, and a worker."""

    def __init__(self, **limits: int) -> None:
        self.answer: Callable[[Any], Any] = lambda request: messages.Described(request.id)
        self.performed: list[Any] = []
        self.faults: list[BaseException] = []
        #: The PUTs that were decided: path and headers.
        self.deferred: list[tuple[str, dict[str, str]]] = []
        self.objects = NewObjects()
        bounds = ServiceLimits(**limits)
        self.creations = Creations(
            self, frozenset({"storlet"}), self.objects, bounds.creations  # type: ignore[arg-type]
        )  # fmt: skip
        self.channel = Channel(
            self, ("read", "list", "write", "call"), bounds, Logger()  # type: ignore[arg-type]
        )  # fmt: skip
        self.counted: list[int] = []
        begun = self.channel.begin(self.faults.append, self.counted.append, ReadPace())
        self.worker = socket.socket(fileno=begun)
        self.worker.setblocking(False)

    def perform(self, request: messages.ServiceRequest) -> Any:
        self.performed.append(request)
        creating: dict[type, Callable[[Any], Any]] = {
            messages.CreateObject: self.creations.create,
            messages.CloseFile: self.creations.close_file,
            messages.DiscardFile: self.creations.discard,
        }
        return creating.get(type(request), self.answer)(request)

    def defer_put(self, path: str, headers: dict[str, str], metadata: dict[str, str]) -> Any:
        put = Request.blank("/", environ={"REQUEST_METHOD": "PUT"})
        put.headers.update(headers)
        require_storable(path, put, metadata)
        self.deferred.append((path, headers))
        return object()

    def call_on(self, request: messages.CallStorlet, data: Any) -> Any:
        self.performed.append((request, data))
        return self.answer(request)

    def send(self, *requests: messages.Message) -> None:
        for request in requests:
            framing.send(self.worker, request)

    def reply(self) -> tuple[Any, Descriptors]:
        """The next reply, and its descriptors."""
        found: list[framing.Received] = []

        def receive() -> bool:
            try:
                received = framing.receive(self.worker)
            except BlockingIOError:
                return False
            assert received is not None
            found.append(received)
            return True

        assert wait_until(receive)
        return found[0].message(messages.SERVICE_REPLIES), found[0].descriptors

    def has_reply(self) -> bool:
        eventlet.sleep(0.05)
        try:
            return bool(self.worker.recv(1, socket.MSG_PEEK))
        except BlockingIOError:
            return False

    def close(self) -> None:
        self.channel.close()
        self.worker.close()


Make = Callable[..., Asking]


def read_all(descriptors: Descriptors) -> bytes:
    """All bytes of a stream."""
    fd = descriptors.take(0)
    os.set_blocking(fd, False)
    parts: list[bytes] = []

    def read() -> bool:
        try:
            while part := os.read(fd, 65536):
                parts.append(part)
        except BlockingIOError:
            return False
        return True

    assert wait_until(read)
    os.close(fd)
    return b"".join(parts)
