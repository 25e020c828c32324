"""The state that the modules of a worker group share, and the operations on its workers.

``due`` is the next time at which the clock changes something, in monotonic seconds. Between two
ticks it only ever becomes earlier; a tick that was not necessary does no harm.
"""

from __future__ import annotations

import math
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import field

from storlet_daemon import kernel
from storlet_daemon.confinement import Confinement
from storlet_daemon.control_groups import ControlGroup, Counter
from storlet_daemon.poller import Poller
from storlet_daemon.protocol import messages
from storlet_daemon.protocol.values import dataclass
from storlet_daemon.runtimes.language import ImagePaths, Runtime
from storlet_daemon.worker_group.worker_process import State, WorkerProcess

REFUSE_SECONDS = 5.0
"""How long a failed load is the answer before the next attempt."""
SHORT_SECONDS = 0.002
"""A shorter invocation never makes the supervisor start one more worker; most are that short."""
WATCH_SECONDS = 0.02
"""A shorter invocation is not watched: a cancel and a normal end need not be distinguished."""
CLEAN_UP_SECONDS = 0.5
"""Deadline for restoring the process after the filter has read ``done`` and disconnected.

Where the group has used up its share of the CPUs, it may be throttled for 0.1 s meanwhile.
"""
STOP_SECONDS = 0.2
"""Grace period of a cancelled worker; then it is killed without reading its reports."""
LEAVE_SECONDS = 5.0
"""Grace period of a worker that must exit."""


@dataclass(frozen=True)
class SupervisorHooks:
    """Callbacks that all groups of a supervisor share.

    ``sweep`` kills the processes that a dead worker has left. ``make_room`` returns True if one
    more worker of a group fits; else it retires idle workers of other groups. ``place`` requests
    placement into control groups and returns True if an answer may come. ``clear_scratch`` empties
    the scratch space as soon as nothing runs. ``invocation_changed`` reports a start or an end.
    ``confinement``: the restrictions of its workers.
    """

    poller: Poller
    paths: ImagePaths
    memory_kills: Counter
    sweep: Callable[[], None]
    make_room: Callable[[GroupState], bool]
    expendable: kernel.Expendable
    place: Callable[[messages.Place], bool]
    clear_scratch: Callable[[], None]
    invocation_changed: Callable[[], None]
    confinement: Confinement


class LoadFailure:
    """Why the code could not be loaded; the answer to every invocation until ``until``."""

    def __init__(self) -> None:
        self.reason: messages.LoadFailed | None = None
        self.until = 0.0

    def record(self, reason: messages.LoadFailed) -> None:
        self.reason = reason
        self.until = time.monotonic() + REFUSE_SECONDS

    def clear(self) -> None:
        self.reason = None

    def is_current(self, now: float) -> bool:
        """True if this is still the answer; else the next worker tries to load again."""
        return self.reason is not None and now < self.until


@dataclass(eq=False)
class GroupState:
    """The workers of one storlet version, and the listening socket that they share."""

    load: messages.Load
    listening: socket.socket
    runtime: Runtime
    hooks: SupervisorHooks
    workers: dict[int, WorkerProcess] = field(default_factory=dict)
    control_group: ControlGroup | None = None
    directory: str = ""
    due: float = 0.0
    is_leaving: bool = False
    has_changed: bool = True
    runs: int = 0
    failures: int = 0
    active_at: float = field(default_factory=time.monotonic)
    load_failure: LoadFailure = field(default_factory=LoadFailure)

    def serving(self) -> list[WorkerProcess]:
        return [one for one in self.workers.values() if one.serves]

    # -- the clock

    def tick_at(self, moment: float) -> None:
        """Have the group ticked at ``moment`` or before."""
        self.due = min(self.due, moment)

    def set_deadline(self, one: WorkerProcess, deadline: float) -> None:
        one.deadline = deadline
        self.tick_at(deadline)

    def next_change(self, one: WorkerProcess) -> float:
        """When the clock changes the state of this worker, apart from its deadline."""
        if one.state is State.BUSY and not one.is_watched:
            return one.since + (WATCH_SECONDS if one.is_long else SHORT_SECONDS)
        if one.taken_at < math.inf:
            return one.taken_at + (CLEAN_UP_SECONDS if one.is_long else SHORT_SECONDS)
        if one.is_retiring:
            return math.inf
        if one.state is State.IDLE:
            return one.since + self.load.idle_seconds
        return self.load_failure.until if one.state is State.REFUSING else math.inf

    # -- the end of a worker

    def retire(self, one: WorkerProcess) -> None:
        """Make the worker exit when it has nothing to do."""
        if one.is_retiring or one.channel is None:
            return
        one.is_retiring = True
        if one.state in (State.IDLE, State.REFUSING):
            self.set_deadline(one, time.monotonic() + LEAVE_SECONDS)
        if one.state is not State.WAITING:
            self.shut_down_channel(one)

    def shut_down_channel(self, one: WorkerProcess) -> None:
        try:
            if one.channel is not None:
                one.channel.shutdown(socket.SHUT_WR)
        except OSError:
            self.kill(one)

    def close_channel(self, one: WorkerProcess) -> None:
        """After the end of file on a worker's channel: the worker has to exit soon."""
        if one.channel is not None:
            self.hooks.poller.forget(one.channel.fileno())
            one.channel.close()
            one.channel = None
            self.set_deadline(one, min(one.deadline, time.monotonic() + STOP_SECONDS))

    def kill(self, one: WorkerProcess) -> None:
        if one.pid not in self.workers:
            # It was reaped already, so the pid may belong to another process by now.
            return
        one.was_killed = True
        one.state = State.ENDING if one.has_loaded else one.state
        one.deadline = math.inf
        kernel.kill(one.pid, signal.SIGKILL)
        kernel.kill_group(one.pid)

    def kill_all(self) -> None:
        """Kill every worker at once; the supervisor is exiting."""
        for one in self.workers.values():
            kernel.kill(one.pid, signal.SIGKILL)
            kernel.kill_group(one.pid)
