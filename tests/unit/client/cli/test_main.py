"""Exit codes, help and errors."""

from __future__ import annotations

import pytest

from storlet_client.cli.main import cli
from tests.unit.client.conftest import Command
from tests.unit.client.server import Reply, Server


def all_commands() -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for name, each in cli.commands.items():
        found.append((name,))
        found += [(name, inner) for inner in getattr(each, "commands", {})]
    return found


OPERATORS = {"sandboxes", "check", "test", "explain", "who-can", "diff"}


@pytest.mark.parametrize("words", all_commands(), ids=" ".join)
def test_each_command_has_help_with_examples(command: Command, words: tuple[str, ...]) -> None:
    if words[-1] in OPERATORS:
        return
    result = command(*words, "--help")
    assert result.code == 0
    assert len(result.out.splitlines()) > 4
    assert "Examples:" in result.out or words == ("rules",)


@pytest.mark.parametrize(
    ("status", "headers", "code"),
    [
        (404, {}, 4),
        (422, {"X-Storlet-Error": "storlet.failed", "X-Storlet-Invocation": "tx1-1"}, 4),
        (503, {}, 5),
    ],
)
def test_an_error_has_a_code_and_a_next_step(
    server: Server, command: Command, status: int, headers: dict[str, str], code: int
) -> None:
    server.on("GET", "/c/o", Reply(status, headers, b"the reason"))
    result = command("invoke", "s.py", "c/o")
    assert (result.code, result.out) == (code, "")
    assert "the reason" in result.err
    if status == 422:
        assert "storlet show-run tx1-1" in result.err


def test_a_broken_output_fails(server: Server, command: Command) -> None:
    server.on("GET", "/c/o", Reply(200, {}, b"x" * 100, sent=40))
    result = command("invoke", "s.py", "c/o")
    assert (result.code, "incomplete" in result.err) == (5, True)


def test_without_credentials_all_ways_are_named(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ST_AUTH", "ST_USER", "ST_KEY"):
        monkeypatch.delenv(name)
    result = command("list")
    assert result.code == 3
    assert all(word in result.err for word in ("OS_CLOUD", "OS_AUTH_URL", "ST_AUTH"))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_printed(command: Command, shell: str) -> None:
    result = command("completion", shell)
    assert (result.code, "_STORLET_COMPLETE" in result.out) == (0, True)
