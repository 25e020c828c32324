"""Sends replies to the worker: one record after the other, each with its descriptors.

A worker that reads no replies blocks only the tasks that send to it.
"""

from __future__ import annotations

import os
import socket
from typing import Any

from storlet_daemon.protocol import framing, messages
from storlet_daemon.protocol.messages import Message, ServiceFailed
from storlet_middleware import errors
from storlet_middleware.concurrency import Timeout, forget, semaphore, wait_writable
from storlet_middleware.errors import BackendFailed, StorletError
from storlet_middleware.services.requests import StoreRefusal


class Replies:
    """Owner of the channel's socket from :meth:`begin` until :meth:`close`."""

    def __init__(self, logger: Any) -> None:
        self._logger = logger
        self._socket: socket.socket | None = None
        self._sending = semaphore(1)
        #: The worker reads no replies.
        self.is_blocked = False

    def begin(self, ours: socket.socket) -> None:
        """Own ``ours``, which does not block."""
        self._socket = ours

    def close(self) -> None:
        """Close the socket; may be called twice."""
        sock, self._socket = self._socket, None
        if sock is not None:
            forget(sock.fileno())
            sock.close()

    def send(self, reply: Message, *fds: int) -> None:
        """Send one record; waits while the worker reads none.

        Raises ``OSError`` if the worker has ended, or the kernel takes no more descriptors.
        """
        data = framing.encode(reply)
        self._sending.acquire()
        try:
            while (sock := self._socket) is not None:
                try:
                    framing.send_bytes(sock, data, fds)
                except BlockingIOError:
                    self.is_blocked = True
                    wait_writable(sock.fileno())
                else:
                    return
        finally:
            self.is_blocked = False
            self._sending.release()

    def send_failure(self, number: int, error: BaseException) -> None:
        """Send why the request with this number has failed."""
        self.send(self.failure(number, error))

    def send_no_stream(self, number: int, error: OSError) -> None:
        """Send that no stream for the request could be made or sent."""
        text = f"no stream for the storlet: {os.strerror(error.errno or 0)}"
        self.send_failure(number, BackendFailed(text))

    def failure(self, number: int, error: BaseException) -> ServiceFailed:
        """The reply to a request that ``error`` has ended."""
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
