"""CPU use of workers that report to be idle.

The filter enforces an invocation's deadlines: it closes the connection, and the supervisor kills
the worker that has reported ``begin`` and no ``end`` for it. A worker that reports ``end`` too
early would escape that and could compute without a time limit. Therefore the supervisor samples the
CPU time of each worker and of all its descendants every ``SAMPLE_SECONDS``, subtracts what its
invocations may have used, and puts the rest into a leaky bucket. A worker whose bucket is full is
killed.

A child that its parent does not reap takes its CPU time with it. Only the control group of the
worker group, if there is one, has counted that time. So the same check applies to all workers of a
group together; if it fails, the idle ones are killed.

A worker may use all CPUs while an invocation runs, or may have run while the supervisor collected
reports. It may also use ``RUN_SECONDS`` per invocation for accepting it, and ``LEAK`` for the
background work of a JVM (measured: less than 0.01 s in the 6 s after 500 runs and a second of hard
work).
"""

from __future__ import annotations

import math
import os
import resource
import time
from collections.abc import Iterable

from storlet_daemon import kernel
from storlet_daemon.protocol.messages import Usage

SAMPLE_SECONDS = 2.0
BUCKET_SECONDS = 0.3
"""CPU time beyond what is allowed, before the worker is killed."""
LEAK = 0.02
"""Seconds of CPU time per second that an idle worker may always use."""
RUN_SECONDS = 0.001
"""CPU time that an invocation may use before its start and after its end."""
_PROCESSORS = os.cpu_count() or 1


class Bucket:
    """A leaky bucket of CPU time beyond what was allowed."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._seen = 0.0

    def is_over(self, cpu_seconds: float, allowed: float) -> bool:
        """Add a sample; return True if the bucket is full.

        ``cpu_seconds`` is the total until now, ``allowed`` is for the time since the last sample.
        """
        self.seconds = max(0.0, self.seconds + cpu_seconds - self._seen - allowed)
        self._seen = cpu_seconds
        return self.seconds > BUCKET_SECONDS


class Meter:
    """The CPU time that one worker has used and may have used, from sample to sample.

    ``allowed`` is what it may have used between the last two samples.
    """

    def __init__(self) -> None:
        """Nothing is measured before the first sample."""
        self._sampled_at = -math.inf
        self._bucket = Bucket()
        self.allowed = math.inf
        self._busy_seconds = 0.0
        self._runs = 0
        self._began_at: float | None = None
        self._ended_at = -math.inf
        self._before_run: float | None = None

    def began(self, after: float) -> None:
        """An invocation began after the moment ``after`` and after the end of the last one.

        The supervisor reads several reports at once, and late. CPU time that a run used meanwhile
        must not count as used while idle.
        """
        self._began_at = max(after, self._ended_at)
        self._before_run = None

    def ended(self) -> None:
        """The invocation is over."""
        if self._began_at is not None:
            self._ended_at = time.monotonic()
            self._busy_seconds += self._ended_at - self._began_at
            self._began_at = None
        self._runs += 1

    def is_over(self, cpu_seconds: float) -> bool:
        """Add a sample of the worker with its descendants; return True if they used too much."""
        now = time.monotonic()
        if self._began_at is not None:
            self._busy_seconds += now - self._began_at
            self._began_at = now
        # Before the first sample the worker has loaded the code, which is not limited.
        background = (now - self._sampled_at) * LEAK
        self.allowed = self._busy_seconds * _PROCESSORS + self._runs * RUN_SECONDS + background
        self._sampled_at, self._busy_seconds, self._runs = now, 0.0, 0
        return self._bucket.is_over(cpu_seconds, self.allowed)

    @property
    def is_quiet(self) -> bool:
        """True if the last sample found nothing beyond what is allowed."""
        return self._bucket.seconds <= 0

    def mark_run(self, pid: int) -> None:
        """A run takes longer: remember approximately what its process had used before."""
        process = kernel.process(pid)
        if process is not None:
            self._before_run = process.cpu_seconds

    def usage(self, used: resource.struct_rusage) -> Usage:
        """The usage of the run that died with its process; ``used`` is the process's total."""
        total = used.ru_utime + used.ru_stime
        # A run that was too short to be watched has no mark.
        before = total if self._before_run is None else self._before_run
        return Usage(round(max(total - before, 0.0), 6), used.ru_maxrss * 1024)


def cpu_seconds_by_ancestor(
    processes: Iterable[kernel.Process], ancestors: Iterable[int]
) -> dict[int, float]:
    """The CPU time of each live one of ``ancestors`` together with all its descendants."""
    used: dict[int, float] = {}
    children: dict[int, list[int]] = {}
    for one in processes:
        used[one.pid] = one.cpu_seconds
        children.setdefault(one.parent, []).append(one.pid)
    return {
        pid: sum(used.get(each, 0.0) for each in _family(pid, children))
        for pid in ancestors
        if pid in used
    }


def _family(root: int, children: dict[int, list[int]]) -> list[int]:
    family = [root]
    for pid in family:
        family += children.get(pid, ())
    return family
