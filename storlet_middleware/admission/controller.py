"""Lets invocations in on a node: how many run at once, who waits, whose turn it is.

An invocation takes a :class:`Slot` before it is connected to a worker, and gives it back when it is over::

    slot = yield from admission.acquire(claim, beats)      # may wait; raises TenantBusy or NodeBusy
    ...
    slot.release()

The decision is :mod:`storlet_middleware.admission.fairness`, over what the processes of the node publish in the file of
:mod:`storlet_middleware.admission.shared_table`.  There is no daemon to ask: admission costs some ten microseconds, and a node's
servers agree also while sandboxd is restarted.

*Several at a time.*  A pipeline's storlets run at the same time, so it has all of its places or none
(:meth:`Admission.acquire_together`): pipelines that held one each and waited for another would wait for one another.  What
is free is kept for the pipeline whose turn it is, and nobody of the same tenant goes before it, until it fits.

*Waiting.*  Who has to wait is in a queue of the own process and published as a number.  A timer in the hub looks every few
milliseconds whether somebody can go, only while there are waiters in this process; a slot that is given back here is
handed on at once.  Waiting ends with a slot, after ``queue_seconds``, or when the waiting green task is ended from outside:
in every case the place is given up.

*Without the table* (sandboxd has never run, the file is damaged, no region is left) each process counts for itself: what
runs is still bounded, only by more.  To refuse the client would be worse, because nothing else is wrong; and to fail open
without any bound would let a broken file take the node down.  The log says so.
"""

from __future__ import annotations

import functools
import hashlib
import heapq
import os
from collections import OrderedDict, deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from storlet_middleware import metrics
from storlet_middleware.admission import shared_table
from storlet_middleware.admission.fairness import Capacity, Claim, Load, Obstacle, Row
from storlet_middleware.admission.shared_table import ROWS, Table, TableFault
from storlet_middleware.concurrency import Signal, Timer, call_later, monotonic
from storlet_middleware.config import Config
from storlet_middleware.errors import NodeBusy, StorletError, TenantBusy
from storlet_middleware.keys import tenant_key
from storlet_middleware.node_memory import host_memory, memory_total

#: Invocations a CPU, where the operator gives no number: storlets wait for input and output most of their time.
_PER_CPU: Final = 32
_POLL_SECONDS: Final = 0.005
#: A process that died changes nothing by itself: so often its region is looked for.
_FULL_LOOK_SECONDS: Final = 0.1
_REOPEN_SECONDS: Final = 1.0
_COMPLAIN_SECONDS: Final = 60.0
#: The table's lock cannot be had for so long: its holder was stopped.
_LOCKED_OUT_SECONDS: Final = 1.0
#: Weight of the last duration in the average of a tenant's.
_RECENT: Final = 0.25
_REMEMBERED: Final = 1024
#: Each value of a limit in a request makes a worker group of its own: one tenant shall not take the rows of all others.
_GROUPS_PER_TENANT: Final = ROWS // 4
#: Half of the requests that a server process of Swift's serves at a time, where it has Swift's own default.
ROOM: Final = 512

#: Seconds until the first beat and between further ones: how often whoever waits for a slot is heard of.
Beats = tuple[float, float]

#: What runs and waits on a node, by tenant.
snapshot = shared_table.snapshot


@dataclass(eq=False)
class _Group:
    """A worker group's invocations in this process, and where they are published."""

    claim: Claim
    index: int
    mean: float
    running: int = 0
    #: Sum of the times at which those that run began.
    began: float = 0.0
    waiters: deque[_Waiter] = field(default_factory=deque)

    @property
    def is_idle(self) -> bool:
        return not self.running and not self.waiters

    def row(self) -> Row:
        """What is published of it."""
        claim, oldest = self.claim, self.waiters[0].since if self.waiters else 0.0
        began = self.began / self.running if self.running else 0.0
        return Row(
            claim.tenant, claim.group, self.running, len(self.waiters), oldest, claim.memory, claim.weight, began, self.mean
        )  # fmt: skip


@dataclass(eq=False)
class _Waiter:
    """``signal`` is set when the slot is there, at ``began``; whoever waits takes it or gives it back.

    ``others`` are claims that have to be met at the same moment, ``with_it`` their groups once they are.
    """

    group: _Group
    since: float
    others: tuple[Claim, ...] = ()
    with_it: list[_Group] = field(default_factory=list)
    began: float = 0.0
    signal: Signal = field(default_factory=Signal)


class Slot:
    """A place among the invocations that run; released once, however often that is asked for."""

    def __init__(self, admission: Admission, group: _Group, since: float, began: float) -> None:
        self.waited_seconds = began - since
        self._admission: Admission | None = admission
        self._group = group
        self._began = began

    def release(self) -> None:
        """Let the next one in."""
        admission, self._admission = self._admission, None
        if admission is not None:
            admission._give_back(self._group, self._began)  # noqa: SLF001 - the other half of the same thing


class Admission:
    """One per server process, made before the server forks; everything is opened at the first use.

    :param room: invocations that may run or wait in this process: whoever waits holds one of the places that the server has for
        requests of all kinds (``max_clients``).
    """

    def __init__(self, config: Config, logger: Any, room: int = ROOM) -> None:
        section = config.admission
        self._logger = logger
        self._room = room
        self._path = Path(config.sandbox.run_dir) / shared_table.FILE_NAME
        self._queue_seconds = config.invocation.queue_seconds
        self._queue = section.queue
        self._queue_per_tenant = section.queue_per_tenant
        self._weights = section.weights
        self._capacity = Capacity(
            section.invocations or _PER_CPU * (os.cpu_count() or 1),
            memory_total(config.node, host_memory()),
        )
        self._pid = 0
        self._table: Table | None = None
        self._next_look_at_file = 0.0
        self._next_complaint = 0.0
        self._locked_out_since = self._locked_out_at = 0.0
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._groups: dict[tuple[bytes, bytes], _Group] = {}
        self._free_indexes = list(
            range(ROWS)
        )  # a heap: what is published shall be near the beginning
        self._waiting = 0
        #: Those that run or wait here.
        self._held = 0
        #: How long a tenant's invocations took of late, in seconds.
        self._means: OrderedDict[bytes, float] = OrderedDict()
        self._timer: Timer | None = None
        self._seen_changes = -1
        self._next_full_look = 0.0

    def claim(self, account: str, group: str, memory_bytes: int) -> Claim:
        """What an invocation of ``account`` in a worker group asks for."""
        return Claim(
            tenant_hash(account),
            _group_hash(group),
            memory_bytes,
            self._weights.get(account, 1.0),
        )

    # --- in ------------------------------------------------------------------------------------------------------

    def acquire_at_once(self, claim: Claim) -> Slot | None:
        """A slot, or ``None`` where the invocation would have to wait."""
        now = monotonic()
        table = self._current_table(now)
        if table is None:
            group = self._try_run(None, claim, now)
        elif not table.lock():
            group = self._try_run(None, claim, now) if self._is_locked_out(now) else None
        else:
            try:
                group = self._try_run(table, claim, now)
            finally:
                table.unlock()
        if group is None:
            return None
        metrics.admission_admitted(self._logger)
        return Slot(self, group, now, now)

    def acquire(self, claim: Claim, beats: Beats | None) -> Generator[None, None, Slot]:
        """A generator that returns a slot and yields at each beat while it waits.

        Raises :class:`TenantBusy` or :class:`NodeBusy` when too many wait already, and after ``queue_seconds``.
        """
        slot = self.acquire_at_once(claim)
        if slot is not None:
            return slot
        waiter = self._queue_up(claim)
        try:
            yield from self._wait(waiter, beats)
        except BaseException:
            # Refused, the client left, or the server ended the task; a slot may have come at the same moment.
            self._leave(waiter)
            raise
        metrics.admission_admitted(self._logger)
        metrics.admission_waited(self._logger, waiter.began - waiter.since)
        return Slot(self, waiter.group, waiter.since, waiter.began)

    def acquire_together_at_once(self, claims: Sequence[Claim]) -> list[Slot] | None:
        """Slots for all of ``claims``, or ``None`` where any of them would have to wait."""
        now = monotonic()
        table = self._current_table(now)
        if table is None:
            groups = self._try_run_together(None, claims, now)
        elif not table.lock():
            groups = self._try_run_together(None, claims, now) if self._is_locked_out(now) else None
        else:
            try:
                groups = self._try_run_together(table, claims, now)
            finally:
                table.unlock()
        for _ in groups or ():
            metrics.admission_admitted(self._logger)
        return None if groups is None else [Slot(self, group, now, now) for group in groups]

    def acquire_together(
        self, claims: Sequence[Claim], beats: Beats | None
    ) -> Generator[None, None, list[Slot]]:
        """As :meth:`acquire` for slots that are needed at the same time; nothing is held while it waits."""
        slots = self.acquire_together_at_once(claims)
        if slots is not None:
            return slots
        self._require_possible(claims)
        waiter = self._queue_up(claims[0], tuple(claims[1:]))
        try:
            yield from self._wait(waiter, beats)
        except BaseException:
            self._leave(waiter)
            raise
        for _ in claims:
            metrics.admission_admitted(self._logger)
        metrics.admission_waited(self._logger, waiter.began - waiter.since)
        first = Slot(self, waiter.group, waiter.since, waiter.began)
        return [first, *(Slot(self, group, waiter.began, waiter.began) for group in waiter.with_it)]

    def _require_possible(self, claims: Sequence[Claim]) -> None:
        """Refuse what a node with nothing else to do would not let in either."""
        load = Load(self._capacity)
        obstacle = _obstacle(load, claims)
        if obstacle is not None:
            raise self._refusal(
                load, claims[0], obstacle, f"for {len(claims)} storlets that run at the same time"
            )

    def _wait(self, waiter: _Waiter, beats: Beats | None) -> Generator[None, None, None]:
        give_up = waiter.since + self._queue_seconds
        pause, further = beats or (self._queue_seconds, self._queue_seconds)
        while not waiter.signal.wait(max(0.0, min(pause, give_up - monotonic()))):
            pause = further
            if monotonic() >= give_up:
                load = self._load(self._table, monotonic())
                obstacle = _obstacle(load, (waiter.group.claim, *waiter.others))
                raise self._refusal(
                    load, waiter.group.claim, obstacle, f"within {self._queue_seconds:g} s"
                )
            yield

    def _try_run(self, table: Table | None, claim: Claim, now: float) -> _Group | None:
        """Count ``claim`` as running when there is room and nobody has a better claim to it; ``table`` is locked."""
        load = self._load(table, now)
        if load.waiting or load.obstacle(claim) is not None:
            if table is not None and table.forget_dead():
                load = self._load(table, now)
            mine = load.join(claim, now)
            while (turn := load.next()) is not None and turn.head is not mine:
                # Another goes first, in its own process, which notices by itself.
                load.take(turn)
            if turn is None:
                return None
        group = self._group(claim)
        if group is not None:
            self._held += 1
            self._begin_run(group, now)
        return group

    def _try_run_together(
        self, table: Table | None, claims: Sequence[Claim], now: float
    ) -> list[_Group] | None:
        """The same for several that have to run at the same time."""
        if table is not None:
            table.forget_dead()
        load = self._load(table, now)
        if load.waiting:
            mine = load.join(claims[0], now)
            while (turn := load.next()) is not None and turn.head is not mine:
                load.take(turn)
            if turn is None:
                return None
        groups = self._groups_that_fit(load, claims)
        for group in groups or ():
            self._held += 1
            self._begin_run(group, now)
        return groups

    def _groups_that_fit(self, load: Load, claims: Sequence[Claim]) -> list[_Group] | None:
        """Entries for all of ``claims``, or for none; what fits is counted in ``load`` in any case."""
        groups: list[_Group] = []
        for claim in claims if self._held + len(claims) <= self._room else ():
            group = None if load.obstacle(claim) is not None else self._group(claim)
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

    def _begin_run(self, group: _Group, now: float) -> None:
        group.running += 1
        group.began += now
        self._publish(group)

    def _group(self, claim: Claim) -> _Group | None:
        """This process's entry for one more invocation of a worker group; ``None`` when it has all that it can hold or publish,
        or the tenant has."""
        if self._held >= self._room:
            return None
        key = (claim.tenant, claim.group)
        group = self._groups.get(key)
        if group is None and self._free_indexes and not self._has_all_groups(claim.tenant):
            index = heapq.heappop(self._free_indexes)
            group = self._groups[key] = _Group(claim, index, self._means.get(claim.tenant, 0.0))
        return group

    def _has_all_groups(self, tenant: bytes) -> bool:
        if len(self._groups) < _GROUPS_PER_TENANT:
            return False
        return sum(owner == tenant for owner, _ in self._groups) >= _GROUPS_PER_TENANT

    # --- waiting -------------------------------------------------------------------------------------------------

    def _queue_up(self, claim: Claim, others: tuple[Claim, ...] = ()) -> _Waiter:
        now = monotonic()
        table = self._table
        # The bounds of the queues are no promise to the last one, so whether the lock was to be had does not matter.
        is_locked = table is not None and table.lock()
        try:
            load = self._load(table, now)
            has_too_many = load.waiting_of(claim.tenant) >= self._queue_per_tenant
            waiter = (
                None
                if has_too_many or load.waiting >= self._queue
                else self._join(claim, now, others)
            )
            has_too_many = has_too_many or (waiter is None and self._has_all_groups(claim.tenant))
        finally:
            if table is not None and is_locked:
                table.unlock()
        if waiter is None:
            obstacle = Obstacle.SHARE if has_too_many else Obstacle.NODE
            whose = "of its " if has_too_many else ""
            raise self._refusal(
                load, claim, obstacle, f"because too many {whose}invocations wait already"
            )
        metrics.admission_queued(self._logger)
        if table is not None:
            table.take_part(now)
        if self._timer is None:
            self._timer = call_later(_POLL_SECONDS, self._look)
        return waiter

    def _join(self, claim: Claim, now: float, others: tuple[Claim, ...]) -> _Waiter | None:
        """The last of the queue of this process."""
        group = self._group(claim)
        if group is None:
            return None
        waiter = _Waiter(group, now, others)
        group.waiters.append(waiter)
        self._held += 1
        self._waiting += 1
        self._publish(group)
        return waiter

    def _refusal(
        self, load: Load, claim: Claim, obstacle: Obstacle | None, why: str
    ) -> StorletError:
        seconds = load.retry_after(claim.tenant, obstacle, monotonic())
        if obstacle is Obstacle.SHARE:
            share = load.share(claim.tenant)
            text = f"the account has its share of this node's invocations, {share}, and got no other {why}"
            error: StorletError = TenantBusy(text, retry_after=seconds)
        else:
            text = f"the node had no room for the invocation {why}"
            error = NodeBusy(text, retry_after=seconds)
        metrics.admission_refused(self._logger, error.code)
        return error

    def _leave(self, waiter: _Waiter) -> None:
        """Give up a place in the queue, or the slot that has come."""
        group = waiter.group
        if waiter.signal.is_set:
            for each in (group, *waiter.with_it):
                self._give_back(each, None)
        elif waiter in group.waiters:
            group.waiters.remove(waiter)
            self._held -= 1
            self._waiting -= 1
            self._publish_less(group)

    def _look(self) -> None:
        """Called by the hub as long as somebody waits; must not wait itself."""
        self._timer = None
        if self._pid != os.getpid():
            return
        try:
            self._poll(monotonic())
        finally:
            if self._waiting:
                self._timer = call_later(_POLL_SECONDS, self._look)

    def _poll(self, now: float) -> None:
        table = self._table
        if table is None:
            self._hand_on(now)
            return
        table.take_part(now)
        changes = table.changes()
        if changes != self._seen_changes or now >= self._next_full_look:
            self._seen_changes = changes
            self._hand_on(now)

    def _hand_on(self, now: float) -> None:
        """Let in those waiters of this process whose turn it is."""
        table = self._current_table(now)
        if table is None:
            self._take_turns(None, now)
        elif table.lock():
            try:
                if now >= self._next_full_look:
                    self._next_full_look = now + _FULL_LOOK_SECONDS
                    table.forget_dead()
                self._take_turns(table, now)
            finally:
                table.unlock()
        elif self._is_locked_out(now):
            self._take_turns(None, now)

    def _take_turns(self, table: Table | None, now: float) -> None:
        load = self._load(table, now)
        while self._waiting and (turn := load.next()) is not None:
            load.take(turn)
            group = (
                self._groups.get((turn.claim.tenant, turn.claim.group))
                if turn.head.is_mine
                else None
            )
            if group is not None and group.waiters:
                if group.waiters[0].others and not self._let_others_in(load, group.waiters[0], now):
                    load.hold_back(turn.claim.tenant)
                    continue
                waiter = group.waiters.popleft()
                self._waiting -= 1
                turn.head.oldest = group.waiters[0].since if group.waiters else 0.0
                self._begin_run(group, now)
                waiter.began = now
                waiter.signal.set()

    def _let_others_in(self, load: Load, waiter: _Waiter, now: float) -> bool:
        """Begin what has to run together with ``waiter``; ``load`` keeps what is free for it where that is too little."""
        groups = self._groups_that_fit(load, waiter.others)
        if groups is None:
            return False
        for group in groups:
            self._held += 1
            self._begin_run(group, now)
        waiter.with_it = groups
        return True

    # --- out -----------------------------------------------------------------------------------------------------

    def _give_back(self, group: _Group, began: float | None) -> None:
        """A run is over; ``began`` is ``None`` for one that never began."""
        if (
            self._pid != os.getpid()
            or self._groups.get((group.claim.tenant, group.claim.group)) is not group
        ):
            return  # a fork's, whose parent counts it
        now = monotonic()
        group.began -= group.began / group.running if began is None else began
        group.running -= 1
        self._held -= 1
        if began is not None:
            self._remember(group, now - began)
        self._publish_less(group)
        if self._waiting:
            self._hand_on(now)

    def _remember(self, group: _Group, seconds: float) -> None:
        tenant = group.claim.tenant
        mean = self._means.pop(tenant, seconds)
        group.mean = self._means[tenant] = mean + (seconds - mean) * _RECENT
        if len(self._means) > _REMEMBERED:
            self._means.popitem(last=False)

    # --- the table -----------------------------------------------------------------------------------------------

    def _load(self, table: Table | None, now: float) -> Load:
        load = Load(self._capacity)
        if self._groups:
            load.count([group.row() for group in self._groups.values()], are_mine=True)
        if table is not None:
            for is_here, rows in table.others(now):
                load.count(rows, take_turns=is_here)
        return load

    def _publish(self, group: _Group) -> None:
        if self._table is not None:
            self._table.write(group.index, group.row())

    def _publish_less(self, group: _Group) -> None:
        if self._table is not None:
            self._table.lower(group.index, group.row())
        if group.is_idle:
            del self._groups[group.claim.tenant, group.claim.group]
            heapq.heappush(self._free_indexes, group.index)
            if self._table is not None and self._table.is_last(group.index):
                self._table.keep(max((one.index for one in self._groups.values()), default=-1) + 1)

    def _current_table(self, now: float) -> Table | None:
        """The table, opened anew after a fork and when sandboxd has made another."""
        pid = os.getpid()
        if pid != self._pid:
            if self._table is not None:
                self._table.abandon()
            self._table, self._pid, self._next_look_at_file = None, pid, 0.0
            self._begin_anew()
        if now >= self._next_look_at_file:
            self._next_look_at_file = now + _REOPEN_SECONDS
            if self._table is None or not self._table.is_current():
                self._open_table(now)
        return self._table

    def _open_table(self, now: float) -> None:
        try:
            table = Table.claim(self._path)
        except (OSError, TableFault) as error:
            if self._table is None:
                self._complain(now, str(error))
            return
        if self._table is not None:
            self._table.close()
        self._table = table
        for group in self._groups.values():
            self._publish(group)

    def _is_locked_out(self, now: float) -> bool:
        """Whether the table's lock could not be had for so long that this process had better count for itself."""
        if now - self._locked_out_at > _LOCKED_OUT_SECONDS:
            self._locked_out_since = now
        self._locked_out_at = now
        if now - self._locked_out_since < _LOCKED_OUT_SECONDS:
            return False
        self._complain(now, f"{self._path} is locked by a process that does not go on")
        return True

    def _complain(self, now: float, why: str) -> None:
        if now >= self._next_complaint:
            self._next_complaint = now + _COMPLAIN_SECONDS
            self._logger.warning("admission: this process counts for itself, because %s", why)


def _obstacle(load: Load, claims: Sequence[Claim]) -> Obstacle | None:
    """Why ``claims`` cannot run together; counts those that could in ``load``."""
    for claim in claims:
        obstacle = load.obstacle(claim)
        if obstacle is not None:
            return obstacle
        load.run(claim)
    return None


@functools.lru_cache(maxsize=_REMEMBERED)
def tenant_hash(account: str) -> bytes:
    """16 bytes: the key of an account's code directory, as the table has it."""
    return bytes.fromhex(tenant_key(account))


@functools.lru_cache(maxsize=_REMEMBERED)
def _group_hash(group: str) -> bytes:
    return hashlib.sha256(group.encode()).digest()[:16]
