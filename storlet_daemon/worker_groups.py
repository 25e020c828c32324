"""All worker groups of a sandbox: those of the current storlet versions, and those that leave.

A group that was unloaded leaves: it stays here until its last worker has exited.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from storlet_daemon.budget import Budget
from storlet_daemon.protocol import framing, messages
from storlet_daemon.worker_group.group import WorkerGroup
from storlet_daemon.worker_group.group_state import GroupState


class WorkerGroups:
    """See the module. ``budget`` is shared by the workers of all groups."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._current: dict[str, WorkerGroup] = {}
        self._leaving: list[WorkerGroup] = []

    def __iter__(self) -> Iterator[WorkerGroup]:
        """The current groups, and then those that leave; the iteration is on a copy."""
        return iter((*self._current.values(), *self._leaving))

    def __bool__(self) -> bool:
        return bool(self._current or self._leaving)

    @property
    def versions(self) -> tuple[str, ...]:
        """The storlet versions of the current groups."""
        return tuple(self._current)

    @property
    def awaited(self) -> Iterator[int | None]:
        """The descriptors on which current groups wait for a connection."""
        return (group.awaited for group in self._current.values())

    @property
    def pids(self) -> set[int]:
        """All workers."""
        return {pid for group in self for pid in group.workers}

    @property
    def are_active(self) -> bool:
        """Whether a storlet runs, or may run."""
        return any(group.is_active for group in self)

    def status(self, request: int) -> messages.GroupStatus:
        """The status of each current group.

        If one message cannot hold them, those that were idle longest are left out: whether any is
        busy decides whether the node daemon ends the sandbox.
        """
        groups = [group.status() for group in self._current.values()]
        status = messages.GroupStatus(request, tuple(groups))
        if not _fits(status):
            groups.sort(key=lambda group: group.idle_seconds)
        while not _fits(status):
            del groups[len(groups) * 7 // 8 :]
            status = messages.GroupStatus(request, tuple(groups))
        return status

    def current(self, version: str) -> WorkerGroup | None:
        """The group of a storlet version that is loaded."""
        return self._current.get(version)

    def of(self, pid: int) -> WorkerGroup | None:
        """The group of a worker."""
        for group in self:
            if pid in group.workers:
                return group
        return None

    def add(self, version: str, group: WorkerGroup) -> None:
        """Make ``group`` the current one of its version."""
        self._current[version] = group

    def unload(self, version: str) -> None:
        """Have the group of ``version`` leave, if there is one."""
        group = self._current.pop(version, None)
        if group is not None:
            group.leave()
            if group.workers:
                self._leaving.append(group)

    def drop_if_left(self, group: WorkerGroup) -> None:
        """Forget a leaving group whose last worker has exited."""
        if group in self._leaving and not group.workers:
            self._leaving.remove(group)

    def make_room(self, requester: GroupState) -> bool:
        """Return True if one more worker of ``requester`` fits.

        Else the group that has been idle for longest retires its idle workers.
        """
        costs = [group.state.runtime.cost for group in self for _ in group.workers]
        # In a sandbox too small for one worker the attempt is made anyway: it gives the error.
        if not costs or self._budget.holds([*costs, requester.runtime.cost]):
            return True
        others = [group for group in self if group.state is not requester]
        others = [group for group in others if group.idle_since < math.inf]
        if others:
            min(others, key=lambda group: group.idle_since).rest()
        return False


def _fits(status: messages.GroupStatus) -> bool:
    try:
        framing.encode(status)
    except messages.ProtocolError:
        return False
    return True
