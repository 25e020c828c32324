"""Calls by HTTP: connections, silences, and what a call cannot carry."""

from __future__ import annotations

import asyncio
import io
import json
import re
import shutil
import socket
import sys
import threading
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import certifi
import pytest

from storlet_client import (
    AsyncStorlets,
    ConfigurationError,
    Refused,
    Storlets,
    Tempauth,
    Token,
    Unreachable,
    transport,
)
from storlet_client.exchange import Call, Sent
from storlet_client.transport import PART_BYTES, Event
from tests.unit.client.server import ACCOUNT, Reply, Server


def test_a_server_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_QUICK_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = "http://{}:{}/v1/A".format(*silent.getsockname())
        with Storlets(Token(url, "t")) as storlets, pytest.raises(Unreachable) as caught:
            storlets.info()
    assert "no answer to GET within 0 s" in str(caught.value)


@pytest.mark.parametrize(
    "credentials",
    [
        *(
            Token(url, "t")
            for url in ("no-url", "http://[half/v1/A", "ftp://host/v1/A", "http://h")
        ),
        *(Tempauth(url, "u", "k") for url in ("no-url", "ftp://host/auth/v1.0")),
    ],
)
def test_a_text_that_is_no_url_of_a_server_is_named(credentials: Token | Tempauth) -> None:
    with Storlets(credentials) as storlets, pytest.raises(ConfigurationError) as caught:
        storlets.show("a.py")
    url = credentials.storage_url if isinstance(credentials, Token) else credentials.auth_url
    assert repr(url) in str(caught.value)


@pytest.mark.parametrize("name", ["two\nlines", " space", "end\t", "nul\0"])
def test_a_value_that_a_header_cannot_carry_is_refused(storlets: Storlets, name: str) -> None:
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


def test_a_proxy_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://user:word@127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "near.example")
    refused = r"^http://far\.example through the proxy 127\.0\.0\.1:1: "
    far, near = Token("http://far.example/v1/A", "t"), Token("http://127.0.0.1:1/v1/A", "t")
    with Storlets(far) as storlets, pytest.raises(Unreachable, match=refused) as caught:
        storlets.info()
    assert "word" not in str(caught.value)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:2")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    refused = r"^http://127\.0\.0\.1:1: "
    with Storlets(near) as storlets, pytest.raises(Unreachable, match=refused):
        storlets.info()


@pytest.mark.parametrize(
    ("proxy", "reason"),
    [
        ("user:word@host:port", r"Invalid port: 'port'"),
        ("ftp://user:word@host", r"Unknown scheme"),
        ("socks5://user:word@host", r"SOCKS needs a package: pip install 'httpx\[socks\]'"),
    ],
)
@pytest.mark.parametrize("kind", [Storlets, AsyncStorlets])
def test_a_proxy_that_is_none_is_a_fault_of_its_variable(
    monkeypatch: pytest.MonkeyPatch,
    kind: type[Storlets | AsyncStorlets],
    proxy: str,
    reason: str,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", proxy)
    monkeypatch.setitem(sys.modules, "socksio", None)
    expected = f"^HTTP_PROXY: the proxy cannot be used: {reason}"
    with pytest.raises(ConfigurationError, match=expected) as caught:
        kind(Token("http://host/v1/A", "t"))
    assert "word" not in str(caught.value)


def test_certificates_that_are_not_there_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text, none = tmp_path / "text", tmp_path / "none"
    text.write_text("no certificate")
    token = Token("https://host/v1/A", "t")
    for place, reason in ((text, "no certificate"), (none, "No such file")):
        expected = re.escape(f"{place}: no trusted certificates: ") + f".*{reason}"
        with pytest.raises(ConfigurationError, match=f"(?i){expected}"):
            Storlets(token, verify=str(place))
        monkeypatch.setenv("SSL_CERT_FILE", str(place))
        with pytest.raises(ConfigurationError, match=f"(?i){expected}"):
            Storlets(token)
        Storlets(token, verify=False).close()


def test_a_file_of_certificates_is_read_again_when_it_changes(tmp_path: Path) -> None:
    place, token = tmp_path / "trusted", Token("https://host/v1/A", "t")
    shutil.copyfile(certifi.where(), place)
    for _ in range(2):
        Storlets(token, verify=str(place)).close()
    place.write_text("no certificate")
    with pytest.raises(ConfigurationError, match="no trusted certificates"):
        Storlets(token, verify=str(place))


def test_connections_are_kept(server: Server, storlets: Storlets) -> None:
    server.on("HEAD", "/c", Reply(204))
    for _ in range(5):
        storlets.grants("c")
    pool = storlets._http._client._transport._pool  # type: ignore[attr-defined]
    assert len(pool.connections) == 1


def parts_of(events: list[Event]) -> list[int]:
    return [event.size for event in events if isinstance(event, Sent)]


@pytest.mark.parametrize(
    ("body", "parts", "length"),
    [
        (b"x" * 10, [], 10),
        (b"x" * PART_BYTES, [], PART_BYTES),
        (b"x" * (2 * PART_BYTES + 7), [PART_BYTES, PART_BYTES, 7], 2 * PART_BYTES + 7),
        ([b"xx", b"x"], [2, 1], None),
        (io.BytesIO(b"xxx"), [], 3),
    ],
)
def test_the_parts_of_a_body_are_watched_as_they_are_sent(
    server: Server, credentials: Tempauth, body: Any, parts: list[int], length: int | None
) -> None:
    events: list[Event] = []
    server.on("PUT", "/c", Reply(202))
    server.on("PUT", "/c/o", Reply(201))
    with Storlets(credentials, watch=lambda _call, event: events.append(event)) as storlets:
        storlets.upload("c/o", body)
    assert parts_of(events) == parts
    received = server.received[-1]
    assert received.headers.get("content-length") == (str(length) if length else None)
    assert received.body == b"x" * (length or 3)


@pytest.mark.parametrize("is_async", [False, True])
def test_bodies_of_every_kind_arrive(server: Server, credentials: Tempauth, is_async: bool) -> None:
    server.on("PUT", "/c", Reply(202))
    server.on("PUT", "/c/o", Reply(201))

    def bodies() -> list[Any]:
        kinds: list[Any] = [b"abc", bytearray(b"abc"), memoryview(b"abc"), [b"ab", b"c"]]
        return [*kinds, iter([b"ab", b"c"]), io.BytesIO(b"abc")]

    async def upload() -> None:
        async with AsyncStorlets(credentials) as storlets:
            for body in bodies():
                await storlets.upload("c/o", body)

    if is_async:
        asyncio.run(upload())
    else:
        with Storlets(credentials) as storlets:
            for body in bodies():
                storlets.upload("c/o", body)
    sent = [one.body for one in server.received if one.path.endswith("/c/o")]
    assert sent == [b"abc"] * len(bodies())


def test_a_text_is_no_body(server: Server, storlets: Storlets) -> None:
    text: Any = "abc"
    with pytest.raises(TypeError, match="the body is a text: encode it"):
        storlets.upload("c/o", text)
    with pytest.raises(TypeError, match="the body is a text: encode it"):
        storlets.put("a.py", "c/o", text)
    assert server.calls() == []


def test_a_long_body_is_sent_again_whole(server: Server, credentials: Tempauth) -> None:
    content = bytes(range(256)) * (PART_BYTES // 200)
    events: list[Event] = []
    server.on("PUT", "/c", Reply(202))

    def watch(_call: Call, event: Event) -> None:
        events.append(event)

    async def upload() -> None:
        async with AsyncStorlets(credentials, watch=watch) as storlets:
            await storlets.upload("c/o", content)

    server.on("PUT", "/c/o", Reply(503, {"Retry-After": "0"}), Reply(201))
    with Storlets(credentials, watch=watch) as storlets:
        storlets.upload("c/o", content)
    server.on("PUT", "/c/o", Reply(503, {"Retry-After": "0"}), Reply(201))
    asyncio.run(upload())
    sent = [one.body for one in server.received if one.path.endswith("/c/o")]
    assert sent == [content] * 4
    assert sum(parts_of(events)) == 4 * len(content)


def of_many(server: Server, *, fails: str = "") -> list[str]:
    """The names of storlets, which the server has."""
    names = [f"s{number}.py" for number in range(8)]
    listed = json.dumps([{"name": name} for name in names]).encode()
    server.on("GET", "/storlet", Reply(body=listed))
    for name in names:
        answer = Reply(200, {"X-Object-Meta-Storlet-Main": name})
        server.on("HEAD", f"/storlet/{name}", Reply(403) if name == fails else answer)
    return names


def test_requests_about_many_storlets_are_sent_together(server: Server) -> None:
    names = of_many(server)
    there, reply_to = threading.Barrier(4), server.reply_to

    def reply_together(method: str, path: str) -> Reply:
        if method == "HEAD":  # of which four are here at the same time
            there.wait(10)
        return reply_to(method, path)

    server.reply_to = reply_together  # type: ignore[method-assign]
    seen: list[tuple[str, Event, int]] = []

    def watch(call: Call, event: Event) -> None:
        seen.append((str(call).rpartition("/")[2], event, threading.get_ident()))

    with Storlets(Token(server.url + ACCOUNT, "t"), watch=watch) as storlets:
        assert [each.main for each in storlets.list()] == names
    heads = [row for row in seen if row[0] in names]
    # One after the other, as -v shows them, and in one thread.
    assert [(name, event is None) for name, event, _ in heads] == [
        (name, is_begin) for name in names for is_begin in (True, False)
    ]
    assert {thread for *_, thread in seen} == {threading.get_ident()}

    async def listed() -> list[str]:
        async with AsyncStorlets(Token(server.url + ACCOUNT, "t")) as others:
            return [each.main for each in await others.list()]

    assert asyncio.run(listed()) == names


def test_one_of_several_requests_fails(server: Server) -> None:
    of_many(server, fails="s5.py")
    refused = pytest.raises(Refused, match=r"s5\.py: 403")
    with Storlets(Token(server.url + ACCOUNT, "t")) as storlets, refused:
        storlets.list()

    async def fail() -> None:
        async with AsyncStorlets(Token(server.url + ACCOUNT, "t")) as others:
            await others.list()

    with pytest.raises(Refused, match=r"s5\.py: 403"):
        asyncio.run(fail())


def test_ctrl_c_waits_for_no_answer_and_closes_no_connection_that_is_read(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_many(server)
    is_over, reply_to = threading.Event(), server.reply_to

    def reply_late(method: str, path: str) -> Reply:
        if path.endswith("s6.py"):
            is_over.wait(60)
        return reply_to(method, path)

    class Interrupted(threading.Thread):
        def join(self, timeout: float | None = None) -> None:
            raise KeyboardInterrupt

    server.reply_to = reply_late  # type: ignore[method-assign]
    monkeypatch.setattr(transport, "Thread", Interrupted)
    storlets = Storlets(Token(server.url + ACCOUNT, "t"))
    with pytest.raises(KeyboardInterrupt):
        storlets.list()
    storlets.close()
    client, threads = storlets._http._client, storlets._http._threads
    assert (is_over.is_set(), client.is_closed) == (False, False)
    is_over.set()
    for thread in threads:
        threading.Thread.join(thread)
    storlets.close()
    assert client.is_closed
