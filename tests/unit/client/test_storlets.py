"""The two faces: streams, broken answers, and equal methods."""

from __future__ import annotations

import asyncio
import inspect
import socket
import threading
from urllib.parse import unquote

import httpx
import pytest

from storlet_client import (
    AsyncStorlets,
    BrokenAnswer,
    ConfigurationError,
    Refused,
    Storlets,
    Tempauth,
    Token,
    Unreachable,
)
from storlet_client import storlets as faces
from tests.unit.client.server import ACCOUNT, Reply, Server

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
    from storlet_client.storlets import _Lines  # noqa: PLC0415

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

    storlets._http = httpx.Client(transport=httpx.MockTransport(answer))
    with pytest.raises(BrokenAnswer, match="no length"), storlets.run("s.py", "c/o"):
        pass


def test_a_server_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faces, "_QUICK_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = "http://{}:{}/v1/A".format(*silent.getsockname())
        with Storlets(Token(url, "t")) as storlets, pytest.raises(Unreachable) as caught:
            storlets.info()
    assert "no answer to GET within 0 s" in str(caught.value)


def test_an_output_that_stops_is_given_up_with_the_length_of_the_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(faces, "_READ_SECONDS", 0.2)
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


@pytest.mark.parametrize(
    "credentials",
    [
        *(Token(url, "t") for url in ("no-url", "http://[half/v1/A", "ftp://host/v1/A")),
        *(Tempauth(url, "u", "k") for url in ("no-url", "ftp://host/auth/v1.0")),
    ],
)
def test_what_is_no_url_of_a_server_is_named(credentials: Token | Tempauth) -> None:
    with Storlets(credentials) as storlets, pytest.raises(ConfigurationError) as caught:
        storlets.show("a.py")
    url = credentials.storage_url if isinstance(credentials, Token) else credentials.auth_url
    assert repr(url) in str(caught.value)


@pytest.mark.parametrize("name", ["two\nlines", " space", "end\t", "nul\0"])
def test_what_a_header_cannot_carry_is_refused(storlets: Storlets, name: str) -> None:
    refused = pytest.raises(ConfigurationError, match="a header cannot carry it")
    with refused as caught, storlets.run(name, "c/o"):
        pass
    assert "X-Run-Storlet" in str(caught.value)
    with refused, storlets.run("s.py", "c/o", limits={"m\u00e9moire": "1M"}):
        pass


def test_names_of_objects_arrive_as_they_are(server: Server, storlets: Storlets) -> None:
    names = ["a b", "50%", "%41", "\u00fc/\u4e16", "a?b#c", "line\nend", "..", "a/../b/./c", "/x//"]
    for name in names:
        with pytest.raises(Refused, match="404"), storlets.read(f"c d/{name}"):
            pass
        path = server.received[-1].path.removeprefix(ACCOUNT).partition("?")[0]
        assert unquote(path) == f"/c d/{name}"


def test_a_server_that_is_not_there_is_unreachable() -> None:
    nowhere = Token("http://127.0.0.1:1/v1/A", "t")
    with Storlets(nowhere) as storlets, pytest.raises(Unreachable, match=r"127\.0\.0\.1:1"):
        storlets.info()


def test_connections_are_kept(server: Server, storlets: Storlets) -> None:
    server.on("HEAD", "/c", Reply(204))
    for _ in range(5):
        storlets.grants("c")
    pool = storlets._http._transport._pool  # type: ignore[attr-defined]
    assert len(pool.connections) == 1


def test_both_faces_have_the_same_methods() -> None:
    def methods(face: type) -> dict[str, list[str]]:
        return {
            name: list(inspect.signature(method).parameters)
            for name, method in vars(face).items()
            if inspect.isfunction(method) and not name.startswith("_")
        }

    assert methods(Storlets) == methods(AsyncStorlets)


def test_the_asynchronous_face(server: Server, credentials: Tempauth) -> None:
    server.on("GET", "/c/o", Reply(503), Reply(200, FACTS, TEXT))
    server.on("GET", "/c/short", Reply(200, {}, b"x" * 100, sent=40))
    server.on("PUT", "/c/p", Reply(201, FACTS))

    async def use() -> None:
        async with AsyncStorlets(credentials) as storlets:
            async with storlets.run("s.py", "c/o") as output:
                assert [line async for line in output.lines()] == TEXT.decode().split("\n")
            async with storlets.run("s.py", "c/short") as output:
                with pytest.raises(BrokenAnswer):
                    await output.read()
            answer = await storlets.put("s.py", "c/p", b"body")
            assert answer.headers["x-storlet-invocation"] == "tx1-1"

    asyncio.run(use())
    assert server.received[-1].body == b"body"
