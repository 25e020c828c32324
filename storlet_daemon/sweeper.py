"""Kill the processes that dead workers have left to process 1."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable, Collection

from storlet_daemon import kernel

SWEEP_SECONDS = 0.005
"""Interval between two sweeps, while sweeps find processes."""
SWEEPS_MAX = 100
"""More sweeps in a row that find processes mean a fork bomb that outruns them."""


class Sweeper:
    """Sweeps until one finds nothing. ``due`` is the next one's time, in monotonic seconds."""

    def __init__(self, kept: Callable[[], Collection[int]]) -> None:
        """``kept`` returns the pids that, with their descendants, belong to the supervisor."""
        self.due = math.inf
        self._kept = kept
        self._sweeps = 0

    def request(self) -> None:
        """Sweep at the next tick."""
        self.due = 0.0

    def sweep(self) -> None:
        """Kill every descendant of this process that is not kept."""
        found = kernel.strays(os.getpid(), self._kept())
        for pid in found:
            kernel.kill(pid, signal.SIGKILL)
        self._sweeps = self._sweeps + 1 if found else 0
        self.due = time.monotonic() + SWEEP_SECONDS if found else math.inf
        if self._sweeps > SWEEPS_MAX and os.getpid() == 1:
            # A process forks faster than the sweep finds its children. As process 1 this kills
            # every other process of the sandbox in one step; the workers are started again. Outside
            # of a sandbox it would kill every process of the machine.
            os.kill(-1, signal.SIGKILL)
            self._sweeps = 0
