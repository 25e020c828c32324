"""Removes the files that storlets have left in shared folders, while nothing runs.

Files in shared folders have no owner among the storlets, so nothing is removed that a running one
may be using. A child of process 1 removes them (``scratch``), one at a time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from storlet_daemon import homes, scratch
from storlet_daemon.launch import WORKING_DIRECTORY
from storlet_daemon.worker_groups import WorkerGroups

SHARED_MEMORY = "/dev/shm"  # noqa: S108  the sandbox's own
"""Emptied while nothing runs: POSIX shared memory needs its name only while it is opened."""
AGAIN_SECONDS = 1.0
"""Interval between attempts if no child can be made, or the folders have no room for a change."""


class Cleaner:
    """Owner of the child that removes files. ``pid`` is 0 while there is none."""

    def __init__(self, groups: WorkerGroups) -> None:
        self._groups = groups
        self._is_scratch_full = False
        self._not_before = 0.0
        self.pid = 0

    def request(self) -> None:
        """Empty the scratch space as soon as nothing runs."""
        # Outside of a sandbox, /tmp is shared with the whole machine.
        self._is_scratch_full = os.getpid() == 1

    def tick(self) -> None:
        """Begin to empty the scratch space, if that was requested and nothing runs."""
        if self._is_scratch_full and self._begin_to_remove(
            lambda: [*scratch.contents(WORKING_DIRECTORY), *homes.contents(homes.HOMES)]
        ):
            self._is_scratch_full = False

    def remove_leftovers(self) -> None:
        """Empty the shared memory, and remove the folders of groups that have left."""
        if os.getpid() != 1:
            return
        versions = {group.state.load.version for group in self._groups}
        paths = homes.left_behind(homes.HOMES, versions)
        if scratch.has_contents(SHARED_MEMORY):
            paths += scratch.contents(SHARED_MEMORY)
        if paths:
            self._begin_to_remove(lambda: paths)

    def exited(self, pid: int) -> None:
        """A child of process 1 has ended."""
        if pid == self.pid:
            self.pid = 0

    def _begin_to_remove(self, paths: Callable[[], list[str]]) -> bool:
        """Remove files, unless something runs that may be using them; return True if it began."""
        if self.pid or self._groups.are_active or time.monotonic() < self._not_before:
            return False
        try:
            self.pid = scratch.begin_to_remove(paths())
        except OSError:
            self._not_before = time.monotonic() + AGAIN_SECONDS
            return False
        return True
