"""How many workers fit into a sandbox: their needs against the sandbox's limits.

A sandbox at its limit of processes or memory fails in ways that look like the tenant's fault: a JVM
that cannot start its threads, an import without memory. So a worker is started only if it fits;
else the worker that has been idle for longest is evicted. The same holds for one storlet: its
workers share its limits, so their number is limited by them.
"""

from __future__ import annotations

from collections.abc import Iterable

from storlet_daemon.protocol.messages import Load
from storlet_daemon.protocol.values import dataclass

SHARE = 0.8
"""The part of the sandbox's limits for workers at their start; storlets use the rest."""
MIB = 1 << 20
TASKS_FILES = ("/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max")
MEMORY_FILES = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Where a sandbox sees its own limits: control groups version 2, version 1."""


@dataclass(frozen=True)
class Cost:
    """The needs of a worker at its start: processes and threads, bytes of memory."""

    tasks: int
    memory_bytes: int


@dataclass(frozen=True)
class Budget:
    """The limits for all workers together; 0 means no limit."""

    tasks: int
    memory_bytes: int

    @staticmethod
    def of_this_sandbox() -> Budget:
        """Read the sandbox's own control groups; a limit that cannot be read is 0."""
        return Budget(int(_read(TASKS_FILES) * SHARE), int(_read(MEMORY_FILES) * SHARE))

    def holds(self, costs: Iterable[Cost]) -> bool:
        """True if workers of ``costs`` fit together."""
        tasks = memory = 0
        for cost in costs:
            tasks += cost.tasks
            memory += cost.memory_bytes
        return (not self.tasks or tasks <= self.tasks) and (
            not self.memory_bytes or memory <= self.memory_bytes
        )


def workers_max(load: Load, share: Cost) -> int:
    """How many workers get at least ``share`` each of the storlet's own limits; at least 1."""
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
            # The file is missing, or says "max".
            continue
    return 0
