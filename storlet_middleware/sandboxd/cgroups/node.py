"""The control group above all sandboxes of the node."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from storlet_middleware.config import NodeSection
from storlet_middleware.node_memory import host_memory
from storlet_middleware.sandboxd.cgroups import hierarchy, limits, systemd
from storlet_middleware.sandboxd.cgroups.hierarchy import Hierarchy

_DYING_SECONDS: Final = 1.0


class NodeCgroup:
    """``name`` is what Docker calls the group (``hardening.cgroup_parent``): a path or a slice.

    Methods block for milliseconds and never raise: every limit here is a second line of defence.
    """

    def __init__(self, name: str, host: Hierarchy) -> None:
        self._name = name
        self._host = host

    def make(self, node: NodeSection) -> list[str]:
        """Make the group with its totals; return what failed, for the log."""
        if systemd.is_slice(self._name):
            return systemd.make_slice(self._name, node, host_memory(self._host.proc))
        faults = []
        trees = self._host.trees()
        for tree in trees:
            group = self._in(tree.path)
            try:
                self._host.make(group)
                with contextlib.suppress(OSError):  # version 1; always on since Linux 5.11
                    hierarchy.write(group / "memory.use_hierarchy", "1")
                if tree.is_unified:
                    faults += _enable(tree.path, tree.controllers)
                rows = limits.of_node(tree, node, host_memory(self._host.proc))
                faults += limits.apply(group, rows)
            except OSError as error:
                faults.append(f"{group}: {error.strerror}")
        present = {controller for tree in trees for controller in tree.controllers}
        missing = [one for one in ("memory", "cpu", "pids") if one not in present]
        return faults + [f"no control groups for {one}" for one in missing]

    def remove(self) -> None:
        """Remove the group and what ended sandboxes left below it, unless it is in use."""
        if systemd.is_slice(self._name):
            systemd.remove_slice(self._name)
            return
        for tree in self._host.all_trees():
            hierarchy.remove(self._in(tree))

    def sandboxes(self) -> set[str]:
        """The groups below it, which are named by the containers' ids; none of a slice.

        The runtime leaves empty groups when the engine dies while it starts a container.  systemd
        removes those of its slices.
        """
        found: set[str] = set()
        if systemd.is_slice(self._name):
            return found
        for tree in self._host.all_trees():
            with contextlib.suppress(OSError):
                found |= {path.name for path in self._in(tree).iterdir() if path.is_dir()}
        return found

    def remove_sandboxes(self, groups: Iterable[str]) -> None:
        """Remove groups whose containers were removed, and kill the processes in them.

        An engine that dies while it starts a container leaves the process that was to become it,
        which would wait forever.
        """
        for group in groups:
            paths = [self._in(tree) / group for tree in self._host.all_trees()]
            killed = sum(hierarchy.kill_processes(path) for path in paths)
            for path in paths:
                hierarchy.remove(path)
                # A killed process stays in its group until its parent has reaped it.
                give_up = time.monotonic() + _DYING_SECONDS
                while killed and path.exists() and time.monotonic() < give_up:
                    time.sleep(0.02)
                    hierarchy.remove(path)

    def _in(self, tree: Path) -> Path:
        return tree / self._name.lstrip("/")


def _enable(path: Path, controllers: Iterable[str]) -> list[str]:
    faults = []
    for one in controllers:
        try:
            hierarchy.write(path / "cgroup.subtree_control", f"+{one}")
        except OSError as error:
            faults.append(f"{path}/cgroup.subtree_control +{one}: {error.strerror}")
    return faults
