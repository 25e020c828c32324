"""``runs`` and ``show-run``."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from storlet_client.cli import runs
from tests.unit.client.conftest import Command
from tests.unit.client.server import INFO, Reply, Server

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
    line, message = result.out.splitlines()
    assert line == "2026-11-23 20:00:00Z  a.py | b.py  storlet.failed  c/o  tx1-1"
    assert message.startswith("  ValueError: xxx")
    assert message.endswith(RECORD["message"])  # no terminal
    sent = query(server)
    assert (sent["storlet"], sent["outcome"], sent["limit"]) == (["a.py"], ["failed"], ["20"])
    assert sent["since"] == ["2026-11-23T19:00:00Z"]
    assert json.loads(command("runs", "-f", "json").out) == [RECORD]
    assert f",{RECORD['message']}," in command("runs", "-f", "csv").out


def test_columns_of_runs_are_aligned_and_a_long_id_has_a_line(
    server: Server, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = {**RECORD, "storlets": [{"name": "c.py"}], "code": "ok", "message": ""}
    server.on("GET", "", Reply(body=json.dumps([RECORD, other]).encode()))
    first, _, second = command("runs").out.splitlines()
    assert first.index("c/o") == second.index("c/o")
    monkeypatch.setattr(runs, "columns_of", lambda _stream: 60)
    first, run, message, *_ = command("runs").out.splitlines()
    assert (first.split()[-1], run) == ("c/o", "  tx1-1")
    assert len(message) == 60


def test_pages_are_read_up_to_the_limit(server: Server, command: Command) -> None:
    page = json.dumps([RECORD] * 2).encode()
    server.on("GET", "", Reply(200, {"X-Storlet-Runs-Next": "m1"}, page))
    assert len(json.loads(command("runs", "--limit", "5", "-f", "json").out)) == 6
    assert (query(server)["marker"], query(server)["limit"]) == (["m1"], ["1"])


@pytest.mark.parametrize("text", ["2026-11-23", "2026-11-23 19:00:00Z", "1795460400"])
def test_a_time_may_have_the_form_of_a_list(text: str) -> None:
    assert runs._time(text, "--since") == text


def test_an_age_is_a_time() -> None:
    then = datetime.fromisoformat(runs._time("90m", "--since"))
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


@pytest.mark.parametrize("form", ["json", "yaml", "csv"])
def test_followed_runs_have_each_form(server: Server, command: Command, form: str) -> None:
    line = json.dumps(RECORD).encode() + b"\n"
    server.on("GET", "", Reply(body=line * 2), Reply(403))
    text = command("runs", "--follow", "-f", form).out
    if form == "csv":
        rows = list(csv.DictReader(io.StringIO(text)))
        assert [(row["id"], row["storlet"]) for row in rows] == [("tx1-1", "a.py | b.py")] * 2
    elif form == "yaml":
        assert yaml.safe_load(text) == [RECORD, RECORD]
    else:
        assert [json.loads(each) for each in text.splitlines()] == [RECORD, RECORD]


WITH_LOG = {**RECORD, "log": "one\ntwo \x1b[31m\n", "traceback": "unused"}


def test_ends_of_logs_are_printed_oldest_first(server: Server, command: Command) -> None:
    newer = {**RECORD, "id": "tx2-1", "traceback": "Traceback\n  line 1"}
    server.on("GET", "", Reply(body=json.dumps([newer, WITH_LOG]).encode()))
    result = command("logs", "a.py", "--failed", "--since", "2026-11-23T19:00:00Z")
    lines = result.out.splitlines()
    assert [line.split()[-1] for line in lines[:5:4]] == ["tx1-1", "tx2-1"]
    assert lines[2:4] == ["  one", r"  two \x1b[31m"]
    assert lines[6:] == ["  Traceback", "    line 1"]
    sent = query(server)
    assert (sent["storlet"], sent["outcome"]) == (["a.py"], ["failed"])
    found = json.loads(command("logs", "a.py", "--failed", "-f", "json").out)
    assert [each["id"] for each in found] == ["tx1-1", "tx2-1"]
    assert "one" in command("logs", "a.py", "--failed", "-f", "csv").out


def test_a_full_page_of_logs_says_that_there_may_be_more(server: Server, command: Command) -> None:
    server.on("GET", "", Reply(body=json.dumps([WITH_LOG]).encode()), Reply(body=b"[]"))
    assert "raise --limit" in command("logs", "a.py", "--failed", "--limit", "1").err
    server.on("HEAD", "/storlet/a.py", Reply())
    assert "no recorded runs of a.py" in command("logs", "a.py", "--failed").err


def test_logs_are_followed(server: Server, command: Command) -> None:
    line = json.dumps(WITH_LOG).encode() + b"\n"
    server.on("HEAD", "/storlet/a.py", Reply())
    server.on("GET", "", Reply(body=line), Reply(403))
    result = command("logs", "a.py", "--follow")
    assert result.code == 4
    assert "xxx\n  one\n" in result.out
    assert query(server)["storlet"] == ["a.py"]


@pytest.mark.parametrize("command_of", ["logs", "runs"])
def test_a_misspelt_name_is_not_followed(server: Server, command: Command, command_of: str) -> None:
    server.on("HEAD", "/storlet/a.pi", Reply(404))
    server.on("HEAD", "/storlet/a.pi.storlet", Reply(404))
    server.on("GET", "/storlet", Reply(body=b'[{"name": "a.py"}]'))
    result = command(command_of, "a.pi", "--follow")
    assert (result.code, result.out) == (4, "")
    assert "there is no storlet a.pi: did you mean a.py?" in result.err


@pytest.mark.parametrize(
    "words", [["--follow", "--since", "1h"], ["tx1-1", "--failed"], ["--since", "yesterday"]]
)
def test_impossible_selections_of_logs_are_refused(
    server: Server, command: Command, words: list[str]
) -> None:
    assert command("logs", "a.py", *words).code == 3
    assert server.calls() == []


def test_lines_of_running_storlets_are_followed(server: Server, command: Command) -> None:
    info = json.loads(json.dumps(INFO))
    info["storlet_handler"]["records"]["follows_lines"] = True
    server.replies["GET", "/info"] = [Reply(body=json.dumps(info).encode())]
    rows = [
        {"id": "tx1-1", "storlet": "a.py", "lines": "one\n\x1b[31m\n", "skipped_bytes": 9},
        {"time": "2026-11-23T20:00:00Z", "skipped_bytes": 70},
        WITH_LOG,
    ]
    body = b"".join(json.dumps(each).encode() + b"\n" for each in rows)
    server.on("HEAD", "/storlet/a.py", Reply())
    server.on("GET", "", Reply(body=body), Reply(403))
    result = command("logs", "a.py", "--follow")
    assert result.code == 4
    assert result.out.startswith(
        "tx1-1  (9 bytes of logs are left out)\ntx1-1  one\ntx1-1  \\x1b[31m\n"
        "(70 bytes of logs are left out)\n"
    )
    # The record of a run whose lines were printed has no log again.
    assert "xxx\n" in result.out
    assert "  two" not in result.out
    assert "lines" in query(server)
    assert command("logs", "a.py", "--follow", "--failed").code == 4
    assert "lines" not in query(server)


def test_the_storlets_of_a_pipeline_are_in_their_order() -> None:
    assert runs.storlets_of({"storlets": [{"name": "a.py"}, {"name": "b"}]}) == "a.py | b"
    assert not runs.storlets_of({"id": "tx1-1"})  # a rule has chosen them
