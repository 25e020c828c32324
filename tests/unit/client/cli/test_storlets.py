"""``list``, ``show``, ``deploy``, ``delete`` and ``download``."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from storlet_client import content
from tests.unit.client.conftest import Command
from tests.unit.client.server import Reply, Server
from tests.unit.client.test_operations import CODE, META


@pytest.fixture
def file(tmp_path: Path) -> Path:
    place = tmp_path / "a.py"
    place.write_bytes(CODE)
    (tmp_path / "tool").write_bytes(b"#!")
    return place


def test_a_file_with_one_class_needs_no_option(
    server: Server, command: Command, file: Path
) -> None:
    server.on("HEAD", "/storlet/a.py", Reply(404), Reply(200, META))
    for path in ("/storlet/a.py", "/dependency/tool"):
        server.on("PUT", path, Reply(201))
    result = command("deploy", str(file), "--dependency", "tool:0700", "--dependency", "there.py")
    lines = ["deployed a.py", "  new: 0 bytes of python", "  dependency tool: new"]
    assert (result.code, result.out.splitlines()) == (0, lines)
    sent = [one.headers for one in server.received if one.method == "PUT"]
    assert sent[0]["x-object-meta-storlet-dependency-permissions"] == "0700"
    assert sent[1]["x-object-meta-storlet-main"] == "a.A"
    assert sent[1]["x-object-meta-storlet-dependency"] == "tool,there.py"
    assert sent[1]["etag"] == hashlib.md5(CODE, usedforsecurity=False).hexdigest()


def test_a_long_file_is_sent_as_it_is_read(
    server: Server, command: Command, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_bytes(CODE + b"#" * 1_000_000 + b"\nclass_ = 1\n")
    monkeypatch.setattr(content, "SMALL_BYTES", 1000)
    digest = hashlib.md5(file.read_bytes(), usedforsecurity=False).hexdigest()
    server.on("HEAD", "/storlet/a.py", Reply(404), Reply(200, {**META, "ETag": digest}))
    server.on("PUT", "/storlet/a.py", Reply(503, {"Retry-After": "0"}), Reply(201))
    result = command("deploy", str(file))
    assert (result.code, result.out.splitlines()[0]) == (0, "deployed a.py")
    sent = [one for one in server.received if one.method == "PUT"]
    assert [one.body for one in sent] == [file.read_bytes()] * 2
    assert (sent[1].headers["x-object-meta-storlet-main"], sent[1].headers["etag"]) == (
        "a.A",
        digest,
    )


@pytest.mark.parametrize(
    "fault",
    [
        ("b.py", b"class A: pass\nclass B: pass\n", [], "it has A, B: add --main"),
        ("b.py", b"x = 1\n", [], "it has no class"),
        ("b.jar", b"PK", [], "add --main"),
        ("b.x", b"", ["--language", "cobol"], "--language cobol: want python, java, native"),
        ("b.txt", b"x", ["--main", "b.B"], "language of b.txt is unknown"),
        ("b.py", CODE, ["--limit", "memory"], "write --limit KEY=VALUE"),
        (
            "b.py",
            CODE,
            ["--limit", "memry=1M"],
            "--limit memry: unknown limit; did you mean memory?",
        ),
        ("b.py", CODE, ["--limit", "ram=1M"], "--limit ram: unknown limit; all are memory, cpu, "),
        ("b.py", CODE, ["--dependency", "none:0700"], "there is no file none"),
    ],
)
def test_a_fault_uploads_nothing(
    server: Server, command: Command, tmp_path: Path, fault: tuple[str, bytes, list[str], str]
) -> None:
    name, content, words, expected = fault
    file = tmp_path / name
    file.write_bytes(content)
    result = command("deploy", str(file), *words)
    assert (result.code, expected in result.err) == (3, True), result.err
    assert server.calls() == []


def test_storlets_are_listed_and_shown(server: Server, command: Command) -> None:
    server.on("GET", "/storlet", Reply(body=b'[{"name": "a.py"}]'))
    server.on("HEAD", "/storlet/a.py", Reply(200, META))
    for method, path in (("HEAD", ""), ("GET", ""), ("HEAD", "/storlet")):
        server.on(method, path, Reply(body=b"[]"))
    assert "a.py  python" in command("list").out
    assert "memory=64M" in command("list").out
    assert ",0,memory=67108864,,,0,a.A," in command("list", "-f", "csv").out
    (row,) = json.loads(command("list", "-f", "json").out)
    assert json.loads(command("show", "a.py", "-f", "json").out) == row
    assert row["declared"] == {"memory": "64M"}


def test_a_download_is_complete_or_absent(server: Server, command: Command, tmp_path: Path) -> None:
    server.on("GET", "/storlet/a.py", Reply(body=CODE), Reply(body=CODE, sent=3))
    place = tmp_path / "got.py"
    assert command("download", "a.py", "-o", str(place)).code == 0
    assert place.read_bytes() == CODE
    place.unlink()
    assert command("download", "a.py", "-o", str(place)).code == 5
    assert not place.exists()


def test_a_deleted_storlet_is_said(server: Server, command: Command) -> None:
    server.on("DELETE", "/storlet/a.py", Reply(204), Reply(404))
    assert command("delete", "a.py").out == "deleted a.py\n"
    assert command("delete", "a.py").code == 4


CHECKING = {"storlet_handler": {"storlet_container": "storlet", "upload_check": True}}


@pytest.mark.parametrize(
    ("words", "sent"), [((), "true"), (("--check",), "true"), (("--no-check",), "false")]
)
def test_a_cluster_that_can_check_is_requested_to(
    server: Server, command: Command, file: Path, words: tuple[str, ...], sent: str
) -> None:
    server.replies["GET", "/info"] = Reply(body=json.dumps(CHECKING).encode())
    server.on("HEAD", "/storlet/a.py", Reply(404), Reply(200, META))
    server.on("PUT", "/storlet/a.py", Reply(201))
    assert command("deploy", str(file), *words).code == 0
    (upload,) = [one for one in server.received if one.method == "PUT"]
    assert upload.headers["x-storlet-check"] == sent


def test_a_cluster_without_the_check_gets_no_header(
    server: Server, command: Command, file: Path
) -> None:
    server.on("HEAD", "/storlet/a.py", Reply(404), Reply(200, META))
    server.on("PUT", "/storlet/a.py", Reply(201))
    for words in ((), ("--no-check",)):
        assert command("deploy", str(file), *words).code in {0, 4}
    assert not [one for one in server.received if "x-storlet-check" in one.headers]
    result = command("deploy", str(file), "--check")
    assert (result.code, "does not check uploads" in result.err) == (3, True)


def test_the_reason_of_a_failed_check_is_shown(
    server: Server, command: Command, file: Path
) -> None:
    server.replies["GET", "/info"] = Reply(body=json.dumps(CHECKING).encode())
    server.on("HEAD", "/storlet/a.py", Reply(404))
    refused = Reply(422, {"X-Storlet-Error": "registration.check"}, b"no module x\n\nTraceback\n")
    server.on("PUT", "/storlet/a.py", refused)
    result = command("deploy", str(file))
    assert result.code == 4
    for text in ("no module x", "Traceback", "the old code, if any, stays in use"):
        assert text in result.err


def test_watched_files_are_deployed_again(
    server: Server, command: Command, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = iter([lambda: (file.parent / "tool").write_bytes(b"#! longer")])

    def sleep(_seconds: float) -> None:
        action = next(pauses, None)
        if action is None:
            raise KeyboardInterrupt
        action()

    monkeypatch.setattr("storlet_client.cli.watch.time.sleep", sleep)
    server.on("HEAD", "/storlet/a.py", Reply(200, META))
    for path in ("/storlet/a.py", "/dependency/tool"):
        server.on("PUT", path, Reply(201))
    result = command("deploy", str(file), "--dependency", "tool:0700", "--watch")
    assert (result.code, result.out.count("deployed a.py")) == (0, 2)
    assert "watching 2 files" in result.err
