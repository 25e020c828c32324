"""What the kernel has counted for this sandbox, and for each worker group below it: memory kills, refused forks, scratch.

A container sees its own control groups at ``/sys/fs/cgroup``: one tree (version 2) or one per controller (version 1). A
worker group's are a directory below each, made by sandboxd; the name comes with ``placed``. What cannot be read counts as
nothing: the limits hold without this, only the words for what happened are poorer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

ROOT = "/sys/fs/cgroup"

_KILLS = (("", "memory.events"), ("memory", "memory.oom_control"))
_FULL = (("", "memory.events.local"),)
_MOST = (("memory", "memory.max_usage_in_bytes"),)
_NEARLY_BYTES = 4 << 20
_REFUSED_FORKS = (("", "pids.events"), ("pids", "pids.events"))
_SCRATCH = (("", "memory.stat"), ("memory", "memory.stat"))


class ControlGroup:
    """The sandbox's own control groups, or with a ``directory`` those of a worker group."""

    def __init__(self, directory: str = "", root: str = ROOT) -> None:
        """Nothing is read before it is asked for."""
        self._root = root
        self._directory = directory

    def kills(self) -> int:
        """Processes of this group that the kernel has killed for memory."""
        return self._value(_KILLS, "oom_kill")

    def has_been_full(self, limit: int) -> bool:
        """Whether this group has ever had no memory left of its own ``limit``.

        Version 1 does not say so (its ``failcnt`` stays 0 on newer kernels), only what the most was that was ever used.
        """
        return self._value(_FULL, "oom") > 0 or self._value(_MOST, "") > limit - _NEARLY_BYTES

    def refused_forks(self) -> int:
        """Processes and threads that this group was not given."""
        return self._value(_REFUSED_FORKS, "max")

    def scratch_bytes(self) -> int:
        """Memory that is held as files: the scratch space, memory files, shared memory."""
        return self._value(_SCRATCH, "shmem")

    def cpu_seconds(self) -> float:
        """Processor time of all processes that were ever in this group, also of those that nobody has waited for."""
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
    """The number behind ``key`` in a file of lines ``key number``, or the only thing in it."""
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
    """Whether a count of the kernel's has grown since it was last asked."""

    def __init__(self, count: Callable[[], int]) -> None:
        """Remember the count as it is now."""
        self._count = count
        self._seen = count()

    def has_grown(self) -> bool:
        """Since the last time this was asked."""
        count = self._count()
        grown = count > self._seen
        self._seen = count
        return grown
