"""The total memory of a node's sandboxes: the operator's option in bytes of this host."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Final

from storlet_middleware.config import NodeSection

_PROC: Final = Path("/proc")


def host_memory(proc: Path = _PROC) -> int:
    """The host's memory in bytes."""
    for line in (proc / "meminfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    raise OSError(errno.EINVAL, "no MemTotal in /proc/meminfo")


def memory_total(node: NodeSection, host_memory: int) -> int:
    """``[node] memory`` in bytes: an absolute size, or a share of the host's memory."""
    return node.memory if isinstance(node.memory, int) else int(node.memory * host_memory)
