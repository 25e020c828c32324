"""A worker group without real processes: its workers are records with a channel.

``World`` holds everything that a group shares with its supervisor, and records what the group
requests of it. No signal is ever sent: the pids are made up.
"""

from __future__ import annotations

import math
import socket
import time
from pathlib import Path
from typing import Any, NoReturn

import pytest

from storlet_daemon import kernel
from storlet_daemon.budget import Cost
from storlet_daemon.confinement import Confinement
from storlet_daemon.control_groups import ControlGroup, Counter
from storlet_daemon.launch import Launched
from storlet_daemon.poller import Poller
from storlet_daemon.protocol import framing, messages
from storlet_daemon.runtimes.language import ImagePaths
from storlet_daemon.worker_group import starting
from storlet_daemon.worker_group.group_state import GroupState, SupervisorHooks
from storlet_daemon.worker_group.worker_process import State, WorkerProcess
from tests.unit.daemon.loads import load_of


class FullMeter:
    """The meter of a worker that has used too much CPU time."""

    allowed = 0.0
    is_quiet = False

    def is_over(self, _cpu_seconds: float) -> bool:
        return True


class FakeRuntime:
    """A runtime that starts nothing; ``reason`` is why the image cannot run the storlet."""

    cost = Cost(tasks=1, memory_bytes=1)

    def __init__(self) -> None:
        self.reason: str | None = None
        self.most = 2

    def missing(self, _load: messages.Load) -> str | None:
        return self.reason

    def workers_max(self, _load: messages.Load) -> int:
        return self.most

    def become_worker(self, load: messages.Load, control_group: str) -> NoReturn:
        raise AssertionError("no test forks")


class World:
    """The supervisor around a group, and the peers of its sockets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.folder = folder
        self.poller = Poller()
        self.runtime = FakeRuntime()
        self.kills = 0
        self.signals: list[tuple[int, int]] = []
        self.places: list[messages.Place] = []
        self.has_room = self.can_place = True
        self.calls: list[str] = []
        self.launches: list[Any] = []
        self.channels: dict[int, socket.socket] = {}
        self.states: list[GroupState] = []
        self._opened: list[socket.socket] = []
        self._next_pid = 4711
        monkeypatch.setattr(kernel, "kill", lambda *sent: self.signals.append(sent))
        monkeypatch.setattr(kernel, "kill_group", lambda _leader: None)
        monkeypatch.setattr(starting, "launch", self._launch)
        self.hooks = SupervisorHooks(
            poller=self.poller,
            paths=ImagePaths(),
            memory_kills=Counter(lambda: self.kills),
            sweep=lambda: self.calls.append("sweep"),
            make_room=lambda _state: self.has_room,
            expendable=kernel.Expendable(str(folder / "no-score")),
            place=self._place,
            clear_scratch=lambda: self.calls.append("clear_scratch"),
            invocation_changed=lambda: self.calls.append("invocation_changed"),
            confinement=Confinement(),
        )

    @property
    def killed(self) -> list[int]:
        """The pids that a signal was sent to."""
        return [pid for pid, _ in self.signals]

    def _place(self, place: messages.Place) -> bool:
        self.places.append(place)
        return self.can_place

    def _launch(
        self,
        listening: socket.socket,
        name: str,
        limits: messages.Resources,
        become: Any,
        confinement: Confinement,
    ) -> Launched:
        self.launches.append(become)
        ours, theirs = self.pair()
        pid, self._next_pid = self._next_pid, self._next_pid + 1
        self.channels[pid] = theirs
        return Launched(pid, ours, -1)

    def pair(self) -> tuple[socket.socket, socket.socket]:
        """A pair of connected sockets, both non-blocking and closed after the test."""
        pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for each in pair:
            each.setblocking(False)
        self._opened += pair
        return pair

    def listen(self) -> socket.socket:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        made.bind("")
        made.listen()
        made.setblocking(False)
        self._opened.append(made)
        return made

    def connect(self, listening: socket.socket) -> socket.socket:
        """A connection of the filter, which waits in the backlog."""
        made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        made.connect(listening.getsockname())
        self._opened.append(made)
        return made

    def state(self, **changes: Any) -> GroupState:
        """The state of a group; ``changes`` are fields of its ``Load``."""
        made = GroupState(load_of(**changes), self.listen(), self.runtime, self.hooks)
        self.states.append(made)
        return made

    def add(self, state: GroupState, phase: State, **changes: Any) -> WorkerProcess:
        """A worker of the group, in the state ``phase``; ``changes`` are its fields."""
        ours, theirs = self.pair()
        pid, self._next_pid = self._next_pid, self._next_pid + 1
        self.channels[pid] = theirs
        has_loaded = phase not in (State.WAITING, State.LOADING)
        one = WorkerProcess(pid, ours, -1, phase, math.inf, time.monotonic(), has_loaded=has_loaded)
        for name, value in changes.items():
            setattr(one, name, value)
        state.workers[pid] = one
        state.hooks.poller.watch(ours.fileno(), 0, lambda: None)
        return one

    def run(self, one: WorkerProcess) -> socket.socket:
        """Give the worker a running invocation; return the filter's end of its connection."""
        one.connection, filters = self.pair()
        one.state = State.BUSY
        return filters

    def report(self, one: WorkerProcess, *reports: messages.Message, fd: int = -1) -> None:
        """Send reports of a worker; ``fd`` goes with each ``begin``."""
        for each in reports:
            fds = [fd] if isinstance(each, messages.Begin) else []
            framing.send(self.channels[one.pid], each, fds)

    def control_group(self, state: GroupState, **files: str) -> None:
        """Give the group control groups (version 2) with these files; ``_`` stands for a dot."""
        folder = self.folder / "group"
        folder.mkdir(exist_ok=True)
        for name, text in files.items():
            (folder / name.replace("_", ".")).write_text(text)
        state.control_group = ControlGroup("group", str(self.folder))

    def close(self) -> None:
        """Close every socket of the test."""
        for state in self.states:
            for one in state.workers.values():
                for each in (one.channel, one.connection, one.ended):
                    if each is not None:
                        each.close()
        for each in self._opened:
            each.close()


def done_of(connection: socket.socket) -> messages.Done:
    """The ``done`` that waits on the filter's end of a connection."""
    received = framing.receive(connection)
    assert received is not None
    done = received.message(messages.INVOCATION_EVENTS)
    assert isinstance(done, messages.Done)
    return done


def is_shut_down(channel: socket.socket) -> bool:
    """True if the supervisor has shut the worker's channel down; reads what came before."""
    try:
        while channel.recv(4096):
            pass
    except BlockingIOError:
        return False
    return True
