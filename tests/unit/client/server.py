"""A real HTTP server with answers of the test's choice."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ACCOUNT = "/v1/AUTH_test"
INFO = {
    "storlet_handler": {
        "storlet_container": "storlet",
        "storlet_dependency": "dependency",
        "storlet_log": "storletlog",
        "languages": {"python": ["3.11"]},
        "bundles": {"versions_kept": 10, "source": True},
        "records": {"days": 14},
        "secrets": {"most": 100, "value_bytes": 4096},
        "rules": {"container": "storlet_rules", "object": "rules.yaml"},
        "limits": {"memory_bytes": 1024, "cpus": 0.5},
    }
}


@dataclass(frozen=True)
class Reply:
    """:param sent: bytes of the body that are sent before the connection ends; ``None``: all."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    sent: int | None = None


@dataclass(frozen=True)
class Received:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class Server(ThreadingHTTPServer):
    """Answers of ``replies`` by method and path without query: one, or a list of one each."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report faults, but no client that disconnected: a test compares the stderr."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.received: list[Received] = []
        #: The header Date of answers; empty: the time.
        self.date = ""
        self.replies: dict[tuple[str, str], Reply | list[Reply]] = {
            ("GET", "/info"): Reply(body=json.dumps(INFO).encode()),
            ("GET", "/auth/v1.0"): Reply(
                headers={"X-Auth-Token": "secret-token", "X-Storage-Url": self.url + ACCOUNT}
            ),
        }

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def auth_url(self) -> str:
        return self.url + "/auth/v1.0"

    def on(self, method: str, path: str, *replies: Reply) -> None:
        """Answer requests below the account; the last reply is repeated."""
        self.replies[method, ACCOUNT + path] = list(replies)

    def calls(self) -> list[str]:
        """Method and path of each request below the account."""
        return [
            f"{one.method} {one.path.removeprefix(ACCOUNT)}"
            for one in self.received
            if one.path.startswith(ACCOUNT)
        ]

    def reply_to(self, method: str, path: str) -> Reply:
        found = self.replies.get((method, path.partition("?")[0]), Reply(404))
        if isinstance(found, Reply):
            return found
        return found.pop(0) if len(found) > 1 else found[0]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    #: Else a body waits until the client has acknowledged the headers, which takes 40 ms.
    disable_nagle_algorithm = True
    server: Server

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name in the base
        pass

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):
            return self._answer
        raise AttributeError(name)

    def date_time_string(self, timestamp: float | None = None) -> str:
        return self.server.date or super().date_time_string(timestamp)

    def _answer(self) -> None:
        body = self._body()
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.received.append(Received(self.command, self.path, headers, body))
        reply = self.server.reply_to(self.command, self.path)
        self.send_response(reply.status)
        for name, value in {"Content-Length": str(len(reply.body)), **reply.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body[: reply.sent])
        if reply.sent is not None:
            self.close_connection = True

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        found = b""
        while size := int(self.rfile.readline(), 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return found


@contextmanager
def serving() -> Iterator[Server]:
    """A server that runs for the length of the block."""
    with Server() as server:
        # The end of each test waits for this interval.
        thread = threading.Thread(target=server.serve_forever, args=(0.002,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
