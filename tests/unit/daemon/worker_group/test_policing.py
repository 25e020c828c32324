"""Limits that the kernel does not enforce: CPU use while idle, and scratch space."""

from __future__ import annotations

import math
import socket
import time
from typing import Any

import pytest

from storlet_daemon.protocol import messages
from storlet_daemon.worker_group.group import WorkerGroup
from storlet_daemon.worker_group.group_state import GroupState
from storlet_daemon.worker_group.policing import QUIET_SECONDS, SCRATCH_SECONDS, Policing
from storlet_daemon.worker_group.worker_process import State, WorkerProcess
from tests.unit.daemon.loads import load_of
from tests.unit.daemon.worker_group.groups import FullMeter, World

PID = 4711
MIB = 1 << 20


def group_of(one: WorkerProcess) -> WorkerGroup:
    nothing: Any = None
    group = WorkerGroup(load_of(), nothing, nothing, nothing)
    group.workers[one.pid] = one
    return group


def worker(channel: socket.socket, state: State) -> WorkerProcess:
    meter: Any = FullMeter()
    return WorkerProcess(PID, channel, -1, state, math.inf, 0.0, has_loaded=True, meter=meter)


def test_a_worker_that_computes_while_idle_is_killed(
    channel: socket.socket, killed: list[int]
) -> None:
    one = worker(channel, State.IDLE)
    group_of(one).police_idle({PID: 9.0})
    assert killed == [PID]
    assert one.kill_reason is not None


def test_an_invocation_running_at_the_sample_may_finish(
    channel: socket.socket, killed: list[int]
) -> None:
    """The CPU time may come from the last invocation's threads, not from this one."""
    one = worker(channel, State.BUSY)
    group_of(one).police_idle({PID: 9.0})
    assert killed == []
    assert one.is_retiring
    assert not one.serves
    assert one.kill_reason is None


# --- a group of made-up workers


class Meters:
    """The meter of a worker whose idle use of the CPU is set by the test."""

    def __init__(self, *, is_over: bool = False, is_quiet: bool = False) -> None:
        self.allowed = 1.0
        self.is_quiet = is_quiet
        self._is_over = is_over

    def is_over(self, _cpu_seconds: float) -> bool:
        return self._is_over


@pytest.mark.parametrize("state_of_it", [State.IDLE, State.BUSY])
def test_an_old_worker_finishes_its_run_and_is_replaced(world: World, state_of_it: State) -> None:
    """It may keep deleted objects of its runs on the disk."""
    state = world.state()
    young = world.add(state, state_of_it)
    old = world.add(state, state_of_it)
    old.started_at -= state.load.worker_seconds
    Policing(state).police_idle({})
    assert (young.is_retiring, old.is_retiring) == (False, True)
    assert (old.deadline < math.inf) is (state_of_it is State.IDLE)
    assert world.killed == []


def test_a_worker_that_is_not_sampled_or_not_loaded_is_left_alone(world: World) -> None:
    state = world.state()
    world.add(state, State.IDLE, meter=Meters(is_over=True))
    loading = world.add(state, State.LOADING, meter=Meters(is_over=True))
    Policing(state).police_idle({loading.pid: 100.0})
    assert world.killed == []


def test_the_last_connection_of_a_quiet_worker_is_closed(world: World) -> None:
    """From then on, its death cannot concern its last invocation."""
    state = world.state()
    one = world.add(state, State.IDLE, meter=Meters(is_quiet=True))
    one.ended, peer = world.pair()
    policing = Policing(state)
    policing.police_idle({one.pid: 0.0})
    assert one.ended is not None, "it has not been idle for long"
    one.since = time.monotonic() - QUIET_SECONDS - 1
    policing.police_idle({one.pid: 0.0})
    assert one.ended is None
    assert peer.recv(1) == b""


def test_cpu_use_of_the_control_group_counts_only_between_steady_samples(world: World) -> None:
    """Processes that left the worker's tree still count in the control group."""
    state = world.state()
    one = world.add(state, State.IDLE, meter=Meters())
    policing = Policing(state)

    def sample(seconds: int) -> list[int]:
        world.control_group(state, cpu_stat=f"usage_usec {seconds * 1_000_000}\n")
        policing.police_idle({one.pid: 0.0})
        return world.killed

    assert sample(0) == []
    state.has_changed = True
    assert sample(1000) == [], "a worker was started or ended since the last sample"
    assert sample(1000) == []
    assert sample(3000) == [one.pid]
    assert one.kill_reason is not None
    assert one.kill_reason[0] == messages.FAILED


def scratch_group(world: World, used: int) -> tuple[GroupState, Policing]:
    """A group with a limit of 1 MiB that holds ``used`` bytes of files in memory."""
    state = world.state(limits=messages.Resources(scratch_bytes=MIB))
    world.control_group(state, memory_stat=f"shmem {used}\n")
    return state, Policing(state)


def test_scratch_is_checked_only_if_it_is_limited_and_counted(world: World) -> None:
    unlimited = world.state()
    world.control_group(unlimited)
    uncounted = world.state(limits=messages.Resources(scratch_bytes=MIB))
    for state in (unlimited, uncounted):
        policing = Policing(state)
        policing.begin_scratch_checks()
        assert policing.scratch_due == math.inf
    _, policing = scratch_group(world, 0)
    policing.begin_scratch_checks()
    assert policing.scratch_due <= time.monotonic() + SCRATCH_SECONDS


@pytest.mark.parametrize(
    ("mib", "phase", "is_killed"),
    [(2, State.BUSY, False), (4, State.BUSY, True), (4, State.IDLE, False)],
)
def test_a_group_that_exceeds_its_scratch_space_is_killed_while_it_runs(
    world: World, mib: int, phase: State, is_killed: bool
) -> None:
    state, policing = scratch_group(world, mib * MIB)
    one = world.add(state, phase)
    policing.check_scratch(1000.0)
    assert (world.killed == [one.pid]) is is_killed
    assert ("clear_scratch" in world.calls) is is_killed
    if is_killed:
        assert one.kill_reason is not None
        assert one.kill_reason[0] == messages.LIMIT_SCRATCH
        assert "1 MiB" in one.kill_reason[1]


def test_idle_workers_are_killed_too_and_loading_ones_are_not(world: World) -> None:
    """A memory file lives as long as any process has it open."""
    state, policing = scratch_group(world, 100 * MIB)
    by_phase = {phase: world.add(state, phase).pid for phase in State}
    policing.check_scratch(1000.0)
    assert set(world.killed) == {by_phase[State.BUSY], by_phase[State.IDLE]}


def test_checks_continue_while_a_watched_invocation_runs(world: World) -> None:
    state, policing = scratch_group(world, 0)
    one = world.add(state, State.BUSY, is_watched=True)
    policing.check_scratch(1000.0)
    assert policing.scratch_due == 1000.0 + SCRATCH_SECONDS
    one.is_watched = False
    policing.check_scratch(2000.0)
    assert policing.scratch_due == math.inf
