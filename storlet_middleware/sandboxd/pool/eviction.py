"""Idle sandboxes: evicted when others need their slots, stopped after ``idle_stop_seconds``.

The node has at most ``max_per_node`` sandboxes: of tenants, draining, and spares.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from typing import Final

from storlet_daemon.protocol import messages
from storlet_middleware import metrics
from storlet_middleware.errors import NodeBusy
from storlet_middleware.sandboxd.errors import SandboxdFault
from storlet_middleware.sandboxd.node import Node
from storlet_middleware.sandboxd.pool.endings import Endings
from storlet_middleware.sandboxd.pool.spares import Spares
from storlet_middleware.sandboxd.pool.table import Entry, SandboxTable
from storlet_middleware.sandboxd.sandbox.sandbox import RECENT_SECONDS, Sandbox, State
from storlet_middleware.sandboxd.wording import shown

log = logging.getLogger("storlet.sandboxd")

#: When looking for idle sandboxes, wait this long for the status of each; a slower one is busy.
STATUS_SECONDS: Final = 1.0
#: Delay from the start of a sandbox to the eviction of one ahead of the next start, so that its
#: first invocation runs first.
AHEAD_SECONDS: Final = 0.03
#: Limit of removals under way, beyond which no new slot is handed out: back-pressure of Docker.
REMOVALS_MAX: Final = 8


class Eviction:
    """Keeps the node within ``max_per_node``."""

    def __init__(self, node: Node, table: SandboxTable, endings: Endings) -> None:
        self._node = node
        self._table = table
        self._endings = endings
        self._lock = asyncio.Lock()
        #: Set by the pool: pre-warmed sandboxes need this object to know whether there is room.
        self.spares: Spares

    def has_room(self) -> bool:
        """Whether one more sandbox fits."""
        return self._count() < self._limit

    async def make_room(self) -> None:
        """Evict idle sandboxes until the node is within its limit; raises :class:`NodeBusy`.

        A sandbox that is not busy, but was used too recently to be evicted (as all are that were
        just adopted), counts as idle after a short wait.
        """
        if await self._has_made_room():
            return
        entries = list(self._table.entries.values())
        if any(await asyncio.gather(*(self._is_idle_soon(entry) for entry in entries))):
            await asyncio.sleep(RECENT_SECONDS)
            if await self._has_made_room():
                return
        raise NodeBusy(f"all {self._limit} sandboxes of this node are busy, which is its maximum")

    async def make_room_ahead(self, key: str) -> None:
        """After the start of the sandbox ``key``, evict an idle one ahead of the next start.

        Not for a tenant whose sandbox ended recently: where all tenants fit, evicting would only
        take away another's sandbox.  Not while Docker is behind with removals either, because
        those are waited for under the lock.
        """
        if key not in self._table.recently_ended and not len(self.spares):
            await asyncio.sleep(AHEAD_SECONDS)
            async with self._lock:
                if not self.has_room() and len(self._endings) < REMOVALS_MAX:
                    await self._evict(1)

    async def tend(self, entry: Entry) -> None:
        """Stop the sandbox of an entry when it is idle, else unload its idle groups."""
        limit = self._node.config.sandbox.idle_stop_seconds
        sandbox, groups = entry.sandbox, await self.groups(entry)
        if sandbox is None or groups is None:
            return
        if sandbox.groups.idle_seconds(groups) >= limit:
            if await self._retire(entry, limit, "idle"):
                metrics.sandbox_idle_stopped(self._node.stats)
            return
        try:
            await sandbox.groups.unload_idle(groups)
        except SandboxdFault as fault:
            log.warning("storlet not unloaded key=%s reason=%s", entry.key, shown(fault))

    async def groups(self, entry: Entry) -> Sequence[messages.Group] | None:
        """The groups of a running sandbox; ``None`` when it does not run or does not answer."""
        if entry.sandbox is None or entry.sandbox.state is not State.RUNNING:
            return None
        try:
            return await entry.sandbox.groups.status()
        except SandboxdFault as fault:
            log.warning("sandbox does not answer key=%s reason=%s", entry.key, shown(fault))
            return None

    # --- making room ------------------------------------------------------------------------------

    @property
    def _limit(self) -> int:
        return self._node.config.sandbox.max_per_node

    def _count(self) -> int:
        return len(self._table) + len(self.spares)

    async def _has_made_room(self) -> bool:
        async with self._lock:
            # The whole surplus at once: callers that wait for the lock then find their slots free.
            while (surplus := self._count() - self._limit) > 0:
                if not await self._evict(surplus):
                    return False
        return True

    async def _evict(self, count: int) -> bool:
        """Evict up to ``count`` pre-warmed and idle sandboxes; return True if any was evicted.

        Returns when their processes have ended and Docker is not too far behind.
        """
        spares = [spare for _ in range(count) if (spare := self.spares.evict_one())]
        ending = spares + await self._evict_idle(count - len(spares))
        for sandbox in ending:
            await sandbox.gone()
        await self._endings.wait_until_at_most(REMOVALS_MAX)
        return bool(ending)

    async def _evict_idle(self, count: int) -> list[Sandbox]:
        """Begin to end up to ``count`` idle sandboxes, the least recently used first."""
        running = self._table.running() if count else []
        idle = await asyncio.gather(*(self._idle_seconds(entry) for entry in running))
        in_order = sorted(zip(idle, running, strict=True), key=lambda pair: -pair[0])
        candidates = [entry for seconds, entry in in_order if seconds >= RECENT_SECONDS]
        ending: list[Sandbox] = []
        while candidates and len(ending) < count:
            wanted = count - len(ending)
            retired = await asyncio.gather(
                *(self._retire(one, RECENT_SECONDS, "evicted") for one in candidates[:wanted])
            )
            ending += [sandbox for sandbox in retired if sandbox is not None]
            del candidates[:wanted]
        for _ in ending:
            metrics.sandbox_evicted(self._node.stats)
        return ending

    async def _retire(self, entry: Entry, idle_seconds: float, reason: str) -> Sandbox | None:
        """Begin to end a sandbox that was idle for so long; ``None`` when it is busy after all."""
        sandbox = entry.sandbox
        try:
            is_idle = sandbox is not None and await sandbox.retire(idle_seconds)
        except SandboxdFault as fault:
            log.warning("sandbox does not answer key=%s reason=%s", entry.key, shown(fault))
            return None
        if sandbox is None or not is_idle or not self._table.has(entry):
            return None
        self._endings.retired(entry, sandbox, reason)
        return sandbox

    async def _is_idle_soon(self, entry: Entry) -> bool:
        """Whether a sandbox starts, is being adopted, or is not busy."""
        if entry.sandbox is None:
            return False
        return entry.sandbox.state is State.STARTING or await self._idle_seconds(entry) >= 0

    async def _idle_seconds(self, entry: Entry) -> float:
        """How long a sandbox was idle; negative when it is busy or its status takes too long."""
        sandbox, groups = entry.sandbox, None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STATUS_SECONDS):
                groups = await self.groups(entry)
        if sandbox is None or groups is None:
            return -1.0
        return sandbox.groups.idle_seconds(groups)
