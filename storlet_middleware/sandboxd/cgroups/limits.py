"""Limits as files of a control group and the values to write, for version 1 and version 2."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from storlet_daemon.protocol.messages import Resources
from storlet_middleware.config import NodeSection
from storlet_middleware.node_memory import memory_total
from storlet_middleware.sandboxd.cgroups import hierarchy
from storlet_middleware.sandboxd.cgroups.hierarchy import Tree

PERIOD_MICROSECONDS: Final = 100_000
#: The smallest quota that the kernel accepts.
_QUOTA_MIN: Final = 1000
_SHARES_MAX: Final = 262144
#: Files that a kernel without swap accounting lacks.
_OPTIONAL: Final = ("memory.memsw.limit_in_bytes", "memory.swap.max")

Row = tuple[str, str]


def of_storlet(tree: Tree, limits: Resources) -> list[Row]:
    """Files and values of a storlet's group."""
    rows: list[Row] = []
    if "memory" in tree.controllers and limits.memory_bytes:
        rows += _memory(limits.memory_bytes, is_unified=tree.is_unified)
    if "pids" in tree.controllers and limits.processes:
        rows.append(("pids.max", str(limits.processes)))
    if "cpu" in tree.controllers and limits.cpus:
        rows.append(_quota(limits.cpus, is_unified=tree.is_unified))
    return rows


def of_node(tree: Tree, node: NodeSection, host_memory: int) -> list[Row]:
    """Files and values of the node's group: the totals of all sandboxes."""
    rows: list[Row] = []
    if "memory" in tree.controllers:
        rows += _memory(memory_total(node, host_memory), is_unified=tree.is_unified)
    if "pids" in tree.controllers:
        rows.append(("pids.max", str(node.pids)))
    if "cpu" in tree.controllers:
        weight = ("cpu.weight", str(weight_of(node.cpu_shares)))
        rows.append(weight if tree.is_unified else ("cpu.shares", str(node.cpu_shares)))
        if node.cpus:
            rows.append(_quota(node.cpus, is_unified=tree.is_unified))
    return rows


def weight_of(shares: int) -> int:
    """``cpu.shares`` of version 1 as ``cpu.weight`` of version 2.

    The proportion to a process of Swift's stays the same: 1024 shares are a weight of 100.
    Weights are 1 to 10000, shares 2 to 262144.
    """
    return min(max(round(min(shares, _SHARES_MAX) * 100 / 1024), 1), 10000)


def _memory(count: int, *, is_unified: bool) -> list[Row]:
    if is_unified:
        return [("memory.max", str(count)), ("memory.swap.max", "0")]
    # The second file counts memory and swap, and must never be below the first.
    return [("memory.limit_in_bytes", str(count)), ("memory.memsw.limit_in_bytes", str(count))]


def _quota(cpus: float, *, is_unified: bool) -> Row:
    quota = max(int(cpus * PERIOD_MICROSECONDS), _QUOTA_MIN)
    if is_unified:
        return "cpu.max", f"{quota} {PERIOD_MICROSECONDS}"
    return "cpu.cfs_quota_us", str(quota)


def apply(group: Path, rows: Iterable[Row]) -> list[str]:
    """Write limits; return what failed.

    A limit below the current usage may take a second attempt.
    """
    faults = []
    for name, value in _in_order(group, list(rows)):
        try:
            if (group / name).exists() or name not in _OPTIONAL:
                hierarchy.write(group / name, value)
        except OSError as error:
            faults.append(f"{group / name} = {value}: {error.strerror}")
    return faults


def _in_order(group: Path, rows: list[Row]) -> list[Row]:
    """Order memory and memory with swap of version 1: the larger first when they grow."""
    with contextlib.suppress(OSError, ValueError, StopIteration):
        now = int(hierarchy.read(group / "memory.limit_in_bytes"))
        wanted = next(int(value) for name, value in rows if name == "memory.limit_in_bytes")
        if wanted > now:
            return sorted(rows, key=lambda row: row[0] != "memory.memsw.limit_in_bytes")
    return rows
