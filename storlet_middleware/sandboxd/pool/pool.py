"""All sandboxes of the node: answers the requests of the filters, and runs the periodic work.

The parts: ``table`` (which sandboxes there are), ``starts``, ``eviction``, ``endings``,
``adoption``, ``sweep``, ``spares``, ``code_use``.  This module connects them.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from pathlib import Path
from typing import Any, Final

from storlet_daemon.protocol import messages
from storlet_middleware.errors import CodeMissing, InternalError, SandboxUnavailable, StorletError
from storlet_middleware.sandboxd import checks
from storlet_middleware.sandboxd.background import Background
from storlet_middleware.sandboxd.errors import (
    EngineFault,
    EngineUnavailable,
    ImageMissing,
    LoadRefused,
    SandboxdFault,
    SandboxLost,
    SandboxWeak,
)
from storlet_middleware.sandboxd.node import Node
from storlet_middleware.sandboxd.plan import Demand, Planner
from storlet_middleware.sandboxd.pool.adoption import Adoption
from storlet_middleware.sandboxd.pool.code_use import CodeUse
from storlet_middleware.sandboxd.pool.endings import Endings
from storlet_middleware.sandboxd.pool.eviction import Eviction
from storlet_middleware.sandboxd.pool.spares import Spares
from storlet_middleware.sandboxd.pool.starts import Starts
from storlet_middleware.sandboxd.pool.sweep import Sweep
from storlet_middleware.sandboxd.pool.table import Entry, SandboxTable
from storlet_middleware.sandboxd.sandbox.sandbox import Sandbox, State
from storlet_middleware.sandboxd.self_test.gate import Gate
from storlet_middleware.sandboxd.wording import shown

log = logging.getLogger("storlet.sandboxd")

#: Added to the start deadline for the load itself.
LOAD_SECONDS: Final = 12.0
#: The longest time between two sweeps, and between two searches for unused code.
SWEEP_SECONDS: Final = 60.0
#: From the end of a sandbox to the sweep: Docker and the kernel remove most by themselves.
AFTER_END_SECONDS: Final = 5.0
#: Interval of adoption attempts while Docker is away; a caller's own attempt does not wait for it.
ADOPT_AGAIN_SECONDS: Final = 2.0
UNAVAILABLE_RETRY_SECONDS: Final = 2


class Pool:
    """Make it inside the loop, then :meth:`run` it."""

    def __init__(self, node: Node, planner: Planner, gate: Gate) -> None:
        self._node = node
        self._planner = planner
        self._gate = gate
        self._background = background = Background()
        self._table = table = SandboxTable(node.config.sandbox.max_per_node)
        self._endings = endings = Endings(node, table, background)
        self._eviction = eviction = Eviction(node, table, endings)
        self._spares = spares = Spares(node, planner, eviction.has_room, endings.end)
        eviction.spares = spares
        self._starts = Starts(node, planner, table, endings, eviction, background)
        self._adoption = Adoption(node, planner, table, endings, spares, background)
        self._sweep = Sweep(node, table, endings, spares, gate)
        self._code = CodeUse(node, table, self._adoption, background)

    # --- requests ---------------------------------------------------------------------------------

    async def prepare(self, account: str, storlet: str, peer_uid: int | None) -> Path:
        """Make the account's code directory for ``peer_uid``, and begin to start the sandbox.

        Does not wait for the sandbox, which is the one that ``storlet`` needs.
        """
        checks.check_account(account)
        try:
            path = self._node.paths.code.make(account, peer_uid)
        except SandboxdFault as fault:
            raise _answer(fault) from fault
        self._background.start(self._start_ahead(self._planner.demand(account, storlet)))
        # A worker will be moved soon; the kernel can do the slow part meanwhile.
        self._background.start(self._node.moving.call(self._node.worker_cgroups.prepare_move))
        return path

    async def load(self, account: str, storlet: messages.Storlet) -> Path:
        """The path of the storlet's socket, served by a running sandbox.

        Raises a :class:`StorletError`.
        """
        checks.check_storlet(account, storlet, self._node.config.storlet.languages)
        code = self._node.paths.code
        with self._code.loading(code.version_dir(account, storlet.code)):
            if not code.has_version(account, storlet.code):
                raise CodeMissing("the code of this version is not in the code directory")
            return await self._load_in_time(account, storlet)

    async def status(self) -> messages.NodeStatus:
        """Every sandbox with its groups, and whether the configured images exist."""
        entries = list(self._table.entries.values())
        sandboxes, images = await asyncio.gather(
            asyncio.gather(*(self._described(entry) for entry in entries)), self._images()
        )
        others = (_described(sandbox) for sandbox in (*self._table.draining, *self._spares.all))
        return messages.NodeStatus([*sandboxes, *others], images, self._gate.results)

    async def self_test(self) -> messages.NodeStatus:
        """The status after a self-test of each trust class; raises a :class:`StorletError`."""
        try:
            await self._adoption.done()
            await self._gate.check()
        except SandboxdFault as fault:
            raise _answer(fault) from fault
        return await self.status()

    # --- periodic work ----------------------------------------------------------------------------

    async def run(self) -> None:
        """Adopt, sweep and stop idle sandboxes until cancelled."""
        await self._adopt()
        self._background.start(self._gate.run())
        self._background.start(self._spares.run())
        await asyncio.gather(self._sweep_regularly(), self._tend_regularly())

    async def _sweep_regularly(self) -> None:
        """Sweep at once, because a crash may have left something; then soon after sandboxes ended.

        After a sweep that found something, or that Docker did not answer, the next one is soon.
        """
        pause = AFTER_END_SECONDS
        while True:
            if await self._sweep.run():
                pause = AFTER_END_SECONDS
                await self._endings.wait_for_end(SWEEP_SECONDS)
            else:
                pause = min(2 * pause, SWEEP_SECONDS)
            await asyncio.sleep(pause)

    async def _tend_regularly(self) -> None:
        """Stop idle sandboxes and worker groups, and evict unused code."""
        config, loop = self._node.config, asyncio.get_running_loop()
        tick = min(
            SWEEP_SECONDS,
            config.sandbox.idle_stop_seconds / 4,
            config.invocation.group_idle_seconds,
        )
        next_eviction = 0.0
        while True:
            if loop.time() >= next_eviction:
                next_eviction = loop.time() + SWEEP_SECONDS
                self._code.evict_after(0.0)
            await asyncio.sleep(max(tick, 0.1))
            entries = list(self._table.entries.values())
            await asyncio.gather(*(self._eviction.tend(entry) for entry in entries))

    async def close(self, grace_seconds: float) -> None:
        """Disconnect from every sandbox and leave it running.

        Starts and removals under way get ``grace_seconds``.
        """
        await self._gate.close(grace_seconds)
        tasks = {entry.task for entry in self._table.entries.values()} | self._endings.removals
        if tasks:
            await asyncio.wait(tasks, timeout=grace_seconds)
        for sandbox in self._table.sandboxes():
            sandbox.release()
        self._spares.release()
        for task in tasks:
            task.cancel()
        self._background.cancel()

    async def _adopt(self) -> None:
        while True:
            try:
                await self._adoption.done()
            except SandboxdFault as fault:
                log.warning("adoption failed reason=%s", shown(fault))
                await asyncio.sleep(ADOPT_AGAIN_SECONDS)
            else:
                return

    # --- loads ------------------------------------------------------------------------------------

    async def _load_in_time(self, account: str, storlet: messages.Storlet) -> Path:
        limit = self._node.config.sandbox.start_deadline_seconds + LOAD_SECONDS
        try:
            async with asyncio.timeout(limit):
                demand = self._planner.demand(account, storlet.name)
                await self._adoption.done()
                await self._gate.admit(demand.trust_class)
                return await self._load(demand, storlet)
        except SandboxdFault as fault:
            raise _answer(fault) from fault
        except TimeoutError:
            text = f"the sandbox was not ready within {limit:.0f} seconds"
            raise SandboxUnavailable(text) from None

    async def _load(self, demand: Demand, storlet: messages.Storlet) -> Path:
        try:
            return await (await self._running(demand)).groups.load(storlet)
        except SandboxLost as fault:
            # It ended before we noticed; its replacement is new and gets one attempt.
            log.info("sandbox replaced account=%s reason=%s", shown(demand.account), shown(fault))
            return await (await self._running(demand)).groups.load(storlet)

    async def _running(self, demand: Demand) -> Sandbox:
        await self._adoption.done()
        return await self._starts.running(demand)

    async def _start_ahead(self, demand: Demand) -> None:
        if self._gate.is_closed(demand.trust_class):
            return
        try:
            await self._running(demand)
        except (SandboxdFault, StorletError):
            return  # logged where it happened; the next load reports it

    # --- status -----------------------------------------------------------------------------------

    async def _described(self, entry: Entry) -> messages.Sandbox:
        if entry.sandbox is None:
            return messages.Sandbox(
                entry.account,
                entry.key,
                State.STARTING.value,
                trust_class=entry.demand.trust_class,
                image=entry.demand.image,
            )
        groups = await self._eviction.groups(entry) or ()
        return dataclasses.replace(_described(entry.sandbox), groups=groups)

    async def _images(self) -> dict[str, Any]:
        config = self._node.config
        images = dict.fromkeys((config.sandbox.image, *config.images.values()))
        states = await asyncio.gather(*(self._image(image) for image in images))
        return dict(zip(images, states, strict=True))

    async def _image(self, image: str) -> dict[str, Any]:
        try:
            return {"id": await self._node.threads.call(self._node.engine.image_id, image)}
        except EngineFault as fault:
            return {"id": None, "message": str(fault)}


def _described(sandbox: Sandbox) -> messages.Sandbox:
    """A sandbox for the status, without its groups."""
    return messages.Sandbox(
        account=sandbox.plan.account,
        key=sandbox.plan.key,
        state=sandbox.state.value,
        trust_class=sandbox.plan.demand.trust_class,
        image=sandbox.plan.demand.image,
        container=sandbox.container.id,
        uid=sandbox.plan.identity.uid,
        started_at=sandbox.started_at,
    )


def _answer(fault: SandboxdFault) -> StorletError:
    """The error that a filter gets for a fault."""
    text = messages.one_line(str(fault))
    if isinstance(fault, LoadRefused):
        return InternalError(f"the supervisor refused the storlet: {text}")
    if isinstance(fault, EngineUnavailable):
        return SandboxUnavailable(text, retry_after=UNAVAILABLE_RETRY_SECONDS)
    if isinstance(fault, ImageMissing):
        hint = "build it as sandbox_images/README.rst says, or run 'make up'"
        return SandboxUnavailable(f"{text}; {hint}")
    if isinstance(fault, SandboxWeak):
        # The weakness itself is for operators only: tenants could exploit it.
        return SandboxUnavailable(
            "the sandbox came up weaker than configured; see the operator's log for the reason"
        )
    return SandboxUnavailable(text)
