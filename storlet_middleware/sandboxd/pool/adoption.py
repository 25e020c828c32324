"""Adoption of the sandboxes that an earlier sandboxd left running.

No request is served before it: a start would otherwise replace a running container, and end the
invocations in it.  While Docker is away callers get that error, and the next request tries again.

An *outdated* sandbox (another image, other options) is detached: its replacement gets its key, and
it finishes its invocations beside it, then ends.  A sandbox that an earlier sandboxd
detached continues to drain.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from storlet_middleware.sandboxd.background import Background
from storlet_middleware.sandboxd.docker import LABEL_KEY, Container
from storlet_middleware.sandboxd.errors import EngineFault, SandboxdFault, SandboxLost
from storlet_middleware.sandboxd.node import Node
from storlet_middleware.sandboxd.plan import Plan, Planner, detached_name
from storlet_middleware.sandboxd.pool.endings import Endings
from storlet_middleware.sandboxd.pool.spares import Spares
from storlet_middleware.sandboxd.pool.table import Entry, SandboxTable
from storlet_middleware.sandboxd.sandbox.sandbox import Sandbox, State
from storlet_middleware.sandboxd.wording import shown

log = logging.getLogger("storlet.sandboxd")

#: An outdated sandbox whose supervisor has not reconnected by then has another control directory.
OUTDATED_SECONDS: Final = 5.0
DRAIN_CHECK_SECONDS: Final = 0.5


class Adoption:
    """Once per sandboxd; repeated only as long as it fails."""

    def __init__(
        self,
        node: Node,
        planner: Planner,
        table: SandboxTable,
        endings: Endings,
        spares: Spares,
        background: Background,
    ) -> None:
        self._node = node
        self._planner = planner
        self._table = table
        self._endings = endings
        self._spares = spares
        self._background = background
        self._task: asyncio.Task[None] | None = None

    async def done(self) -> None:
        """Return when all containers of an earlier sandboxd are adopted or being removed."""
        if self._task is None:
            self._task = self._background.start(self._adopt_all())
            self._task.add_done_callback(self._forget_failure)
        await asyncio.shield(self._task)

    def _forget_failure(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or task.exception() is not None:
            self._task = None

    async def _adopt_all(self) -> None:
        call = self._node.threads.call
        containers = await call(self._node.engine.ours, self._node.config.sandbox.node_id)
        plans = [await call(self._plan_of, container) for container in containers]
        kept = set()
        for container, plan in zip(containers, plans, strict=True):
            if plan is None and self._spares.is_one(container):
                kept.add(container.labels.get(LABEL_KEY, ""))
                self._background.start(self._adopt_spare(container))
            elif plan is None:
                self._endings.remove_stale(container)
            elif plan.is_detached:
                kept.add(plan.key)
                self._background.start(self._adopt_detached(plan, container))
            else:
                kept.add(plan.key)
                entry = self._table.add(plan.demand)
                entry.task = self._background.start(self._adopt(entry, plan, container))
        for key in self._node.paths.sandboxes.keys() - kept:
            self._node.paths.sandboxes.remove(key)

    def _plan_of(self, container: Container) -> Plan | None:
        if self._spares.is_one(container):
            return self._spares.assigned_plan_of(container)
        return self._planner.plan_of(container)

    async def _adopt_spare(self, container: Container) -> None:
        if not await self._spares.adopt(container):
            self._node.paths.sandboxes.remove(container.labels.get(LABEL_KEY, ""))
            self._endings.remove_stale(container)

    async def _adopt(self, entry: Entry, plan: Plan, container: Container) -> Sandbox:
        loop, seconds = asyncio.get_running_loop(), self._node.config.sandbox.start_deadline_seconds
        began = loop.time()
        if plan.is_outdated:
            seconds = min(seconds, OUTDATED_SECONDS)
        entry.sandbox = Sandbox(plan, self._node, self._endings.lost)
        try:
            async with asyncio.timeout(seconds):
                await entry.sandbox.adopt(container.id, container.created_at)
        except TimeoutError:
            fault = SandboxLost(f"the supervisor did not come back within {seconds:g} seconds")
            self._endings.failed(entry, fault, loop.time() - began)
            raise fault from None
        except SandboxdFault as error:
            self._endings.failed(entry, error, loop.time() - began)
            raise
        log.info(
            "sandbox adopted key=%s account=%s container=%s outdated=%s",
            entry.key, shown(entry.account), container.id[:12], plan.is_outdated,
        )  # fmt: skip
        if plan.is_outdated:
            await self._detach(entry, entry.sandbox, container)
            raise SandboxLost("the sandbox was made with another image or other options")
        return entry.sandbox

    # --- outdated sandboxes -----------------------------------------------------------------------

    async def _detach(self, entry: Entry, sandbox: Sandbox, container: Container) -> None:
        """Free the key of an outdated sandbox, which drains when it is busy, else ends."""
        if not await sandbox.detach():
            self._endings.drop(entry)
            return
        try:
            # Made from the planned name: an assigned spare may never have been renamed to it.
            name = detached_name(sandbox.plan.container_name, container.id)
            await self._node.threads.call(self._node.engine.rename, container.id, name)
        except EngineFault as fault:
            log.warning("sandbox cannot be detached key=%s reason=%s", entry.key, shown(fault))
            self._endings.drop(entry)
            return
        if self._table.has(entry):
            self._table.delete(entry)
            self._table.draining.add(sandbox)
            self._background.start(self._drain(sandbox))

    async def _adopt_detached(self, plan: Plan, container: Container) -> None:
        sandbox = Sandbox(plan, self._node, self._endings.lost)
        self._table.draining.add(sandbox)
        try:
            async with asyncio.timeout(OUTDATED_SECONDS):
                await sandbox.adopt(container.id, container.created_at)
        except (SandboxdFault, TimeoutError) as fault:
            reason = shown(fault or "it did not come back in time")
            log.info("sandbox not adopted key=%s reason=%s", plan.key, reason)
            self._table.draining.discard(sandbox)
            self._endings.end(sandbox)
            return
        sandbox.state = State.DRAINING
        await self._drain(sandbox)

    async def _drain(self, sandbox: Sandbox) -> None:
        """End a detached sandbox when it is idle; no invocation runs beyond ``total_seconds``."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._node.config.invocation.total_seconds
        # Polled: a supervisor does not report the end of invocations.
        while await sandbox.is_busy() and loop.time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(DRAIN_CHECK_SECONDS)
        if sandbox in self._table.draining:
            log.info(
                "sandbox drained key=%s account=%s", sandbox.plan.key, shown(sandbox.plan.account)
            )
            self._endings.drained(sandbox)
