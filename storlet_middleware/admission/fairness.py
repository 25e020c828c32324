"""Weighted fair queueing of a node: a pure decision over counts, without clocks, files or waiting.

A :class:`Load` holds the running and waiting invocations at one moment, counted from rows that the
processes of a node publish (:mod:`storlet_middleware.admission.shared_table`).  Its rules:

* at most ``invocations`` run at once, and the declared memory of the worker groups that run fits
  the node; a group that is larger than the node runs alone;
* a tenant's fair share is ``weight / (weights of all tenants that run or wait + 1)`` of either.
  The one is reserved for the next tenant that arrives, because invocations are never preempted;
* shares that were granted while fewer tenants competed may add up to the whole node.  So the last
  eighth of the node is reserved for tenants without a running invocation: a tenant's first
  invocation does not queue behind long ones of others;
* of the waiting tenants the one with the fewest running invocations for its weight is next, and of
  its invocations the oldest.  An invocation that does not fit blocks no other tenant.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

#: One part in this number is reserved for tenants without a running invocation.
_RESERVED: Final = 8
_RETRY_SECONDS: Final = (1, 60)
#: Above any weight that the configuration allows.
_ANY_WEIGHT: Final = 10_000


class Obstacle(Enum):
    """Why an invocation has to wait."""

    SHARE = "the account's share"
    NODE = "the node"


class Row(NamedTuple):
    """The invocations of one worker group in one process.

    ``oldest`` is the arrival of the first waiter, ``began`` the mean start of the running
    invocations, and ``mean`` the mean duration of the tenant's recent invocations in that process;
    seconds on one clock.
    """

    tenant: bytes
    group: bytes
    running: int
    waiting: int
    oldest: float
    memory: int
    weight: float
    began: float
    mean: float


class Claim(NamedTuple):
    """The needs of an invocation: a slot, and ``memory`` unless its ``group`` runs already."""

    tenant: bytes
    group: bytes
    memory: int
    weight: float


@dataclass(frozen=True)
class Capacity:
    """The capacity of a node."""

    invocations: int
    memory: int


@dataclass(eq=False)
class Head:
    """The queue of a group in one process: its oldest invocation, and its length."""

    group: bytes
    memory: int
    oldest: float
    waiting: int
    is_mine: bool


class Turn(NamedTuple):
    """A waiting invocation that can run."""

    claim: Claim
    head: Head


@dataclass
class _Tenant:
    weight: float
    running: int = 0
    waiting: int = 0
    memory: int = 0
    #: Sums; ``timed`` is the number of rows that have a mean duration.
    began: float = 0.0
    mean: float = 0.0
    timed: int = 0
    heads: list[Head] = field(default_factory=list)


class Load:
    """The running and waiting invocations of a node."""

    def __init__(self, capacity: Capacity) -> None:
        self._capacity = capacity
        self._tenants: dict[bytes, _Tenant] = {}
        self._running_groups: set[tuple[bytes, bytes]] = set()
        self._weights = 0.0
        self._running = 0
        self._memory = 0
        self.waiting = 0

    def count(
        self, rows: Iterable[Row], *, are_mine: bool = False, take_turns: bool = True
    ) -> None:
        """Add the rows of a process.

        Without ``take_turns`` its waiters count but are never next.
        """
        for tenant, group, running, waiting, oldest, memory, weight, began, mean in rows:
            # A process killed while it wrote leaves an invalid row until its region is emptied.
            if not (running or waiting) or not 0 < weight < _ANY_WEIGHT:
                continue
            entry = self._tenant(tenant, weight)
            if running:
                entry.running += running
                entry.began += began * running
                self._running += running
                self._count_group(entry, tenant, group, memory)
            if mean:
                entry.mean += mean
                entry.timed += 1
            if waiting:
                entry.waiting += waiting
                self.waiting += waiting
                if take_turns:
                    entry.heads.append(Head(group, memory, oldest, waiting, are_mine))

    def _join(self, claim: Claim, now: float) -> Head:
        """Add ``claim`` at the end of its tenant's queue."""
        head = Head(claim.group, claim.memory, now, 1, is_mine=True)
        self._tenant(claim.tenant, claim.weight).heads.append(head)
        return head

    def _count_group(self, entry: _Tenant, tenant: bytes, group: bytes, memory: int) -> None:
        if (tenant, group) not in self._running_groups:
            self._running_groups.add((tenant, group))
            entry.memory += memory
            self._memory += memory

    def _tenant(self, tenant: bytes, weight: float) -> _Tenant:
        entry = self._tenants.get(tenant)
        if entry is None:
            entry = self._tenants[tenant] = _Tenant(weight)
            self._weights += weight
        return entry

    # --- decisions --------------------------------------------------------------------------------

    def obstacle(self, claim: Claim) -> Obstacle | None:
        """Why ``claim`` cannot run now; ``None`` if it can."""
        entry = self._tenant(claim.tenant, claim.weight)
        capacity, has_some = self._capacity, entry.running > 0
        # The share is at least one slot.
        if has_some and entry.running >= self.share(claim.tenant):
            return Obstacle.SHARE
        reserved = capacity.invocations // _RESERVED if has_some else 0
        if self._running >= capacity.invocations - reserved:
            return Obstacle.NODE
        if (claim.tenant, claim.group) in self._running_groups:
            return None
        if has_some and entry.memory + claim.memory > self._fraction(entry) * capacity.memory:
            return Obstacle.SHARE
        reserved = capacity.memory // _RESERVED if has_some else 0
        if self._memory and self._memory + claim.memory > capacity.memory - reserved:
            return Obstacle.NODE
        return None

    def obstacle_of_all(self, claims: Sequence[Claim]) -> Obstacle | None:
        """Why ``claims`` cannot run together; counts each that can as running."""
        for claim in claims:
            obstacle = self.obstacle(claim)
            if obstacle is not None:
                return obstacle
            self.run(claim)
        return None

    def is_next(self, claim: Claim, now: float) -> bool:
        """Whether ``claim`` can run now after all waiters that precede it; counts those."""
        mine = self._join(claim, now)
        while (turn := self.next()) is not None:
            if turn.head is mine:
                return True
            # Another process admits this one, without being notified.
            self.take(turn)
        return False

    def share(self, tenant: bytes) -> int:
        """The number of slots that a tenant may hold among these competitors."""
        return max(1, int(self._fraction(self._tenants[tenant]) * self._capacity.invocations))

    def _fraction(self, entry: _Tenant) -> float:
        return entry.weight / (self._weights + 1)

    def next(self) -> Turn | None:
        """The waiting invocation that is next; ``None`` if none can run."""
        best: Turn | None = None
        best_rank = (math.inf, math.inf)
        for tenant, entry in self._tenants.items():
            if not entry.heads:
                continue
            head = min(entry.heads, key=_age)
            rank = (entry.running / entry.weight, head.oldest)
            if rank < best_rank:
                claim = Claim(tenant, head.group, head.memory, entry.weight)
                if self.obstacle(claim) is None:
                    best, best_rank = Turn(claim, head), rank
        return best

    def take(self, turn: Turn) -> None:
        """Run the invocation of ``turn``.

        The age of the next one of its queue is unknown here; the caller may set ``oldest``.
        """
        claim, head = turn
        self.run(claim)
        head.waiting -= 1
        if not head.waiting:
            self._tenants[claim.tenant].heads.remove(head)

    def run(self, claim: Claim) -> None:
        """Count one more running invocation."""
        entry = self._tenant(claim.tenant, claim.weight)
        entry.running += 1
        self._running += 1
        self._count_group(entry, claim.tenant, claim.group, claim.memory)

    def hold_back(self, tenant: bytes) -> None:
        """The first of the tenant's queue waits for several slots: block the rest of the queue."""
        self._tenants[tenant].heads.clear()

    def waiting_of(self, tenant: bytes) -> int:
        """The number of waiting invocations of a tenant."""
        entry = self._tenants.get(tenant)
        return entry.waiting if entry else 0

    # --- back-off ---------------------------------------------------------------------------------

    def retry_after(self, tenant: bytes, obstacle: Obstacle | None, now: float) -> int:
        """Seconds until the queue is drained, estimated from recent durations; for Retry-After."""
        if obstacle is Obstacle.SHARE:
            entries, waiting, slots = (
                [self._tenants[tenant]],
                self.waiting_of(tenant),
                self.share(tenant),
            )
        else:
            entries, waiting = list(self._tenants.values()), self.waiting
            slots = self._capacity.invocations
        slots = max(1, min(slots, sum(entry.running for entry in entries) or slots))
        seconds = _duration(entries, now) * (waiting + 1) / slots
        least, most = _RETRY_SECONDS
        return math.ceil(min(max(least, seconds), most))


def _duration(entries: list[_Tenant], now: float) -> float:
    """Estimated duration of a run: the recent mean, or the mean age of running ones if longer."""
    timed, running = sum(entry.timed for entry in entries), sum(entry.running for entry in entries)
    mean = sum(entry.mean for entry in entries) / timed if timed else 0.0
    elapsed = now - sum(entry.began for entry in entries) / running if running else 0.0
    return max(mean, elapsed)


def _age(head: Head) -> float:
    return head.oldest
