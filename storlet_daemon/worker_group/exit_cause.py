"""Why a worker died: the error code and text for its invocation."""

from __future__ import annotations

import os
import signal

from storlet_daemon.control_groups import ControlGroup, Counter
from storlet_daemon.launch import read_output
from storlet_daemon.protocol import messages
from storlet_daemon.worker_group.group_state import GroupState
from storlet_daemon.worker_group.worker_process import WorkerProcess

CRASHES_MAX = 3
"""Workers in a row that may exit before they have run anything; then it is a failed load."""
_MIB = 1 << 20


class ExitCause:
    """Finds the cause of death of a worker from its wait status and the kernel's counters."""

    def __init__(self, state: GroupState) -> None:
        self._state = state
        self._kills: Counter | None = None
        self._crashes = 0

    def count_kills_in(self, control_group: ControlGroup) -> None:
        """Use the memory kills that the kernel counts in the group's own control groups."""
        self._kills = Counter(control_group.kills)

    def of_run(self, one: WorkerProcess, status: int) -> tuple[str, str]:
        """The error code and text for the invocation that died with its worker."""
        if one.kill_reason is not None:
            return one.kill_reason
        shortage = self._memory_shortage(one, status)
        if shortage:
            return messages.LIMIT_MEMORY, f"storlet was killed: {shortage}"
        return messages.FAILED, f"storlet {describe_exit(status)} before it was done"

    def of_load(self, one: WorkerProcess, status: int) -> messages.LoadFailed:
        """The failure of a load that ended with its process."""
        reason = one.load_error
        if reason is None:
            cause = self._memory_shortage(one, status) or describe_exit(status)
            reason = f"the process ended while it loaded the code: {cause}"
        return messages.LoadFailed(reason, read_output(one.output) or None)

    def count_crash(self, status: int) -> None:
        """Record a worker that exited by itself while it was idle."""
        self._crashes += 1
        if self._crashes >= CRASHES_MAX:
            self._crashes = 0
            reason = f"the process exits by itself after loading: {describe_exit(status)}"
            self._state.load_failure.record(messages.LoadFailed(reason))

    def reset_crashes(self) -> None:
        """Record that a worker has completed a run."""
        self._crashes = 0

    def _memory_shortage(self, one: WorkerProcess, status: int) -> str:
        """Whose memory ran out if the kernel killed the worker for memory; else empty."""
        if not _was_killed_by_kernel(one, status):
            return ""
        # Both counters are always read, so that each kill counts once. The kernel may have killed
        # several workers before the first of them was reaped.
        in_sandbox = self._state.hooks.memory_kills.take_one()
        in_group = self._kills is not None and self._kills.take_one()
        limit = self._state.load.limits.memory_bytes
        group = self._state.control_group
        if in_group and group is not None:
            if group.scratch_bytes() > limit // 4:
                # Files in memory outlive their process and would reduce the next one's memory.
                self._state.hooks.clear_scratch()
            if limit and group.has_been_full(limit):
                return f"its workers together used more than the {mebibytes(limit)} of its limit"
        return "the sandbox has run out of memory" if in_group or in_sandbox else ""


def describe_exit(status: int) -> str:
    """Describe a wait status: ``exited with code 0``, ``was killed by signal 11 (SIGSEGV)``."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        try:
            return f"was killed by signal {number} ({signal.Signals(number).name})"
        except ValueError:
            return f"was killed by signal {number}"
    return f"exited with code {os.WEXITSTATUS(status)}"


def mebibytes(count: int) -> str:
    """A size for an error text."""
    return f"{count / _MIB:.3g} MiB" if count < 100 * _MIB else f"{count // _MIB} MiB"


def _was_killed_by_kernel(one: WorkerProcess, status: int) -> bool:
    is_kill = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    return is_kill and not one.was_killed
