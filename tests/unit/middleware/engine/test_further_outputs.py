"""Outputs after the first: each is read by a task of its own, and given to its receiver."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping

import eventlet
import pytest

from storlet_daemon.protocol import messages
from storlet_middleware import errors
from storlet_middleware.concurrency import Bell, GreenTask, monotonic, sleep
from storlet_middleware.engine import further_outputs
from storlet_middleware.engine.invocation import Invocation
from storlet_middleware.engine.task import Deadlines, Limits, StreamInput, Task
from storlet_middleware.errors import BadRequest, StorletError
from tests.unit.middleware.engine.invocations import Source, failure, run
from tests.unit.middleware.support import WorkerRun, Workers, open_descriptors

#: More than a stream holds.
LARGE = b"x" * (3 << 20)


class Sink:
    """Keeps what it gets; takes nothing while it is held."""

    def __init__(self, *, is_held: bool = False, error: Exception | None = None) -> None:
        self.metadata: dict[str, str] | None = None
        self.data = b""
        self.is_held = is_held
        self.bell = Bell()
        self._error = error

    def begin(self, metadata: Mapping[str, str]) -> None:
        assert self.metadata is None
        self.metadata = dict(metadata)

    def write(self, chunk: bytes) -> None:
        assert self.metadata is not None
        if self._error is not None:
            raise self._error
        while self.is_held:
            self.bell.wait(None)
        self.data += chunk

    def release(self) -> None:
        self.is_held = False
        self.bell.ring()


def make(
    *sinks: Sink, deadlines: tuple[float, float, float, float] = (2, 2, 2, 5), limit: int = 0
) -> Invocation:
    task = Task("tx-1", {}, Deadlines(*deadlines), Limits(limit, 4096, 65536))
    return Invocation(task, [StreamInput(Source([]), {})], sinks)


def writing(
    *steps: tuple[int, bytes], metadata: Callable[[WorkerRun], None] | None = None
) -> object:
    """A storlet that writes into outputs, by their numbers, in this order."""

    def script(worker: WorkerRun) -> None:
        worker.begin()
        for number in range(1, len(worker.outs)):
            worker.begin_further(number, number=str(number))
        for number, data in steps:
            worker.write(data, number)
        worker.succeed()

    return script


@pytest.mark.parametrize(
    "steps",
    [
        [(0, b"zero"), (1, b"one"), (2, b"two")],
        [(2, b"two"), (1, b"one"), (0, b"zero")],
        [(2, LARGE), (1, LARGE), (0, LARGE)],
        [(0, LARGE), (1, b"one")],
        [(number % 3, b"x" * 70000) for number in range(60)],
        [],
    ],
)
def test_outputs_may_be_written_in_any_order(
    workers: Workers, steps: list[tuple[int, bytes]]
) -> None:
    workers.script = writing(*steps)
    sinks = [Sink(), Sink()]
    invocation = make(*sinks)
    outputs = [run(invocation, workers), *(sink.data for sink in sinks)]
    wanted = [b"".join(data for to, data in steps if to == number) for number in range(3)]
    assert outputs == wanted
    assert [sink.metadata for sink in sinks] == [{"number": "1"}, {"number": "2"}]
    assert invocation.bytes_out == sum(map(len, wanted))
    assert invocation.output.length == len(wanted[0])


def test_a_receiver_that_waits_holds_up_its_own_output_only(workers: Workers) -> None:
    workers.script = writing((1, LARGE), (0, b"zero"))
    held, other = Sink(is_held=True), Sink()
    invocation = make(held, other, deadlines=(0.3, 0.3, 0.3, 5))
    try:
        invocation.start(workers.connect())
        # Longer than the deadlines: the storlet waits for its receiver, so it is not to blame.
        assert not invocation.output.first(1.0)
        held.release()
        assert invocation.output.first()
        assert invocation.output.read() == b"zero"
        assert invocation.output.read() == b""
        assert held.data == LARGE
    finally:
        invocation.close()


def test_data_of_a_further_output_is_progress(workers: Workers) -> None:
    def script(worker: WorkerRun) -> None:
        worker.send(messages.Started())
        worker.begin_further(1)
        for _ in range(10):
            worker.write(b"x", 1)
            time.sleep(0.1)
        worker.send(messages.Metadata({}))
        worker.succeed()

    workers.script = script
    assert run(make(Sink(), deadlines=(0.5, 0.5, 0.5, 5)), workers) == b""


def test_a_storlet_that_stalls_after_a_further_output_is_idle(workers: Workers) -> None:
    def script(worker: WorkerRun) -> None:
        worker.send(messages.Started())
        worker.begin_further(1)
        worker.write(b"x", 1)
        assert worker.wait_for_cancel()

    workers.script = script
    stalled = failure(make(Sink(), deadlines=(2, 5, 0.3, 5)), workers)
    assert stalled.code == errors.TIMEOUT_IDLE


def test_a_receiver_that_fails_fails_the_run(workers: Workers) -> None:
    def script(worker: WorkerRun) -> None:
        worker.begin()
        worker.begin_further(1)
        worker.write(b"x", 1)
        assert worker.wait_for_cancel()

    workers.script = script
    error = failure(make(Sink(error=BadRequest("full"))), workers)
    assert (type(error), str(error)) == (BadRequest, "full")


@pytest.mark.parametrize("number", [0, 1])
def test_the_limit_of_the_output_is_that_of_the_sum(workers: Workers, number: int) -> None:
    def script(worker: WorkerRun) -> None:
        worker.begin()
        worker.begin_further(1)
        worker.write(b"x" * 60, 1 - number)
        worker.write(b"x" * 50, number)
        assert worker.wait_for_cancel()

    workers.script = script
    assert failure(make(Sink(), limit=100), workers).code == errors.LIMIT_OUTPUT


def test_data_without_metadata_is_not_given_to_the_receiver(workers: Workers) -> None:
    def script(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(b"x", 1)
        worker.succeed()

    workers.script = script
    sink = Sink()
    with pytest.raises(StorletError, match="no reason"):
        run(make(sink), workers)
    assert sink.data == b""


def test_bytes_after_the_end_of_the_run_do_not_belong_to_it(workers: Workers) -> None:
    kept: list[int] = []

    def script(worker: WorkerRun) -> None:
        worker.begin()
        worker.begin_further(1)
        worker.write(b"result", 1)
        kept.append(os.dup(worker.outs[1]))
        worker.succeed()

    workers.script = script
    sink = Sink()
    # The copy keeps the stream open: its end does not come.
    assert run(make(sink), workers) == b""
    assert sink.data == b"result"
    os.close(kept[0])


def test_a_result_has_not_ended_before_its_receivers_have_all(workers: Workers) -> None:
    workers.script = writing((1, b"x"), (0, b"zero"))
    sink = Sink(is_held=True)
    invocation = make(sink)
    try:
        invocation.start(workers.connect())
        assert invocation.output.first()
        sleep(0.3)
        assert not invocation.output.has_ended()
        sink.release()
        assert invocation.output.end_within(2, 1000)
        assert (invocation.output.has_ended(), sink.data) == (True, b"x")
        assert [invocation.output.read(), invocation.output.read()] == [b"zero", b""]
    finally:
        invocation.close()


def test_a_wait_for_the_end_is_limited_by_time_and_bytes(workers: Workers) -> None:
    def script(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(b"x")
        assert worker.wait_for_cancel()

    workers.script = script
    for seconds, most in ((0.1, 100), (5, 0)):
        invocation = make()
        try:
            invocation.start(workers.connect())
            assert invocation.output.first()
            assert not invocation.output.end_within(seconds, most)
            assert invocation.output.read() == b"x"
        finally:
            invocation.close()


def test_a_wait_for_the_end_is_limited_while_bytes_come_one_by_one(workers: Workers) -> None:
    def script(worker: WorkerRun) -> None:
        worker.begin()
        with contextlib.suppress(OSError):  # the invocation is closed
            for _ in range(10_000):
                worker.write(b"x")
                time.sleep(0.001)

    workers.script = script
    invocation = make()
    try:
        invocation.start(workers.connect())
        assert invocation.output.first()
        began = monotonic()
        assert not invocation.output.end_within(0.2, 1 << 20)
        assert monotonic() - began < 2
    finally:
        invocation.close()


def test_an_end_that_is_interrupted_closes_the_streams(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(task: GreenTask) -> None:
        task.kill()
        raise eventlet.Timeout

    workers.script = lambda worker: worker.fail()
    monkeypatch.setattr(further_outputs, "end", interrupted)
    eventlet.sleep()  # opens the hub's own
    before = open_descriptors()
    invocation = make(Sink(), Sink())
    with pytest.raises(eventlet.Timeout):
        run(invocation, workers)
    workers.settle()
    assert open_descriptors() == before
