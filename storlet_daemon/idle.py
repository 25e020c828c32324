"""How much a worker computes while it claims to do nothing.

An invocation's deadlines are kept by the filter, which closes the connection; the supervisor then kills the worker that has
reported ``begin`` for it and no ``end``. A worker that reports ``end`` too early would escape that and could compute for
ever. So the supervisor looks every ``LOOK_SECONDS`` at the processor time of each worker and of all that descend from it,
takes off what its invocations may have used, and what is left fills a bucket that leaks slowly. A worker whose bucket
is full is killed.

A child that its parent does not wait for takes its processor time with it. Only the group's control group, if there is one,
has counted that; so the same is asked of all workers of a group together, and if it is too much, the idle ones go.

Allowed are: all processors while an invocation runs, or may have run while the supervisor took a nap, a moment per invocation for taking it, and
a trickle for the background work of a JVM (measured: less than 0.01 s in the 6 s after 500 runs and a second of hard work).
"""

from __future__ import annotations

import math
import os
import resource
import time
from collections.abc import Iterable

from storlet_daemon import kernel
from storlet_daemon.protocol.messages import Usage

LOOK_SECONDS = 2.0
BUCKET_SECONDS = 0.3
"""Processor time beyond what is allowed, before the worker is killed."""
LEAK = 0.02
"""Seconds of processor time per second that an idle worker may use for ever."""
RUN_SECONDS = 0.001
"""Processor time outside of an invocation's begin and end that belongs to it nevertheless."""
_PROCESSORS = os.cpu_count() or 1


class Bucket:
    """Processor time beyond what was allowed, which is never less than none."""

    def __init__(self) -> None:
        """Empty."""
        self.seconds = 0.0
        self._seen = 0.0

    def is_over(self, cpu_seconds: float, allowed: float) -> bool:
        """``cpu_seconds`` in all were used by now, and so many allowed since this was last asked. Whether it is too much."""
        self.seconds = max(0.0, self.seconds + cpu_seconds - self._seen - allowed)
        self._seen = cpu_seconds
        return self.seconds > BUCKET_SECONDS


class Meter:
    """What one worker has used and what it may have used, from look to look."""

    def __init__(self) -> None:
        """Nothing is measured before the first look."""
        self._looked_at = -math.inf
        self._bucket = Bucket()
        self.allowed = math.inf
        """What it may have used between the last two looks."""
        self._busy_seconds = 0.0
        self._runs = 0
        self._began_at: float | None = None
        self._ended_at = -math.inf
        self._before_run: float | None = None

    def began(self, after: float) -> None:
        """An invocation has begun, ``after`` this moment (monotonic seconds) and after the end of the one before.

        The supervisor hears of several at once, and late; what a run has used meanwhile must not look as if it was used idle.
        """
        self._began_at = max(after, self._ended_at)
        self._before_run = None

    def ended(self) -> None:
        """It is over."""
        if self._began_at is not None:
            self._ended_at = time.monotonic()
            self._busy_seconds += self._ended_at - self._began_at
            self._began_at = None
        self._runs += 1

    def is_over(self, cpu_seconds: float) -> bool:
        """A look: the worker and its descendants have used ``cpu_seconds`` by now. Whether that is too much."""
        now = time.monotonic()
        if self._began_at is not None:
            self._busy_seconds += now - self._began_at
            self._began_at = now
        # Before the first look it has loaded, which takes what it takes.
        self.allowed = (
            self._busy_seconds * _PROCESSORS
            + self._runs * RUN_SECONDS
            + (now - self._looked_at) * LEAK
        )
        self._looked_at, self._busy_seconds, self._runs = now, 0.0, 0
        return self._bucket.is_over(cpu_seconds, self.allowed)

    @property
    def is_quiet(self) -> bool:
        """Whether it has used nothing beyond what is allowed, as far as the last look saw."""
        return self._bucket.seconds <= 0

    def sample(self, pid: int) -> None:
        """A run that takes longer: remember about what its process had used before."""
        process = kernel.process(pid)
        if process is not None:
            self._before_run = process.cpu_seconds

    def usage(self, used: resource.struct_rusage) -> Usage:
        """What the run that has died with its process took: ``used`` is of the whole life of the process."""
        whole = used.ru_utime + used.ru_stime
        # Too short to have been watched, and so sampled.
        before = whole if self._before_run is None else self._before_run
        return Usage(round(max(whole - before, 0.0), 6), used.ru_maxrss * 1024)


def cpu_seconds_by_ancestor(
    processes: Iterable[kernel.Process], ancestors: Iterable[int]
) -> dict[int, float]:
    """For each of ``ancestors`` that lives: what it and all its descendants have used."""
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
