"""The output of -v."""

from __future__ import annotations

from tests.unit.client.conftest import Command
from tests.unit.client.server import Reply, Server


def test_requests_are_shown_without_secrets(server: Server, command: Command) -> None:
    server.on("GET", "/c/o", Reply(503, {"Retry-After": "0"}), Reply(200, {"X-A": "b"}, b"out"))
    result = command("-v", "invoke", "s.py", "c/o", "-p", "key=secret-p", "-p", "k:=secret-q")
    assert (result.code, result.out) == (0, "out")
    assert "secret" not in result.err
    for line in ("> X-Run-Storlet: s.py", "< 200", "* 503: repeat in 0 s", "< x-a: b"):
        assert line in result.err.splitlines()
    assert "> X-Auth-Key: ***" in result.err
    assert "/v1/AUTH_test/c/o?k%3A=***" in result.err


def test_requests_of_the_command_itself_are_shown_as_they_are(
    server: Server, command: Command
) -> None:
    server.on("POST", "/storlet/a.storlet", Reply(202))
    shown = command("-v", "rollback", "a", "3").err
    assert f"> POST {server.url}/v1/AUTH_test/storlet/a.storlet?storlet-version=3\n" in shown
