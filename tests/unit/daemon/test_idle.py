"""CPU use of workers that report to be idle."""

from __future__ import annotations

import math
import resource

import pytest

from storlet_daemon import idle
from storlet_daemon.idle import Meter, cpu_seconds_by_ancestor
from storlet_daemon.kernel import Process


class Clock:
    """A clock that the test advances, on a machine of two CPUs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(idle.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(idle, "_PROCESSORS", 2)

    def sample(self, meter: Meter, cpu_seconds: float) -> bool:
        """Take a sample two seconds later."""
        self.now += 2
        return meter.is_over(cpu_seconds)

    def batch(self, meter: Meter, runs: int) -> None:
        """Five milliseconds later, read the reports of several runs together."""
        batch_began = self.now
        self.now += 0.005
        for _ in range(runs):
            meter.began(batch_began)
            meter.ended()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_an_idle_worker_that_computes_is_found_at_the_second_sample(clock: Clock) -> None:
    meter = Meter()
    assert not clock.sample(meter, 5.0)
    assert clock.sample(meter, 7.0)


def test_cpu_time_before_the_first_sample_was_the_load(clock: Clock) -> None:
    meter = Meter()
    assert not any(clock.sample(meter, 100.0) for _ in range(3))


def test_a_low_cpu_use_is_always_allowed_and_more_is_not(clock: Clock) -> None:
    quiet, loud = Meter(), Meter()
    assert not any(clock.sample(quiet, 0.039 * turn) for turn in range(1000))
    assert any(clock.sample(loud, 0.1 * turn) for turn in range(10))


def test_an_invocation_may_use_all_cpus_while_it_runs(clock: Clock) -> None:
    meter = Meter()
    clock.sample(meter, 0.0)
    meter.began(clock.now)
    assert not clock.sample(meter, 4.0)
    assert not clock.sample(meter, 8.0)
    meter.ended()
    assert not clock.sample(meter, 8.1)
    assert clock.sample(meter, 9.0)


def test_idle_time_gives_no_credit_for_later(clock: Clock) -> None:
    meter = Meter()
    clock.sample(meter, 0.0)
    meter.began(clock.now)
    clock.sample(meter, 0.0)
    clock.sample(meter, 0.0)
    meter.ended()
    assert clock.sample(meter, 0.5)


def test_many_short_invocations_may_take_a_moment_each(clock: Clock) -> None:
    meter = Meter()
    clock.sample(meter, 0.0)
    for _ in range(1000):
        meter.began(clock.now)
        meter.ended()
    assert not clock.sample(meter, 1.0)


def test_cpu_time_before_the_report_was_read_belongs_to_the_run(clock: Clock) -> None:
    meter = Meter()
    clock.sample(meter, 0.0)
    for _ in range(200):
        clock.batch(meter, runs=1)
    assert not clock.sample(meter, 2.0)


def test_runs_reported_together_share_the_time_of_the_batch(clock: Clock) -> None:
    meter = Meter()
    clock.sample(meter, 0.0)
    for _ in range(20):
        clock.batch(meter, runs=10)
    # 0.1 s of two processors, and a moment for each of 200 runs.
    assert meter.allowed == math.inf
    assert not clock.sample(meter, 0.5)
    assert meter.allowed == pytest.approx(0.2 + 0.2 + (2.1 * idle.LEAK))


def test_the_usage_of_a_run_that_died_is_reported() -> None:
    used = resource.struct_rusage([3.0, 1.0, 2048, *[0] * 13])
    meter = Meter()
    meter.began(0.0)
    assert meter.usage(used).cpu_seconds == 0
    assert meter.usage(used).peak_memory_bytes == 2048 * 1024
    meter.mark_run(1)
    assert meter.usage(used).cpu_seconds <= 4.0


def test_descendants_count_for_their_ancestor() -> None:
    processes = [
        Process(10, 1, False, 1.0), Process(11, 10, False, 2.0), Process(12, 11, False, 4.0), Process(20, 1, False, 8.0),
    ]  # fmt: skip
    assert cpu_seconds_by_ancestor(processes, [10, 20, 30]) == {10: 7.0, 20: 8.0}
