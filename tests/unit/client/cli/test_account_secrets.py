"""``secret set``, ``secret list`` and ``secret delete``."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from tests.unit.client.conftest import Command
from tests.unit.client.server import Reply, Server

VALUE = b"the value of a secret\n"


def test_a_file_is_the_value_with_all_its_bytes(
    server: Server, command: Command, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_bytes(VALUE)
    server.on("POST", "", Reply(201), Reply(204))
    result = command("secret", "set", "api-token", str(file))
    assert (result.code, result.out, result.err) == (0, "set api-token\n", "")
    sent = server.received[-1]
    assert (sent.method, sent.body) == ("POST", VALUE)
    assert sent.path.endswith("?storlet-secrets=api-token")
    assert command("secret", "set", "api-token", str(file)).out == "replaced api-token\n"


def test_standard_input_is_the_value(
    server: Server, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.on("POST", "", Reply(201))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(VALUE)))
    assert command("secret", "set", "api-token").code == 0
    assert server.received[-1].body == VALUE


def test_a_generated_value_is_random_and_not_shown(server: Server, command: Command) -> None:
    server.on("POST", "", Reply(201))
    results = [command("-v", "secret", "set", "key", "--generate") for _ in range(2)]
    first, second = (each.body for each in server.received if each.method == "POST")
    assert (len(first), first != second) == (32, True)
    assert all(first.hex() not in each.out + each.err for each in results)
    assert all(repr(first) not in each.out + each.err for each in results)


def test_names_are_listed_and_deleted(server: Server, command: Command) -> None:
    rows = b'[{"name": "api-token", "set": "2026-11-26T03:00:00.000000"}]'
    server.on("GET", "", Reply(body=rows), Reply(body=b"[]"))
    assert "api-token" in command("secret", "list").out
    assert "storlet secret set NAME" in command("secret", "list").err
    server.on("DELETE", "", Reply(204), Reply(404))
    assert command("secret", "delete", "api-token").out == "deleted api-token\n"
    result = command("secret", "delete", "api-token")
    assert (result.code, result.err) == (
        4,
        "storlet: there is no secret api-token: 'storlet secret list' has all names\n",
    )


def test_bad_inputs_are_refused_before_a_request(
    server: Server, command: Command, tmp_path: Path
) -> None:
    short = tmp_path / "short"
    short.write_bytes(b"1234567")
    with_line_feed = tmp_path / "line"
    with_line_feed.write_bytes(b"1234567\n")
    for words, code, text in (
        (("set", "Api_Token", "--generate"), 3, "secret 'Api_Token': want a lower-case letter"),
        (("delete", "Api_Token"), 3, "secret 'Api_Token'"),
        (("set", "a", str(short)), 3, "the value has 7 bytes: want 8 to 4096"),
        (("set", "a", str(with_line_feed)), 3, "the value has 7 bytes: want 8 to 4096"),
        (("set", "a", str(short), "--generate"), 3, "--generate: leave FILE out"),
        (("set", "a", str(tmp_path / "none")), 2, "No such file"),
        (("list", "extra"), 2, "unexpected extra argument"),
    ):
        result = command("secret", *words)
        assert (result.code, text in result.err) == (code, True), result
    assert not any(call.startswith(("POST", "DELETE")) for call in server.calls())
