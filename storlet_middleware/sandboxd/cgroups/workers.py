"""The control groups of storlets: one per worker group, below the group of its sandbox."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
from collections.abc import Collection
from pathlib import Path
from typing import Final

from storlet_daemon.protocol.messages import Resources
from storlet_middleware.sandboxd.cgroups import hierarchy, limits
from storlet_middleware.sandboxd.cgroups.hierarchy import INIT, Hierarchy, Tree

#: More groups than a sandbox ever has (``worker_groups.GROUPS_MAX`` and those that are ending).
GROUPS_MAX: Final = 256
PREFIX: Final = "storlet-"
_MOVES_MAX: Final = 20
_FORK_SECONDS: Final = 0.001


class WorkerCgroups:
    """Methods block for milliseconds; none raises, because every limit here is a second one.

    ``supervisor_pid`` is process 1 of a sandbox in this process' pid namespace, ``group`` the id
    of a worker group: 64 hexadecimal digits.
    """

    def __init__(self, host: Hierarchy | None = None) -> None:
        self._host = host or Hierarchy()

    def move_worker(
        self, supervisor_pid: int, sandbox_pid: int, group: str, resources: Resources
    ) -> str:
        """Move a worker into the groups of its storlet, which are made when missing.

        ``sandbox_pid`` is the worker's pid inside the sandbox.  Returns the directory below each
        of the sandbox's own groups, or "" when the worker could not be moved.  A process outside
        this sandbox is never moved.

        The kernel takes a number, which becomes another process' when the worker has ended.  A
        pidfd shows that it has not, immediately before the write.  Between the two, the worker
        would have to end, be reaped, and the next process of the host get just its number, which
        the kernel gives out again only after all others.
        """
        try:
            directory = directory_of(group)
            groups = list(self._host.sandbox_groups(supervisor_pid))
            if not groups:
                return ""
            pid = self._find(groups[0].path, supervisor_pid, sandbox_pid)
            with hierarchy.watched(pid) as is_alive:
                for sandbox in groups:
                    if sandbox.is_unified:
                        self._make_leaf(sandbox)
                    target = sandbox.path / directory
                    self._make_group(sandbox, target, resources)
                    is_same = pid == self._find(sandbox.path, supervisor_pid, sandbox_pid)
                    if not (is_same and is_alive()):
                        return ""
                    hierarchy.write(target / "cgroup.procs", str(pid))
        except (OSError, ValueError):
            return ""
        return directory

    def prepare_move(self) -> None:
        """Make a :meth:`move_worker` that follows within 20 milliseconds a fast one.

        The kernel moves a process only while none forks or ends.  The first move after a pause
        waits 5 to 20 milliseconds for that (a grace period of RCU), further moves do not wait,
        in whichever tree they are.  To have that wait over before a new worker needs its move,
        this process is "moved" into its own group.
        """
        with contextlib.suppress(OSError, ValueError):
            own = hierarchy.paths_by_controller(hierarchy.read(self._host.proc / "self" / "cgroup"))
            for tree in self._host.trees()[:1]:
                name = tree.own_path(own)
                if name:
                    hierarchy.write(tree.path / name.lstrip("/") / "cgroup.procs", str(os.getpid()))

    def remove_group(self, supervisor_pid: int, group: str) -> None:
        """Remove the groups of a storlet, except those that still have processes."""
        with contextlib.suppress(OSError, ValueError):
            for sandbox in self._host.sandbox_groups(supervisor_pid):
                hierarchy.remove(sandbox.path / directory_of(group))

    def remove_others(self, supervisor_pid: int, groups: Collection[str]) -> None:
        """Remove the groups of all storlets except ``groups``, where no process is left."""
        with contextlib.suppress(OSError, ValueError):
            keep = {directory_of(group) for group in groups}
            for sandbox in self._host.sandbox_groups(supervisor_pid):
                for path in sandbox.path.glob(f"{PREFIX}*"):
                    if path.name not in keep:
                        hierarchy.remove(path)

    def directories(self, supervisor_pid: int) -> dict[str, Path]:
        """The sandbox's own group by controller, for tests and tools outside."""
        groups = self._host.sandbox_groups(supervisor_pid)
        return {one: group.path for group in groups for one in group.controllers}

    def _make_group(self, sandbox: Tree, target: Path, resources: Resources) -> None:
        if not target.is_dir():
            # The supervisor may be compromised: bound the number of groups it can request.
            if sum(1 for _ in sandbox.path.glob(f"{PREFIX}*")) >= GROUPS_MAX:
                raise ValueError(f"{sandbox.path} has {GROUPS_MAX} groups")
            self._host.make(target)
        # The limits of a group never change, but an existing one may lack them: sandboxd can be
        # killed between making and limiting it.
        faults = limits.apply(target, limits.of_storlet(sandbox, resources))
        if faults:
            hierarchy.remove(target)
            raise ValueError(faults[0])

    def _make_leaf(self, sandbox: Tree) -> None:
        """Version 2: enable controllers for the children of a sandbox's group.

        That requires moving the group's own processes into a child first.
        """
        leaf = sandbox.path / INIT
        control = sandbox.path / "cgroup.subtree_control"
        wanted = set(sandbox.controllers)
        if wanted <= set(hierarchy.read(control).split()):
            return
        self._host.make(leaf)
        for _ in range(_MOVES_MAX):
            for pid in hierarchy.read(sandbox.path / "cgroup.procs").split():
                with contextlib.suppress(ProcessLookupError):
                    hierarchy.write(leaf / "cgroup.procs", pid)
            try:
                hierarchy.write(control, " ".join(f"+{one}" for one in sorted(wanted)))
            except OSError as error:
                if error.errno != errno.EBUSY:
                    raise
                time.sleep(_FORK_SECONDS)  # a process forked in the meantime
                continue
            return
        raise ValueError(f"{sandbox.path} does not become empty")

    def _find(self, path: Path, supervisor_pid: int, sandbox_pid: int) -> int:
        """The host's pid of a process of this sandbox; raises :class:`ValueError`.

        Only the sandbox's own groups are searched, because the supervisor's word is not trusted.
        """
        if sandbox_pid <= 1:
            raise ValueError("the supervisor itself must not get the limits of a storlet")
        depth = len(self._host.pids(supervisor_pid))
        for folder in (path, path / INIT, *path.glob(f"{PREFIX}*")):
            with contextlib.suppress(FileNotFoundError):
                for text in hierarchy.read(folder / "cgroup.procs").split():
                    pids = self._host.pids(int(text))
                    if len(pids) == depth and pids[-1] == sandbox_pid:
                        return int(text)
        raise ValueError(f"{path} has no process {sandbox_pid}")


def directory_of(group: str) -> str:
    """The name of a worker group's control groups."""
    if not re.fullmatch("[0-9a-f]{64}", group):
        raise ValueError("not the id of a group")
    return f"{PREFIX}{group[:32]}"
