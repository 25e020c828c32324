"""The kernel's counters of this sandbox and of each worker group: kills, forks, scratch space.

A sandbox sees its own control groups at ``/sys/fs/cgroup``: one tree (version 2) or one per
controller (version 1). Those of a worker group are a directory below each, made by sandboxd; the
message ``placed`` brings its name. A counter that cannot be read counts as 0: the limits hold all
the same, only the error texts are less precise.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable

ROOT = "/sys/fs/cgroup"

LEFT_SECONDS = 1.0
"""How long an event of the kernel can explain the death of one more process."""

_KILLS = (("", "memory.events"), ("memory", "memory.oom_control"))
_FULL = (("", "memory.events.local"),)
_MOST = (("memory", "memory.max_usage_in_bytes"),)
_NEARLY_BYTES = 4 << 20
_REFUSED_FORKS = (("", "pids.events"), ("pids", "pids.events"))
_SCRATCH = (("", "memory.stat"), ("memory", "memory.stat"))


class ControlGroup:
    """The sandbox's own control groups, or with a ``directory`` those of a worker group."""

    def __init__(self, directory: str = "", root: str = ROOT) -> None:
        """Nothing is read before a method is called."""
        self._root = root
        self._directory = directory

    def kills(self) -> int:
        """The number of processes of this group that the kernel has killed for memory."""
        return self._value(_KILLS, "oom_kill")

    def has_been_full(self, limit: int) -> bool:
        """True if this group has ever used up its own memory ``limit``.

        Version 1 has no such event (its ``failcnt`` stays 0 on newer kernels), only the peak use.
        """
        return self._value(_FULL, "oom") > 0 or self._value(_MOST, "") > limit - _NEARLY_BYTES

    def refused_forks(self) -> int:
        """The number of processes and threads that the kernel has refused to this group."""
        return self._value(_REFUSED_FORKS, "max")

    def scratch_bytes(self) -> int:
        """Memory held by files: the scratch space, memory files, shared memory."""
        return self._value(_SCRATCH, "shmem")

    def cpu_seconds(self) -> float:
        """CPU time of all processes that were ever in this group, including unreaped ones."""
        microseconds = self._value((("", "cpu.stat"),), "usage_usec")
        return microseconds / 1e6 or self._value((("cpuacct", "cpuacct.usage"),), "") / 1e9

    def _value(self, files: Iterable[tuple[str, str]], key: str) -> int:
        for controller, name in files:
            path = "/".join(
                part for part in (self._root, controller, self._directory, name) if part
            )
            value = _read_value(path, key)
            if value is not None:
                return value
        return 0


def _read_value(path: str, key: str) -> int | None:
    """The number after ``key`` in a file of lines ``key number``, or the file's only number."""
    try:
        with open(path, encoding="ascii") as lines:
            for line in lines:
                name, _, value = line.partition(" ")
                if name == key:
                    return int(value)
                if not value:
                    return int(name)
    except (OSError, ValueError):
        pass
    return None


class Counter:
    """Detects growth of one of the kernel's counters."""

    def __init__(self, count: Callable[[], int]) -> None:
        """Remember the current count."""
        self._count = count
        self._seen = count()
        self._left = 0
        self._left_until = -math.inf

    def take_one(self) -> bool:
        """True if the count has grown by an event that no earlier call took.

        Events that are left expire: those of several processes are taken at nearly the same time.
        """
        now, count = time.monotonic(), self._count()
        grown = max(count - self._seen, 0)
        self._left = grown + (self._left if now < self._left_until else 0)
        self._seen = count
        if grown:
            self._left_until = now + LEFT_SECONDS
        if not self._left:
            return False
        self._left -= 1
        return True

    def has_grown(self) -> bool:
        """True if the count has grown since the last call."""
        count = self._count()
        grown = count > self._seen
        self._seen = count
        return grown
