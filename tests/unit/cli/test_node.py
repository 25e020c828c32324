"""Requests to the sandboxd of a node: every way to fail has its own remedy."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from storlet_daemon.protocol import framing, messages
from storlet_middleware import config as configuration
from storlet_middleware.cli import node as nodes
from storlet_middleware.cli.command import CliError
from storlet_middleware.config import Config


def test_a_user_without_permission_sees_the_required_group(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(_socket: object, _path: str) -> None:
        raise PermissionError

    monkeypatch.setattr(socket.socket, "connect", refuse)
    config = configuration.parse(f"[sandbox]\nrun_dir={tmp_path}\ngroup=swiftly\n")
    with pytest.raises(CliError, match="as a member of the group swiftly"):
        nodes.ask(config, nodes.messages.AskNodeStatus())


@pytest.fixture
def conf(tmp_path: Path) -> Config:
    return configuration.parse(f"[sandbox]\nrun_dir={tmp_path}\n", str(tmp_path / "s.conf"))


@contextlib.contextmanager
def listening(conf: Config, reply: bytes | None) -> Iterator[None]:
    """A sandboxd that sends one prepared message; ``None``: it sends nothing and stays."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(f"{conf.sandbox.run_dir}/sandboxd.sock")
        listener.listen()
        held = []

        def serve() -> None:
            connection, _ = listener.accept()
            connection.recv(65536)
            if reply:
                connection.send(reply)
            held.append(connection)
            if reply is not None:
                connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        yield
        thread.join()
        for connection in held:
            connection.close()


def test_the_status_of_the_node_is_returned(conf: Config) -> None:
    status = messages.NodeStatus((), {}, ())
    with listening(conf, framing.encode(status)):
        assert nodes.ask(conf, messages.AskNodeStatus()) == status


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (framing.encode(messages.NodeRefused("internal", "no")), "storlet-sandboxd refused: no"),
        (b"", "ended without an answer"),
        (b"\xff garbage", "the connection to storlet-sandboxd at .* failed"),
        (None, "does not answer within 0.05 seconds"),
    ],
    ids=["refusal", "end", "garbage", "silence"],
)
def test_a_failed_request_states_the_reason(conf: Config, reply: bytes | None, reason: str) -> None:
    with listening(conf, reply), pytest.raises(CliError, match=reason):
        nodes.ask(conf, messages.AskNodeStatus(), seconds=0.05 if reply is None else 5.0)


@pytest.mark.parametrize("is_stale", [False, True])
def test_without_sandboxd_the_command_to_start_it_is_named(conf: Config, *, is_stale: bool) -> None:
    if is_stale:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(f"{conf.sandbox.run_dir}/sandboxd.sock")
    with pytest.raises(CliError, match=r"storlet-sandboxd --conf .*s\.conf"):
        nodes.ask(conf, messages.AskNodeStatus())


def test_a_configuration_with_faults_names_them_and_the_option(tmp_path: Path) -> None:
    (tmp_path / "s.conf").write_text("[limits]\npids = many\n")
    with pytest.raises(CliError, match=r"(?s)pids = many.*--conf FILE"):
        nodes.load_config(str(tmp_path / "s.conf"))
