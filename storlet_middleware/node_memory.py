"""How much memory a node may give to sandboxes: the operator's option, as bytes of this host."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Final

from storlet_middleware.config import NodeSection

_PROC: Final = Path("/proc")


def host_memory(proc: Path = _PROC) -> int:
    """Bytes of memory that the host has."""
    for line in (proc / "meminfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    raise OSError(errno.EINVAL, "no MemTotal in /proc/meminfo")


def memory_total(node: NodeSection, host_memory: int) -> int:
    """``[node] memory`` in bytes: as it is, or that share of the host's."""
    return node.memory if isinstance(node.memory, int) else int(node.memory * host_memory)
