"""The node's control group as a slice of systemd, which would undo limits written by others."""

from __future__ import annotations

import subprocess
from typing import Final

from storlet_middleware.config import NodeSection
from storlet_middleware.node_memory import memory_total
from storlet_middleware.sandboxd.cgroups.limits import weight_of

_TIMEOUT_SECONDS: Final = 20


def is_slice(name: str) -> bool:
    """Whether Docker's name of the node's group is that of a slice."""
    return name.endswith(".slice")


def make_slice(name: str, node: NodeSection, host_memory: int) -> list[str]:
    """Make the slice with its totals; return what failed."""
    properties = [
        "MemoryAccounting=yes", "CPUAccounting=yes", "TasksAccounting=yes",
        f"MemoryMax={memory_total(node, host_memory)}", "MemorySwapMax=0", f"TasksMax={node.pids}",
        f"CPUWeight={weight_of(node.cpu_shares)}",
        f"CPUQuota={round(node.cpus * 100)}%" if node.cpus else "CPUQuota=",
    ]  # fmt: skip
    # On version 1 only old releases take MemoryLimit= and CPUShares=; newer ones translate these.
    return _systemctl("set-property", "--runtime", name, *properties) + _systemctl("start", name)


def remove_slice(name: str) -> None:
    """Stop the slice and drop its properties."""
    _systemctl("stop", name)
    _systemctl("revert", name)


def _systemctl(*words: str) -> list[str]:
    try:
        done = subprocess.run(
            ["systemctl", *words],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return [f"systemctl {words[0]}: {error}"]
    return [f"systemctl {words[0]}: {' '.join(done.stderr.split())}"] if done.returncode else []
