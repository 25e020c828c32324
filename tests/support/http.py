"""The HTTP client of functional tests, probes, attacks and the benchmark's preparation.

:class:`Client` sends whole requests of one user and reads whole answers: no retries, no redirects,
no decoding, headers exactly as given (also empty ones), and ``is_broken`` if a body broke off.
:class:`RawConnection` sends and reads any part of a request on one socket: requests that stop
half-way, clients that disconnect, slow readers.

The benchmark's measured requests use :mod:`tests.bench.http` instead, whose docstring has the
reason.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import socket
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

PIECE_BYTES: Final = 1024 * 1024
RECEIVE_BYTES: Final = 65536
#: SO_LINGER with no time: closing the socket resets the connection.
NO_LINGER: Final = struct.pack("ii", 1, 0)


@dataclass(frozen=True)
class Answer:
    """Status, headers and body; ``is_broken`` if the connection ended before the body did."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes
    is_broken: bool = False
    md5: str = ""
    size: int = 0

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def error(self) -> str | None:
        """The error code of the storlet middleware."""
        return self.headers.get("X-Storlet-Error")

    def meta(self, name: str) -> str | None:
        """User metadata of the object, as text."""
        value = self.headers.get(f"X-Object-Meta-{name}")
        return None if value is None else value.encode("latin-1").decode()

    def __repr__(self) -> str:
        shown = self.body[:2000]
        return f"Answer({self.status}, {dict(self.headers.items())}, {shown!r}, broken={self.is_broken})"


@dataclass(frozen=True)
class Url:
    """Host, port and base path of a client's requests."""

    host: str
    port: int
    path: str

    @classmethod
    def of(cls, text: str) -> Url:
        parts = urlsplit(text)
        assert parts.hostname is not None
        return cls(parts.hostname, parts.port or 80, parts.path.rstrip("/"))


def encoded(headers: Mapping[str, str]) -> dict[str, str]:
    """Header values as ``http.client`` takes them: UTF-8 bytes decoded as Latin-1."""
    return {key: value.encode().decode("latin-1") for key, value in headers.items()}


def open_request(
    url: Url,
    method: str,
    target: str,
    headers: Mapping[str, str],
    body: bytes | Iterable[bytes] | None,
    timeout: float,
) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    """Send a request; an iterable body is sent chunked.  The caller closes the connection."""
    connection = http.client.HTTPConnection(url.host, url.port, timeout=timeout)
    try:
        connection.request(method, target, body=body, headers=encoded(headers), encode_chunked=True)
        return connection, connection.getresponse()
    except BaseException:
        connection.close()
        raise


def read_all(response: http.client.HTTPResponse, *, keep: bool) -> tuple[bytes, str, int, bool]:
    """Body (empty unless ``keep``), MD5, size, and whether it broke off."""
    digest, size, pieces, is_broken = hashlib.md5(usedforsecurity=False), 0, [], False
    while True:
        try:
            # read1: bytes received before a connection reset must not be lost.
            piece = response.read1(PIECE_BYTES)
        except http.client.IncompleteRead as error:
            piece, is_broken = error.partial, True
        except ConnectionError:
            piece, is_broken = b"", True
        digest.update(piece)
        size += len(piece)
        if keep:
            pieces.append(piece)
        if not piece or is_broken:
            # With sized reads, http.client does not always raise when Content-Length bytes did not
            # arrive.
            return b"".join(pieces), digest.hexdigest(), size, is_broken or bool(response.length)


@dataclass
class Client:
    """One user on one account.  Paths are ``container/object`` as text; the client quotes them."""

    storage_url: str
    token: str
    user: str = ""
    version_url: Url = field(init=False)

    def __post_init__(self) -> None:
        self.version_url = Url.of(self.storage_url)

    @property
    def account(self) -> str:
        return self.version_url.path.rsplit("/", 1)[1]

    def on(self, account: str) -> Client:
        """The same user on another account."""
        return Client(self.storage_url.rsplit("/", 1)[0] + "/" + account, self.token, self.user)

    def target(self, path: str, query: Mapping[str, str] | str | None = None) -> str:
        text = query if isinstance(query, str) else urlencode(query or {})
        return (
            self.version_url.path
            + ("/" + quote(path) if path else "")
            + ("?" + text if text else "")
        )

    def open(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        *,
        query: Mapping[str, str] | str | None = None,
        body: bytes | Iterable[bytes] | None = None,
        timeout: float = 90,
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """Send a request; the test reads the answer and closes the connection."""
        sent = {"X-Auth-Token": self.token} if self.token else {}
        return open_request(
            self.version_url,
            method,
            self.target(path, query),
            sent | dict(headers or {}),
            body,
            timeout,
        )

    def request(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        *,
        query: Mapping[str, str] | str | None = None,
        body: bytes | Iterable[bytes] | None = None,
        timeout: float = 90,
        keep: bool = True,
    ) -> Answer:
        """Send a request and read its whole answer."""
        connection, response = self.open(
            method, path, headers, query=query, body=body, timeout=timeout
        )
        try:
            content, md5, size, is_broken = read_all(response, keep=keep)
        finally:
            connection.close()
        return Answer(response.status, response.headers, content, is_broken, md5, size)

    def get(self, path: str, headers: Mapping[str, str] | None = None, **more: Any) -> Answer:
        return self.request("GET", path, headers, **more)

    def head(self, path: str, headers: Mapping[str, str] | None = None, **more: Any) -> Answer:
        return self.request("HEAD", path, headers, **more)

    def post(self, path: str, headers: Mapping[str, str] | None = None, **more: Any) -> Answer:
        return self.request("POST", path, {"Content-Length": "0"} | dict(headers or {}), **more)

    def put(
        self,
        path: str,
        body: bytes | Iterable[bytes] = b"",
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> Answer:
        return self.request("PUT", path, headers, body=body, **more)

    def delete(self, path: str, **more: Any) -> Answer:
        return self.request("DELETE", path, **more)

    def listing(self, container: str, **query: str) -> list[dict[str, Any]]:
        answer = self.get(container, query={"format": "json"} | query)
        assert answer.status in (200, 204, 404), answer
        entries: list[dict[str, Any]] = (
            json.loads(answer.body or b"[]") if answer.status == 200 else []
        )
        return entries


def fetch(
    url: str,
    headers: Mapping[str, str] | None = None,
    *,
    method: str = "GET",
    body: bytes | None = None,
    timeout: float = 90,
) -> Answer:
    """One request for ``url``, which is sent as it is written."""
    where = Url.of(url)
    target = url.partition("//")[2].partition("/")[2]
    connection, response = open_request(where, method, f"/{target}", headers or {}, body, timeout)
    try:
        content, md5, size, is_broken = read_all(response, keep=True)
    finally:
        connection.close()
    return Answer(response.status, response.headers, content, is_broken, md5, size)


def log_in(auth_url: str, user: str, key: str) -> Client:
    """A client with a new token (TempAuth, version 1)."""
    answer = fetch(auth_url, {"X-Auth-User": user, "X-Auth-Key": key}, timeout=30)
    assert answer.status == 200, f"{user} cannot log in at {auth_url}: {answer.status}"
    return Client(answer.headers["X-Storage-Url"], answer.headers["X-Auth-Token"], user)


def pieces_of(data: bytes, size: int = 65536) -> Iterator[bytes]:
    """``data`` in pieces, for a body that is sent chunked."""
    for start in range(0, len(data), size):
        yield data[start : start + size]


class NoAnswer(ConnectionError):
    """The server closed the connection before the end of an answer's head."""


@dataclass
class RawConnection:
    """One connection of ``client``'s user to the proxy, on which a test sends any bytes."""

    client: Client
    seconds: float = 30
    sock: socket.socket = field(init=False)
    unread: bytes = b""

    def __post_init__(self) -> None:
        url = self.client.version_url
        self.sock = socket.create_connection((url.host, url.port), self.seconds)

    def send_head(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        query: Mapping[str, str] | None = None,
        version: str = "1.1",
    ) -> None:
        """Send the head of a request."""
        lines = [
            f"{method} {self.client.target(path, query)} HTTP/{version}",
            f"Host: {self.client.version_url.host}",
            f"X-Auth-Token: {self.client.token}",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        self.send(("\r\n".join(lines) + "\r\n\r\n").encode())

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def end_sending(self) -> None:
        """Half-close: send no more bytes, but still read the answer."""
        self.sock.shutdown(socket.SHUT_WR)

    def read_head(self) -> tuple[int, dict[str, str]]:
        """Read status and headers (names in lower case) of the answer."""
        while b"\r\n\r\n" not in self.unread:
            piece = self.sock.recv(RECEIVE_BYTES)
            if not piece:
                raise NoAnswer(f"closed before the answer: {self.unread!r}")
            self.unread += piece
        head, _, self.unread = self.unread.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in lines)
        return int(first.split()[1]), {name.lower(): value.strip() for name, _, value in pairs}

    def read_to_end(self) -> tuple[bytes, str]:
        """Read until the connection ends; how it ended is ``closed``, ``reset`` or ``silent``
        (timeout)."""
        pieces, ending = [self.unread], "closed"
        self.unread = b""
        try:
            while piece := self.sock.recv(RECEIVE_BYTES):
                pieces.append(piece)
        except ConnectionResetError:
            ending = "reset"
        except TimeoutError:
            ending = "silent"
        return b"".join(pieces), ending

    def close(self) -> None:
        """Disconnect like a client that exits."""
        self.sock.close()

    def reset(self) -> None:
        """Disconnect like a client that is killed with unread data: the connection is reset."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
        self.sock.close()


@contextlib.contextmanager
def raw_connection(client: Client, seconds: float = 30) -> Iterator[RawConnection]:
    """A :class:`RawConnection` that is closed at the end of the block."""
    connection = RawConnection(client, seconds)
    try:
        yield connection
    finally:
        connection.close()
