"""Deadlines of an invocation, and the time that counts for them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import eventlet
import pytest

from storlet_middleware.engine import progress
from storlet_middleware.engine.inputs import Inputs
from storlet_middleware.engine.progress import Progress
from storlet_middleware.engine.task import Deadlines, FileInput, StreamInput
from storlet_middleware.errors import StorletError
from tests.unit.middleware.engine.invocations import Source, failure, make, run, silent_after
from tests.unit.middleware.support import WorkerRun, Workers


def test_no_worker_within_the_queue_deadline_is_429(workers: Workers) -> None:
    workers.script = lambda worker: worker.wait_for_cancel() or None
    error = failure(make(deadlines=(0.2, 9, 9, 9)), workers)
    assert (error.status, error.code, error.retry_after) == (429, "tenant.busy", 1)


def test_no_worker_within_a_total_deadline_that_is_shorter_is_429(workers: Workers) -> None:
    """A storlet that has not begun is not blamed for the time that it waits."""
    workers.script = lambda worker: worker.wait_for_cancel() or None
    error = failure(make(deadlines=(0.5, 9, 9, 0.2)), workers)
    assert (error.status, error.code) == (429, "tenant.busy")


def test_the_wait_for_a_worker_does_not_use_up_the_total_deadline(workers: Workers) -> None:
    def script(worker: WorkerRun) -> None:
        time.sleep(0.6)
        worker.begin()
        worker.write(b"done")
        worker.succeed()

    workers.script = script
    assert run(make(deadlines=(9, 9, 9, 0.5)), workers) == b"done"


@pytest.mark.parametrize(
    ("step", "deadlines", "code"),
    [
        ("started", (9, 0.2, 9, 9), "storlet.timeout.first_byte"),
        ("metadata", (9, 0.2, 9, 9), "storlet.timeout.first_byte"),
        ("byte", (9, 9, 0.2, 9), "storlet.timeout.idle"),
        ("byte", (9, 9, 9, 0.3), "storlet.timeout.total"),
    ],
)
def test_a_deadline_is_a_422_and_cancels(
    workers: Workers, step: str, deadlines: tuple[float, float, float, float], code: str
) -> None:
    workers.script = silent_after(step)
    began = time.monotonic()
    error = failure(make(deadlines=deadlines), workers)
    assert (error.status, error.code) == (422, code)
    assert time.monotonic() - began < 5
    workers.settle()


def test_a_storlet_that_never_pauses_is_stopped_at_its_total_deadline(workers: Workers) -> None:
    def script(worker: WorkerRun) -> None:
        worker.begin()
        while True:
            worker.write(b"y" * 65536)

    workers.script = script
    began = time.monotonic()
    assert failure(make(deadlines=(9, 9, 9, 0.3)), workers).code == "storlet.timeout.total"
    assert time.monotonic() - began < 5


def test_a_slow_source_does_not_use_up_the_storlets_time(workers: Workers) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"a"
        eventlet.sleep(1.5)
        yield b"b"

    assert run(make([StreamInput(Source(chunks()), {})], deadlines=(9, 1, 1, 9)), workers) == b"AB"


def test_reading_a_file_without_output_is_progress(workers: Workers, short_dir: Path) -> None:
    def script(worker: WorkerRun) -> None:
        worker.begin()
        for _ in range(6):
            os.read(worker.inputs[0], 1)
            time.sleep(0.25)
        worker.write(b"done")
        worker.succeed()

    workers.script = script
    path = short_dir / "o"
    path.write_bytes(b"0123456789")
    with path.open("rb") as file:
        assert run(make([FileInput(file.fileno(), {})], deadlines=(9, 1, 1, 9)), workers) == b"done"


def test_input_read_before_the_last_output_does_not_extend_the_deadline(
    workers: Workers, short_dir: Path
) -> None:
    def script(worker: WorkerRun) -> None:
        worker.begin()
        worker.read()
        time.sleep(0.1)
        worker.write(b"x")
        worker.wait_for_cancel()

    workers.script = script
    path = short_dir / "o"
    path.write_bytes(b"0123456789")
    with path.open("rb") as file:
        began = time.monotonic()
        assert failure(
            make([FileInput(file.fileno(), {})], deadlines=(9, 9, 1.5, 9)), workers
        ).code.endswith("idle")
        assert time.monotonic() - began < 3, "one deadline, not two"


class Clock:
    """The time of :mod:`progress`, and the progress of made-up inputs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.was_read = False
        self.fed_at = 0.0
        monkeypatch.setattr(progress, "monotonic", lambda: self.now)
        self.progress = Progress(Deadlines(10.0, 20.0, 5.0, 100.0), cast("Inputs", self))

    def were_read(self) -> bool:
        was_read, self.was_read = self.was_read, False
        return was_read

    def were_fed_since(self, moment: float) -> bool:
        return self.fed_at > moment

    def start(self) -> Progress:
        self.progress.start()
        return self.progress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_each_stage_has_its_deadline(clock: Clock) -> None:
    assert clock.progress.deadline(0) == 1010.0
    assert clock.progress.exceeded(0).code == "tenant.busy"
    running = clock.start()
    assert running.deadline(0) == 1020.0
    assert running.exceeded(0).code == "storlet.timeout.first_byte"
    assert running.deadline(1) == 1005.0
    assert running.exceeded(1).code == "storlet.timeout.idle"


def test_the_total_deadline_ends_a_storlet_that_makes_progress(clock: Clock) -> None:
    running = clock.start()
    clock.now = 1099.0
    running.begin_stage()
    running.require_time()
    assert (running.deadline(1), running.exceeded(1).code) == (1100.0, "storlet.timeout.total")
    clock.now = 1101.0
    running.begin_stage()
    with pytest.raises(StorletError) as caught:
        running.require_time()
    assert caught.value.code == "storlet.timeout.total"
    assert not running.has_progressed()


def test_time_in_the_queue_counts_for_the_queue_only(clock: Clock) -> None:
    clock.now = 1008.0
    clock.progress.add_waiting(8.0)
    assert clock.progress.queue_seconds == 2.0
    clock.progress.add_waiting(50.0)
    assert clock.progress.queue_seconds == 1.0, "a tenth of the deadline remains"
    clock.start()
    assert clock.progress.began == clock.now, "the run has its whole total deadline"


def test_input_that_is_read_or_fed_begins_a_stage(clock: Clock) -> None:
    running = clock.start()
    clock.now = 1004.0
    assert not running.has_progressed()
    clock.was_read = True
    assert running.has_progressed()
    assert running.deadline(1) == 1009.0
    assert not running.has_progressed()
    clock.now, clock.fed_at = 1006.0, 1005.0
    assert running.has_progressed()
    assert running.deadline(1) == 1011.0


@pytest.mark.parametrize(("queue", "retry_after"), [(0.2, 1), (7.5, 8), (500.0, 60)])
def test_a_caller_without_a_worker_retries_after_the_queue_deadline(
    clock: Clock, queue: float, retry_after: int
) -> None:
    made = Progress(Deadlines(queue, 1, 1, 1), cast("Inputs", clock))
    assert made.exceeded_queue().retry_after == retry_after


def test_deadlines_that_replace_others_before_the_start_hold_from_then_on(clock: Clock) -> None:
    """The time in the queue of the node counts once."""
    progress = clock.progress
    progress.add_waiting(3.0)
    progress.replace_deadlines(Deadlines(8.0, 2.0, 1.0, 30.0))
    assert progress.queue_seconds == 5.0
    assert progress.deadline(0) == 1005.0
    progress.begin_stage()
    clock.now += 40.0
    progress.begin_stage()
    assert progress.deadline(0) == 1041.0
    running = clock.start()
    assert (running.deadline(0), running.deadline(1)) == (1042.0, 1041.0)


def test_the_total_deadline_begins_with_the_run(clock: Clock) -> None:
    clock.now += 9.0
    running = clock.start()
    clock.now += 99.0
    running.begin_stage()
    running.require_time()
    assert running.deadline(1) == 1109.0
    clock.now += 2.0
    running.begin_stage()
    with pytest.raises(StorletError, match="ran for 100 s"):
        running.require_time()


def test_a_worker_that_answers_without_having_begun_is_limited(clock: Clock) -> None:
    clock.now += 110.0
    clock.progress.begin_stage()
    clock.progress.require_time()
    assert clock.progress.deadline(0) == 1110.0
    clock.now += 1.0
    clock.progress.begin_stage()
    with pytest.raises(StorletError, match="ran for 100 s"):
        clock.progress.require_time()
