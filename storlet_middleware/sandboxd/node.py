"""The context of all sandboxes of a node: options, engine, paths, threads, metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from storlet_middleware.config import Config
from storlet_middleware.metrics import Stats
from storlet_middleware.sandboxd import mounting, readback
from storlet_middleware.sandboxd.cgroups.hierarchy import Hierarchy
from storlet_middleware.sandboxd.cgroups.workers import WorkerCgroups
from storlet_middleware.sandboxd.control import PeerCheck
from storlet_middleware.sandboxd.directories.paths import NodePaths
from storlet_middleware.sandboxd.docker import Engine
from storlet_middleware.sandboxd.hardening import SandboxFacts
from storlet_middleware.sandboxd.statsd import NoStats
from storlet_middleware.sandboxd.threads import Threads

#: Concurrent moves of workers into their control groups, on the whole node.
MOVES_MAX: Final = 4
#: Concurrent removals of containers, on the whole node.
REMOVALS_MAX: Final = 4

Mounter = Callable[[Path, int, str, Callable[[], bool]], None]
ReadBack = Callable[[SandboxFacts, Mapping[str, str], Mapping[str, Any]], list[str]]


@dataclass(frozen=True)
class Node:
    """Made once per sandboxd; unit tests replace the parts that need root or Docker."""

    config: Config
    engine: Engine
    paths: NodePaths
    threads: Threads
    check_peer: PeerCheck
    weaknesses: ReadBack = readback.faults
    host_cgroups: Hierarchy = field(default_factory=Hierarchy)
    mount: Mounter = mounting.mount_read_only
    stats: Stats = field(default_factory=NoStats)
    #: Threads of their own for moving workers: a slow Docker must not delay them.
    moving: Threads = field(default_factory=lambda: Threads(MOVES_MAX))
    #: Threads of their own for removals: the kernel frees a large container slowly, or not at all
    #: while the disk hangs, and starts must not wait for that.
    removing: Threads = field(default_factory=lambda: Threads(REMOVALS_MAX))

    @property
    def worker_cgroups(self) -> WorkerCgroups:
        """The control groups of storlets."""
        return WorkerCgroups(self.host_cgroups)
