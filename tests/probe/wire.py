"""HTTP by hand: requests that stop half-way, clients that leave, readers that dawdle, and how a connection really ended."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tests.functional.client import Client

NO_LINGER = struct.pack("ii", 1, 0)


@dataclass
class Wire:
    """One connection of ``client``'s user to the proxy."""

    client: Client
    seconds: float = 30
    sock: socket.socket = field(init=False)
    rest: bytes = b""

    def __post_init__(self) -> None:
        url = self.client.version_url
        self.sock = socket.create_connection((url.host, url.port), self.seconds)

    def head(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        query: Mapping[str, str] | None = None,
        version: str = "1.1",
    ) -> None:
        """Send a request's head."""
        lines = [
            f"{method} {self.client.target(path, query)} HTTP/{version}",
            f"Host: {self.client.version_url.host}",
            f"X-Auth-Token: {self.client.token}",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        self.sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def end_sending(self) -> None:
        """Half-close: no more bytes from us, but the answer is awaited."""
        self.sock.shutdown(socket.SHUT_WR)

    def answer(self) -> tuple[int, dict[str, str]]:
        """Status and headers (names in lower case)."""
        while b"\r\n\r\n" not in self.rest:
            piece = self.sock.recv(65536)
            if not piece:
                raise ConnectionError(f"closed before the answer: {self.rest!r}")
            self.rest += piece
        head, _, self.rest = self.rest.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        return int(first.split()[1]), headers

    def read_to_end(self) -> tuple[bytes, str]:
        """Everything that still comes, and how it ended: ``closed``, ``reset`` or ``silent`` (nothing for a long time)."""
        pieces, how = [self.rest], "closed"
        self.rest = b""
        try:
            while piece := self.sock.recv(65536):
                pieces.append(piece)
        except ConnectionResetError:
            how = "reset"
        except TimeoutError:
            how = "silent"
        return b"".join(pieces), how

    def leave(self) -> None:
        """As a client does that ends: the connection is closed."""
        self.sock.close()

    def vanish(self) -> None:
        """As a client does that is killed with data on the way: the connection is reset."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
        self.sock.close()


@contextlib.contextmanager
def wire(client: Client, seconds: float = 30) -> Iterator[Wire]:
    """A connection that is closed at the end of the block."""
    connection = Wire(client, seconds)
    try:
        yield connection
    finally:
        connection.sock.close()
