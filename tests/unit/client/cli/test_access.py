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


def test_the_report_about_rules_names_the_file_of_the_user(
    server: Server, command: Command, tmp_path: Path
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("version: 1\n")
    report = "1: accept with X-Storlet-Rules-Accept-Warnings: true\nrules.yaml:1:1: error\n    help: x\nrules.yaml:7:5: error\n"
    server.on("PUT", "/storlet_rules", Reply(201))
    server.on(
        "PUT",
        "/storlet_rules/rules.yaml",
        Reply(400, {"X-Storlet-Error": "rules.invalid"}, report.encode()),
        Reply(201, {}, b"accepted\nrules.yaml:2:1: warning\n"),
    )
    result = command("rules", "put", str(file), "--accept-warnings")
    begin = "storlet: PUT storlet_rules/rules.yaml: 400 rules.invalid: "
    shown = report.replace("rules.yaml", str(file)).strip()
    shown = shown.replace("X-Storlet-Rules-Accept-Warnings: true", "--accept-warnings")
    assert (result.code, begin + shown in result.err) == (4, True), result.err
    assert server.received[-1].headers["x-storlet-rules-accept-warnings"] == "true"
    assert command("rules", "put", str(file)).err == f"accepted\n{file}:2:1: warning\n"


def test_rules_are_shown_or_said_to_be_missing(server: Server, command: Command) -> None:
    server.on("GET", "/storlet_rules/rules.yaml", Reply(body=b"version: 1\n"), Reply(404))
    assert command("rules", "show").out == "version: 1\n"
    assert "no rules" in command("rules", "show").err


def test_the_method_of_a_decision_may_be_in_lower_case(server: Server, command: Command) -> None:
    server.on("GET", "/c/o", Reply(body=b"allowed\n"))
    assert command("rules", "decide", "get", "c/o").out == "allowed\n"
    assert server.calls() == ["GET /c/o"]
