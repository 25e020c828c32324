"""The files that show the actual limits and mounts of a sandbox, as its own kernel reports them.

The supervisor reads them for ``inspect`` (``PROTOCOL.rst``), before any code of a tenant is in the
sandbox. ``storlet_middleware/sandboxd/readback.py`` checks their content.
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
    # Masked: these exist and are empty.
    "/proc/interrupts",
    "/proc/diskstats",
    # Control groups version 2, then version 1: a sandbox sees its own at the root.
    *(f"{CGROUP}/{name}" for name in ("memory.max", "memory.swap.max", "pids.max", "cpu.max")),
    f"{CGROUP}/memory/memory.limit_in_bytes",
    f"{CGROUP}/memory/memory.memsw.limit_in_bytes",
    f"{CGROUP}/pids/pids.max",
    f"{CGROUP}/cpu/cpu.cfs_quota_us",
    f"{CGROUP}/cpu/cpu.cfs_period_us",
)
TOTAL_MAX = 60 * 1024
"""Bytes of the JSON, which has to fit into one message of 64 KiB."""


def read() -> dict[str, str]:
    """The content by path. A file that cannot be read or does not fit is left out, never cut."""
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
