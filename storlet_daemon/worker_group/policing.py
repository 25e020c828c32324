"""Limits that the kernel does not enforce: scratch space, and CPU use while idle."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

from storlet_daemon.idle import SAMPLE_SECONDS, Bucket
from storlet_daemon.launch import OUTPUT_MAX
from storlet_daemon.protocol import messages
from storlet_daemon.worker_group.exit_cause import mebibytes
from storlet_daemon.worker_group.group_state import GroupState
from storlet_daemon.worker_group.worker_process import State, WorkerProcess

QUIET_SECONDS = 2.5 * SAMPLE_SECONDS
"""After this time without work there were two samples, so the CPU use between them is known."""
SCRATCH_SECONDS = 0.25
"""Interval between two checks of the group's scratch space, while an invocation runs."""
_OWN_FILES_BYTES = OUTPUT_MAX + (1 << 20)
"""Per worker: its output while it loads and the log of its invocation are memory files too."""


class Policing:
    """Kills workers that exceed such a limit."""

    def __init__(self, state: GroupState) -> None:
        self.scratch_due = math.inf
        self._state = state
        self._bucket = Bucket()

    # -- scratch space

    def begin_scratch_checks(self) -> None:
        """An invocation takes long: check the scratch space from now on, if it is limited."""
        limit = self._state.load.limits.scratch_bytes
        if limit and self._state.control_group is not None and self.scratch_due == math.inf:
            self.scratch_due = time.monotonic() + SCRATCH_SECONDS

    def check_scratch(self, now: float) -> None:
        """Kill all workers if the group's files in memory exceed its limit."""
        state = self._state
        busy = [one for one in state.workers.values() if one.state is State.BUSY]
        is_needed = any(one.is_watched for one in busy)
        self.scratch_due = now + SCRATCH_SECONDS if is_needed else math.inf
        limit = state.load.limits.scratch_bytes
        allowed = limit + len(state.workers) * _OWN_FILES_BYTES
        group = state.control_group
        if not busy or group is None or group.scratch_bytes() <= allowed:
            return
        for one in list(state.workers.values()):
            # Idle workers too: a memory file lives as long as any process has it open.
            if one.state in (State.BUSY, State.IDLE):
                reason = (
                    f"storlet was killed: it held more than the {mebibytes(limit)} "
                    "of scratch space that its limit allows"
                )
                one.kill_reason = (messages.LIMIT_SCRATCH, reason)
                state.kill(one)
        state.hooks.clear_scratch()

    # -- CPU use while idle

    def police_idle(self, cpu_seconds: Mapping[int, float]) -> None:
        """Replace workers that use CPU time while they report to be idle, and those that are old.

        ``cpu_seconds`` is by pid and includes all descendants.
        """
        oldest = time.monotonic() - self._state.load.worker_seconds
        for one in list(self._state.workers.values()):
            if one.has_loaded and one.started_at < oldest:
                self._state.retire(one)
            used = cpu_seconds.get(one.pid)
            if one.has_loaded and used is not None and one.meter.is_over(used):
                if one.state is State.BUSY:
                    # The current invocation may be honest: the worker finishes it, then exits.
                    self._state.retire(one)
                else:
                    self._kill_for_computing(one)
            elif _is_quiet(one):
                one.close_ended()
        self._police_group()

    def _police_group(self) -> None:
        """Kill idle workers if the control group counts more CPU time than the workers may use.

        Skipped if the workers changed since the last sample: their CPU time is unknown.
        """
        state = self._state
        workers = state.workers.values()
        is_steady = not state.has_changed and all(one.has_loaded for one in workers)
        state.has_changed = False
        allowed = sum(one.meter.allowed for one in workers) if is_steady else math.inf
        group = state.control_group
        if group is not None and self._bucket.is_over(group.cpu_seconds(), allowed):
            for one in list(workers):
                if one.state is State.IDLE:
                    self._kill_for_computing(one)

    def _kill_for_computing(self, one: WorkerProcess) -> None:
        reason = "storlet was killed: it continued to compute after it had reported its end"
        one.kill_reason = (messages.FAILED, reason)
        self._state.kill(one)


def _is_quiet(one: WorkerProcess) -> bool:
    """True if the worker has been idle for so long that its last invocation is surely over."""
    is_idle = one.meter.is_quiet and one.state is State.IDLE
    return is_idle and time.monotonic() - one.since > QUIET_SECONDS
