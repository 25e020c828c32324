"""The benchmark's measured requests: one keep-alive connection on a raw socket, requests encoded
beforehand.

The driver shares two cores with the measured servers, so it does little work. A request is encoded
once, a response is parsed only as far as needed to find its end, a body is received into one buffer
and counted.  A GET of 1 KiB takes 7 µs of processor time here and 58 to 76 µs with ``http.client``,
which :mod:`tests.support.http` uses (5,000 on loopback, three runs).  The row
:mod:`tests.bench.rows.driver` measures the cost of this loop.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

#: Responses that never have a body, regardless of their headers.
_BODILESS: Final = (204, 304)
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CHUNKED: Final = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)
_HEAD_MAX: Final = 1 << 16
_BUFFER_BYTES: Final = 1 << 20
_SHOWN_BYTES: Final = 500
TIMEOUT_SECONDS: Final = 120.0

Address = tuple[str, int]
Sink = Callable[[memoryview], object]


class BadAnswer(Exception):
    """An unusable response: a status other than 2xx, or no HTTP."""


@dataclass(frozen=True)
class Request:
    """A request as bytes.  ``text`` is for messages."""

    head: bytes
    body: bytes | memoryview = b""
    text: str = ""


def make_request(
    method: str, path: str, headers: Mapping[str, str], body: bytes | memoryview = b""
) -> Request:
    """``path`` is the whole path, quoted."""
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: bench",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    if body or method in {"PUT", "POST"}:
        lines.append(f"Content-Length: {len(body)}")
    storlet = headers.get("X-Run-Storlet")
    text = f"{method} {path}" + (f" with {storlet}" if storlet else "")
    return Request("\r\n".join([*lines, "", ""]).encode("latin-1"), body, text)


class Answer:
    """A response in transit: call :meth:`feed` until it returns True.

    :param is_of_head: of a HEAD request: its length is not that of its body.
    """

    def __init__(self, sink: Sink | None = None, *, is_of_head: bool = False) -> None:
        self.status = 0
        self.head = b""
        self.size = 0
        self.began_at = 0.0
        #: The body of a failure.
        self.refusal = b""
        self._sink = sink
        self._is_of_head = is_of_head
        self._gathered = bytearray()
        self._left = 0
        self._is_chunked = False
        self._line: bytearray | None = None

    def feed(self, data: memoryview) -> bool:
        """Parse bytes; return True if the response is complete."""
        if not self.head:
            rest = self._take_head(data)
            if rest is None:
                return False
            data = rest
        return self._take_chunks(data) if self._is_chunked else self._take_plain(data)

    def _take_head(self, data: memoryview) -> memoryview | None:
        """The bytes after the head; ``None`` while the head is incomplete."""
        if not self._gathered:
            self.began_at = time.perf_counter()
        self._gathered += data
        end = self._gathered.find(b"\r\n\r\n")
        if end < 0:
            if len(self._gathered) > _HEAD_MAX:
                raise BadAnswer("an answer without an end of its head")
            return None
        self.head, rest = bytes(self._gathered[:end]), memoryview(bytes(self._gathered[end + 4 :]))
        self.status = int(self.head[9:12])
        if not self._is_of_head:
            self._take_length()
        return rest

    def _take_length(self) -> None:
        length = _LENGTH.search(self.head)
        self._is_chunked = length is None and _CHUNKED.search(self.head) is not None
        if length is not None and self.status not in _BODILESS:
            self._left = int(length[1])
        elif self._is_chunked:
            self._line = bytearray()
        elif self.status not in _BODILESS:
            raise BadAnswer("an answer without a length")

    def _take_plain(self, data: memoryview) -> bool:
        if len(data) > self._left:
            raise BadAnswer("bytes after the end of an answer")
        self._left -= len(data)
        self._give(data)
        return not self._left

    def _take_chunks(self, data: memoryview) -> bool:
        """Walk over sizes and data of chunks.  ``_left`` counts the line end after the data,
        too."""
        at, end = 0, len(data)
        while at < end:
            if self._line is None:
                count = min(self._left, end - at)
                useful = max(0, min(self._left - 2, count))
                if useful:
                    self._give(data[at : at + useful])
                self._left -= count
                at += count
                if not self._left:
                    self._line = bytearray()
                continue
            self._line.append(data[at])
            at += 1
            if self._line.endswith(b"\r\n"):
                size = int(self._line.partition(b";")[0], 16) if self._left == 0 else 0
                if size == 0:
                    return self._take_end(data[at:])
                self._line, self._left = None, size + 2
        return False

    def _take_end(self, rest: memoryview) -> bool:
        """After the last chunk there are two more bytes, and no trailers from Swift."""
        self._is_chunked, self._left = False, 2
        self._sink = None
        self.size -= 2
        return bool(rest) and self._take_plain(rest)

    def _give(self, data: memoryview) -> None:
        if not data:
            return
        self.size += len(data)
        if self.status // 100 != 2 and len(self.refusal) < _SHOWN_BYTES:
            self.refusal += bytes(data[:_SHOWN_BYTES])
        if self._sink is not None:
            self._sink(data)

    def require_success(self, request: Request) -> None:
        """Raise BadAnswer if the status is not 2xx."""
        if self.status // 100 != 2:
            line = self.head.partition(b"\r\n")[0].decode("latin-1")
            raise BadAnswer(
                f"{request.text}: {line} {self.refusal.decode(errors='replace').strip()}"
            )


@dataclass(frozen=True)
class Timing:
    """Seconds of one exchange until the first and the last byte of the response. ``head`` is the
    response head."""

    first_byte: float
    whole: float
    size: int
    head: bytes = b""


class Connection:
    """One keep-alive connection; :meth:`exchange` is one request and its response.

    :param open_socket: returns the connected socket, which may be in another network namespace.
    """

    def __init__(self, open_socket: Callable[[], socket.socket]) -> None:
        self._socket = open_socket()
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))

    def exchange(self, request: Request, sink: Sink | None = None) -> Timing:
        """Send and receive; anything but success raises."""
        answer = Answer(sink, is_of_head=request.head.startswith(b"HEAD "))
        began = time.perf_counter()
        self._send(request)
        while True:
            count = self._socket.recv_into(self._buffer)
            if not count:
                raise BadAnswer(f"{request.text}: the connection ended after {answer.size} bytes")
            if answer.feed(self._buffer[:count]):
                break
        ended = time.perf_counter()
        answer.require_success(request)
        return Timing(answer.began_at - began, ended - began, answer.size, answer.head)

    def _send(self, request: Request) -> None:
        if len(request.body) > _HEAD_MAX:
            self._socket.sendall(request.head)
            self._socket.sendall(request.body)
        else:
            self._socket.sendall(request.head + request.body)

    def close(self) -> None:
        self._socket.close()


def open_tcp(address: Address) -> socket.socket:
    """A plain TCP connection."""
    return socket.create_connection(address, TIMEOUT_SECONDS)
