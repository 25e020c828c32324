"""Names of the account that the shell completes."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable

import pytest
from click.shell_completion import ShellComplete

from storlet_client.cli import completion
from storlet_client.cli.main import cli
from tests.unit.client.conftest import Command
from tests.unit.client.server import Reply, Server

Complete = Callable[..., list[str]]


def rows(*names: str) -> Reply:
    """A listing; a name with a final slash is a folder."""
    found = [{"subdir" if name.endswith("/") else "name": name} for name in names]
    return Reply(body=json.dumps(found).encode())


@pytest.fixture
def complete(command: Command) -> Complete:
    """The names that a shell completes for words of a command line, the last one a start."""
    assert command("--version").code == 0  # the fixture sets the variables of the login

    def run(*words: str) -> list[str]:
        shell = ShellComplete(cli, {}, "storlet", "_STORLET_COMPLETE")
        return [str(each.value) for each in shell.get_completions([*words[:-1]], words[-1])]

    return run


@pytest.mark.parametrize("words", ["invoke", "rollback", "show", "delete", "logs", "versions"])
def test_storlets_are_completed(server: Server, complete: Complete, words: str) -> None:
    server.on("GET", "/storlet", rows("fail.py", "fruit.storlet", "versions/"))
    assert complete(words, "f") == ["fail.py", "fruit"]
    assert "prefix=f" in server.received[-1].path


def test_containers_and_objects_are_completed(server: Server, complete: Complete) -> None:
    server.on("GET", "", rows("samples", "storlet"))
    assert complete("grants", "s") == ["samples", "storlet"]
    assert complete("invoke", "fruit", "s") == ["samples/", "storlet/"]
    server.on("GET", "/samples", rows("a/", "list"))
    assert complete("invoke", "fruit", "samples/") == ["samples/a/", "samples/list"]


def test_a_single_container_or_folder_is_followed_by_its_names(
    server: Server, complete: Complete
) -> None:
    server.on("GET", "", rows("samples"))
    server.on("GET", "/samples", rows("a/"), rows("a/b", "a/c"))
    assert complete("upload", "file", "sam") == ["samples/a/b", "samples/a/c"]
    server.on("GET", "/samples", rows())
    assert complete("upload", "file", "sam") == ["samples/"]


def test_names_that_a_shell_would_read_are_left_out(server: Server, complete: Complete) -> None:
    server.on(
        "GET", "/c",
        rows("ok-1.txt", "\u00fc", "$(id)", "`id`", "a b", "a;b", "a\nb", "a'b", "a:b", "*", "~x"),
    )  # fmt: skip
    assert complete("invoke", "fruit", "c/") == ["c/ok-1.txt", "c/\u00fc"]
    server.on("GET", "", rows("-rf", "good"))
    assert complete("grants", "") == ["good"]


def test_a_folder_that_cannot_be_read_is_not_completed(
    server: Server, complete: Complete, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.on("GET", "/storlet", Reply(403))
    assert complete("show", "f") == []
    server.on("GET", "/storlet", Reply(401))
    assert complete("show", "f") == []
    monkeypatch.setenv("OS_STORAGE_URL", "http://127.0.0.1:9/v1/AUTH_x")
    assert complete("show", "f") == []


@pytest.mark.parametrize("document", [b"{}", b'["a"]', b'[{"a": 1}]', b"<html>"])
def test_a_strange_answer_prints_nothing(
    server: Server, complete: Complete, monkeypatch: pytest.MonkeyPatch, document: bytes
) -> None:
    tracebacks: list[object] = []
    monkeypatch.setattr(threading, "excepthook", tracebacks.append)
    server.on("GET", "", Reply(body=document))
    assert (complete("grants", "f"), tracebacks) == ([], [])


def test_a_server_that_is_silent_is_not_waited_for(
    server: Server, complete: Complete, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completion, "_SECONDS", 0.2)

    def reply_to(_method: str, _path: str) -> Reply:
        time.sleep(2)
        return Reply()

    monkeypatch.setattr(server, "reply_to", reply_to)
    began = time.monotonic()
    assert complete("show", "f") == []
    assert time.monotonic() - began < 1.5
