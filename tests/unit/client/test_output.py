"""Outputs: bytes, lines, records, facts, and broken streams."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Iterator

import httpx
import pytest

from storlet_client import (
    AsyncOutput,
    AsyncStorlets,
    BrokenAnswer,
    ConfigurationError,
    Record,
    Storlets,
    Tempauth,
    Token,
    transport,
)
from storlet_client import output as output_module
from storlet_client.exchange import Answer
from storlet_client.output import Output, _Lines, _Records, layout_of
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
            headers = {"X-Auth-Token": "t", "X-Storage-Url": server.url + "/v1/A"}
            return httpx.Response(200, headers=headers)
        return httpx.Response(200, stream=httpx.ByteStream(b"x"))

    storlets._http._client = httpx.Client(transport=httpx.MockTransport(answer))
    with pytest.raises(BrokenAnswer, match="no length"), storlets.run("s.py", "c/o"):
        pass


LAYOUT = "<i4 id, x2, s4 text"
PACKED = b"".join(struct.pack("<i2x4s", n, b"ab") for n in range(3))
RECORDS = [{"id": n, "text": "ab"} for n in range(3)]


def test_an_output_has_records(server: Server, storlets: Storlets) -> None:
    server.on("GET", "/c/o", Reply(200, {}, PACKED))
    with storlets.run("s.py", "c/o") as output:
        assert list(output.records(LAYOUT)) == RECORDS
    server.on("GET", "/c/o", Reply(200, {}, b""))
    with storlets.run("s.py", "c/o") as output:
        assert list(output.records(LAYOUT)) == []


async def collected(output: AsyncOutput) -> list[Record]:
    return [record async for record in output.records(LAYOUT)]


def test_asyncio_has_its_records_and_lines_too(server: Server, credentials: Tempauth) -> None:
    server.on("GET", "/c/o", Reply(200, {}, PACKED), Reply(200, {}, TEXT), Reply(200, {}, b"x"))

    async def read() -> list[str]:
        async with AsyncStorlets(credentials) as storlets:
            async with storlets.run("s.py", "c/o") as output:
                assert await collected(output) == RECORDS
            async with storlets.run("s.py", "c/o") as output:
                lines = [line async for line in output.lines()]
            async with storlets.run("s.py", "c/o") as output:
                with pytest.raises(BrokenAnswer, match="its last record has 1 of 10 bytes"):
                    await collected(output)
            return lines

    assert asyncio.run(read()) == TEXT.decode().split("\n")


@pytest.mark.parametrize("chunk", [1, 3, 10, 25])
def test_records_do_not_depend_on_the_chunks(chunk: int) -> None:
    splitter = _Records(layout_of(LAYOUT))
    found = [
        record
        for start in range(0, len(PACKED), chunk)
        for record in splitter.feed(PACKED[start : start + chunk])
    ]
    splitter.end()
    assert found == RECORDS


@pytest.mark.parametrize(
    ("length", "sent", "text"),
    [(25, None, "its last record has 5 of 10 bytes"), (30, 20, "the output is incomplete")],
)
def test_records_of_an_incomplete_output_are_broken(
    server: Server, storlets: Storlets, length: int, sent: int | None, text: str
) -> None:
    server.on("GET", "/c/o", Reply(200, {}, PACKED[:length], sent=sent))
    records: list[Record] = []
    with storlets.run("s.py", "c/o") as output, pytest.raises(BrokenAnswer, match=text):
        records.extend(output.records(LAYOUT))
    assert records == RECORDS[:2]


def test_a_description_of_records_that_is_not_valid_is_refused_at_once(
    server: Server, storlets: Storlets
) -> None:
    server.on("GET", "/c/o", Reply(200, {}, PACKED))
    with storlets.run("s.py", "c/o") as output:
        with pytest.raises(ConfigurationError, match="struct: 'i3 id'"):
            output.records("i3 id")
        assert output.read() == PACKED


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


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[Errno 104] Connection reset by peer", "Connection reset by peer"),
        ("", "the connection broke off"),
    ],
)
def test_a_broken_output_has_its_run_and_a_reason(text: str, reason: str) -> None:
    class Broken:
        def iter_raw(self) -> Iterator[bytes]:
            yield b"half"
            raise httpx.ReadError(text)

    output = Output(Answer(200, {"x-storlet-invocation": "tx1-1"}, b"", Broken()))
    with pytest.raises(BrokenAnswer) as caught:
        output.read()
    assert str(caught.value) == f"the output is incomplete: {reason}"
    assert caught.value.invocation == "tx1-1"
