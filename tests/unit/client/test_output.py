"""Outputs: bytes, lines, facts, and broken streams."""

from __future__ import annotations

import socket
import threading

import httpx
import pytest

from storlet_client import BrokenAnswer, Storlets, Token, transport
from storlet_client import output as output_module
from storlet_client.output import _Lines
from tests.unit.client.server import Reply, Server

TEXT = "first\nsec\u00f6nd\n\nlast".encode()
FACTS = {
    "X-Storlet-Invocation": "tx1-1",
    "X-Storlet-Ran-On": "object",
    "X-Storlet-Usage": "cpu=0.1",
    "X-Object-Meta-Rows": "4",
}


def test_an_output_has_lines_and_facts(server: Server, storlets: Storlets) -> None:
    server.on("GET", "/c/o", Reply(200, FACTS, TEXT))
    with storlets.run("s.py", "c/o", {"k": "v"}) as output:
        assert list(output.lines()) == ["first", "sec\u00f6nd", "", "last"]
    assert (output.invocation, output.ran_on, output.usage) == ("tx1-1", "object", "cpu=0.1")
    assert (output.metadata, output.length) == ({"rows": "4"}, len(TEXT))
    assert server.received[-1].headers["x-run-storlet"] == "s.py"


@pytest.mark.parametrize("chunk", [1, 2, 7])
def test_lines_do_not_depend_on_the_chunks(chunk: int) -> None:
    lines = _Lines()
    found = [
        line
        for start in range(0, len(TEXT), chunk)
        for line in lines.feed(TEXT[start : start + chunk])
    ]
    assert [*found, *lines.end()] == TEXT.decode().split("\n")


@pytest.mark.parametrize("headers", [{}, {"Content-Encoding": "gzip"}])
def test_bytes_are_those_of_the_storlet(
    server: Server, storlets: Storlets, headers: dict[str, str]
) -> None:
    server.on("GET", "/c/o", Reply(200, headers, b"\x1f\x8b not decoded"))
    with storlets.run("s.py", "c/o") as output:
        assert output.read() == b"\x1f\x8b not decoded"
    assert server.received[-1].headers["accept-encoding"] == "identity"


def test_an_output_that_ends_early_is_broken(server: Server, storlets: Storlets) -> None:
    server.on("GET", "/c/o", Reply(200, {}, b"x" * 100, sent=40))
    received: list[bytes] = []
    with storlets.run("s.py", "c/o") as output, pytest.raises(BrokenAnswer, match="incomplete"):
        received.extend(output)
    assert b"".join(received) == b"x" * 40


def test_an_output_without_a_known_end_is_broken(server: Server, storlets: Storlets) -> None:
    # An answer of HTTP/1.0: its end cannot be distinguished from a broken connection.
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/auth/v1.0":
            headers = {"X-Auth-Token": "t", "X-Storage-Url": server.url}
            return httpx.Response(200, headers=headers)
        return httpx.Response(200, stream=httpx.ByteStream(b"x"))

    storlets._http._client = httpx.Client(transport=httpx.MockTransport(answer))
    with pytest.raises(BrokenAnswer, match="no length"), storlets.run("s.py", "c/o"):
        pass


def test_an_output_that_stops_is_given_up_with_the_length_of_the_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (output_module, transport):
        monkeypatch.setattr(module, "READ_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as stopping:

        def answer() -> None:
            with stopping.accept()[0] as connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")
                connection.recv(1)  # until the client closes it

        thread = threading.Thread(target=answer)
        thread.start()
        url = "http://{}:{}/v1/A".format(*stopping.getsockname())
        with (
            Storlets(Token(url, "t")) as storlets,
            pytest.raises(BrokenAnswer, match="no byte for 0 s"),
            storlets.run("s.py", "c/o") as output,
        ):
            output.read()
        thread.join()
