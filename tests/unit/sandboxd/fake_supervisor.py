"""A supervisor without workers: connects to a control socket, accepts groups and greets on their
connections.

Run as a process of its own.  ``fake_supervisor.py`` starts one for each line of its standard input,
``[<control directory>, <behaviour>]``, and prints its process ID: the import of the protocol takes
longer than most tests.  The supervisors are children of its parent.

A connection to a group is answered with ``<version> <pid>``; one that sends ``work`` makes the
group busy until it is closed.

Behaviours: ``good``; ``silent`` (connects, sends nothing); ``exits`` (ends at once); ``garbage``
(no JSON after the hello); ``refuses`` (answers every load with an error). Also: ``stays`` (refuses
to become a tenant); ``mute`` (hello, then no reply); in the self-test ``leaks`` (a test fails),
``dies`` (ends in the middle of it), ``spoils`` (changes the donated file).
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from storlet_daemon.protocol import framing, messages

#: The number of the system call ``clone``, and its flag for a child of the parent.
CLONE: Final = {"x86_64": 56, "aarch64": 220}
CLONE_PARENT: Final = 0x8000


class FakeSupervisor:
    """One process, one loop; everything is a callback of the selector."""

    def __init__(self, directory: str, behaviour: str) -> None:
        # As a mount does, the descriptor stays with the directory when that is called otherwise.
        self.path = f"/proc/self/fd/{os.open(directory, os.O_PATH | os.O_DIRECTORY)}/control.sock"
        self.is_connected = False
        self.behaviour = behaviour
        self.selector = selectors.DefaultSelector()
        self.listeners: dict[str, socket.socket] = {}
        self.names: dict[str, tuple[str, str]] = {}
        self.busy: dict[str, set[socket.socket]] = {}
        self.used: dict[str, float] = {}

    def run(self) -> None:
        """Connect, and reconnect when the connection ends, without a limit; groups are served
        meanwhile."""
        while True:
            if not self.is_connected:
                self.connect()
            for key, _ in self.selector.select(None if self.is_connected else 0.02):
                key.data()

    def connect(self) -> None:
        control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            control.connect(self.path)
        except OSError:
            control.close()
            return
        self.is_connected = True
        if self.behaviour != "silent":
            framing.send(control, messages.Hello(os.getpid(), list(self.listeners)))
        if self.behaviour == "garbage":
            control.send(b"\xff\x00 not json")
        self.watch(control, lambda: self.command(control))

    def command(self, control: socket.socket) -> None:
        try:
            received = framing.receive(control)
        except OSError:
            received = None
        if received is None:
            self.selector.unregister(control)
            control.close()
            self.is_connected = False
            return
        message = received.message(messages.CONTROL_COMMANDS)
        if self.behaviour != "mute":
            framing.send(control, self.answer(message, received))

    def answer(self, message: messages.Message, received: framing.Received) -> messages.Message:  # noqa: PLR0911
        if isinstance(message, messages.Load):
            if self.behaviour == "refuses":
                return messages.Refused(message.request, "not\ntoday")
            self.names[message.version] = (message.name, message.code)
            self.take(message.version, socket.socket(fileno=received.descriptors.take(0)))
            return messages.Loaded(message.request)
        if isinstance(message, messages.Unload):
            listener = self.listeners.pop(message.version, None)
            if listener is not None:
                self.selector.unregister(listener)
                listener.close()
            return messages.Unloaded(message.request)
        if isinstance(message, messages.Assign):
            if self.behaviour == "stays":
                return messages.Refused(message.request, "cannot become this user")
            return messages.Assigned(message.request)
        if isinstance(message, messages.Inspect):
            return messages.Inspected(message.request, {"/proc/self/comm": "fake"})
        if isinstance(message, messages.Check):
            return self.check(message, received.descriptors.take(0))
        assert isinstance(message, messages.AskStatus)
        return messages.GroupStatus(
            message.request, [self.group(version) for version in self.listeners]
        )

    def check(self, message: messages.Check, donated: int) -> messages.Message:
        if self.behaviour == "dies":
            sys.exit(1)
        if self.behaviour == "spoils":
            os.chmod(donated, 0o640)
        os.close(donated)
        fault = "the kernel did it" if self.behaviour == "leaks" else ""
        return messages.Checked(message.request, {"syscall-mount": fault, "limit-memory": ""})

    def group(self, version: str) -> messages.Group:
        busy = len(self.busy[version])
        idle = 0.0 if busy else time.monotonic() - self.used[version]
        name, code = self.names[version]
        return messages.Group(
            version, name, busy, busy, runs=0, failures=0, idle_seconds=idle, code=code
        )

    def take(self, version: str, listener: socket.socket) -> None:
        old = self.listeners.get(version)
        if old is not None:
            self.selector.unregister(old)
            old.close()
        self.listeners[version] = listener
        self.busy.setdefault(version, set())
        self.used[version] = time.monotonic()
        self.watch(listener, lambda: self.accept(version, listener))

    def accept(self, version: str, listener: socket.socket) -> None:
        connection, _ = listener.accept()
        connection.setblocking(True)
        connection.send(f"{version} {os.getpid()}".encode())
        self.watch(connection, lambda: self.serve(version, connection))

    def serve(self, version: str, connection: socket.socket) -> None:
        self.used[version] = time.monotonic()
        if connection.recv(100):
            self.busy[version].add(connection)
            connection.send(b"working")
            return
        self.busy[version].discard(connection)
        self.selector.unregister(connection)
        connection.close()

    def watch(self, connection: socket.socket, callback: Callable[[], None]) -> None:
        self.selector.register(connection, selectors.EVENT_READ, callback)


def run(directory: str, behaviour: str) -> NoReturn:
    """The process of one supervisor."""
    if behaviour == "exits":
        os._exit(3)
    try:
        FakeSupervisor(directory, behaviour).run()
    except SystemExit as ended:
        os._exit(int(str(ended.code)))
    finally:
        os._exit(1)


def start_all() -> None:
    """Start a supervisor for each line; it begins with the modules of this process."""
    clone = ctypes.CDLL(None).syscall
    number = CLONE[platform.machine()]
    for line in sys.stdin:
        pid = clone(number, CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
        if pid == 0:
            run(*json.loads(line))
        print(pid, flush=True)


if __name__ == "__main__":
    start_all()
