"""Who computes while he says that he does nothing."""

from __future__ import annotations

import math
import resource

import pytest

from storlet_daemon import idle
from storlet_daemon.idle import Meter, cpu_seconds_by_ancestor
from storlet_daemon.kernel import Process


class Clock:
    """Time that passes when told to, on a machine of two processors."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(idle.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(idle, "_PROCESSORS", 2)

    def look(self, meter: Meter, cpu_seconds: float) -> bool:
        """Two seconds later."""
        self.now += 2
        return meter.is_over(cpu_seconds)

    def nap(self, meter: Meter, runs: int) -> None:
        """Five milliseconds later, when so many runs are heard of together."""
        asleep_since = self.now
        self.now += 0.005
        for _ in range(runs):
            meter.began(asleep_since)
            meter.ended()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_an_idle_worker_that_computes_is_seen_at_the_second_look(clock: Clock) -> None:
    meter = Meter()
    assert not clock.look(meter, 5.0)
    assert clock.look(meter, 7.0)


def test_what_was_used_before_the_first_look_was_the_load(clock: Clock) -> None:
    meter = Meter()
    assert not any(clock.look(meter, 100.0) for _ in range(3))


def test_a_trickle_is_allowed_for_ever_and_a_little_more_is_not(clock: Clock) -> None:
    quiet, loud = Meter(), Meter()
    assert not any(clock.look(quiet, 0.039 * turn) for turn in range(1000))
    assert any(clock.look(loud, 0.1 * turn) for turn in range(10))


def test_all_processors_are_an_invocations_while_it_runs(clock: Clock) -> None:
    meter = Meter()
    clock.look(meter, 0.0)
    meter.began(clock.now)
    assert not clock.look(meter, 4.0)
    assert not clock.look(meter, 8.0)
    meter.ended()
    assert not clock.look(meter, 8.1)
    assert clock.look(meter, 9.0)


def test_rest_gives_no_credit_for_later(clock: Clock) -> None:
    meter = Meter()
    clock.look(meter, 0.0)
    meter.began(clock.now)
    clock.look(meter, 0.0)
    clock.look(meter, 0.0)
    meter.ended()
    assert clock.look(meter, 0.5)


def test_many_short_invocations_may_take_a_moment_each(clock: Clock) -> None:
    meter = Meter()
    clock.look(meter, 0.0)
    for _ in range(1000):
        meter.began(clock.now)
        meter.ended()
    assert not clock.look(meter, 1.0)


def test_what_was_used_before_anybody_heard_of_the_run_is_the_runs(clock: Clock) -> None:
    meter = Meter()
    clock.look(meter, 0.0)
    for _ in range(200):
        clock.nap(meter, runs=1)
    assert not clock.look(meter, 2.0)


def test_runs_that_are_heard_of_together_share_the_time_between_two_looks(clock: Clock) -> None:
    meter = Meter()
    clock.look(meter, 0.0)
    for _ in range(20):
        clock.nap(meter, runs=10)
    # 0.1 s of two processors, and a moment for each of 200 runs.
    assert meter.allowed == math.inf
    assert not clock.look(meter, 0.5)
    assert meter.allowed == pytest.approx(0.2 + 0.2 + (2.1 * idle.LEAK))


def test_what_a_run_took_is_told_after_its_death() -> None:
    used = resource.struct_rusage([3.0, 1.0, 2048, *[0] * 13])
    meter = Meter()
    meter.began(0.0)
    assert meter.usage(used).cpu_seconds == 0
    assert meter.usage(used).peak_memory_bytes == 2048 * 1024
    meter.sample(1)
    assert meter.usage(used).cpu_seconds <= 4.0


def test_descendants_count_for_their_ancestor() -> None:
    processes = [
        Process(10, 1, False, 1.0), Process(11, 10, False, 2.0), Process(12, 11, False, 4.0), Process(20, 1, False, 8.0),
    ]  # fmt: skip
    assert cpu_seconds_by_ancestor(processes, [10, 20, 30]) == {10: 7.0, 20: 8.0}
