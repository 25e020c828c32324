"""Options that all commands share."""

from __future__ import annotations

import shlex

import click
import pytest

from storlet_client import ConfigurationError
from storlet_client.cli.context import pairs
from storlet_client.cli.main import cli
from tests.unit.client.conftest import Command
from tests.unit.client.server import ACCOUNT, Reply, Server


def test_pairs_may_have_any_value() -> None:
    assert pairs(["a=b=c", "d="], "-p") == {"a": "b=c", "d": ""}


def test_all_faults_of_pairs_are_named() -> None:
    with pytest.raises(ConfigurationError) as caught:
        pairs(["a", "=b", "c=1", "c=2"], "-p")
    assert len(caught.value.faults) == 3


def test_a_token_of_the_command_line_is_used(server: Server, command: Command) -> None:
    server.on("HEAD", "/c", Reply(204))
    url = server.url + ACCOUNT
    result = command("--os-storage-url", url, "--os-auth-token", "given", "grants", "c")
    assert result.code == 0
    assert [one.headers["x-auth-token"] for one in server.received] == ["given"]


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("invoke s c/o -o ''", "-o"),
        ("invoke s c/o --to ''", "--to"),
        ("invoke '' c/o", "NAME"),
        ("download s -o ''", "-o"),
        ("distribute s c -o ''", "-o"),
        ("distribute s c --to ''", "--to"),
        ("distribute s c --merge ''", "--merge"),
        ("distribute s ''", "[CONTAINER]"),
        ("replay tx1 -o ''", "-o"),
        ("deploy . --name ''", "--name"),
        ("build -o ''", "-o"),
        ("run . --further-output ''", "--further-output"),
        ("test --junit ''", "--junit"),
        ("runs ''", "[NAME]"),
        ("logs s ''", "[INVOCATION]"),
    ],
)
def test_the_value_of_an_unset_variable_is_refused(
    server: Server, command: Command, line: str, named: str
) -> None:
    result = command(*shlex.split(line))
    assert (result.code, result.out, server.received) == (2, "", [])
    said = " ".join(result.err.split())
    assert f"'{named}'" in said
    assert said.endswith(": it is empty: is a variable of the shell unset?")


def test_a_shell_completes_the_files_of_options() -> None:
    for words in ("invoke", "download", "build", "replay", "run"):
        context = click.Context(cli.commands[words])
        (option,) = (each for each in context.command.params if "--output" in each.opts)
        assert [each.type for each in option.shell_complete(context, "a")] == ["file"]
