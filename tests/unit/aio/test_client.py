"""The HTTP client of the demo, against a server that gives prepared answers."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.message import Message

import pytest

from storlet_middleware.aio.client import Client, log_in
from storlet_middleware.aio.progress import AioError


@dataclass
class Server:
    """The prepared answer of each target, and the requests that arrived."""

    url: str
    answers: dict[str, bytes] = field(default_factory=dict)
    seen: list[tuple[str, Message, bytes]] = field(default_factory=list)

    def answer(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as request:
            method, target, _ = request.readline().decode().split()
            headers = http.client.parse_headers(request)
            body = request.read(int(headers["Content-Length"] or 0))
            self.seen.append((method, headers, body))
            connection.sendall(self.answers[target])


@pytest.fixture
def server() -> Iterator[Server]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        made = Server(f"http://127.0.0.1:{listener.getsockname()[1]}")

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    made.answer(listener.accept()[0])

        threading.Thread(target=serve, daemon=True).start()
        yield made
        listener.shutdown(socket.SHUT_RDWR)


def reply(status: int, body: bytes = b"", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def test_a_login_gives_the_url_and_the_token_of_the_answer(server: Server) -> None:
    headers = ("X-Storage-Url: http://x/v1/AUTH_a", "X-Auth-Token: secret")
    server.answers = {"/auth": reply(200, b"", *headers)}
    assert log_in(f"{server.url}/auth", "a:b", "key") == Client("http://x/v1/AUTH_a", "secret")
    assert server.seen[0][1]["X-Auth-User"] == "a:b"


def test_a_refused_login_names_the_user_and_not_the_key(server: Server) -> None:
    server.answers = {"/auth": reply(401)}
    with pytest.raises(AioError, match=r"a:b cannot log in .*401") as caught:
        log_in(f"{server.url}/auth", "a:b", "the key")
    assert "the key" not in str(caught.value)


def test_a_request_sends_token_path_query_headers_and_body(server: Server) -> None:
    server.answers = {"/v1/AUTH_a/c/o?multipart=1": reply(201, b"made")}
    client = Client(f"{server.url}/v1/AUTH_a", "secret")
    answer = client.must("PUT", "c/o?multipart=1", {"X-Run-Storlet": "s"}, b"data")
    assert (answer.status, answer.body, answer.broken) == (201, b"made", False)
    method, headers, body = server.seen[0]
    assert (method, body) == ("PUT", b"data")
    assert (headers["X-Auth-Token"], headers["X-Run-Storlet"]) == ("secret", "s")


def test_an_answer_that_ends_early_is_broken_and_keeps_its_part(server: Server) -> None:
    server.answers = {"/v1/a": b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"}
    answer = Client(f"{server.url}/v1/a", "t").request("GET", "")
    assert (answer.status, answer.body, answer.broken) == (200, b"half", True)


@pytest.mark.parametrize(
    ("path", "named"), [("/v1/a", "GET account was"), ("/v1/a/c/o", "GET c/o was")]
)
def test_a_required_request_that_fails_shows_the_reason(
    server: Server, path: str, named: str
) -> None:
    server.answers = {path: reply(503, b"node is busy\n")}
    with pytest.raises(AioError, match=rf"{named} answered with 503: node is busy$"):
        Client(f"{server.url}/v1/a", "t").must("GET", path.removeprefix("/v1/a").lstrip("/"))


def test_a_server_that_is_down_is_an_error_with_the_url() -> None:
    with pytest.raises(AioError, match=r"GET http://127\.0\.0\.1:1/v1/a: .*refused"):
        Client("http://127.0.0.1:1/v1/a", "t").request("GET", "")
