"""The supervisor's connection to the node daemon. It reconnects without a time limit."""

from __future__ import annotations

import contextlib
import math
import select
import socket
import sys
import time
from collections.abc import Callable

from storlet_daemon.poller import Poller
from storlet_daemon.protocol import framing, messages
from storlet_daemon.protocol.descriptors import Descriptors

RECONNECT_SECONDS = 0.1

OnCommand = Callable[[messages.Message, Descriptors], None]


class ControlConnection:
    """A non-blocking connection; a node daemon that does not read it loses it.

    ``due`` is when the next attempt to connect is due, in monotonic seconds; infinite while
    connected.
    """

    def __init__(
        self, path: str, poller: Poller, on_connect: Callable[[], None], on_command: OnCommand
    ) -> None:
        """Nothing happens before ``connect``."""
        self.due = 0.0
        self._path = path
        self._poller = poller
        self._on_connect = on_connect
        self._on_command = on_command
        self._socket: socket.socket | None = None

    def fileno(self) -> int | None:
        """The descriptor; None while not connected."""
        return None if self._socket is None else self._socket.fileno()

    def connect(self) -> None:
        """Try to connect; on failure the next attempt is due later."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        try:
            connection.connect(self._path)
        except OSError:
            connection.close()
            self.due = time.monotonic() + RECONNECT_SECONDS
            return
        self._socket = connection
        self.due = math.inf
        self._poller.watch(connection.fileno(), select.EPOLLIN, self._read)
        self._on_connect()

    def _disconnect(self) -> None:
        if self._socket is not None:
            self._poller.forget(self._socket.fileno())
            self._socket.close()
            self._socket = None
            self.due = time.monotonic() + RECONNECT_SECONDS

    def _read(self) -> None:
        while self._socket is not None:
            try:
                received = framing.receive(self._socket)
                if received is None:
                    self._disconnect()
                    return
                with received.descriptors as descriptors:
                    self._on_command(received.message(messages.CONTROL_COMMANDS), descriptors)
            except BlockingIOError:
                return
            except messages.ProtocolError as error:
                log_error(f"control connection: {error}")
                self._disconnect()
            except OSError:
                self._disconnect()

    def send(self, message: messages.Message) -> None:
        """Send a report; disconnect if the node daemon does not read its socket."""
        if self._socket is not None:
            try:
                framing.send(self._socket, message)
            except OSError:
                self._disconnect()

    def request_placement(self, place: messages.Place) -> bool:
        """Request the placement of a worker; return False if no answer can come."""
        if self._socket is None:
            return False
        try:
            framing.send(self._socket, place)
        except BlockingIOError:
            # The daemon reads too slowly just now. A worker without control groups is better than
            # a lost connection.
            return False
        except OSError:
            self._disconnect()
            return False
        return True


def log_error(text: str) -> None:
    """Write a line into the sandbox's own log, for the operator."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"storlet_daemon: {messages.one_line(text)}\n")
        sys.stderr.flush()
