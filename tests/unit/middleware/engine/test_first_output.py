"""The first output: its end, read ahead or not, and its pace."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import eventlet
import pytest

from storlet_daemon.protocol import messages
from storlet_middleware.engine import first_output
from storlet_middleware.engine.events import Events
from storlet_middleware.engine.task import FileInput
from storlet_middleware.errors import StorletError
from tests.unit.middleware.engine.invocations import failure, make, run
from tests.unit.middleware.support import WorkerRun, Workers


@pytest.mark.parametrize("size", [0, 5, 200_000])
def test_an_end_that_is_at_hand_is_seen_without_waiting_and_loses_nothing(
    workers: Workers, size: int
) -> None:
    given = b"x" * size

    def script(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(given)
        worker.succeed()

    workers.script = script
    invocation = make()
    invocation.start(workers.connect())
    assert invocation.output.first()
    workers.settle()
    assert invocation.output.has_ended()
    assert (invocation.bytes_out, invocation.usage["cpu_seconds"]) == (size, 0.25)
    assert invocation.output.has_ended()
    assert b"".join(iter(invocation.output.read, b"")) == given
    assert invocation.output.read() == b""
    invocation.close()


@pytest.mark.parametrize("is_soon", [True, False])
def test_output_that_comes_soon_costs_one_wait(
    workers: Workers, monkeypatch: pytest.MonkeyPatch, *, is_soon: bool
) -> None:
    """The events before the first byte cause no wake-up, unless the output is not there soon."""
    waits, has_waited_twice = list[int](), threading.Event()

    def script(worker: WorkerRun) -> None:
        worker.begin()
        assert is_soon or has_waited_twice.wait(5)
        worker.write(b"x")
        worker.succeed()

    def wait(self: Events, fd: int, until: float | None) -> bool:
        waits.append(fd)
        if len(waits) > 1:
            has_waited_twice.set()
        return original(self, fd, until)

    original = Events.wait
    monkeypatch.setattr(Events, "wait", wait)
    if is_soon:
        # On a busy machine the worker may need longer than the usual time.
        monkeypatch.setattr(first_output, "_SOON_SECONDS", 5.0)
    workers.script = script
    invocation = make()
    invocation.start(workers.connect())
    assert invocation.output.first()
    assert (len(waits) == 1) == is_soon
    assert invocation.has_started
    assert b"".join(iter(invocation.output.read, b"")) == b"x"
    invocation.close()


def test_a_failure_that_comes_soon_is_raised_in_order(workers: Workers) -> None:
    def script(worker: WorkerRun) -> None:
        worker.begin()
        worker.fail()

    workers.script = script
    invocation = make()
    invocation.start(workers.connect())
    with pytest.raises(StorletError):
        invocation.output.first()
    assert invocation.has_started
    invocation.close()


def test_an_end_that_is_not_at_hand_is_not_waited_for(workers: Workers) -> None:
    def script(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(b"x")
        assert worker.wait_for_cancel()

    workers.script = script
    invocation = make()
    invocation.start(workers.connect())
    invocation.output.first()
    began = time.monotonic()
    assert not any(invocation.output.has_ended() for _ in range(1000))
    assert time.monotonic() - began < 0.5
    assert invocation.output.read() == b"x"
    invocation.close()


def test_data_written_after_the_end_are_no_output(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child process of a storlet or a lying worker could otherwise keep the filter reading."""
    has_come, has_written = threading.Event(), threading.Event()

    def script(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(b"all")
        child = os.dup(worker.out)
        worker.succeed()
        has_come.wait(5)
        os.write(child, b"more" * 1000)
        os.close(child)
        has_written.set()

    def take_done(self: Events, done: messages.Done) -> None:
        original(self, done)
        has_come.set()
        assert has_written.wait(5)

    original = Events._handle_done
    monkeypatch.setattr(Events, "_handle_done", take_done)
    workers.script = script
    assert run(make(), workers) == b"all"


def test_a_failure_that_is_at_hand_is_raised(workers: Workers) -> None:
    def script(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(b"x")
        worker.fail()

    workers.script = script
    invocation = make()
    invocation.start(workers.connect())
    assert invocation.output.first()
    workers.settle()
    with pytest.raises(StorletError):
        invocation.output.has_ended()
    invocation.close()


def test_an_empty_output_is_a_success_only_after_done(workers: Workers) -> None:
    def script(worker: WorkerRun) -> None:
        worker.begin()
        worker.succeed()

    workers.script = script
    assert run(make(), workers) == b""


def test_end_of_data_without_done_is_a_failure(workers: Workers) -> None:
    def script(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(b"half")
        worker.close_files()

    workers.script = script
    assert failure(make(), workers).code == "sandbox.unavailable"


def test_a_connection_that_ends_before_the_data_is_a_failure_too(workers: Workers) -> None:
    workers.script = lambda worker: worker.begin()
    assert failure(make(), workers).code == "sandbox.unavailable"


def test_a_caller_that_sends_heartbeats_is_called_in_time_also_with_short_deadlines(
    workers: Workers, short_dir: Path
) -> None:
    asked = threading.Event()

    def script(worker: WorkerRun) -> None:
        worker.begin()
        while not asked.wait(0.02):
            os.read(worker.inputs[0], 1)
        worker.write(b"x")
        worker.succeed()

    workers.script = script
    path = short_dir / "o"
    path.write_bytes(b"x" * 5000)
    with path.open("rb") as file:
        invocation = make([FileInput(file.fileno(), {})], deadlines=(9, 0.6, 0.6, 20))
        invocation.start(workers.connect())
        began = time.monotonic()
        assert not invocation.output.first(1.0)
        assert time.monotonic() - began >= 1.0
        asked.set()
        while not invocation.output.first(0.3):
            pass
        invocation.close()


def test_small_writes_are_gathered(workers: Workers) -> None:
    """A storlet that writes byte by byte must not keep a processor busy with reads."""
    count = 5000

    def script(worker: WorkerRun) -> None:
        worker.begin()
        for _ in range(count):
            worker.write(b"x")
        worker.succeed()

    workers.script = script
    invocation = make()
    began = time.monotonic()
    invocation.start(workers.connect())
    invocation.output.first()
    pieces = []
    while piece := invocation.output.read():
        pieces.append(piece)
        # Another request has its turn, and the worker, which is a thread here, writes on.
        eventlet.sleep(0)
    invocation.close()
    assert b"".join(pieces) == b"x" * count
    # 16 at once, then one in two milliseconds.
    assert len(pieces) <= 17 + (time.monotonic() - began) / 0.002
