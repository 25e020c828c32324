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
