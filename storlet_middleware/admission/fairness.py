"""Whose turn it is on a node: a pure decision over counts, without clocks, files or waiting.

A :class:`Load` is what runs and waits at one moment, counted from rows that the processes of a node publish
(:mod:`storlet_middleware.admission.shared_table`).  Its rules:

* at most ``invocations`` run at once, and the declared memory of the worker groups that run fits the node; a group that
  is larger than the node runs alone;
* a tenant holds at most its share: ``weight / (weights of all tenants that run or wait + 1)`` of either.  The one is
  kept free for whoever comes next, because what runs is never taken away;
* shares that were given out while fewer competed may add up to the whole node.  So the last eighth of it is for tenants
  that have nothing running: somebody's first invocation is not stuck behind another's long ones;
* of those that wait the tenant goes first that has least running for its weight, and of its invocations the oldest.
  Who cannot go holds up nobody else.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

#: Part of a node that only tenants without a running invocation may use.
_RESERVED: Final = 8
_RETRY_SECONDS: Final = (1, 60)
#: More than any weight that the configuration allows.
_ANY_WEIGHT: Final = 10_000


class Obstacle(Enum):
    """Why an invocation has to wait."""

    SHARE = "the account's share"
    NODE = "the node"


class Row(NamedTuple):
    """The invocations of one worker group in one process.

    ``oldest`` is when the first of those that wait came, ``began`` when those that run began, on average, and ``mean`` how
    long the tenant's invocations took in that process of late; seconds on one clock.
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
    """What an invocation wants: a place for ``tenant``, and ``memory`` unless its ``group`` runs already."""

    tenant: bytes
    group: bytes
    memory: int
    weight: float


@dataclass(frozen=True)
class Capacity:
    """What a node has."""

    invocations: int
    memory: int


@dataclass(eq=False)
class Head:
    """The oldest invocation of a group that waits in one process, and how many there are."""

    group: bytes
    memory: int
    oldest: float
    waiting: int
    is_mine: bool


class Turn(NamedTuple):
    """Somebody who waits and could go."""

    claim: Claim
    head: Head


@dataclass
class _Tenant:
    weight: float
    running: int = 0
    waiting: int = 0
    memory: int = 0
    #: Sums over invocations, of which ``timed`` have a duration to tell.
    began: float = 0.0
    mean: float = 0.0
    timed: int = 0
    heads: list[Head] = field(default_factory=list)


class Load:
    """What runs and waits on a node."""

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
        """Add what a process published; its waiters take their turns unless that process does not look after them."""
        for tenant, group, running, waiting, oldest, memory, weight, began, mean in rows:
            # A row of a process that was killed while it wrote is forgotten soon, and has to be no error until then.
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

    def join(self, claim: Claim, now: float) -> Head:
        """Let ``claim`` take its turn as the last of its tenant's."""
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

    # --- decisions -----------------------------------------------------------------------------------------------

    def obstacle(self, claim: Claim) -> Obstacle | None:
        """Why ``claim`` cannot run now; ``None`` when it can."""
        entry = self._tenant(claim.tenant, claim.weight)
        capacity, has_some = self._capacity, entry.running > 0
        if entry.running >= self.share(claim.tenant):
            return Obstacle.SHARE
        kept = capacity.invocations // _RESERVED if has_some else 0
        if self._running >= capacity.invocations - kept:
            return Obstacle.NODE
        if (claim.tenant, claim.group) in self._running_groups:
            return None
        if has_some and entry.memory + claim.memory > self._part(entry) * capacity.memory:
            return Obstacle.SHARE
        kept = capacity.memory // _RESERVED if has_some else 0
        if self._memory and self._memory + claim.memory > capacity.memory - kept:
            return Obstacle.NODE
        return None

    def share(self, tenant: bytes) -> int:
        """How many invocations a tenant may have running while these compete."""
        return max(1, int(self._part(self._tenants[tenant]) * self._capacity.invocations))

    def _part(self, entry: _Tenant) -> float:
        return entry.weight / (self._weights + 1)

    def next(self) -> Turn | None:
        """Who goes next of all that wait; ``None`` when nobody can."""
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
        """Who was next runs.  The others of its queue are counted as just as old; whoever knows better says so."""
        claim, head = turn
        self.run(claim)
        head.waiting -= 1
        if not head.waiting:
            self._tenants[claim.tenant].heads.remove(head)

    def run(self, claim: Claim) -> None:
        """Count one more that runs."""
        entry = self._tenant(claim.tenant, claim.weight)
        entry.running += 1
        self._running += 1
        self._count_group(entry, claim.tenant, claim.group, claim.memory)

    def hold_back(self, tenant: bytes) -> None:
        """Nobody of a tenant's queue goes while its first one cannot, which wants several places at a time."""
        self._tenants[tenant].heads.clear()

    def waiting_of(self, tenant: bytes) -> int:
        """How many invocations of a tenant wait."""
        entry = self._tenants.get(tenant)
        return entry.waiting if entry else 0

    # --- when to come back ---------------------------------------------------------------------------------------

    def retry_after(self, tenant: bytes, obstacle: Obstacle | None, now: float) -> int:
        """Whole seconds until those that wait have had their turn, as far as recent runs tell."""
        if obstacle is Obstacle.SHARE:
            entries, waiting, places = (
                [self._tenants[tenant]],
                self.waiting_of(tenant),
                self.share(tenant),
            )
        else:
            entries, waiting, places = (
                list(self._tenants.values()),
                self.waiting,
                self._capacity.invocations,
            )
        places = max(1, min(places, sum(entry.running for entry in entries) or places))
        seconds = _duration(entries, now) * (waiting + 1) / places
        least, most = _RETRY_SECONDS
        return math.ceil(min(max(least, seconds), most))


def _duration(entries: list[_Tenant], now: float) -> float:
    """How long a run takes: what ended of late says, or what still runs shows already."""
    timed, running = sum(entry.timed for entry in entries), sum(entry.running for entry in entries)
    mean = sum(entry.mean for entry in entries) / timed if timed else 0.0
    elapsed = now - sum(entry.began for entry in entries) / running if running else 0.0
    return max(mean, elapsed)


def _age(head: Head) -> float:
    return head.oldest
