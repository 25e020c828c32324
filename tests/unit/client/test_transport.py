"""Calls by HTTP: connections, silences, and what a call cannot carry."""

from __future__ import annotations

import socket
from urllib.parse import unquote

import pytest

from storlet_client import (
    ConfigurationError,
    Refused,
    Storlets,
    Tempauth,
    Token,
    Unreachable,
    transport,
)
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
    pool = storlets._http._client._transport._pool  # type: ignore[attr-defined]
    assert len(pool.connections) == 1
