"""The workers of one storlet version: commands, the clock, the end of a worker process."""

from __future__ import annotations

import contextlib
import math
import os
import resource
import select
import socket
import time
from collections.abc import Mapping

from storlet_daemon import kernel
from storlet_daemon.protocol import framing, messages
from storlet_daemon.protocol.descriptors import close_quietly
from storlet_daemon.runtimes.language import Runtime
from storlet_daemon.worker_group.cancellation import Cancellation, is_ready
from storlet_daemon.worker_group.exit_cause import ExitCause
from storlet_daemon.worker_group.group_state import GroupState, SupervisorHooks
from storlet_daemon.worker_group.policing import Policing
from storlet_daemon.worker_group.reports import REPORTS_AT_ONCE, Reports, peer_uid
from storlet_daemon.worker_group.scaling import Scaling
from storlet_daemon.worker_group.starting import Starter
from storlet_daemon.worker_group.worker_process import State, WorkerProcess


class WorkerGroup:
    """The workers of one storlet version, and the listening socket that they share."""

    def __init__(
        self,
        load: messages.Load,
        listening: socket.socket,
        runtime: Runtime,
        hooks: SupervisorHooks,
    ) -> None:
        """Nothing is started before ``begin``."""
        self.state = GroupState(load, listening, runtime, hooks)
        self._exit_cause = ExitCause(self.state)
        self._policing = Policing(self.state)
        self._starter = Starter(self.state, self._exit_cause, self._read_some)
        self._scaling = Scaling(self.state, self._starter)
        self._cancellation = Cancellation(
            self.state, self._policing, self._read_all, self._scaling.settle
        )
        self._reports = Reports(
            self.state, self._exit_cause, self._starter, self._scaling, self._cancellation
        )

    @property
    def workers(self) -> dict[int, WorkerProcess]:
        """The worker processes by pid."""
        return self.state.workers

    # -- commands of the node daemon

    def begin(self) -> None:
        """Start the first worker."""
        self.state.listening.setblocking(False)
        self._reports.listener_uid = peer_uid(self.state.listening)
        self._starter.start()
        self._scaling.settle()

    def replace(self, load: messages.Load, listening: socket.socket) -> None:
        """Serve another listening socket; workers on the old one drain its backlog."""
        state = self.state
        if os.fstat(listening.fileno()).st_ino == os.fstat(state.listening.fileno()).st_ino:
            listening.close()
            state.load = load
            return
        for one in list(state.workers.values()):
            state.retire(one)
        self._scaling.stop_waiting()
        state.listening.close()
        state.load, state.listening = load, listening
        state.load_failure.clear()
        self.begin()

    def leave(self) -> None:
        """Refuse new connections; let running and queued invocations finish.

        The listening socket is shut down for every process that holds it.
        """
        state = self.state
        if not state.serving() and is_ready(state.listening, select.POLLIN):
            self._starter.start()
        state.is_leaving = True
        self._scaling.stop_waiting()
        state.listening.shutdown(socket.SHUT_RDWR)
        for one in list(state.workers.values()):
            state.retire(one)
        state.listening.close()

    def status(self) -> messages.Group:
        """The status for the node daemon, which ends a sandbox that is idle.

        So it counts invocations whose start is not read yet, and the first of those that wait for a
        worker.
        """
        state = self.state
        for one in list(state.workers.values()):
            self._read_some(one)
        busy = sum(one.state is State.BUSY for one in state.workers.values())
        busy += is_ready(state.listening, select.POLLIN)
        idle_seconds = 0.0 if busy else time.monotonic() - state.active_at
        return messages.Group(
            version=state.load.version,
            name=state.load.name,
            workers=len(state.serving()),
            busy=busy,
            runs=state.runs,
            failures=state.failures,
            idle_seconds=round(max(idle_seconds, 0.0), 3),
            code=state.load.code,
        )

    def announce(self) -> None:
        """Request placement of every worker that has none, from a node daemon that is new."""
        self._starter.announce()

    def placed(self, pid: int, directory: str) -> None:
        """The node daemon has placed a worker; an empty ``directory`` means that it has not."""
        self._starter.placed(self.workers[pid], directory)

    # -- what the supervisor decides by

    @property
    def awaited(self) -> int | None:
        """The listening socket if a connection there would have to wait for a new worker."""
        return self._scaling.awaited

    @property
    def is_active(self) -> bool:
        """True if any worker loads, runs or exits at the moment."""
        inactive = (State.IDLE, State.REFUSING)
        return any(one.state not in inactive for one in self.workers.values())

    @property
    def idle_since(self) -> float:
        """When its last invocation ended (monotonic seconds); infinite if no worker is idle."""
        idle = [one for one in self.workers.values() if one.state is State.IDLE]
        return self.state.active_at if any(not one.is_retiring for one in idle) else math.inf

    def rest(self) -> None:
        """Retire the idle workers; the next connection starts one."""
        self._scaling.rest()

    def police_idle(self, cpu_seconds: Mapping[int, float]) -> None:
        """Replace workers that use CPU time while they report to be idle."""
        self._policing.police_idle(cpu_seconds)

    # -- the clock

    @property
    def due(self) -> float:
        """When the next tick is due, in monotonic seconds."""
        return self.state.due

    def tick(self, now: float) -> None:
        """Do what is due, and compute when the next tick is due."""
        state = self.state
        for one in list(state.workers.values()):
            if one.deadline <= now:
                self._deadline_passed(one)
            elif one.connection is not None and state.next_change(one) <= now:
                self._cancellation.run_lasts(one, one.connection, now)
            elif not one.is_retiring and state.next_change(one) <= now:
                state.retire(one)
        if self._policing.scratch_due <= now:
            self._policing.check_scratch(now)
        self._scaling.settle()
        retry_at = self._starter.retry_at
        state.due = min(retry_at if retry_at > now else math.inf, self._policing.scratch_due)
        for one in state.workers.values():
            state.due = min(state.due, one.deadline, state.next_change(one))

    def _deadline_passed(self, one: WorkerProcess) -> None:
        if one.state is State.WAITING:
            self._starter.release(one, "")
            return
        if one.state is State.LOADING:
            one.load_error = f"loading took longer than {self.state.load.load_seconds:g} seconds"
        elif one.state is State.ENDING:
            reason = "storlet was killed: its process did not exit after it had reported its end"
            one.kill_reason = (messages.FAILED, reason)
        self.state.kill(one)

    # -- reports

    def _read_some(self, one: WorkerProcess) -> None:
        self._reports.read(one, REPORTS_AT_ONCE)
        self._scaling.settle()

    def _read_all(self, one: WorkerProcess) -> None:
        self._reports.read(one)

    # -- the end of a worker process

    def stopped(self, pid: int) -> None:
        """A worker of this group has stopped after SIGSTOP."""
        self._cancellation.stopped(self.workers[pid])

    def exited(self, pid: int, status: int, used: resource.struct_rusage) -> None:
        """A worker is dead and reaped: send its ``done``, clean up after it, replace it."""
        state = self.state
        one = state.workers.pop(pid)
        state.has_changed = True
        self._reports.read(one)
        state.close_channel(one)
        kernel.kill_group(pid)
        state.hooks.sweep()
        was_busy = one.connection is not None
        if was_busy:
            self._send_done(one, status, used)
        if one.ended is not None:
            # If the worker has sent a ``done`` of its own, the filter does not read this one.
            _send(one.ended, messages.Done.error(*self._exit_cause.of_run(one, status)))
            one.close_ended()
        if not one.has_loaded and one.state is State.LOADING and not one.is_retiring:
            state.load_failure.record(self._exit_cause.of_load(one, status))
        elif _has_crashed(one):
            self._exit_cause.count_crash(status)
        close_quietly(one.output)
        if was_busy or (one.state is State.ENDING and not one.is_retiring):
            self._scaling.replace_if_short()
        if not state.is_leaving:
            self._scaling.settle()

    def _send_done(self, one: WorkerProcess, status: int, used: resource.struct_rusage) -> None:
        """Send ``done`` for the invocation that died with its worker, unless it was cancelled."""
        connection = one.connection
        if connection is not None and one.cancelled is not connection:
            self.state.runs += 1
            self.state.failures += 1
            code, text = self._exit_cause.of_run(one, status)
            _send(connection, messages.Done.error(code, text, usage=one.meter.usage(used)))
        connection = self._cancellation.take_connection(one)
        if connection is not None:
            connection.close()


def _has_crashed(one: WorkerProcess) -> bool:
    """True if a dead worker was neither killed nor about to exit, and was not running anything."""
    is_waiting = one.state in (State.WAITING, State.IDLE)
    return is_waiting and not one.is_retiring and not one.was_killed


def _send(connection: socket.socket, done: messages.Done) -> None:
    # A filter that disconnected or does not read sees the end of the connection instead.
    with contextlib.suppress(OSError):
        connection.send(framing.encode(done), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
