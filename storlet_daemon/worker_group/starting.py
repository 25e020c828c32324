"""Start a worker: fork it, have it placed into its control groups, release it."""

from __future__ import annotations

import functools
import math
import select
import time
from collections.abc import Callable
from typing import NoReturn

from storlet_daemon.control_groups import ControlGroup
from storlet_daemon.launch import BecomeWorker, Launched, launch, release
from storlet_daemon.protocol import messages
from storlet_daemon.runtimes.language import LISTENING, Start
from storlet_daemon.worker import run_loop
from storlet_daemon.worker.config import WorkerConfig
from storlet_daemon.worker_group.exit_cause import ExitCause
from storlet_daemon.worker_group.group_state import GroupState
from storlet_daemon.worker_group.worker_process import State, WorkerProcess

RETRY_SECONDS = 1.0
"""Interval between attempts if no process can be started."""
ROOM_SECONDS = 0.05
"""Interval between attempts if the worker does not fit, while idle ones of other groups exit."""
PLACE_SECONDS = 1.0
"""How long a new worker waits for its placement; then it runs without control groups."""


class Starter:
    """Starts workers of one group. Attempts are deferred until ``retry_at`` after a failure."""

    def __init__(
        self,
        state: GroupState,
        exit_cause: ExitCause,
        on_report: Callable[[WorkerProcess], None],
    ) -> None:
        self.retry_at = 0.0
        self._state = state
        self._exit_cause = exit_cause
        self._on_report = on_report

    def defer(self, seconds: float) -> None:
        """Start no worker within the next ``seconds``."""
        self.retry_at = time.monotonic() + seconds
        self._state.tick_at(self.retry_at)

    def start(self) -> None:
        """Start a worker, or one that refuses if the code cannot be loaded."""
        state = self._state
        if not state.hooks.make_room(state):
            self.defer(ROOM_SECONDS)
            return
        become_worker: BecomeWorker
        failure = self._load_failure()
        if failure is None:
            become_worker = functools.partial(state.runtime.become_worker, state.load)
        else:
            become_worker = functools.partial(self._refuse, failure)
        try:
            with state.hooks.expendable:
                launched = launch(
                    state.listening,
                    state.load.name,
                    state.load.limits,
                    become_worker,
                    state.hooks.confinement.of_group(state.load.version),
                )
        except OSError:
            # The sandbox is at its limit of processes or memory. Connections wait in the backlog;
            # the filter enforces their deadlines.
            self.defer(RETRY_SECONDS)
            return
        self._add(launched, refuses=failure is not None)

    def _load_failure(self) -> messages.LoadFailed | None:
        failure = self._state.load_failure
        if not failure.is_current(time.monotonic()):
            failure.clear()
            reason = self._state.runtime.missing(self._state.load)
            if reason:
                failure.record(messages.LoadFailed(reason))
        return failure.reason

    def _refuse(self, failure: messages.LoadFailed, start: Start) -> NoReturn:
        load = self._state.load
        path = self._state.hooks.paths.execution_path(load)
        config = WorkerConfig(
            LISTENING, start.channel, load.main, load.file, path, load.runs_per_worker
        )
        run_loop.refuse(config, failure)

    def _add(self, launched: Launched, *, refuses: bool) -> None:
        state, now = self._state, time.monotonic()
        channel = launched.channel
        one = WorkerProcess(launched.pid, channel, launched.output, State.WAITING, math.inf, now)
        state.workers[one.pid] = one
        state.has_changed = True
        state.due = 0.0
        on_report = functools.partial(self._on_report, one)
        state.hooks.poller.watch(channel.fileno(), select.EPOLLIN, on_report)
        if refuses:
            # It runs only our own code, so it needs no control groups.
            one.state = State.REFUSING
            release(channel, "")
        elif state.hooks.place(self._placement(one)):
            state.set_deadline(one, now + PLACE_SECONDS)
        else:
            self.release(one, "")

    def _placement(self, one: WorkerProcess) -> messages.Place:
        return messages.Place(self._state.load.version, one.pid, self._state.load.limits)

    def announce(self) -> None:
        """Request placement of every worker that has none, from a node daemon that is new."""
        for one in self._state.workers.values():
            if not one.is_placed and one.state is not State.REFUSING:
                self._state.hooks.place(self._placement(one))

    def placed(self, one: WorkerProcess, directory: str) -> None:
        """The worker is in its control groups; an empty ``directory`` means that it is not."""
        state = self._state
        if directory:
            one.is_placed = True
            if directory != state.directory:
                state.directory = directory
                state.control_group = ControlGroup(directory)
                self._exit_cause.count_kills_in(state.control_group)
        if one.state is State.WAITING:
            self.release(one, directory)

    def release(self, one: WorkerProcess, directory: str) -> None:
        """Let the worker load the code; no code of the tenant has run in it before."""
        if one.channel is None:
            return
        one.state = State.LOADING
        self._state.set_deadline(one, time.monotonic() + self._state.load.load_seconds)
        release(one.channel, directory)
        if one.is_retiring:
            # It was retired while it waited, but may be the one that drains the backlog.
            self._state.shut_down_channel(one)
