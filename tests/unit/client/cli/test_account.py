"""``doctor``, ``enable`` and ``info``."""

from __future__ import annotations

import json

from tests.unit.client.conftest import Command
from tests.unit.client.server import INFO, Reply, Server


def test_the_doctor_names_the_command_that_repairs(server: Server, command: Command) -> None:
    server.on("HEAD", "", Reply(204))
    result = command("doctor")
    assert (result.code, "repair: storlet enable" in result.out) == (1, True)
    assert [row["is_well"] for row in json.loads(command("doctor", "-f", "json").out)] == [
        True, True, True, True, False,
    ]  # fmt: skip


def test_enabling_creates_the_containers(server: Server, command: Command) -> None:
    server.on("POST", "", Reply(204))
    for name in ("storlet", "dependency"):
        server.on("PUT", f"/{name}", Reply(202))
    server.on("PUT", "/storletlog", Reply(201))
    result = command("enable")
    assert result.out == "storlets are enabled\n  created container storletlog\n"


def test_enabling_sets_what_is_recorded_and_checked(server: Server, command: Command) -> None:
    server.on("POST", "", Reply(204))
    info = {"storlet_handler": {**INFO["storlet_handler"], "upload_check": True}}
    server.replies["GET", "/info"] = Reply(body=json.dumps(info).encode())
    for name in ("storlet", "dependency", "storletlog"):
        server.on("PUT", f"/{name}", Reply(202))
    assert command("enable", "--records", "all", "--no-check").code == 0
    (sent,) = [one.headers for one in server.received if one.method == "POST"]
    name = "x-account-meta-storlet-"
    assert (sent[f"{name}enabled"], sent[f"{name}records"], sent[f"{name}check"]) == (
        "True", "all", "false"
    )  # fmt: skip
    assert command("enable", "--records", "some").code == 2


def test_info_has_limits_and_the_whole_document(command: Command) -> None:
    assert "limit memory_bytes    1,024" in command("info").out
    assert "engine                1.0" in command("info").out
    assert "\nlimit memory_bytes,1024\n" in command("info", "-f", "csv").out
    assert json.loads(command("info", "-f", "json").out) == INFO["storlet_handler"]
