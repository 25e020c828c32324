"""Options that all commands share."""

from __future__ import annotations

import pytest

from storlet_client import ConfigurationError
from storlet_client.cli.context import pairs
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
    "words",
    [
        "invoke s c/o -o",
        "invoke s c/o --to",
        "download s -o",
        "distribute s c -o",
        "distribute s c --to",
        "distribute s c --merge",
        "replay tx1 -o",
        "deploy . --name",
        "build -o",
        "run . --further-output",
        "test --junit",
    ],
)
def test_an_option_with_the_value_of_an_unset_variable_is_refused(
    server: Server, command: Command, words: str
) -> None:
    result = command(*words.split(), "")
    assert (result.code, result.out, server.received) == (2, "", [])
    said = " ".join(result.err.split())
    assert f"'{words.rpartition(' ')[2]}'" in said
    assert said.endswith(": it is empty: is a variable of the shell unset?")
