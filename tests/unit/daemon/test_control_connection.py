"""The supervisor's connection to the node daemon: commands, failures, reconnection."""

from __future__ import annotations

import math
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from storlet_daemon.control_connection import RECONNECT_SECONDS, ControlConnection
from storlet_daemon.poller import Poller
from storlet_daemon.protocol import framing, messages
from storlet_daemon.protocol.descriptors import Descriptors

VERSION = "0f" * 32


class Sandbox:
    """A control connection, and the node daemon's end of it."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.poller = Poller()
        self.commands: list[messages.Message] = []
        self.descriptors: list[int] = []
        self.connects = 0
        self.control = ControlConnection(self.path, self.poller, self._connected, self._execute)
        self.node: socket.socket | None = None
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def _connected(self) -> None:
        self.connects += 1

    def _execute(self, command: messages.Message, descriptors: Descriptors) -> None:
        self.commands.append(command)
        self.descriptors += descriptors.filenos()

    def accept(self) -> socket.socket:
        """Listen, connect, and return the node daemon's end."""
        if self.node is None:
            self._listening.bind(self.path)
            self._listening.listen()
        else:
            self.node.close()
        self.control.connect()
        self.node, _ = self._listening.accept()
        return self.node

    def close(self) -> None:
        """Close both ends: the supervisor's end closes when it reads the end of the connection."""
        if self.node is not None and self.control.fileno() is not None:
            self.node.close()
            self.poller.wait(1)
        for each in (self._listening, self.node):
            if each is not None:
                each.close()


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    made = Sandbox(tmp_path / "control.sock")
    yield made
    made.close()


def fill(sandbox: Sandbox) -> None:
    """Send until the node daemon's socket takes no more."""
    while sandbox.control.request_placement(messages.Place(VERSION, 1)):
        pass


def test_a_failed_attempt_to_connect_is_repeated_later(sandbox: Sandbox) -> None:
    assert sandbox.control.due <= time.monotonic(), "the first attempt is due at once"
    began = time.monotonic()
    sandbox.control.connect()
    assert sandbox.control.due >= began + RECONNECT_SECONDS
    assert sandbox.control.due < math.inf
    assert (sandbox.connects, sandbox.control.fileno()) == (0, None)


def test_without_a_connection_reports_are_dropped_and_placements_refused(
    sandbox: Sandbox,
) -> None:
    sandbox.control.send(messages.Loaded(1))
    assert not sandbox.control.request_placement(messages.Place(VERSION, 1))


def test_reports_reach_the_node_daemon(sandbox: Sandbox) -> None:
    node = sandbox.accept()
    assert (sandbox.connects, sandbox.control.due) == (1, math.inf)
    sandbox.control.send(messages.Loaded(1))
    assert sandbox.control.request_placement(messages.Place(VERSION, 9))
    received = [framing.receive(node) for _ in range(2)]
    reports = [each.message(messages.CONTROL_REPORTS) for each in received if each is not None]
    assert reports == [messages.Loaded(1), messages.Place(VERSION, 9)]


def test_commands_are_executed_in_order_and_their_descriptors_closed(sandbox: Sandbox) -> None:
    node = sandbox.accept()
    with Path(os.devnull).open("rb") as null:
        framing.send(node, messages.Check(1), [null.fileno()])
    framing.send(node, messages.AskStatus(2))
    sandbox.poller.wait(1)
    assert sandbox.commands == [messages.Check(1), messages.AskStatus(2)]
    (fd,) = sandbox.descriptors
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(fd)


@pytest.mark.parametrize(
    "data", [b"no JSON", b'{"type":"ready"}', b'{"type":"assign","request":1}']
)
def test_a_violation_of_the_protocol_ends_the_connection(
    sandbox: Sandbox, data: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    node = sandbox.accept()
    node.send(data)
    framing.send(node, messages.AskStatus(1))
    sandbox.poller.wait(1)
    assert sandbox.commands == []
    assert sandbox.control.fileno() is None
    assert capsys.readouterr().err.startswith("storlet_daemon: control connection: ")


def test_the_connection_is_restored_after_the_node_daemon_has_closed_it(sandbox: Sandbox) -> None:
    sandbox.accept().close()
    sandbox.poller.wait(1)
    assert sandbox.control.fileno() is None
    assert sandbox.control.due < math.inf
    node = sandbox.accept()
    assert sandbox.connects == 2
    framing.send(node, messages.AskStatus(1))
    sandbox.poller.wait(1)
    assert sandbox.commands == [messages.AskStatus(1)]


def test_a_node_daemon_that_does_not_read_loses_the_connection_for_a_report_only(
    sandbox: Sandbox,
) -> None:
    sandbox.accept()
    fill(sandbox)
    assert sandbox.control.fileno() is not None, "a placement can be omitted"
    sandbox.control.send(messages.Loaded(1))
    assert sandbox.control.fileno() is None
    assert sandbox.control.due < math.inf
