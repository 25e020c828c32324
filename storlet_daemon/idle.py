"""How much a worker computes while it claims to do nothing.

An invocation's deadlines are kept by the filter, which closes the connection; the supervisor then kills the worker that has
reported ``begin`` for it and no ``end``. A worker that reports ``end`` too early would escape that and could compute for
ever. So the supervisor looks every ``LOOK_SECONDS`` at the processor time of each worker and of all that descend from it,
takes off what its invocations may have used, and what is left fills a bucket that leaks slowly. A worker whose bucket
is full is killed.

Allowed are: all processors while an invocation runs, a moment per invocation for taking it and for cleaning up after it, and
a trickle for the background work of a JVM (measured: less than 0.01 s in the 6 s after 500 runs and a second of hard work).
"""

from __future__ import annotations

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


class Meter:
    """What one worker has used and what it may have used, from look to look."""

    def __init__(self) -> None:
        """Nothing is measured before the first look."""
        self._looked_at = 0.0
        self._seen_seconds = 0.0
        self._bucket = 0.0
        self._busy_seconds = 0.0
        self._runs = 0
        self._began_at: float | None = None
        self._before_run: float | None = None

    def began(self) -> None:
        """An invocation begins."""
        self._began_at = time.monotonic()
        self._before_run = None

    def ended(self) -> None:
        """It is over."""
        if self._began_at is not None:
            self._busy_seconds += time.monotonic() - self._began_at
            self._began_at = None
        self._runs += 1

    def is_over(self, cpu_seconds: float) -> bool:
        """A look: the worker and its descendants have used ``cpu_seconds`` by now. Whether that is too much."""
        now = time.monotonic()
        if self._began_at is not None:
            self._busy_seconds += now - self._began_at
            self._began_at = now
        allowed = self._busy_seconds * _PROCESSORS + self._runs * RUN_SECONDS + (now - self._looked_at) * LEAK
        self._bucket = max(0.0, self._bucket + cpu_seconds - self._seen_seconds - allowed) if self._looked_at else 0.0
        self._looked_at, self._seen_seconds, self._busy_seconds, self._runs = now, cpu_seconds, 0.0, 0
        return self._bucket > BUCKET_SECONDS

    @property
    def is_quiet(self) -> bool:
        """Whether it has used nothing beyond what is allowed, as far as the last look saw."""
        return self._bucket <= 0

    def sample(self, pid: int) -> None:
        """A run that takes longer: remember about what its process had used before."""
        process = kernel.process(pid)
        if process is not None:
            self._before_run = process.cpu_seconds

    def usage(self, used: resource.struct_rusage) -> Usage:
        """What the run that has died with its process took: ``used`` is of the whole life of the process."""
        whole = used.ru_utime + used.ru_stime
        # Too short to have been sampled: next to nothing.
        before = whole if self._before_run is None else self._before_run
        return Usage(round(max(whole - before, 0.0), 6), used.ru_maxrss * 1024)


def cpu_seconds_by_ancestor(processes: Iterable[kernel.Process], ancestors: Iterable[int]) -> dict[int, float]:
    """For each of ``ancestors`` that lives: what it and all its descendants have used."""
    used: dict[int, float] = {}
    children: dict[int, list[int]] = {}
    for one in processes:
        used[one.pid] = one.cpu_seconds
        children.setdefault(one.parent, []).append(one.pid)
    return {pid: sum(used.get(each, 0.0) for each in _family(pid, children)) for pid in ancestors if pid in used}


def _family(root: int, children: dict[int, list[int]]) -> list[int]:
    family = [root]
    for pid in family:
        family += children.get(pid, ())
    return family
