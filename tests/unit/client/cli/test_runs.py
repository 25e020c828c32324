"""``runs`` and ``show-run``."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest

from storlet_client.cli.runs import _time
from tests.unit.client.conftest import Command
from tests.unit.client.server import Reply, Server

RECORD = {
    "id": "tx1-1",
    "time": "2026-11-23T20:00:00Z",
    "storlets": [{"name": "a.py"}, {"name": "b.py"}],
    "outcome": "failed",
    "code": "storlet.failed",
    "message": "ValueError: " + "x" * 100,
    "object": "c/o",
}


def query(server: Server) -> dict[str, list[str]]:
    return parse_qs(urlsplit(server.received[-1].path).query, keep_blank_values=True)


def test_failures_are_listed(server: Server, command: Command) -> None:
    server.on("GET", "", Reply(body=json.dumps([RECORD]).encode()))
    result = command("runs", "a.py", "--failed", "--since", "2026-11-23T19:00:00Z")
    assert result.code == 0
    line = result.out.splitlines()[1]
    assert "a.py | b.py  storlet.failed  c/o" in line
    assert "xxx..." in line
    sent = query(server)
    assert (sent["storlet"], sent["outcome"], sent["limit"]) == (["a.py"], ["failed"], ["20"])
    assert sent["since"] == ["2026-11-23T19:00:00Z"]
    assert json.loads(command("runs", "-f", "json").out) == [RECORD]


def test_pages_are_read_up_to_the_limit(server: Server, command: Command) -> None:
    page = json.dumps([RECORD] * 2).encode()
    server.on("GET", "", Reply(200, {"X-Storlet-Runs-Next": "m1"}, page))
    assert len(json.loads(command("runs", "--limit", "5", "-f", "json").out)) == 6
    assert (query(server)["marker"], query(server)["limit"]) == (["m1"], ["1"])


def test_an_age_is_a_time() -> None:
    then = datetime.fromisoformat(_time("90m", "--since"))
    age = datetime.now(UTC) - then
    assert timedelta(minutes=89) < age < timedelta(minutes=91)


@pytest.mark.parametrize(
    "words",
    [
        ["--since", "yesterday"],
        ["--failed", "--outcome", "ok"],
        ["--follow", "--since", "1h"],
    ],
)
def test_impossible_selections_are_refused(
    server: Server, command: Command, words: list[str]
) -> None:
    assert command("runs", *words).code == 3
    assert server.calls() == []


def test_a_record_is_shown(server: Server, command: Command) -> None:
    server.on("GET", "", Reply(body=json.dumps(RECORD).encode()), Reply(404))
    assert "message   ValueError: xxx" in command("show-run", "tx1-1").out
    result = command("show-run", "tx1-1")
    assert (result.code, "failures only" in result.err) == (4, True)


def test_runs_are_followed_until_the_stream_is_refused(server: Server, command: Command) -> None:
    lines = b"\n" + json.dumps(RECORD).encode() + b'\n{"skipped_objects": 3}\n'
    server.on("GET", "", Reply(body=lines), Reply(body=lines), Reply(403))
    result = command("runs", "--follow")
    assert result.code == 4
    assert result.out.count("tx1-1") == 2
    assert result.err.count("some are left out") == 2
    assert "follow" in query(server)
