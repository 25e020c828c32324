"""Admits invocations to a node: slots, a queue, and fair shares of the accounts.

An invocation acquires a :class:`Slot` before it is connected to a worker, and releases it when it
is over::

    slot = yield from admission.acquire(claim, beats)      # may wait; raises TenantBusy or NodeBusy
    ...
    slot.release()

The decision is :mod:`storlet_middleware.admission.fairness`, over what the processes of the node
publish in the file of :mod:`storlet_middleware.admission.shared_table`.  No daemon takes part:
admission costs about ten microseconds, and the servers of a node agree also while sandboxd is
restarted.

*Several slots.*  The storlets of a pipeline run at the same time.  Hold-and-wait can deadlock, so
all slots are acquired at once (:meth:`Admission.acquire_together`).  Free capacity is reserved for
the pipeline whose turn it is, and no other invocation of the tenant overtakes it, until it fits.

Invocations that find no free slot wait in :mod:`storlet_middleware.admission.queue`.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Generator, Sequence
from typing import Any, Final

from storlet_middleware import metrics
from storlet_middleware.admission import refusals, shared_table
from storlet_middleware.admission.fairness import Claim
from storlet_middleware.admission.groups import Group
from storlet_middleware.admission.node_counts import NodeCounts
from storlet_middleware.admission.queue import Beats, Queue
from storlet_middleware.admission.shared_table import Table
from storlet_middleware.concurrency import monotonic
from storlet_middleware.config import Config
from storlet_middleware.keys import tenant_key

_REMEMBERED: Final = 1024
#: Half of the requests that a server process of Swift serves at a time by default.
ROOM: Final = 512

#: Running and waiting invocations of a node, by tenant.
snapshot = shared_table.snapshot


class Slot:
    """Permission to run one invocation; releasing it twice has no effect."""

    def __init__(self, queue: Queue, group: Group, since: float, began: float) -> None:
        self.waited_seconds = began - since
        self._queue: Queue | None = queue
        self._group = group
        self._began = began

    def release(self) -> None:
        """Let the next invocation run."""
        queue, self._queue = self._queue, None
        if queue is not None:
            queue.release(self._group, self._began)


class Admission:
    """One per server process, made before the server forks; everything is opened at the first use.

    :param room: maximum of invocations that run or wait in this process.  Each holds one of the
        requests that the server serves at a time (``max_clients``).
    """

    def __init__(self, config: Config, logger: Any, room: int = ROOM) -> None:
        self._logger = logger
        self._weights = config.admission.weights
        self._counts = NodeCounts(config, logger, room)
        self._queue = Queue(config, logger, self._counts)

    def claim(self, account: str, group: str, memory_bytes: int) -> Claim:
        """The needs of an invocation of ``account`` in a worker group."""
        weight = self._weights.get(account, 1.0)
        return Claim(tenant_hash(account), _group_hash(group), memory_bytes, weight)

    # --- one slot ---------------------------------------------------------------------------------

    def acquire_at_once(self, claim: Claim) -> Slot | None:
        """A slot, or ``None`` if the invocation would have to wait."""
        now = monotonic()
        group = self._counts.decide(self._try_run, claim, now)
        if group is None:
            return None
        metrics.admission_admitted(self._logger)
        return Slot(self._queue, group, now, now)

    def acquire(self, claim: Claim, beats: Beats | None) -> Generator[None, None, Slot]:
        """A generator that returns a slot and yields at each heartbeat while it waits.

        Raises :class:`TenantBusy` or :class:`NodeBusy` if a queue is full, and after
        ``queue_seconds``.
        """
        slot = self.acquire_at_once(claim)
        if slot is not None:
            return slot
        waiter = yield from self._queue.wait((claim,), beats)
        return Slot(self._queue, waiter.group, waiter.since, waiter.began)

    def _try_run(self, table: Table | None, claim: Claim, now: float) -> Group | None:
        """Count ``claim`` as running if it fits and no waiter precedes it; ``table`` is locked."""
        counts = self._counts
        load = counts.load(table, now)
        if load.waiting or load.obstacle(claim) is not None:
            if table is not None and table.forget_dead():
                load = counts.load(table, now)
            if not load.is_next(claim, now):
                return None
        group = counts.own.find(claim)
        if group is not None:
            counts.own.begin(group, now)
        return group

    # --- several slots ----------------------------------------------------------------------------

    def acquire_together_at_once(self, claims: Sequence[Claim]) -> list[Slot] | None:
        """Slots for all of ``claims``, or ``None`` if any of them would have to wait."""
        now = monotonic()
        groups = self._counts.decide(self._try_run_together, claims, now)
        if groups is None:
            return None
        for _ in groups:
            metrics.admission_admitted(self._logger)
        return [Slot(self._queue, group, now, now) for group in groups]

    def acquire_together(
        self, claims: Sequence[Claim], beats: Beats | None
    ) -> Generator[None, None, list[Slot]]:
        """As :meth:`acquire`, for slots that are needed at the same time.

        Holds none while it waits.
        """
        slots = self.acquire_together_at_once(claims)
        if slots is not None:
            return slots
        self._require_possible(claims)
        queue = self._queue
        waiter = yield from queue.wait(claims, beats)
        first = Slot(queue, waiter.group, waiter.since, waiter.began)
        others = [Slot(queue, group, waiter.began, waiter.began) for group in waiter.companions]
        return [first, *others]

    def _require_possible(self, claims: Sequence[Claim]) -> None:
        """Refuse claims that do not fit into an idle node."""
        load = self._counts.idle()
        obstacle = load.obstacle_of_all(claims)
        if obstacle is not None:
            why = f"for {len(claims)} storlets that run at the same time"
            raise refusals.refused(self._logger, load, claims[0], obstacle, why)

    def _try_run_together(
        self, table: Table | None, claims: Sequence[Claim], now: float
    ) -> list[Group] | None:
        """As :meth:`_try_run`, for claims that have to run at the same time."""
        counts = self._counts
        if table is not None:
            table.forget_dead()
        load = counts.load(table, now)
        if load.waiting and not load.is_next(claims[0], now):
            return None
        groups = counts.own.find_all(load, claims)
        for group in groups or ():
            counts.own.begin(group, now)
        return groups


@functools.lru_cache(maxsize=_REMEMBERED)
def tenant_hash(account: str) -> bytes:
    """16 bytes: the key of an account's code directory, as in the table."""
    return bytes.fromhex(tenant_key(account))


@functools.lru_cache(maxsize=_REMEMBERED)
def _group_hash(group: str) -> bytes:
    return hashlib.sha256(group.encode()).digest()[:16]
