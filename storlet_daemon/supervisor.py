"""Process 1 of a sandbox: dispatches commands, signals and the clock to the worker groups.

One thread, one epoll. The supervisor is not on the path of an invocation's bytes or events: it
receives two reports per invocation (``begin``, ``end``) and acts only when something goes wrong or
when one more worker is needed. If it exits, the sandbox ends, so no storlet may be able to end it:
reports of workers are not trusted, signals from inside the sandbox are ignored, and no other
process can read its memory.
"""

from __future__ import annotations

import math
import os
import select
import signal
import socket
import time

from storlet_daemon import assignment, homes, inspection, kernel
from storlet_daemon.attempts import Attempts
from storlet_daemon.budget import Budget
from storlet_daemon.cleaner import Cleaner
from storlet_daemon.confinement import Confinement
from storlet_daemon.control_connection import ControlConnection, log_error
from storlet_daemon.control_groups import ControlGroup, Counter
from storlet_daemon.idle import SAMPLE_SECONDS, cpu_seconds_by_ancestor
from storlet_daemon.poller import Poller
from storlet_daemon.protocol import messages
from storlet_daemon.protocol.descriptors import Descriptors
from storlet_daemon.runtimes.language import ImagePaths
from storlet_daemon.runtimes.table import runtimes
from storlet_daemon.sweeper import Sweeper
from storlet_daemon.worker_group.group import WorkerGroup
from storlet_daemon.worker_group.group_state import SupervisorHooks
from storlet_daemon.worker_groups import WorkerGroups

BATCH_SECONDS = 0.005
"""After the start or end of an invocation, reports are collected this long and read together."""
_ENDING = (signal.SIGTERM, signal.SIGINT)


class Supervisor:
    """See the module. ``run`` returns when the sandbox is to end."""

    def __init__(
        self, control_path: str, paths: ImagePaths, *, confines_descriptors: bool = False
    ) -> None:
        """Nothing happens before ``run``.

        ``confines_descriptors``: as on a kernel whose sockets cannot refuse descriptors.
        """
        self._poller = Poller()
        self._runtimes = runtimes(paths)
        self._control = ControlConnection(
            control_path, self._poller, self._send_hello, self._execute
        )
        self._groups = WorkerGroups(Budget.of_this_sandbox())
        self._cleaner = Cleaner(self._groups)
        self._sweeper = Sweeper(self._kept)
        self._hooks = SupervisorHooks(
            poller=self._poller,
            paths=paths,
            memory_kills=Counter(ControlGroup().kills),
            sweep=self._sweeper.request,
            make_room=self._groups.make_room,
            expendable=kernel.Expendable(),
            place=self._control.request_placement,
            clear_scratch=self._cleaner.request,
            invocation_changed=self._invocation_changed,
            confinement=Confinement.of_this_kernel(
                descriptors=confines_descriptors, homes=homes.HOMES if os.getpid() == 1 else ""
            ),
        )
        self._sample_at = math.inf
        self._is_ending = False
        self._has_new_reports = False
        self._attempts = Attempts(self._poller, self._control.send)

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
                if self._has_new_reports:
                    # More reports are likely to follow soon, and no client waits for this process.
                    self._has_new_reports = False
                    self._poller.wait_batched(BATCH_SECONDS, self._urgent())
                else:
                    self._poller.wait(seconds)
        finally:
            self._end()
        return 0

    def _invocation_changed(self) -> None:
        self._has_new_reports = True

    def _urgent(self) -> list[int]:
        """Descriptors that must not wait for a batch.

        These are commands, exits of processes, and connections that need one more worker.
        """
        fds = [self._signals.fileno(), self._control.fileno(), *self._groups.awaited]
        return [fd for fd in fds if fd is not None]

    def _tick(self) -> float:
        """Do what is due; return how long to wait at most (seconds, -1 without a limit)."""
        now = time.monotonic()
        if self._control.due <= now:
            self._control.connect()
        if self._sweeper.due <= now:
            self._sweeper.sweep()
        if self._sample_at <= now:
            self._police_idle(now)
        self._cleaner.tick()
        earliest = min(self._sweeper.due, self._control.due)
        for group in self._groups:
            if group.due <= now:
                group.tick(now)
            earliest = min(earliest, group.due)
            if group.workers and self._sample_at == math.inf:
                self._sample_at = now + SAMPLE_SECONDS
        earliest = min(earliest, self._sample_at)
        return -1 if earliest == math.inf else max(earliest - now, 0)

    def _end(self) -> None:
        for group in self._groups:
            group.state.kill_all()
        for pid in kernel.strays(os.getpid(), ()):
            kernel.kill(pid, signal.SIGKILL)

    # -- commands

    def _send_hello(self) -> None:
        self._control.send(messages.Hello(os.getpid(), self._groups.versions))
        for group in self._groups:
            group.announce()

    def _execute(self, command: messages.Message, descriptors: Descriptors) -> None:
        if isinstance(command, messages.Load):
            self._load(command, descriptors)
        elif isinstance(command, messages.Unload):
            self._unload(command)
        elif isinstance(command, messages.Placed):
            group = self._groups.of(command.pid)
            if group is not None:
                group.placed(command.pid, command.directory)
        elif isinstance(command, messages.Assign):
            self._assign(command)
        elif isinstance(command, messages.Inspect):
            self._control.send(messages.Inspected(command.request, inspection.read()))
        elif isinstance(command, messages.AskStatus):
            self._control.send(self._groups.status(command.request))
        elif isinstance(command, messages.Check):
            self._attempts.begin(command, descriptors)

    def _load(self, command: messages.Load, descriptors: Descriptors) -> None:
        runtime = self._runtimes.get(command.language)
        if runtime is None:
            known = ", ".join(sorted(self._runtimes))
            reason = f"language {command.language} is not supported here, only {known}"
            self._control.send(messages.Refused(command.request, reason))
            return
        try:
            listening = socket.socket(fileno=descriptors.filenos()[0])
        except OSError as error:
            reason = f"the descriptor is not a socket: {error}"
            self._control.send(messages.Refused(command.request, reason))
            return
        descriptors.take(0)
        group = self._groups.current(command.version)
        if group is None:
            group = WorkerGroup(command, listening, runtime, self._hooks)
            self._groups.add(command.version, group)
            group.begin()
        else:
            group.replace(command, listening)
        self._control.send(messages.Loaded(command.request))

    def _unload(self, command: messages.Unload) -> None:
        self._groups.unload(command.version)
        self._control.send(messages.Unloaded(command.request))

    def _assign(self, command: messages.Assign) -> None:
        """Become a tenant's user. After a partial change the sandbox is unsafe and ends."""
        if self._groups:
            reason = "the sandbox has worker groups already"
            self._control.send(messages.Refused(command.request, reason))
            return
        try:
            assignment.become(command.uid, command.gid)
        except OSError as error:
            log_error(f"cannot become {command.uid}:{command.gid}: {error}")
            reason = f"cannot become this user: {error.strerror}"
            self._control.send(messages.Refused(command.request, reason))
            self._is_ending = True
            return
        self._control.send(messages.Assigned(command.request))

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
            if not os.WIFSTOPPED(status):
                self._cleaner.exited(pid)
            group = self._groups.of(pid)
            if group is None:
                continue
            if os.WIFSTOPPED(status):
                group.stopped(pid)
            else:
                group.exited(pid, status, used)
                self._groups.drop_if_left(group)

    def _kept(self) -> set[int]:
        return {*self._groups.pids, *self._attempts.pids, self._cleaner.pid}

    def _police_idle(self, now: float) -> None:
        """Sample the CPU time of all workers and replace those that use it while idle.

        No sample is scheduled while there are no workers.
        """
        self._cleaner.remove_leftovers()
        groups = [group for group in self._groups if group.workers]
        self._sample_at = now + SAMPLE_SECONDS if groups else math.inf
        pids = [pid for group in groups for pid in group.workers]
        cpu_seconds = cpu_seconds_by_ancestor(kernel.processes(), pids)
        for group in groups:
            group.police_idle(cpu_seconds)
