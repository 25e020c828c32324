"""The worker groups with invocations in this process, counted and published in the shared table."""

from __future__ import annotations

import heapq
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from storlet_middleware.admission.fairness import Claim, Load, Row
from storlet_middleware.admission.shared_table import ROWS, Table
from storlet_middleware.concurrency import Signal

#: Weight of the last duration in the mean of a tenant's durations.
_RECENT: Final = 0.25
_REMEMBERED: Final = 1024
#: Each value of a limit in a request makes a worker group: one tenant must not take all rows.
_GROUPS_PER_TENANT: Final = ROWS // 4


@dataclass(eq=False)
class Group:
    """The invocations of one worker group in this process; ``index`` is its row in the table."""

    claim: Claim
    index: int
    mean: float
    running: int = 0
    #: Sum of the times at which the running ones began.
    began: float = 0.0
    waiters: deque[Waiter] = field(default_factory=deque)

    @property
    def is_idle(self) -> bool:
        return not self.running and not self.waiters

    def row(self) -> Row:
        """The published form."""
        claim, oldest = self.claim, self.waiters[0].since if self.waiters else 0.0
        began = self.began / self.running if self.running else 0.0
        return Row(
            claim.tenant, claim.group, self.running, len(self.waiters), oldest, claim.memory,
            claim.weight, began, self.mean,
        )  # fmt: skip


@dataclass(eq=False)
class Waiter:
    """A place in the queue.  ``signal`` is set when the slot was acquired, at ``began``.

    ``others`` are claims to acquire at the same moment; ``companions`` are their groups once they
    were.
    """

    group: Group
    since: float
    others: tuple[Claim, ...] = ()
    companions: list[Group] = field(default_factory=list)
    began: float = 0.0
    signal: Signal = field(default_factory=Signal)


class Groups:
    """All groups of this process.

    :param room: the maximum of invocations that run or wait in this process.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self.by_key: dict[tuple[bytes, bytes], Group] = {}
        self._free_indexes = list(range(ROWS))  # a heap, so that the lowest rows are used
        self.table: Table | None = None
        #: Invocations that wait in this process.
        self.waiting = 0
        #: Invocations that run or wait in this process.
        self.held = 0
        #: Mean duration of a tenant's recent invocations, in seconds.
        self._means: OrderedDict[bytes, float] = OrderedDict()

    def publish_in(self, table: Table | None) -> None:
        """Publish in ``table`` from here on."""
        self.table = table
        for group in self.by_key.values():
            self._publish(group)

    def add_to(self, load: Load) -> None:
        """Count all groups in ``load``."""
        load.count([group.row() for group in self.by_key.values()], are_mine=True)

    def is_at_maximum(self, tenant: bytes) -> bool:
        """Whether ``tenant`` has all the groups that one tenant may have."""
        if len(self.by_key) < _GROUPS_PER_TENANT:
            return False
        return sum(owner == tenant for owner, _ in self.by_key) >= _GROUPS_PER_TENANT

    def find(self, claim: Claim) -> Group | None:
        """The group for one more invocation.

        ``None`` if the process or the tenant is at its maximum.
        """
        if self.held >= self._room:
            return None
        key = (claim.tenant, claim.group)
        group = self.by_key.get(key)
        if group is None and self._free_indexes and not self.is_at_maximum(claim.tenant):
            index = heapq.heappop(self._free_indexes)
            group = self.by_key[key] = Group(claim, index, self._means.get(claim.tenant, 0.0))
        return group

    def find_all(self, load: Load, claims: Sequence[Claim]) -> list[Group] | None:
        """Groups for all of ``claims`` or for none; counts in ``load`` each claim that fits."""
        groups: list[Group] = []
        for claim in claims if self.held + len(claims) <= self._room else ():
            group = None if load.obstacle(claim) is not None else self.find(claim)
            if group is None:
                break
            load.run(claim)
            groups.append(group)
        if len(groups) == len(claims):
            return groups
        for group in set(groups):
            if group.is_idle:
                self._publish_less(group)
        return None

    def enqueue(self, claim: Claim, now: float, others: tuple[Claim, ...]) -> Waiter | None:
        """A place at the end of the queue of this process."""
        group = self.find(claim)
        if group is None:
            return None
        waiter = Waiter(group, now, others)
        group.waiters.append(waiter)
        self.held += 1
        self.waiting += 1
        self._publish(group)
        return waiter

    def leave_queue(self, waiter: Waiter) -> None:
        """Give up the place of a waiter without a slot."""
        if waiter in waiter.group.waiters:
            waiter.group.waiters.remove(waiter)
            self.held -= 1
            self.waiting -= 1
            self._publish_less(waiter.group)

    def begin(self, group: Group, now: float) -> None:
        """An invocation runs that did not wait."""
        self.held += 1
        group.running += 1
        group.began += now
        self._publish(group)

    def _begin_first(self, group: Group, now: float) -> Waiter:
        """The first waiter of the group runs."""
        waiter = group.waiters.popleft()
        self.waiting -= 1
        group.running += 1
        group.began += now
        waiter.began = now
        self._publish(group)
        return waiter

    def take_turns(self, load: Load, now: float) -> None:
        """Begin the waiters of this process whose turn it is; counts all admissions in ``load``."""
        while self.waiting and (turn := load.next()) is not None:
            load.take(turn)
            key = (turn.claim.tenant, turn.claim.group)
            group = self.by_key.get(key) if turn.head.is_mine else None
            if group is None or not group.waiters:
                continue
            if group.waiters[0].others and not self._begin_others(load, group.waiters[0], now):
                load.hold_back(turn.claim.tenant)
                continue
            waiter = self._begin_first(group, now)
            turn.head.oldest = group.waiters[0].since if group.waiters else 0.0
            waiter.signal.set()

    def _begin_others(self, load: Load, waiter: Waiter, now: float) -> bool:
        """Begin the companions of ``waiter``.

        False, with their capacity reserved in ``load``, if they do not fit.
        """
        groups = self.find_all(load, waiter.others)
        if groups is None:
            # find_all() has reserved in ``load`` the free capacity for them.
            return False
        for group in groups:
            self.begin(group, now)
        waiter.companions = groups
        return True

    def has(self, group: Group) -> bool:
        """Whether ``group`` is counted here, and not by the parent of a fork."""
        return self.by_key.get((group.claim.tenant, group.claim.group)) is group

    def end(self, group: Group, began: float | None, now: float) -> None:
        """A run is over; ``began`` is ``None`` for a slot that was not used."""
        group.began -= group.began / group.running if began is None else began
        group.running -= 1
        self.held -= 1
        if began is not None:
            self._remember(group, now - began)
        self._publish_less(group)

    def _remember(self, group: Group, seconds: float) -> None:
        tenant = group.claim.tenant
        mean = self._means.pop(tenant, seconds)
        group.mean = self._means[tenant] = mean + (seconds - mean) * _RECENT
        if len(self._means) > _REMEMBERED:
            self._means.popitem(last=False)

    def _publish(self, group: Group) -> None:
        if self.table is not None:
            self.table.write(group.index, group.row())

    def _publish_less(self, group: Group) -> None:
        if self.table is not None:
            self.table.lower(group.index, group.row())
        if group.is_idle:
            del self.by_key[group.claim.tenant, group.claim.group]
            heapq.heappush(self._free_indexes, group.index)
            if self.table is not None and self.table.is_last(group.index):
                last = max(one.index for one in self.by_key.values()) if self.by_key else -1
                self.table.keep(last + 1)
