"""The container of one sandbox in Docker, whose calls run in threads."""

from __future__ import annotations

import logging

from storlet_middleware.sandboxd.errors import EngineFault, NameTaken
from storlet_middleware.sandboxd.node import Node
from storlet_middleware.sandboxd.plan import Plan
from storlet_middleware.sandboxd.wording import shown

log = logging.getLogger("storlet.sandboxd")


class SandboxContainer:
    """One container, from its creation or adoption to its removal."""

    def __init__(self, node: Node) -> None:
        self._node = node
        #: ``None`` before it is created or adopted.
        self.id: str | None = None

    async def create(self, plan: Plan) -> None:
        """Create and start it; remove a container of ours that has its name."""
        self.id = await self._started(plan)

    async def _started(self, plan: Plan) -> str:
        call, engine = self._node.threads.call, self._node.engine
        try:
            return await call(engine.start, plan.container_name, plan.body)
        except NameTaken:
            leftover = await call(engine.find, plan.container_name)
        if leftover is not None:
            if leftover.node_id != self._node.config.sandbox.node_id:
                raise EngineFault(
                    f"the name {plan.container_name} belongs to a container that is not ours"
                )
            log.warning("leftover removed key=%s container=%s", plan.key, leftover.id[:12])
            await call(engine.remove, leftover.id)
        return await call(engine.start, plan.container_name, plan.body)

    async def rename(self, plan: Plan) -> None:
        """Give it the name of ``plan``, for operators; a fault is logged only."""
        try:
            await self._node.threads.call(
                self._node.engine.rename, self.id or "", plan.container_name
            )
        except EngineFault as fault:
            log.info("sandbox keeps its name key=%s reason=%s", plan.key, shown(fault))

    async def end(self) -> str | None:
        """How it ended; ``None`` while it runs."""
        return await self._node.threads.call(self._node.engine.end_of, self.id or "")

    async def remove(self) -> None:
        """Remove it, if there is one; raises :class:`EngineFault` when Docker cannot."""
        if self.id is not None:
            await self._node.removing.call(self._node.engine.remove, self.id)
