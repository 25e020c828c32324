"""One sandbox of the node, from its start or adoption to its end.

It owns its container (``container``), its supervisor's connection (``supervisor``) and the sockets
of its storlets (``worker_groups``).  All of it lives in the loop; calls of Docker run in threads,
which do not touch it.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import enum
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from storlet_daemon.protocol import messages
from storlet_middleware.config import LimitsSection
from storlet_middleware.sandboxd import readback
from storlet_middleware.sandboxd.errors import EngineFault, SandboxLost, SandboxWeak
from storlet_middleware.sandboxd.hardening import CODE_TARGET
from storlet_middleware.sandboxd.node import Node
from storlet_middleware.sandboxd.plan import Plan, detached_key
from storlet_middleware.sandboxd.sandbox.container import SandboxContainer
from storlet_middleware.sandboxd.sandbox.supervisor import Supervisor
from storlet_middleware.sandboxd.sandbox.worker_groups import SETTLE_SECONDS, WorkerGroups
from storlet_middleware.sandboxd.wording import shown

log = logging.getLogger("storlet.sandboxd")

#: A sandbox used this recently is not idle: a filter may hold its path and be about to connect.
RECENT_SECONDS: Final = 2.0


class State(enum.StrEnum):
    """The stages of a sandbox's life."""

    STARTING = "starting"
    SPARE = "spare"
    RUNNING = "running"
    DRAINING = "draining"
    ENDING = "ending"


class Sandbox:
    """Made from a plan; then :meth:`start` or :meth:`adopt`, once; then :meth:`cut` and
    :meth:`remove`, once.

    ``on_lost(sandbox, reason)`` is called at most once, when a running sandbox ends by itself.
    """

    def __init__(self, plan: Plan, node: Node, on_lost: Callable[[Sandbox, str], None]) -> None:
        self.plan = plan
        self.state = State.STARTING
        self.started_at = time.time()
        self._node = node
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._begun = self._loop.time()
        self.container = SandboxContainer(node)
        self._supervisor = Supervisor(node, self._lose)
        self.groups = WorkerGroups(node, self._supervisor, lambda: self.plan, self._lose)
        self._is_lost = False
        self._renaming: asyncio.Task[None] | None = None
        self._gone: asyncio.Future[None] = self._loop.create_future()

    @property
    def supervisor_pid(self) -> int:
        """Process 1 of the sandbox in our pid namespace; 0 before its hello or out of sight."""
        return self._supervisor.pid

    @property
    def is_lost(self) -> bool:
        """Whether it has ended by itself."""
        return self._is_lost

    @property
    def lived_seconds(self) -> float:
        """Seconds since it was made, adopted or assigned."""
        return self._loop.time() - self._begun

    # --- beginning --------------------------------------------------------------------------------

    async def start(self) -> None:
        """Make the container, wait for its supervisor; on a fault the caller must :meth:`cut`."""
        self._node.paths.make()
        self._node.paths.sandboxes.make(self.plan.key)
        host = await self._host()
        with self._supervisor.listening(self.plan.key, self.plan.identity):
            await self.container.create(self.plan)
            await self._supervisor.hello(self.container.end)
            await self._read_back(host)
        self._run()

    async def adopt(self, container_id: str, started_at: float) -> None:
        """Wait for the supervisor of a running container; its groups keep their sockets."""
        self.container.id, self.started_at = container_id, started_at
        self._node.paths.sandboxes.ensure_sockets_dir(self.plan.key)
        host = await self._host()
        with self._supervisor.listening(self.plan.key, self.plan.identity):
            hello = await self._supervisor.hello(self.container.end)
        if not self.plan.is_outdated:  # an outdated sandbox was made with other limits
            await self._read_back(host)
        await self.groups.adopt(hello.groups)
        self._run()

    async def assign(self, plan: Plan, on_lost: Callable[[Sandbox, str], None]) -> None:
        """Make it the sandbox of a tenant, for good; on a fault the caller must :meth:`cut` it.

        sandboxd mounts the code first: once the supervisor has become the tenant's user, no
        process in the sandbox is root's.
        """
        if self.state is not State.SPARE:
            raise SandboxLost("the pre-warmed sandbox has ended")
        link, code_dir = self._supervisor.link, self._node.paths.code.path_of(plan.account)
        self._on_lost, self.state = on_lost, State.STARTING
        host = await self._host()
        with link.watched() as is_alive:
            await self._node.threads.call(
                self._node.mount, code_dir, self._supervisor.pid, CODE_TARGET, is_alive
            )
        await link.assign(plan.identity)
        self.plan = plan
        await self._read_back(host)
        # The name is for operators who list containers: a hanging Docker must not delay the tenant.
        self._renaming = self._loop.create_task(self.container.rename(plan))
        self._begun = self._loop.time()
        self.groups.touch()
        self._run()

    def _run(self) -> None:
        if not self._supervisor.is_connected:
            raise SandboxLost("the supervisor went away after its hello")
        self.state = State.SPARE if self.plan.facts.is_spare else State.RUNNING

    async def _host(self) -> Mapping[str, Any]:
        """The facts of the host; before any wait for the sandbox, when Docker has just answered."""
        return await self._node.threads.call(self._node.engine.host)

    async def _read_back(self, host: Mapping[str, Any]) -> None:
        """Compare its kernel's report with the plan; raises :class:`SandboxWeak`."""
        report = await self._supervisor.link.inspect()
        faults = self._node.weaknesses(self.plan.facts, report, host)
        for fault in faults:
            log.error("sandbox weaker than configured key=%s fault=%s", self.plan.key, shown(fault))
        if faults:
            rows = dict.fromkeys(fault.partition(":")[0] for fault in faults)
            raise SandboxWeak(f"the sandbox came up weaker than configured: {', '.join(rows)}")

    # --- running ----------------------------------------------------------------------------------

    async def check(
        self, descriptor: int, allowed: Sequence[str], limits: LimitsSection
    ) -> dict[str, str]:
        """Run the self-test inside, with a donated file: see ``gate``."""
        resources = messages.Resources(
            limits.memory_bytes,
            limits.cpus,
            limits.pids,
            limits.open_files,
            limits.scratch_bytes,
        )
        return await self._supervisor.link.check(descriptor, allowed, resources)

    def code_in_use(self) -> set[Path]:
        """Folders of code that must not be removed while the sandbox exists."""
        if self.state is State.STARTING:  # one that is being adopted has not reported its groups
            return {self._node.paths.code.path_of(self.plan.account)}
        return self.groups.code_in_use()

    async def retire(self, idle_seconds: float) -> bool:
        """Withdraw its sockets; return whether it may be ended, idle for ``idle_seconds``."""
        return self.state is State.RUNNING and await self.groups.retire(idle_seconds)

    async def is_busy(self) -> bool:
        """Whether any invocation runs; False when the sandbox is lost."""
        try:
            return any(group.busy for group in await self.groups.status())
        except SandboxLost:
            return False

    # --- end --------------------------------------------------------------------------------------

    def release(self) -> None:
        """Disconnect and leave it running, for the next sandboxd to adopt."""
        self._supervisor.close("sandboxd ends")

    async def detach(self) -> bool:
        """Take it out of use for good; return whether it is busy and should be drained.

        Filters no longer find it, and the names of its directories are free for its replacement.
        """
        self.state = State.DRAINING
        key = detached_key(self.container.id or "")
        self._node.paths.sandboxes.rename(self.plan.key, key)
        self.plan = dataclasses.replace(self.plan, key=key)
        await asyncio.sleep(SETTLE_SECONDS)
        return await self.is_busy()

    def cut(self) -> None:
        """Begin its end: filters no longer find it, its processes are killed.  :meth:`remove` next.

        Where process 1 is out of sight or in another kernel, Docker kills it with the container.
        """
        self._node.paths.sandboxes.remove(self.plan.key)
        self.state = State.ENDING
        if not self.plan.facts.runtime.startswith(readback.OWN_KERNEL):
            self._supervisor.kill(self._note_gone)
        self._supervisor.close("the sandbox was ended")

    async def gone(self) -> None:
        """Return when its processes have ended: soon after :meth:`cut`, or after :meth:`remove`."""
        await asyncio.shield(self._gone)

    def _note_gone(self) -> None:
        if not self._gone.done():
            self._gone.set_result(None)

    async def remove(self) -> None:
        """Remove its container; raises :class:`EngineFault` when Docker cannot."""
        try:
            await self.container.remove()
        finally:
            self._note_gone()

    async def remove_lost(self) -> None:
        """Log how a sandbox ended that ended by itself, then :meth:`remove` it."""
        with contextlib.suppress(EngineFault):  # removing it will raise the same
            how = await self.container.end()
            if how is not None:
                log.info("sandbox ended key=%s how=%s", self.plan.key, shown(how))
        await self.remove()

    def _lose(self, reason: str) -> None:
        is_running = self.state in {State.SPARE, State.RUNNING, State.DRAINING}
        if is_running and not self._is_lost:
            self._is_lost = True
            self._on_lost(self, reason)
