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

*Waiting.*  Waiting invocations are in a queue of their own process, whose length is published.
While there are any, a timer in the hub checks every few milliseconds whether one can be admitted; a
slot that is released in this process is passed on at once.  Waiting ends with a slot, after
``queue_seconds``, or when the green task is killed: in every case the place in the queue is given
up.

*Without the table* (sandboxd has never run, the file is damaged, no region is free) each process
counts for itself: the load stays bounded, only higher.  Refusing clients would be worse, because
nothing else is wrong; and without any bound a broken file could take the node down.  The log has a
warning.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from storlet_middleware import metrics
from storlet_middleware.admission import shared_table
from storlet_middleware.admission.fairness import Capacity, Claim, Load, Obstacle
from storlet_middleware.admission.groups import Group, Groups, Waiter
from storlet_middleware.admission.shared_table import Table
from storlet_middleware.admission.table_access import TableAccess
from storlet_middleware.concurrency import Timer, call_later, monotonic
from storlet_middleware.config import Config
from storlet_middleware.errors import NodeBusy, StorletError, TenantBusy
from storlet_middleware.keys import tenant_key
from storlet_middleware.node_memory import host_memory, memory_total

#: Default of invocations for each CPU: storlets wait for input and output most of their time.
_PER_CPU: Final = 32
_POLL_SECONDS: Final = 0.005
#: Interval of the search for regions of dead processes: a death changes no counter.
_DEAD_CHECK_SECONDS: Final = 0.1
_REMEMBERED: Final = 1024
#: Half of the requests that a server process of Swift serves at a time by default.
ROOM: Final = 512

#: Seconds until the first heartbeat and between further ones while an invocation waits.
Beats = tuple[float, float]

#: Running and waiting invocations of a node, by tenant.
snapshot = shared_table.snapshot

_T = TypeVar("_T")


class Slot:
    """Permission to run one invocation; releasing it twice has no effect."""

    def __init__(self, admission: Admission, group: Group, since: float, began: float) -> None:
        self.waited_seconds = began - since
        self._admission: Admission | None = admission
        self._group = group
        self._began = began

    def release(self) -> None:
        """Let the next invocation run."""
        admission, self._admission = self._admission, None
        if admission is not None:
            admission._release(self._group, self._began)  # noqa: SLF001 - Slot is its other half


class Admission:
    """One per server process, made before the server forks; everything is opened at the first use.

    :param room: maximum of invocations that run or wait in this process.  Each holds one of the
        requests that the server serves at a time (``max_clients``).
    """

    def __init__(self, config: Config, logger: Any, room: int = ROOM) -> None:
        section = config.admission
        self._logger = logger
        self._room = room
        self._access = TableAccess(Path(config.sandbox.run_dir) / shared_table.FILE_NAME, logger)
        self._queue_seconds = config.invocation.queue_seconds
        self._queue = section.queue
        self._queue_per_tenant = section.queue_per_tenant
        self._weights = section.weights
        self._capacity = Capacity(
            section.invocations or _PER_CPU * (os.cpu_count() or 1),
            memory_total(config.node, host_memory()),
        )
        self._reset()

    def _reset(self) -> None:
        """A process begins without invocations."""
        self._local = Groups(self._room)
        self._timer: Timer | None = None
        self._seen_changes = -1
        self._next_dead_check = 0.0

    def claim(self, account: str, group: str, memory_bytes: int) -> Claim:
        """The needs of an invocation of ``account`` in a worker group."""
        weight = self._weights.get(account, 1.0)
        return Claim(tenant_hash(account), _group_hash(group), memory_bytes, weight)

    # --- acquire ----------------------------------------------------------------------------------

    def acquire_at_once(self, claim: Claim) -> Slot | None:
        """A slot, or ``None`` if the invocation would have to wait."""
        now = monotonic()
        group = self._decide(self._try_run, claim, now)
        if group is None:
            return None
        metrics.admission_admitted(self._logger)
        return Slot(self, group, now, now)

    def acquire(self, claim: Claim, beats: Beats | None) -> Generator[None, None, Slot]:
        """A generator that returns a slot and yields at each heartbeat while it waits.

        Raises :class:`TenantBusy` or :class:`NodeBusy` if a queue is full, and after
        ``queue_seconds``.
        """
        slot = self.acquire_at_once(claim)
        if slot is not None:
            return slot
        waiter = yield from self._queue_up((claim,), beats)
        return Slot(self, waiter.group, waiter.since, waiter.began)

    def acquire_together_at_once(self, claims: Sequence[Claim]) -> list[Slot] | None:
        """Slots for all of ``claims``, or ``None`` if any of them would have to wait."""
        now = monotonic()
        groups = self._decide(self._try_run_together, claims, now)
        if groups is None:
            return None
        for _ in groups:
            metrics.admission_admitted(self._logger)
        return [Slot(self, group, now, now) for group in groups]

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
        waiter = yield from self._queue_up(claims, beats)
        first = Slot(self, waiter.group, waiter.since, waiter.began)
        others = [Slot(self, group, waiter.began, waiter.began) for group in waiter.companions]
        return [first, *others]

    def _require_possible(self, claims: Sequence[Claim]) -> None:
        """Refuse claims that do not fit into an idle node."""
        load = Load(self._capacity)
        obstacle = _obstacle(load, claims)
        if obstacle is not None:
            why = f"for {len(claims)} storlets that run at the same time"
            raise self._refusal(load, claims[0], obstacle, why)

    def _decide(
        self, attempt: Callable[[Table | None, Any, float], _T | None], claims: Any, now: float
    ) -> _T | None:
        """The result of ``attempt`` under the table's lock.

        ``None`` while the lock is not available.
        """
        table = self._current_table(now)
        if table is None:
            return attempt(None, claims, now)
        if not table.lock():
            return attempt(None, claims, now) if self._access.is_locked_out(now) else None
        try:
            return attempt(table, claims, now)
        finally:
            table.unlock()

    def _try_run(self, table: Table | None, claim: Claim, now: float) -> Group | None:
        """Count ``claim`` as running if it fits and no waiter precedes it; ``table`` is locked."""
        load = self._load(table, now)
        if load.waiting or load.obstacle(claim) is not None:
            if table is not None and table.forget_dead():
                load = self._load(table, now)
            if not _is_next(load, claim, now):
                return None
        group = self._local.find(claim)
        if group is not None:
            self._local.begin(group, now)
        return group

    def _try_run_together(
        self, table: Table | None, claims: Sequence[Claim], now: float
    ) -> list[Group] | None:
        """The same for claims that have to run at the same time."""
        if table is not None:
            table.forget_dead()
        load = self._load(table, now)
        if load.waiting and not _is_next(load, claims[0], now):
            return None
        groups = self._local.find_all(load, claims)
        for group in groups or ():
            self._local.begin(group, now)
        return groups

    # --- wait -------------------------------------------------------------------------------------

    def _queue_up(
        self, claims: Sequence[Claim], beats: Beats | None
    ) -> Generator[None, None, Waiter]:
        """Wait in the queue until all of ``claims`` were acquired."""
        waiter = self._enqueue(claims)
        try:
            yield from self._wait(waiter, beats)
        except BaseException:
            # Refused, the client left, or the server killed the task; a slot may have come
            # meanwhile.
            self._leave(waiter)
            raise
        for _ in claims:
            metrics.admission_admitted(self._logger)
        metrics.admission_waited(self._logger, waiter.began - waiter.since)
        return waiter

    def _enqueue(self, claims: Sequence[Claim]) -> Waiter:
        claim, now, table = claims[0], monotonic(), self._access.table
        # The bounds of the queues need not be exact, so a lock that is not free is not waited for.
        is_locked = table is not None and table.lock()
        try:
            load = self._load(table, now)
            is_tenant_full = load.waiting_of(claim.tenant) >= self._queue_per_tenant
            waiter = None
            if not is_tenant_full and load.waiting < self._queue:
                waiter = self._local.enqueue(claim, now, tuple(claims[1:]))
        finally:
            if table is not None and is_locked:
                table.unlock()
        if waiter is None:
            is_tenant_full = is_tenant_full or self._local.is_at_maximum(claim.tenant)
            obstacle = Obstacle.SHARE if is_tenant_full else Obstacle.NODE
            whose = "of its " if is_tenant_full else ""
            why = f"because too many {whose}invocations wait already"
            raise self._refusal(load, claim, obstacle, why)
        metrics.admission_queued(self._logger)
        if table is not None:
            table.take_part(now)
        if self._timer is None:
            self._timer = call_later(_POLL_SECONDS, self._poll)
        return waiter

    def _wait(self, waiter: Waiter, beats: Beats | None) -> Generator[None, None, None]:
        give_up = waiter.since + self._queue_seconds
        pause, further = beats or (self._queue_seconds, self._queue_seconds)
        while not waiter.signal.wait(max(0.0, min(pause, give_up - monotonic()))):
            pause = further
            if monotonic() >= give_up:
                load = self._load(self._access.table, monotonic())
                claim = waiter.group.claim
                obstacle = _obstacle(load, (claim, *waiter.others))
                why = f"within {self._queue_seconds:g} s"
                raise self._refusal(load, claim, obstacle, why)
            yield

    def _refusal(
        self, load: Load, claim: Claim, obstacle: Obstacle | None, why: str
    ) -> StorletError:
        error = _error(load, claim, obstacle, why)
        metrics.admission_refused(self._logger, error.code)
        return error

    def _leave(self, waiter: Waiter) -> None:
        """Give up the place in the queue, or the slots that were acquired."""
        if waiter.signal.is_set:
            for group in (waiter.group, *waiter.companions):
                self._release(group, None)
        else:
            self._local.leave_queue(waiter)

    def _poll(self) -> None:
        """Called by the hub while this process has waiters; must not wait itself."""
        self._timer = None
        if self._access.pid != os.getpid():
            return
        try:
            self._poll_table(monotonic())
        finally:
            if self._local.waiting:
                self._timer = call_later(_POLL_SECONDS, self._poll)

    def _poll_table(self, now: float) -> None:
        table = self._access.table
        if table is None:
            self._admit_waiters(now)
            return
        table.take_part(now)
        changes = table.changes()
        if changes != self._seen_changes or now >= self._next_dead_check:
            self._seen_changes = changes
            self._admit_waiters(now)

    def _admit_waiters(self, now: float) -> None:
        """Admit the waiters of this process whose turn it is."""
        self._decide(self._take_turns, None, now)

    def _take_turns(self, table: Table | None, _: None, now: float) -> None:
        if table is not None and now >= self._next_dead_check:
            self._next_dead_check = now + _DEAD_CHECK_SECONDS
            table.forget_dead()
        self._local.take_turns(self._load(table, now), now)

    # --- release ----------------------------------------------------------------------------------

    def _release(self, group: Group, began: float | None) -> None:
        """A run is over; ``began`` is ``None`` for a slot that was not used."""
        if self._access.pid != os.getpid() or not self._local.has(group):
            return  # of a fork, whose parent counts it
        now = monotonic()
        self._local.end(group, began, now)
        if self._local.waiting:
            self._admit_waiters(now)

    # --- the table --------------------------------------------------------------------------------

    def _load(self, table: Table | None, now: float) -> Load:
        load = Load(self._capacity)
        self._local.add_to(load)
        if table is not None:
            for is_alive, rows in table.others(now):
                load.count(rows, take_turns=is_alive)
        return load

    def _current_table(self, now: float) -> Table | None:
        """The table; after a fork this process begins without invocations."""
        access = self._access
        if access.pid != os.getpid():
            access.begin_process()
            self._reset()
        if now >= access.next_check and access.refresh(now):
            self._local.publish_in(access.table)
        return access.table


def _is_next(load: Load, claim: Claim, now: float) -> bool:
    """Whether ``claim`` can run now after all waiters that precede it; counts those in ``load``."""
    mine = load.join(claim, now)
    while (turn := load.next()) is not None:
        if turn.head is mine:
            return True
        # Another process admits this one, without being notified.
        load.take(turn)
    return False


def _obstacle(load: Load, claims: Sequence[Claim]) -> Obstacle | None:
    """Why ``claims`` cannot run together; counts in ``load`` each that can."""
    for claim in claims:
        obstacle = load.obstacle(claim)
        if obstacle is not None:
            return obstacle
        load.run(claim)
    return None


def _error(load: Load, claim: Claim, obstacle: Obstacle | None, why: str) -> StorletError:
    """The error of an invocation that got no slot ``why``."""
    seconds = load.retry_after(claim.tenant, obstacle, monotonic())
    if obstacle is not Obstacle.SHARE:
        text = f"the node had no room for the invocation {why}"
        return NodeBusy(text, retry_after=seconds)
    share = load.share(claim.tenant)
    text = f"the account uses its share of this node's invocations, {share}"
    return TenantBusy(f"{text}, and got no other {why}", retry_after=seconds)


@functools.lru_cache(maxsize=_REMEMBERED)
def tenant_hash(account: str) -> bytes:
    """16 bytes: the key of an account's code directory, as in the table."""
    return bytes.fromhex(tenant_key(account))


@functools.lru_cache(maxsize=_REMEMBERED)
def _group_hash(group: str) -> bytes:
    return hashlib.sha256(group.encode()).digest()[:16]
