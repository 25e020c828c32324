"""Process 1 of a sandbox, from the node daemon's side of the control connection.

The supervisor runs in a child process; no worker is started.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from storlet_daemon.protocol import framing, messages
from storlet_daemon.runtimes.language import CODE_ROOT, ImagePaths
from storlet_daemon.supervisor import Supervisor
from tests.unit.daemon.loads import VERSION, load_of


class Node:
    """The node daemon of one sandbox."""

    def __init__(self, folder: Path) -> None:
        path = str(folder / "control.sock")
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listening.bind(path)
        self._listening.listen()
        self._listening.settimeout(20)
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os._exit(Supervisor(path, ImagePaths({CODE_ROOT.name: str(folder)})).run())
            finally:
                os._exit(99)
        self._control: socket.socket | None = None

    def connect(self) -> messages.Message:
        """Accept the connection of the supervisor; return its first message."""
        if self._control is not None:
            self._control.close()
        self._control, _ = self._listening.accept()
        self._control.settimeout(20)
        return self.report()

    def report(self) -> Any:
        assert self._control is not None
        received = framing.receive(self._control)
        assert received is not None
        return received.message(messages.CONTROL_REPORTS)

    def send(self, command: messages.Message, *fds: int) -> None:
        assert self._control is not None
        framing.send(self._control, command, fds)

    def answer(self, command: messages.Message, *fds: int) -> Any:
        """Send a command; return the next report."""
        self.send(command, *fds)
        return self.report()

    def exit_code(self) -> int:
        pid, self.pid = self.pid, 0
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def close(self) -> None:
        self._listening.close()
        if self._control is not None:
            self._control.close()
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    assert made.connect() == messages.Hello(made.pid)
    yield made
    made.close()


def test_a_sandbox_without_groups_has_an_empty_status(node: Node) -> None:
    assert node.answer(messages.AskStatus(3)) == messages.GroupStatus(3, ())


def test_its_limits_can_be_inspected(node: Node) -> None:
    inspected = node.answer(messages.Inspect(4))
    assert inspected.request == 4
    assert f"Pid:\t{node.pid}\n" in inspected.files["/proc/self/status"]
    assert inspected.files["/proc/self/status"].startswith("Name:\tstorlets\n")


def test_a_language_that_is_not_installed_is_refused(node: Node) -> None:
    refused = node.answer(load_of(request=5, language="algol"), 0)
    reason = "language algol is not supported here, only java, native, python"
    assert refused == messages.Refused(5, reason)


def test_a_descriptor_that_is_no_socket_is_refused(node: Node) -> None:
    with Path(os.devnull).open("rb") as null:
        refused = node.answer(load_of(request=6, language="python"), null.fileno())
    assert refused.request == 6
    assert refused.message.startswith("the descriptor is not a socket: ")


def test_unloading_a_version_that_is_not_loaded_is_answered(node: Node) -> None:
    assert node.answer(messages.Unload(7, VERSION)) == messages.Unloaded(7)


def test_a_placement_of_an_unknown_worker_is_ignored(node: Node) -> None:
    node.send(messages.Placed(4711, "g-1"))
    assert node.answer(messages.AskStatus(8)) == messages.GroupStatus(8, ())


def test_an_assignment_that_fails_ends_the_sandbox(node: Node) -> None:
    """After a partial change of the user the sandbox would be unsafe."""
    refused = node.answer(messages.Assign(9, 0, 0))
    reason = "cannot become this user: uid 0 and gid 0 are not a tenant's"
    assert refused == messages.Refused(9, reason)
    assert node.exit_code() == 0


def test_the_supervisor_reconnects_and_announces_itself(node: Node) -> None:
    node.send(messages.AskNodeStatus())  # not a command of this connection
    assert node.connect() == messages.Hello(node.pid)
    assert node.answer(messages.AskStatus(1)) == messages.GroupStatus(1, ())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_supervisor(node: Node, number: signal.Signals) -> None:
    began = time.monotonic()
    os.kill(node.pid, number)
    assert node.exit_code() == 0
    assert time.monotonic() - began < 10
