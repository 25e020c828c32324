"""``grants``, ``grant``, ``revoke`` and ``rules``."""

from __future__ import annotations

from pathlib import Path

from tests.unit.client.conftest import Command
from tests.unit.client.server import Reply, Server


def test_a_warning_of_the_server_is_shown(server: Server, command: Command) -> None:
    server.on("POST", "/c", Reply(204, {"X-Storlet-Warning": "no such storlet"}))
    result = command("grant", "c", "ada", "s.py")
    assert (result.code, result.out) == (0, "ada may read c through s.py\n")
    assert result.err == "warning: no such storlet\n"


def test_refused_rules_show_the_report(server: Server, command: Command, tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text("version: 1\n")
    server.on("PUT", "/storlet_rules", Reply(201))
    server.on("PUT", "/storlet_rules/rules.yaml", Reply(400, {}, b"rules.yaml:1:1: error"))
    result = command("rules", "put", str(file), "--accept-warnings")
    assert (result.code, "rules.yaml:1:1: error" in result.err) == (4, True)
    assert server.received[-1].headers["x-storlet-rules-accept-warnings"] == "true"


def test_rules_are_shown_or_said_to_be_missing(server: Server, command: Command) -> None:
    server.on("GET", "/storlet_rules/rules.yaml", Reply(body=b"version: 1\n"), Reply(404))
    assert command("rules", "show").out == "version: 1\n"
    assert "no rules" in command("rules", "show").err


def test_the_method_of_a_decision_may_be_in_lower_case(server: Server, command: Command) -> None:
    server.on("GET", "/c/o", Reply(body=b"allowed\n"))
    assert command("rules", "decide", "get", "c/o").out == "allowed\n"
    assert server.calls() == ["GET /c/o"]
