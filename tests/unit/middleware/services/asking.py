"""A channel with its worker's end, and operations of which a test decides everything."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import eventlet

from storlet_daemon.protocol import framing, messages
from storlet_daemon.protocol.descriptors import Descriptors
from storlet_middleware.engine.task import ServiceLimits
from storlet_middleware.services.channel import Channel
from tests.unit.middleware.support import Logger, wait_until


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


class Asking:
    """The peers of a channel: a store, and a worker."""

    def __init__(self, **limits: int) -> None:
        self.answer: Callable[[Any], Any] = lambda request: messages.Described(request.id)
        self.performed: list[Any] = []
        self.faults: list[BaseException] = []
        self.channel = Channel(
            self, ("read", "list", "call"), ServiceLimits(**limits), Logger()  # type: ignore[arg-type]
        )  # fmt: skip
        self.worker = socket.socket(fileno=self.channel.begin(self.faults.append))
        self.worker.setblocking(False)

    def perform(self, request: messages.ServiceRequest) -> Any:
        self.performed.append(request)
        return self.answer(request)

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
