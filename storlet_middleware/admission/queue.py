"""The queue of a process: invocations that wait for slots, and get them in turn.

Its length is published.  While there are waiters, a timer in the hub checks every few milliseconds
whether one of them can be admitted; a slot that is released in this process is passed on at once.
Waiting ends with a slot, after ``queue_seconds``, or when the green task is killed: in every case
the place in the queue is given up.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from typing import Any, Final

from storlet_middleware import metrics
from storlet_middleware.admission import refusals
from storlet_middleware.admission.fairness import Claim, Obstacle
from storlet_middleware.admission.groups import Group, Waiter
from storlet_middleware.admission.node_counts import NodeCounts
from storlet_middleware.admission.shared_table import Table
from storlet_middleware.concurrency import Timer, call_later, monotonic
from storlet_middleware.config import Config

_POLL_SECONDS: Final = 0.005
#: Interval of the search for regions of dead processes: a death changes no counter.
_DEAD_CHECK_SECONDS: Final = 0.1

#: Seconds until the first heartbeat and between further ones while an invocation waits.
Beats = tuple[float, float]


class Queue:
    """One per server process, made before the server forks."""

    def __init__(self, config: Config, logger: Any, counts: NodeCounts) -> None:
        self._counts = counts
        self._logger = logger
        self._seconds = config.invocation.queue_seconds
        self._most = config.admission.queue
        self._most_per_tenant = config.admission.queue_per_tenant
        self._begin_process()

    def _begin_process(self) -> None:
        self._pid = os.getpid()
        self._timer: Timer | None = None
        self._seen_changes = -1
        self._next_dead_check = 0.0

    # --- wait -------------------------------------------------------------------------------------

    def wait(self, claims: Sequence[Claim], beats: Beats | None) -> Generator[None, None, Waiter]:
        """Wait until all of ``claims`` were admitted; yields at each heartbeat.

        Raises :class:`TenantBusy` or :class:`NodeBusy` if a queue is full, and after
        ``queue_seconds``.
        """
        waiter = self._enter(claims)
        try:
            yield from self._await_signal(waiter, beats)
        except BaseException:
            # Refused, the client left, or the server killed the task; a slot may have come
            # meanwhile.
            self._leave(waiter)
            raise
        for _ in claims:
            metrics.admission_admitted(self._logger)
        metrics.admission_waited(self._logger, waiter.began - waiter.since)
        return waiter

    def _enter(self, claims: Sequence[Claim]) -> Waiter:
        if self._pid != os.getpid():
            self._begin_process()
        claim, now, counts = claims[0], monotonic(), self._counts
        # The bounds of the queues need not be exact, so a lock that is not free is not waited for.
        with counts.locked_if_free() as table:
            load = counts.load(table, now)
            is_tenant_full = load.waiting_of(claim.tenant) >= self._most_per_tenant
            waiter = None
            if not is_tenant_full and load.waiting < self._most:
                waiter = counts.own.enqueue(claim, now, tuple(claims[1:]))
        if waiter is None:
            is_tenant_full = is_tenant_full or counts.own.is_at_maximum(claim.tenant)
            obstacle = Obstacle.SHARE if is_tenant_full else Obstacle.NODE
            whose = "of its " if is_tenant_full else ""
            why = f"because too many {whose}invocations wait already"
            raise refusals.refused(self._logger, load, claim, obstacle, why)
        metrics.admission_queued(self._logger)
        if table is not None:
            table.take_part(now)
        if self._timer is None:
            self._timer = call_later(_POLL_SECONDS, self._poll)
        return waiter

    def _await_signal(self, waiter: Waiter, beats: Beats | None) -> Generator[None, None, None]:
        give_up = waiter.since + self._seconds
        pause, further = beats or (self._seconds, self._seconds)
        while not waiter.signal.wait(max(0.0, min(pause, give_up - monotonic()))):
            pause = further
            if monotonic() >= give_up:
                load = self._counts.load(self._counts.table, monotonic())
                claim = waiter.group.claim
                obstacle = load.obstacle_of_all((claim, *waiter.others))
                why = f"within {self._seconds:g} s"
                raise refusals.refused(self._logger, load, claim, obstacle, why)
            yield

    def _leave(self, waiter: Waiter) -> None:
        """Give up the place in the queue, or the slots that were acquired."""
        if waiter.signal.is_set:
            for group in (waiter.group, *waiter.companions):
                self.release(group, None)
        else:
            self._counts.own.leave_queue(waiter)

    # --- admit ------------------------------------------------------------------------------------

    def release(self, group: Group, began: float | None) -> None:
        """A run is over; ``began`` is ``None`` for a slot that was not used."""
        if not self._counts.has(group):
            return  # of a fork, whose parent counts it
        now = monotonic()
        self._counts.own.end(group, began, now)
        if self._counts.own.waiting:
            self._admit(now)

    def _poll(self) -> None:
        """Called by the hub while this process has waiters; must not wait itself."""
        self._timer = None
        if self._pid != os.getpid():
            return
        try:
            self._poll_table(monotonic())
        finally:
            if self._counts.own.waiting:
                self._timer = call_later(_POLL_SECONDS, self._poll)

    def _poll_table(self, now: float) -> None:
        table = self._counts.table
        if table is None:
            self._admit(now)
            return
        table.take_part(now)
        changes = table.changes()
        if changes != self._seen_changes or now >= self._next_dead_check:
            self._seen_changes = changes
            self._admit(now)

    def _admit(self, now: float) -> None:
        """Admit the waiters of this process whose turn it is."""
        self._counts.decide(self._take_turns, None, now)

    def _take_turns(self, table: Table | None, _: None, now: float) -> None:
        if table is not None and now >= self._next_dead_check:
            self._next_dead_check = now + _DEAD_CHECK_SECONDS
            table.forget_dead()
        self._counts.own.take_turns(self._counts.load(table, now), now)
