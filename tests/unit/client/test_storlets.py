"""The two faces: streams, broken answers, and equal methods."""

from __future__ import annotations

import asyncio
import inspect

import httpx
import pytest

from storlet_client import AsyncStorlets, BrokenAnswer, Storlets, Tempauth, Token, Unreachable
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
