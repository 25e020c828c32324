"""What a sandbox has become, told by its own kernel: the files by which the node daemon checks its limits and its mounts.

The supervisor reads them for ``inspect`` (``PROTOCOL.rst``), before there is any code of a tenant in the sandbox; what they
must say is the business of ``storlet_middleware/sandboxd/readback.py``.
"""

from __future__ import annotations

import json

CGROUP = "/sys/fs/cgroup"
FILES = (
    "/proc/self/status",
    "/proc/self/limits",
    "/proc/self/mountinfo",
    "/proc/self/oom_score_adj",
    "/proc/self/cgroup",
    "/proc/self/attr/current",
    "/proc/net/dev",
    # Masked: they are there, and empty.
    "/proc/interrupts",
    "/proc/diskstats",
    # Control groups version 2, then version 1: a sandbox sees its own at the top.
    *(f"{CGROUP}/{name}" for name in ("memory.max", "memory.swap.max", "pids.max", "cpu.max")),
    f"{CGROUP}/memory/memory.limit_in_bytes",
    f"{CGROUP}/memory/memory.memsw.limit_in_bytes",
    f"{CGROUP}/pids/pids.max",
    f"{CGROUP}/cpu/cpu.cfs_quota_us",
    f"{CGROUP}/cpu/cpu.cfs_period_us",
)
TOTAL_MAX = 60 * 1024
"""As JSON, in one message of 64 KiB."""


def read() -> dict[str, str]:
    """The content by path. A file that is not there, cannot be read or has no room is left out, never cut."""
    found: dict[str, str] = {}
    room = TOTAL_MAX
    for path in FILES:
        try:
            with open(path, "rb") as file:
                text = file.read(TOTAL_MAX).decode("utf-8", "replace")
        except OSError:
            continue
        size = len(json.dumps({path: text}))
        if size <= room:
            found[path] = text
            room -= size
    return found
