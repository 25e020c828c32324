"""Process 1 of a sandbox: the control connection, signals, the clock, and the worker groups between them.

One thread, one epoll. It is not on the path of an invocation's bytes or of its events; it hears of each invocation twice
(``begin``, ``end``) and acts only when something goes wrong or when one more worker is needed. If it ends, the
sandbox ends, so whatever a storlet does must not end it: nothing that workers send is believed, signals from inside are
not heeded, its memory is closed to them.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import socket
import sys
import time

from storlet_daemon import assignment, inspection, kernel, scratch
from storlet_daemon.attempts import Attempts
from storlet_daemon.budget import Budget
from storlet_daemon.control_groups import ControlGroup, Counter
from storlet_daemon.groups import Surroundings, WorkerGroup
from storlet_daemon.idle import LOOK_SECONDS, cpu_seconds_by_ancestor
from storlet_daemon.launch import WORKING_DIRECTORY
from storlet_daemon.poller import Poller
from storlet_daemon.protocol import framing, messages
from storlet_daemon.protocol.descriptors import Descriptors
from storlet_daemon.runtimes import Places
from storlet_daemon.runtimes.table import table

RECONNECT_SECONDS = 0.1
NAP_SECONDS = 0.005
"""After it was told of an invocation's begin or end, the supervisor lets so much time pass before it reads what else workers say."""
SWEEP_SECONDS = 0.005
"""Between two looks for processes that dead workers have left."""
SWEEPS_MAX = 100
"""So many looks in a row that find something mean a fork bomb that outruns them."""
_ENDING = (signal.SIGTERM, signal.SIGINT)


class Supervisor:
    """See the module. ``run`` returns when the sandbox is to end."""

    def __init__(self, control_path: str, places: Places) -> None:
        """Nothing happens before ``run``."""
        self._control_path = control_path
        self._poller = Poller()
        self._runtimes = table(places)
        self._around = Surroundings(
            self._poller,
            places,
            Counter(ControlGroup().kills),
            self._sweep_soon,
            self._make_room,
            kernel.Expendable(),
            self._place,
            self._clear_scratch,
            self._invocations_heard,
        )
        self._groups: dict[str, WorkerGroup] = {}
        self._leaving: list[WorkerGroup] = []
        self._control: socket.socket | None = None
        self._connect_at = 0.0
        self._sweep_at = math.inf
        self._sweeps = 0
        self._look_at = math.inf
        self._is_scratch_full = False
        self._cleaner = 0
        self._is_ending = False
        self._hears_invocations = False
        self._budget = Budget.of_this_sandbox()
        self._attempts = Attempts(self._poller, self._answer)

    def run(self) -> int:
        """Serve until a signal from outside the sandbox ends it. Returns the exit code."""
        kernel.hide_memory()
        kernel.set_name("storlets")
        if os.getpid() != 1:
            kernel.adopt_orphans()
        self._signals = kernel.SignalQueue((signal.SIGCHLD, *_ENDING))
        self._poller.watch(self._signals.fileno(), select.EPOLLIN, self._read_signals)
        try:
            while not self._is_ending:
                seconds = self._tick()
                if self._hears_invocations:
                    # More of them are likely to follow soon, and none of them waits for this process.
                    self._hears_invocations = False
                    self._poller.nap(NAP_SECONDS, self._urgent())
                else:
                    self._poller.wait(seconds)
        finally:
            self._end()
        return 0

    def _invocations_heard(self) -> None:
        self._hears_invocations = True

    def _urgent(self) -> list[int]:
        """What somebody waits for: commands, the end of processes, and connections for which a worker has to be started."""
        control = None if self._control is None else self._control.fileno()
        fds = [self._signals.fileno(), control, *(group.awaited for group in self._groups.values())]
        return [fd for fd in fds if fd is not None]

    def _tick(self) -> float:
        """Do what is due; answer how long to wait at most (seconds, -1 for ever)."""
        now = time.monotonic()
        if self._control is None and self._connect_at <= now:
            self._connect(now)
        if self._sweep_at <= now:
            self._sweep(now)
        if self._look_at <= now:
            self._look_at_idle(now)
        if self._is_scratch_full:
            self._begin_to_clear()
        first = (
            self._sweep_at if self._control is not None else min(self._sweep_at, self._connect_at)
        )
        for group in (*self._groups.values(), *self._leaving):
            if group.due <= now:
                group.tick(now)
            first = min(first, group.due)
            if group.workers and self._look_at == math.inf:
                self._look_at = now + LOOK_SECONDS
        first = min(first, self._look_at)
        return -1 if first == math.inf else max(first - now, 0)

    def _end(self) -> None:
        for group in (*self._groups.values(), *self._leaving):
            group.kill_all()
        for pid in kernel.strays(os.getpid(), ()):
            kernel.kill(pid, signal.SIGKILL)

    # -- control connection

    def _connect(self, now: float) -> None:
        control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        try:
            control.connect(self._control_path)
        except OSError:
            control.close()
            self._connect_at = now + RECONNECT_SECONDS
            return
        self._control = control
        self._poller.watch(control.fileno(), select.EPOLLIN, self._read_commands)
        self._answer(messages.Hello(os.getpid(), tuple(self._groups)))
        for group in (*self._groups.values(), *self._leaving):
            group.announce()

    def _disconnect(self) -> None:
        if self._control is not None:
            self._poller.forget(self._control.fileno())
            self._control.close()
            self._control = None
            self._connect_at = time.monotonic() + RECONNECT_SECONDS

    def _read_commands(self) -> None:
        while self._control is not None:
            try:
                received = framing.receive(self._control)
                if received is None:
                    self._disconnect()
                    return
                with received.descriptors as descriptors:
                    self._obey(received.message(messages.CONTROL_COMMANDS), descriptors)
            except BlockingIOError:
                return
            except messages.ProtocolError as error:
                _complain(f"control connection: {error}")
                self._disconnect()
            except OSError:
                self._disconnect()

    def _obey(self, command: messages.Message, descriptors: Descriptors) -> None:
        if isinstance(command, messages.Load):
            self._load(command, descriptors)
        elif isinstance(command, messages.Unload):
            self._unload(command)
        elif isinstance(command, messages.Placed):
            group = self._group_of(command.pid)
            if group is not None:
                group.placed(command.pid, command.directory)
        elif isinstance(command, messages.Assign):
            self._assign(command)
        elif isinstance(command, messages.Inspect):
            self._answer(messages.Inspected(command.request, inspection.read()))
        elif isinstance(command, messages.AskStatus):
            groups = tuple(group.status() for group in self._groups.values())
            self._answer(messages.GroupStatus(command.request, groups))
        elif isinstance(command, messages.Check):
            self._attempts.begin(command, descriptors)

    def _load(self, command: messages.Load, descriptors: Descriptors) -> None:
        runtime = self._runtimes.get(command.language)
        if runtime is None:
            known = ", ".join(sorted(self._runtimes))
            self._answer(
                messages.Refused(
                    command.request, f"language {command.language} is not known here, only {known}"
                )
            )
            return
        try:
            listening = socket.socket(fileno=descriptors.filenos()[0])
        except OSError as error:
            self._answer(
                messages.Refused(command.request, f"the descriptor is not a socket: {error}")
            )
            return
        descriptors.take(0)
        group = self._groups.get(command.version)
        if group is None:
            group = self._groups[command.version] = WorkerGroup(
                command, listening, runtime, self._around
            )
            group.begin()
        else:
            group.replace(command, listening)
        self._answer(messages.Loaded(command.request))

    def _unload(self, command: messages.Unload) -> None:
        group = self._groups.pop(command.version, None)
        if group is not None:
            group.leave()
            if group.workers:
                self._leaving.append(group)
        self._answer(messages.Unloaded(command.request))

    def _assign(self, command: messages.Assign) -> None:
        """Become a tenant's user. Half of it is worse than nothing: then this sandbox ends."""
        if self._groups or self._leaving:
            self._answer(messages.Refused(command.request, "the sandbox has worker groups already"))
            return
        try:
            assignment.become(command.uid, command.gid)
        except OSError as error:
            _complain(f"cannot become {command.uid}:{command.gid}: {error}")
            self._answer(
                messages.Refused(command.request, f"cannot become this user: {error.strerror}")
            )
            self._is_ending = True
            return
        self._answer(messages.Assigned(command.request))

    def _place(self, place: messages.Place) -> bool:
        """Ask for it; whether anybody was there to hear."""
        if self._control is None:
            return False
        try:
            framing.send(self._control, place)
        except BlockingIOError:
            # It reads too slowly just now; going on unplaced is better than a lost connection.
            return False
        except OSError:
            self._disconnect()
            return False
        return True

    def _answer(self, message: messages.Message) -> None:
        """Send to the node daemon; one that does not read its socket is as good as gone."""
        if self._control is not None:
            try:
                framing.send(self._control, message)
            except OSError:
                self._disconnect()

    # -- processes

    def _read_signals(self) -> None:
        for arrived in self._signals.read():
            if arrived.number in _ENDING and (arrived.is_from_outside or os.getpid() != 1):
                self._is_ending = True
        self._reap()

    def _reap(self) -> None:
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._cleaner and not os.WIFSTOPPED(status):
                self._cleaner = 0
            group = self._group_of(pid)
            if group is None:
                continue
            if os.WIFSTOPPED(status):
                group.stopped(pid)
            else:
                group.exited(pid, status, used)
                if group in self._leaving and not group.workers:
                    self._leaving.remove(group)

    def _group_of(self, pid: int) -> WorkerGroup | None:
        for group in (*self._groups.values(), *self._leaving):
            if pid in group.workers:
                return group
        return None

    def _make_room(self, asking: WorkerGroup) -> bool:
        """Whether one more worker of ``asking`` fits; when not, the group that was idle for longest rests."""
        groups = (*self._groups.values(), *self._leaving)
        costs = [group.runtime.cost for group in groups for _ in group.workers]
        # A sandbox too small for a single worker has to try, or it would never say what is wrong.
        if not costs or self._budget.holds([*costs, asking.runtime.cost]):
            return True
        others = [group for group in groups if group is not asking and group.idle_since < math.inf]
        if others:
            min(others, key=lambda group: group.idle_since).rest()
        return False

    def _look_at_idle(self, now: float) -> None:
        """See that nobody computes who says that he does nothing. No worker, no look."""
        groups = [group for group in (*self._groups.values(), *self._leaving) if group.workers]
        self._look_at = now + LOOK_SECONDS if groups else math.inf
        pids = [pid for group in groups for pid in group.workers]
        cpu_seconds = cpu_seconds_by_ancestor(kernel.processes(), pids)
        for group in groups:
            group.look_at_idle(cpu_seconds)

    def _clear_scratch(self) -> None:
        # Outside of a sandbox it would be everybody's.
        self._is_scratch_full = os.getpid() == 1

    def _begin_to_clear(self) -> None:
        """Empty the scratch space when nothing runs that may be using it: files there have no owner among storlets."""
        if self._cleaner or any(group.works for group in (*self._groups.values(), *self._leaving)):
            return
        self._is_scratch_full = False
        with contextlib.suppress(OSError):
            self._cleaner = scratch.begin_to_clear(WORKING_DIRECTORY)

    def _sweep_soon(self) -> None:
        self._sweep_at = 0.0

    def _sweep(self, now: float) -> None:
        """Kill what dead workers have left to this process, until a look finds nothing."""
        keep = {pid for group in (*self._groups.values(), *self._leaving) for pid in group.workers}
        keep.update((*self._attempts.pids, self._cleaner))
        found = kernel.strays(os.getpid(), keep)
        for pid in found:
            kernel.kill(pid, signal.SIGKILL)
        self._sweeps = self._sweeps + 1 if found else 0
        self._sweep_at = now + SWEEP_SECONDS if found else math.inf
        if self._sweeps > SWEEPS_MAX and os.getpid() == 1:
            # Something forks faster than it can be found. As process 1 this reaches every process of the sandbox in one
            # step, and nothing else; the workers are started anew. (Anywhere but in a sandbox it would be a disaster.)
            os.kill(-1, signal.SIGKILL)
            self._sweeps = 0


def _complain(text: str) -> None:
    """To the operator: the sandbox's own log."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"storlet_daemon: {messages.one_line(text)}\n")
        sys.stderr.flush()
