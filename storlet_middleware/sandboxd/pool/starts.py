"""Starts of tenants' sandboxes: a pre-warmed sandbox that is ready, else a new container."""

from __future__ import annotations

import asyncio
import logging

from storlet_middleware import metrics
from storlet_middleware.errors import StorletError
from storlet_middleware.sandboxd.background import Background
from storlet_middleware.sandboxd.errors import SandboxdFault, SandboxLost
from storlet_middleware.sandboxd.node import Node
from storlet_middleware.sandboxd.plan import Demand, Planner
from storlet_middleware.sandboxd.pool.endings import Endings
from storlet_middleware.sandboxd.pool.eviction import Eviction
from storlet_middleware.sandboxd.pool.table import Entry, SandboxTable
from storlet_middleware.sandboxd.sandbox.sandbox import Sandbox
from storlet_middleware.sandboxd.wording import shown

log = logging.getLogger("storlet.sandboxd")


class Starts:
    """Gives each demand its running sandbox; the table holds the starts under way."""

    def __init__(
        self,
        node: Node,
        planner: Planner,
        table: SandboxTable,
        endings: Endings,
        eviction: Eviction,
        background: Background,
    ) -> None:
        self._node = node
        self._planner = planner
        self._table = table
        self._endings = endings
        self._eviction = eviction
        self._spares = eviction.spares
        self._background = background

    async def running(self, demand: Demand) -> Sandbox:
        """The running sandbox of a demand; all callers wait for the same start."""
        entry = self._table.get(demand.key)
        if entry is None:
            self._endings.backoffs.check(demand.key)
            entry = self._table.add(demand)
            entry.task = self._background.start(self._start(entry))
        return await asyncio.shield(entry.task)

    async def _start(self, entry: Entry) -> Sandbox:
        loop, seconds = asyncio.get_running_loop(), self._node.config.sandbox.start_deadline_seconds
        began, is_restart = loop.time(), entry.key in self._endings.backoffs
        try:
            async with asyncio.timeout(seconds):
                await asyncio.sleep(self._endings.backoffs.wait_seconds(entry.key))
                await self._endings.wait_for_removal(entry.key)
                sandbox = await self._assigned(entry) or await self._made(entry)
        except TimeoutError:
            fault = SandboxLost(f"the sandbox did not start within {seconds:g} seconds")
            self._endings.failed(entry, fault, loop.time() - began)
            raise fault from None
        except (SandboxdFault, StorletError) as error:
            self._endings.failed(entry, error, loop.time() - began)
            raise
        lasted = loop.time() - began
        log.info(
            "sandbox started key=%s account=%s class=%s image=%s uid=%d container=%s ms=%.0f",
            entry.key, shown(entry.account), entry.demand.trust_class, shown(entry.demand.image),
            sandbox.plan.identity.uid, (sandbox.container.id or "")[:12], lasted * 1000,
        )  # fmt: skip
        metrics.sandbox_started(self._node.stats, lasted)
        if is_restart:
            metrics.sandbox_restarted(self._node.stats)
        self._background.start(self._eviction.make_room_ahead(entry.key))
        return sandbox

    async def _assigned(self, entry: Entry) -> Sandbox | None:
        """A pre-warmed sandbox, assigned to the entry's tenant.

        ``None`` if there is none, or if it could not be assigned.
        """
        spare = self._spares.take(entry.demand)
        if spare is None:
            return None
        entry.sandbox = spare
        try:
            self._node.paths.code.make(entry.account)
            await self._spares.assign(spare, entry.demand, self._endings.lost)
        except SandboxdFault as fault:
            log.warning("spare sandbox unusable key=%s reason=%s", spare.plan.key, shown(fault))
            entry.sandbox = None
            self._endings.end(spare)
            return None
        metrics.sandbox_assigned(self._node.stats)
        return spare

    async def _made(self, entry: Entry) -> Sandbox:
        await self._eviction.make_room()
        self._node.paths.code.make(entry.account)
        plan = await self._node.threads.call(self._planner.plan, entry.demand)
        entry.sandbox = Sandbox(plan, self._node, self._endings.lost)
        await entry.sandbox.start()
        return entry.sandbox
