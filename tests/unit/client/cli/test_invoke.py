"""``upload``, ``invoke`` and ``logs``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.client.conftest import Command
from tests.unit.client.server import Reply, Server


def test_an_output_is_stored_as_another_object(server: Server, command: Command) -> None:
    server.on("COPY", "/c/o", Reply(201))
    result = command("invoke", "s.py", "c/o", "--to", "d/x y")
    assert (result.code, result.out) == (0, "stored d/x y\n")
    assert server.received[-1].headers["destination"] == "d/x%20y"


def test_objects_for_further_outputs_are_named(server: Server, command: Command) -> None:
    server.on("GET", "/c/o", Reply(200, body=b"0"))
    outputs = ["--further-output", "d/one, two", "--further-output", "/d/three"]
    result = command("invoke", "s.py", "c/o", *outputs)
    assert (result.code, result.out) == (0, "0")
    assert server.received[-1].headers["x-storlet-output"] == "/d/one%2C%20two,/d/three"
    assert command("invoke", "s.py", "c/o", "--further-output", "d").code == 3


@pytest.mark.parametrize("size", [10, (16 << 20) + 5])
def test_a_file_is_uploaded_through_the_storlet(
    server: Server, command: Command, tmp_path: Path, size: int
) -> None:
    file = tmp_path / "in"
    file.write_bytes(b"x" * size)
    server.on("PUT", "/c/o", Reply(201))
    assert command("invoke", "s.py", "c/o", "--put", str(file)).code == 0
    assert len(server.received[-1].body) == size


@pytest.mark.parametrize(
    ("status", "lines"),
    [(201, ["created container c", "stored c/o"]), (202, ["stored c/o"]), (403, ["stored c/o"])],
)
def test_a_file_is_uploaded_and_its_container_created(
    server: Server, command: Command, tmp_path: Path, status: int, lines: list[str]
) -> None:
    file = tmp_path / "in"
    file.write_bytes(b"content")
    server.on("PUT", "/c", Reply(status))
    server.on("PUT", "/c/o", Reply(201))
    result = command("upload", str(file), "c/o", "--content-type", "text/csv")
    assert (result.code, result.out.splitlines()) == (0, lines)
    assert server.received[-1].body == b"content"
    assert server.received[-1].headers["content-type"] == "text/csv"


def test_an_upload_without_an_object_is_refused_before_any_request(
    server: Server, command: Command
) -> None:
    assert command("upload", __file__, "c").code == 3
    assert server.calls() == []


@pytest.mark.parametrize(
    "words",
    [
        ["--to", "c/x", "--put", __file__],
        ["--to", "c/x", "-o", "out"],
        ["--content-type", "text/csv"],
        ["-p", "novalue"],
    ],
)
def test_contradictions_are_refused_before_any_request(
    server: Server, command: Command, words: list[str]
) -> None:
    assert command("invoke", "s.py", "c/o", *words).code == 3
    assert server.calls() == []


def test_logs_are_listed_and_printed(server: Server, command: Command) -> None:
    row = b'[{"name": "s.py/tx1-1.log", "bytes": 4, "last_modified": "2026-11-23T20:00:00"}]'
    server.on("GET", "/storletlog", Reply(body=row))
    server.on("GET", "/storletlog/s.py/tx1-1.log", Reply(body=b"log\n"))
    assert command("logs", "s.py", "-f", "csv").out.splitlines()[1].startswith("tx1-1,")
    assert command("logs", "s.py", "tx1-1").out == "log\n"
    assert command("logs", "s.py", "tx2-1").code == 4
