"""Sources that are copied into streams: drained, broken, stalled."""

from __future__ import annotations

import os
from collections.abc import Iterator

import eventlet
import pytest

from storlet_middleware.engine import feed, handover
from storlet_middleware.engine.feed import Feeder
from storlet_middleware.engine.task import StreamInput
from storlet_middleware.errors import StorletError
from tests.unit.middleware.engine.invocations import Source, failure, make, run
from tests.unit.middleware.support import WorkerRun, Workers, open_descriptors, wait_until


def test_a_storlet_that_stops_reading_early_can_succeed(workers: Workers) -> None:
    def script(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(os.read(worker.inputs[0], 3))
        worker.succeed()

    workers.script = script
    source = Source(b"x" * 65536 for _ in range(1000))
    assert run(make([StreamInput(source, {})]), workers) == b"xxx"
    assert source.is_closed
    assert source.taken < 1000


def test_a_source_that_drains_is_read_to_its_end_after_the_storlet_stopped_reading(
    workers: Workers,
) -> None:
    def script(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(os.read(worker.inputs[0], 3))
        worker.succeed()

    workers.script = script
    source = Source([b"x" * 65536 for _ in range(50)])
    assert run(make([StreamInput(source, {}, drains=True)]), workers) == b"xxx"
    assert source.taken == 50


def test_a_failed_check_at_the_end_of_a_drained_source_fails_a_storlet_that_has_ended(
    workers: Workers,
) -> None:
    def script(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(b"out")
        worker.succeed()

    def chunks() -> Iterator[bytes]:
        yield b"x" * 500_000
        raise StorletError("wrong hash", status=422, code="input.etag_mismatch")

    workers.script = script
    assert (
        failure(make([StreamInput(Source(chunks()), {}, drains=True)]), workers).code
        == "input.etag_mismatch"
    )


@pytest.mark.parametrize(
    "error", [OSError("gone"), eventlet.Timeout(None)], ids=["exception", "timeout"]
)
def test_a_broken_source_cancels_the_invocation_before_its_stream_is_closed(
    workers: Workers, error: BaseException
) -> None:
    saw: list[str] = []

    def script(worker: WorkerRun) -> None:
        worker.begin()
        data = worker.read()
        # End of file has come: by then the connection must be closed already.
        worker.connection.setblocking(False)
        try:
            saw.append("cancelled" if worker.connection.recv(1) == b"" else "data")
        except BlockingIOError:
            saw.append("end of input")
        worker.write(data)
        worker.succeed()

    def chunks() -> Iterator[bytes]:
        yield b"half"
        eventlet.sleep(0.1)
        raise error

    workers.script = script
    assert failure(make([StreamInput(Source(chunks()), {})]), workers).code == "input.incomplete"
    assert wait_until(lambda: bool(saw))
    assert saw == ["cancelled"]


def test_a_timeout_of_swift_while_the_storlet_takes_no_input_is_a_stall_of_the_storlet(
    workers: Workers,
) -> None:
    def script(worker: WorkerRun) -> None:
        worker.begin()
        worker.wait_for_cancel()

    def chunks() -> Iterator[bytes]:
        with eventlet.Timeout(0.2):
            while True:
                yield b"x" * 65536

    workers.script = script
    assert (
        failure(make([StreamInput(Source(chunks()), {})]), workers).code == "storlet.timeout.idle"
    )


@pytest.fixture
def ends() -> Iterator[tuple[int, int]]:
    """The reading end of a stream, and the writing end, which the feeder closes."""
    reader, writer = handover.stream(reader_is_ours=False)
    yield reader, writer
    os.close(reader)


def no_failure(error: BaseException) -> None:
    raise AssertionError from error


def test_a_source_is_copied_whole_and_then_closed(ends: tuple[int, int]) -> None:
    reader, writer = ends
    source = Source([b"abc", b"", b"de"])
    feeder = Feeder(source, writer, no_failure)
    feeder.wait()
    assert [os.read(reader, 10), os.read(reader, 10)] == [b"abcde", b""]
    assert (feeder.bytes_taken, feeder.is_over, source.is_closed) == (5, True, True)


def test_a_feeder_that_is_stopped_before_its_first_step_closes_everything(
    ends: tuple[int, int],
) -> None:
    reader, writer = ends
    source = Source([b"abc"])
    Feeder(source, writer, no_failure).stop()
    assert (source.taken, source.is_closed) == (0, True)
    assert os.read(reader, 10) == b""


def test_a_drained_source_that_stalls_is_abandoned_before_it_is_killed(
    ends: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = []

    class Stalled(Source):
        def abandon(self) -> None:
            steps.append("abandon")

        def close(self) -> None:
            steps.append("close")

    def chunks() -> Iterator[bytes]:
        eventlet.sleep(60)
        yield b""

    monkeypatch.setattr(feed, "_LAST_READ_SECONDS", 0.01)
    feeder = Feeder(Stalled(chunks()), ends[1], no_failure, drains=True)
    eventlet.sleep(0)
    assert feeder.waits_for_source
    feeder.stop()
    assert steps[0] == "abandon"
    assert set(steps[1:]) == {"close"}


def test_a_stop_that_is_interrupted_still_ends_the_feeder(workers: Workers) -> None:
    """As by a client that disconnects while its upload is read to the end."""

    def chunks() -> Iterator[bytes]:
        yield b"x"
        eventlet.sleep(30)

    workers.script = lambda worker: worker.fail()
    source = Source(chunks())
    eventlet.sleep()  # opens the hub's own
    before = open_descriptors()
    invocation = make([StreamInput(source, {}, drains=True)])
    invocation.start(workers.connect())
    with pytest.raises(StorletError):
        invocation.output.first()
    assert wait_until(lambda: source.taken == 1)
    with pytest.raises(eventlet.Timeout), eventlet.Timeout(0.1):
        invocation.close()
    assert source.is_closed
    workers.settle()
    assert open_descriptors() == before
