"""When one more worker is started.

``settle`` maintains one invariant: while no worker is free and one more is allowed, the supervisor
itself waits on the listening socket, and starts a worker when a connection arrives.
"""

from __future__ import annotations

import select
import time

from storlet_daemon.worker_group.group_state import GroupState
from storlet_daemon.worker_group.starting import Starter
from storlet_daemon.worker_group.worker_process import State

_SOON_FREE = (State.WAITING, State.LOADING, State.IDLE)


class Scaling:
    """Decides how many workers a group has."""

    def __init__(self, state: GroupState, starter: Starter) -> None:
        self._state = state
        self._starter = starter
        self._is_waiting = False

    @property
    def awaited(self) -> int | None:
        """The listening socket if a connection there would have to wait for a new worker."""
        return self._state.listening.fileno() if self._is_waiting else None

    def settle(self) -> None:
        """Wait on the listening socket exactly while a connection there needs one more worker."""
        count = 0
        for one in self._state.workers.values():
            if one.serves:
                count += 1
                if not one.is_long:
                    # It is free, or will be soon: it has been busy for a very short time only.
                    self.stop_waiting()
                    return
        if self._may_start(count):
            self._wait()
        else:
            self.stop_waiting()

    def _may_start(self, count: int) -> bool:
        state = self._state
        return not (
            state.is_leaving
            or count >= state.runtime.workers_max(state.load)
            or self._is_crowded()
            or time.monotonic() < self._starter.retry_at
        )

    def _wait(self) -> None:
        if not self._is_waiting:
            fd = self._state.listening.fileno()
            self._state.hooks.poller.watch(fd, select.EPOLLIN, self._connection_waits)
            self._is_waiting = True

    def stop_waiting(self) -> None:
        if self._is_waiting:
            self._state.hooks.poller.forget(self._state.listening.fileno())
            self._is_waiting = False

    def _connection_waits(self) -> None:
        self._starter.start()
        self.settle()

    def replace_if_short(self) -> None:
        """After a worker that was in use has gone: load its replacement before it is needed."""
        state = self._state
        if state.is_leaving or state.load_failure.reason is not None or self._is_crowded():
            return
        if not any(one.state in _SOON_FREE for one in state.serving()):
            self._starter.start()

    def _is_crowded(self) -> bool:
        """True if the storlet's own limits may leave too little for one more worker.

        Such a worker would fail although its code is correct.
        """
        state = self._state
        if not state.load.limits.memory_bytes and not state.load.limits.processes:
            return False
        if any(one.may_hold_resources for one in state.workers.values()):
            return True
        return len(state.workers) >= state.runtime.workers_max(state.load)

    def rest(self) -> None:
        """Retire the idle workers; the next connection starts one."""
        for one in list(self._state.workers.values()):
            if one.state is State.IDLE:
                self._state.retire(one)
        self.settle()
