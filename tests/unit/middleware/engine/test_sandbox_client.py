"""Requests to the node's sandboxd, and connections to worker groups."""

from __future__ import annotations

import socket
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from storlet_daemon.protocol import messages
from storlet_middleware.engine import sandbox_client
from storlet_middleware.engine.launcher import Launcher
from storlet_middleware.engine.sandbox_client import SandboxClient
from storlet_middleware.errors import StorletError
from tests.unit.middleware.engine.storlet_code import Fetcher, start, version
from tests.unit.middleware.logger import Logger
from tests.unit.middleware.support import Node, make_config, open_descriptors, wait_until


@pytest.mark.parametrize(
    ("code", "status"),
    [("sandbox.unavailable", 503), ("node.busy", 503), ("bad_request", 400), ("internal", 500)],
)
def test_a_refusal_of_sandboxd_becomes_the_error_of_its_code(
    node: Node, short_dir: Path, code: str, status: int
) -> None:
    node.answer = lambda _: messages.NodeRefused(code, "why", 9)
    with pytest.raises(StorletError) as caught:
        start(Launcher(make_config(short_dir), Logger()), Fetcher())
    assert (caught.value.status, caught.value.code, caught.value.retry_after) == (status, code, 9)


@pytest.mark.parametrize("answer", [None, messages.NodeStatus(), messages.Prepared("/x")])
def test_an_unexpected_answer_is_an_error(node: Node, short_dir: Path, answer: Any) -> None:
    node.answer = lambda _: answer
    before = open_descriptors()
    with pytest.raises(StorletError) as caught:
        SandboxClient(str(short_dir), 1).connect_cold(
            "AUTH_test", version().load_request("a" * 64, messages.Resources())
        )
    assert caught.value.status in (500, 503)
    assert wait_until(lambda: open_descriptors() <= before)


def test_a_stopped_or_silent_sandboxd_is_503(
    short_dir: Path, tmp_path: Path, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox_client, "_PROMPT_SECONDS", 0.3)
    with pytest.raises(StorletError) as caught:
        SandboxClient(str(tmp_path), 1).prepare("AUTH_test", "up.py")
    assert (caught.value.code, caught.value.retry_after) == ("sandbox.unavailable", 5)

    is_over = threading.Event()

    def silent(request: Any) -> None:
        is_over.wait(30)

    node.answer = silent
    with pytest.raises(StorletError, match="does not answer within"):
        SandboxClient(str(short_dir), 0.2).prepare("AUTH_test", "up.py")
    is_over.set()


def test_a_remembered_worker_group_is_forgotten_when_it_has_ended(
    node: Node, short_dir: Path
) -> None:
    client = SandboxClient(str(short_dir), 5)
    wanted = version().load_request("a" * 64, messages.Resources())
    assert client.connect_warm("AUTH_test", wanted.version) is None
    client.prepare("AUTH_test", "up.py")
    (node.code_dir / version().key).mkdir(parents=True)
    client.connect_cold("AUTH_test", wanted).close()
    assert client.knows("AUTH_test", wanted.version)
    assert not client.knows("AUTH_other", wanted.version)
    warm = client.connect_warm("AUTH_test", wanted.version)
    assert warm is not None
    warm.close()
    node.workers.close()
    Path(node.workers.path).unlink()
    assert client.connect_warm("AUTH_test", wanted.version) is None
    assert not client.knows("AUTH_test", wanted.version)


def test_a_full_queue_of_a_worker_group_is_429(
    short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox_client, "_CONNECT_SECONDS", 0.02)
    client, path = SandboxClient(str(short_dir), 5), str(short_dir / "full.sock")
    client._paths["AUTH_test", "v"] = path
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen(0)
        waiting = client.connect_warm("AUTH_test", "v")
        assert waiting is not None
        with closing(waiting), pytest.raises(StorletError) as caught:
            client.connect_warm("AUTH_test", "v")
    assert (caught.value.status, caught.value.code) == (429, "tenant.busy")


def test_the_number_of_remembered_groups_is_bounded(
    node: Node, short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox_client, "_MAX_PATHS", 2)
    client = SandboxClient(str(short_dir), 5)
    (node.code_dir / version().key).mkdir(parents=True)
    for letter in "abc":
        wanted = version().load_request(letter * 64, messages.Resources())
        client.connect_cold("AUTH_test", wanted).close()
    assert [client.knows("AUTH_test", letter * 64) for letter in "abc"] == [False, True, True]


def test_the_check_of_a_node_names_a_silent_sandboxd_only(
    node: Node, short_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox_client, "_CHECK_SECONDS", 0.3)
    client, wanted = (
        SandboxClient(str(short_dir), 5),
        version().load_request("a" * 64, messages.Resources()),
    )
    assert client.fault("AUTH_test", wanted) == ""
    node.answer = lambda _: messages.NodeRefused("sandbox.unavailable", "class closed")
    assert client.fault("AUTH_test", wanted) == ""
    is_over = threading.Event()

    def silent(request: Any) -> None:
        is_over.wait(30)

    node.answer = silent
    assert "does not answer within 0.3 s" in client.fault("AUTH_test", wanted)
    is_over.set()
    assert "does not answer" in SandboxClient(str(tmp_path), 5).fault("AUTH_test", wanted)
