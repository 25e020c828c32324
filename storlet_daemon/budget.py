"""How many workers fit into a sandbox: what they need, against what the sandbox may use.

A sandbox at its limit of processes or memory fails in ways that look like the tenant's fault: a JVM that cannot start its
threads, an import without memory. So no worker is started that does not fit; another one, idle for longest, makes room.
The same holds for one storlet: its workers share its limits, so there are only as many as can live within them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from storlet_daemon.protocol.messages import Load

SHARE = 0.8
"""Of the sandbox's limits, for workers as they start; the rest is for what storlets themselves start and hold."""
MIB = 1 << 20
TASKS_FILES = ("/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max")
MEMORY_FILES = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Where a container sees its own limits: control groups version 2, version 1."""


@dataclass(frozen=True)
class Cost:
    """What a worker needs from its start on: processes and threads, bytes of memory."""

    tasks: int
    memory_bytes: int


@dataclass(frozen=True)
class Budget:
    """What all workers together may need; 0 means no limit."""

    tasks: int
    memory_bytes: int

    @staticmethod
    def of_this_sandbox() -> Budget:
        """From the sandbox's own control groups; what cannot be read is not limited."""
        return Budget(int(_read(TASKS_FILES) * SHARE), int(_read(MEMORY_FILES) * SHARE))

    def holds(self, costs: Iterable[Cost]) -> bool:
        """Whether workers of ``costs`` fit together."""
        tasks = memory = 0
        for cost in costs:
            tasks += cost.tasks
            memory += cost.memory_bytes
        return (not self.tasks or tasks <= self.tasks) and (
            not self.memory_bytes or memory <= self.memory_bytes
        )


def workers_max(load: Load, share: Cost) -> int:
    """How many workers a storlet's own limits have room for when each is to have at least ``share`` of them; at least 1."""
    most = max(load.workers_max, 1)
    if load.limits.memory_bytes:
        most = min(most, load.limits.memory_bytes // share.memory_bytes)
    if load.limits.processes:
        most = min(most, load.limits.processes // share.tasks)
    return max(most, 1)


def _read(paths: Iterable[str]) -> int:
    for path in paths:
        try:
            with open(path, encoding="ascii") as file:
                return int(file.read())
        except (OSError, ValueError):
            # Not there, or "max".
            continue
    return 0
