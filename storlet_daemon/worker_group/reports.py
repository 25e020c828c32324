"""The reports of workers on their channels, and their handling."""

from __future__ import annotations

import math
import os
import socket
import struct
import time

from storlet_daemon.protocol import framing, messages
from storlet_daemon.protocol.descriptors import Descriptors
from storlet_daemon.worker_group.cancellation import Cancellation
from storlet_daemon.worker_group.exit_cause import ExitCause
from storlet_daemon.worker_group.group_state import LEAVE_SECONDS, REFUSE_SECONDS, GroupState
from storlet_daemon.worker_group.scaling import Scaling
from storlet_daemon.worker_group.starting import Starter
from storlet_daemon.worker_group.worker_process import State, WorkerProcess

REPORTS_AT_ONCE = 64
"""Reports of one worker that are read before other workers have their turn.

A storlet's code may flood the channel.
"""

OVERTIME_SECONDS = 30.0
"""A worker measures its age itself, and this process may see the end of its last run late."""


class Reports:
    """Reads the reports of a group's workers and applies them.

    ``listener_uid`` is the user that made the listening socket: the filter's side.
    """

    def __init__(
        self,
        state: GroupState,
        exit_cause: ExitCause,
        starter: Starter,
        scaling: Scaling,
        cancellation: Cancellation,
    ) -> None:
        self.listener_uid = -1
        self._state = state
        self._exit_cause = exit_cause
        self._starter = starter
        self._scaling = scaling
        self._cancellation = cancellation

    def read(self, one: WorkerProcess, most: float = math.inf) -> None:
        """Read and apply at most ``most`` reports that wait in the worker's channel."""
        count = 0
        while one.channel is not None and count < most:
            count += 1
            try:
                received = framing.receive(one.channel)
                if received is None:
                    self._state.close_channel(one)
                    break
                report = received.message(messages.WORKER_REPORTS)
                self._apply(one, report, received.descriptors)
            except BlockingIOError:
                break
            except (OSError, messages.ProtocolError):
                # Only a storlet that tampers with the worker's descriptors can cause this.
                self._state.close_channel(one)
                self._state.kill(one)

    def _apply(
        self, one: WorkerProcess, report: messages.Message, descriptors: Descriptors
    ) -> None:
        is_loading = one.state is State.LOADING
        is_free = one.connection is None and one.state is State.IDLE
        with descriptors:
            if isinstance(report, messages.Begin) and is_free:
                self._began(one, descriptors.take(0))
            elif isinstance(report, messages.End) and one.connection is not None:
                self._ended(one, report)
            elif isinstance(report, messages.Ready) and is_loading:
                self._loaded(one, State.IDLE)
                self._state.load_failure.clear()
            elif isinstance(report, messages.LoadFailed) and is_loading:
                self._load_failed(one, report)
            else:
                raise messages.ProtocolError([f"{report.TYPE} while {one.state.name}"])

    def _loaded(self, one: WorkerProcess, state: State) -> None:
        """The worker waits for a connection now, as IDLE or REFUSING."""
        one.state, one.since = state, time.monotonic()
        if not one.has_loaded:
            one.has_loaded, one.loaded_at = True, one.since
        one.deadline = math.inf
        if one.is_retiring:
            self._state.set_deadline(one, one.since + LEAVE_SECONDS)
        else:
            self._state.tick_at(self._state.next_change(one))

    def _load_failed(self, one: WorkerProcess, report: messages.LoadFailed) -> None:
        state = self._state
        self._loaded(one, State.REFUSING)
        state.load_failure.record(report)
        others = [other for other in state.serving() if other.has_loaded]
        if any(other.state is not State.REFUSING for other in others):
            # Other workers have the code: they continue to serve, and this one must not answer
            # in their place.
            state.load_failure.clear()
            self._starter.retry_at = time.monotonic() + REFUSE_SECONDS
            state.due = 0.0
            state.retire(one)

    def _began(self, one: WorkerProcess, fd: int) -> None:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, fd)
        one.connection = connection
        number = os.fstat(fd).st_ino
        if number in one.seen or not self._is_from_filter(connection):
            reason = "storlet was killed: it reported an invocation that does not exist"
            one.kill_reason = (messages.FAILED, reason)
            self._state.kill(one)
            return
        one.seen.add(number)
        one.meter.began(self._state.hooks.poller.since)
        self._state.hooks.invocation_changed()
        one.close_ended()
        one.state, one.since = State.BUSY, time.monotonic()
        one.deadline = math.inf
        self._state.tick_at(self._state.next_change(one))

    def _is_from_filter(self, connection: socket.socket) -> bool:
        """True if, judged by its user, no process of this sandbox holds the connection's peer.

        If this sandbox's own user made the listening socket, as in tests, that cannot be decided.
        """
        try:
            own = os.getuid()
            return self.listener_uid == own or peer_uid(connection) != own
        except OSError:
            # Not a Unix socket at all.
            return False

    def _ended(self, one: WorkerProcess, report: messages.End) -> None:
        state = self._state
        one.ended = self._cancellation.take_connection(one)
        one.meter.ended()
        state.hooks.invocation_changed()
        one.runs += 1
        state.runs += 1
        state.failures += report.failed
        self._exit_cause.reset_crashes()
        if one.state is not State.BUSY:
            return
        self._loaded(one, State.IDLE)
        state.active_at = one.since
        if not report.recycle and self._is_over(one):
            # A worker that runs our code would have requested its replacement.
            state.kill(one)
        elif report.recycle:
            # It may still have to send ``done``, so it exits by itself before the deadline.
            one.state = State.ENDING
            one.has_failed = report.failed
            state.set_deadline(one, one.since + LEAVE_SECONDS)
            if one.pid in state.workers:
                self._scaling.replace_if_short()

    def _is_over(self, one: WorkerProcess) -> bool:
        """True if the worker is past its runs or its time, which it measures itself."""
        load = self._state.load
        age = time.monotonic() - one.loaded_at
        return one.runs > load.runs_per_worker or age > load.worker_seconds + OVERTIME_SECONDS


_CREDENTIALS = struct.Struct("3i")


def peer_uid(connection: socket.socket) -> int:
    """The user at the other end of a Unix socket; of a listening one, the user that made it."""
    option = socket.SO_PEERCRED
    credentials = connection.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(credentials)[1])
