"""Runs that last, filters that disconnect, workers that are stopped and killed.

A filter that closes the connection either cancels the run or has read its ``done``. In the second
case it has sent ``taken``, which stays unread in the connection. A cancelled worker is stopped
first and its reports are read: it may have just finished, and must not be killed for a run that is
over while it serves the next one.
"""

from __future__ import annotations

import functools
import math
import select
import signal
import socket
import time
from collections.abc import Callable

from storlet_daemon import kernel
from storlet_daemon.worker_group.group_state import STOP_SECONDS, GroupState
from storlet_daemon.worker_group.policing import Policing
from storlet_daemon.worker_group.worker_process import WorkerProcess

_HANG_UP = select.EPOLLRDHUP


class Cancellation:
    """Watches the connections of runs that last."""

    def __init__(
        self,
        state: GroupState,
        policing: Policing,
        read_reports: Callable[[WorkerProcess], None],
        settle: Callable[[], None],
    ) -> None:
        self._state = state
        self._policing = policing
        self._read_reports = read_reports
        self._settle = settle

    def run_lasts(self, one: WorkerProcess, connection: socket.socket, now: float) -> None:
        """The clock has passed a bound of this run.

        After ``SHORT_SECONDS`` another connection may need one more worker, after
        ``WATCH_SECONDS`` the connection is watched for a disconnect.
        """
        was_taken = one.taken_at < math.inf
        if was_taken and one.is_long:
            self._cancel(one)
            return
        one.is_long = True
        if not was_taken and self._state.next_change(one) <= now:
            self._watch(one, connection)

    def _watch(self, one: WorkerProcess, connection: socket.socket) -> None:
        try:
            on_hang_up = functools.partial(self._hung_up, one)
            self._state.hooks.poller.watch(connection.fileno(), _HANG_UP, on_hang_up)
            one.is_watched = True
            one.meter.mark_run(one.pid)
            self._policing.begin_scratch_checks()
        except OSError:
            self._state.kill(one)

    def _hung_up(self, one: WorkerProcess) -> None:
        """The filter has closed the connection: it cancels, or has read ``done``."""
        connection = one.connection
        # The event may be about an earlier connection that had the same number, so check again.
        if connection is None or not is_ready(connection, select.POLLRDHUP):
            return
        self._state.hooks.poller.forget(connection.fileno())
        if _has_taken(connection):
            # The worker is about to be free: it can serve the next connection, unless restoring
            # its process takes long as well.
            one.taken_at, one.is_long = time.monotonic(), False
            self._state.tick_at(self._state.next_change(one))
            self._settle()
        else:
            self._cancel(one)

    def _cancel(self, one: WorkerProcess) -> None:
        connection, one.taken_at = one.connection, math.inf
        self._read_reports(one)
        if connection is not None and one.connection is connection and not one.was_killed:
            one.cancelled = connection
            self._state.set_deadline(one, time.monotonic() + STOP_SECONDS)
            kernel.kill(one.pid, signal.SIGSTOP)
        self._settle()

    def stopped(self, one: WorkerProcess) -> None:
        """The worker has stopped, so its reports are complete: kill it, or let it continue."""
        if one.cancelled is None:
            return
        self._read_reports(one)
        if one.connection is one.cancelled:
            self._state.kill(one)
        else:
            one.cancelled = None
            kernel.kill(one.pid, signal.SIGCONT)
        self._settle()

    def take_connection(self, one: WorkerProcess) -> socket.socket | None:
        """End the run: reset what belongs to it, and return its connection."""
        connection, one.connection = one.connection, None
        if one.is_watched and connection is not None:
            self._state.hooks.poller.forget(connection.fileno())
        one.is_long, one.is_watched, one.taken_at = False, False, math.inf
        return connection


def _has_taken(connection: socket.socket) -> bool:
    """True if the filter has sent ``taken`` before it closed the connection."""
    for _ in range(2):
        try:
            return bool(connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except BlockingIOError:
            return False
        except OSError:
            # If the peer closed with unread data, the kernel reports that once, before the record.
            continue
    return False


def is_ready(what: socket.socket, events: int) -> bool:
    """True if one of the poll ``events`` is there now."""
    poll = select.poll()
    poll.register(what.fileno(), events)
    return bool(poll.poll(0))
