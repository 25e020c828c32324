"""Removal of what no sandbox owns: containers and control groups left by failures."""

from __future__ import annotations

import logging

from storlet_middleware.sandboxd import hardening
from storlet_middleware.sandboxd.cgroups.node import NodeCgroup
from storlet_middleware.sandboxd.docker import LABEL_KEY, Container
from storlet_middleware.sandboxd.errors import EngineFault, EngineUnavailable
from storlet_middleware.sandboxd.node import Node
from storlet_middleware.sandboxd.pool.endings import Endings
from storlet_middleware.sandboxd.pool.spares import Spares
from storlet_middleware.sandboxd.pool.table import SandboxTable
from storlet_middleware.sandboxd.self_test.gate import Gate
from storlet_middleware.sandboxd.wording import shown

log = logging.getLogger("storlet.sandboxd")


class Sweep:
    """Finds containers of this node after removals that failed and starts that were given up."""

    def __init__(
        self, node: Node, table: SandboxTable, endings: Endings, spares: Spares, gate: Gate
    ) -> None:
        self._node = node
        self._table = table
        self._endings = endings
        self._spares = spares
        self._gate = gate

    async def run(self) -> bool:
        """Sweep once; True if nothing was left."""
        call, node_id = self._node.threads.call, self._node.config.sandbox.node_id
        try:
            parent = hardening.cgroup_parent(node_id, await call(self._node.engine.host))
            cgroup = NodeCgroup(parent, self._node.host_cgroups)
            # In this order: the container of an existing group is then in the list.
            groups = await call(cgroup.sandboxes)
            containers = await call(self._node.engine.ours, node_id)
        except EngineUnavailable:
            return False  # the next sweep sees them
        except EngineFault as fault:
            log.warning("sweep failed reason=%s", shown(fault))
            return False
        owned = (*self._table.sandboxes(), *self._spares.all)
        known = {sandbox.container.id for sandbox in owned}
        strays = [
            container
            for container in containers
            if container.id not in known and not self._is_in_transition(container)
        ]
        for container in strays:
            self._endings.remove_stale(container)
        left = groups - {container.id for container in containers}
        await call(cgroup.remove_sandboxes, left)
        self._endings.backoffs.forget_old()
        return not strays and not left

    def _is_in_transition(self, container: Container) -> bool:
        """Whether a container is starting, ending or being tested."""
        key = container.labels.get(LABEL_KEY, "")
        if self._endings.is_ending(container.id) or self._endings.is_ending(key):
            return True
        if self._gate.owns(key) or self._spares.owns(key):
            return True
        entry = self._table.get(key)
        return entry is not None and (entry.sandbox is None or entry.sandbox.container.id is None)
