"""One invocation at an object node and its framed answer, with a worker on real sockets."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from dataclasses import replace

import eventlet
import pytest

from storlet_daemon.protocol import messages
from storlet_middleware.backend import frames
from storlet_middleware.engine.invocation import Invocation
from storlet_middleware.proxy.execution.result import RemoteResult
from storlet_middleware.wsgi.byte_ranges import ByteRange
from tests.unit.middleware.object_nodes import GULP, VERSION, Fixture
from tests.unit.middleware.support import WorkerRun, open_descriptors, wait_until


def test_the_objects_file_is_donated_and_the_answer_is_framed(at: Fixture) -> None:
    data, result = at.read()
    assert (data, result.usage.as_header()) == (
        b"HELLO",
        "cpu=0.250000;peak-memory=4096;in=5;out=5",
    )
    invoke = at.node.workers.runs[0].invoke
    assert (invoke.parameters, invoke.inputs[0].metadata) == ({"k": "ü"}, {"Color": "grün"})


@pytest.mark.parametrize("is_sent", [True, False])
def test_the_descriptors_of_a_small_answer_are_closed_after_it_was_sent(
    at: Fixture, is_sent: bool
) -> None:
    """The proxy does not wait for that; and a proxy may leave before the answer is sent."""
    before = open_descriptors()
    answer = at.start()
    if is_sent:
        assert len(b"".join(answer.app_iter)) == answer.content_length
    assert open_descriptors() != before
    answer.app_iter.close()
    # The worker of the test closes its own descriptors, which are of this process, too.
    at.node.workers.settle()
    assert open_descriptors() == before


def test_a_storlet_that_seeks_gets_the_file_with_its_size(at: Fixture) -> None:
    answer = at.start(storlet=replace(VERSION, seekable=True))
    assert b"HELLO" in answer.body
    [given] = at.node.workers.runs[0].invoke.inputs
    assert (given.seekable, given.size, given.start) == (messages.SEEK_FILE, 5, None)


def test_each_range_is_one_input(at: Fixture) -> None:
    def script(worker: WorkerRun) -> None:
        worker.begin()
        for fd, item in zip(worker.inputs, worker.invoke.inputs, strict=True):
            assert item.start is not None
            assert item.end is not None
            os.lseek(fd, item.start, os.SEEK_SET)
            worker.write(os.read(fd, item.end - item.start + 1) + b"|")
        worker.succeed()

    at.node.workers.script = script
    assert at.read(((0, 1), (3, None), (None, 2)))[0] == b"he|lo|lo|"
    data, result = at.read(((1, 99),))
    assert (data, result.span) == (b"ello|", (1, 4, 5))


@pytest.mark.parametrize("ranges", [((5, None),), ((0, 1), (9, 10))])
def test_a_range_outside_the_object_runs_nothing(
    at: Fixture, ranges: tuple[ByteRange, ...]
) -> None:
    with pytest.raises(Exception, match="in the range"):
        at.read(ranges)
    assert at.node.workers.runs == []


def test_a_failure_is_in_the_last_frame_after_the_log(at: Fixture) -> None:
    def script(worker: WorkerRun) -> None:
        os.write(worker.log, b"last words\n")
        worker.begin()
        worker.write(b"half")
        worker.fail(traceback="Traceback")

    at.node.workers.script = script
    answer = at.start(log=True)
    assert answer.status_int == 200
    result = RemoteResult(answer)

    def read() -> bytes:
        result.first()  # raises if the failure comes as soon as the bytes
        return b"".join(result.chunks())

    with pytest.raises(Exception, match="ValueError: no") as caught:
        read()
    assert (caught.value.code, caught.value.detail) == ("storlet.failed", "Traceback")
    assert result.log == b"last words\n"
    assert result.start_times.worker > 0
    assert result.sandbox_seconds >= result.start_times.code + result.start_times.sandbox > 0
    result.close()
    assert "ValueError" not in at.logger.text


def test_heartbeats_of_a_silent_storlet_fill_chunks_of_the_proxy(at: Fixture) -> None:
    def script(worker: WorkerRun) -> None:
        time.sleep(1.5)
        worker.begin()
        worker.write(b"x")
        worker.succeed()

    at.node.workers.script = script
    chunks = list(at.start().app_iter)
    beats = [chunk for chunk in chunks if len(chunk) == GULP and chunk[0] == frames.PAD]
    assert len(beats) >= 2
    decoder = frames.Decoder()
    assert [kind for chunk in chunks for kind, _ in decoder.feed(chunk)] == [
        frames.START,
        frames.DATA,
        frames.DONE,
    ]


def test_an_answer_that_begins_before_its_end_has_no_length(at: Fixture) -> None:
    def script(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(b"x" * 10_000)
        worker.succeed()

    at.node.workers.script = script
    answer = at.start()
    assert "Content-Length" not in answer.headers
    result = RemoteResult(answer)
    result.first()
    assert b"".join(result.chunks()) == b"x" * 10_000
    result.close()


def test_slow_output_is_padded_to_a_chunk_of_the_proxy(at: Fixture) -> None:
    flushed = threading.Event()

    def script(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(b"first")
        flushed.wait(10)
        worker.write(b"second")
        worker.succeed()

    at.node.workers.script = script
    sent = 0
    answer = at.start()
    chunks = iter(answer.app_iter)
    for chunk in chunks:
        sent += len(chunk)
        if b"first" in chunk:
            break
    while sent % GULP:
        chunk = next(chunks)
        assert b"second" not in chunk
        sent += len(chunk)
    flushed.set()
    assert b"second" in b"".join(chunks)
    answer.app_iter.close()


def test_output_that_comes_in_small_pieces_all_the_time_is_padded_too(at: Fixture) -> None:
    """With a wait that begins again at each piece, a client would get the first line when there is
    a whole chunk.
    """
    is_over = threading.Event()

    def script(worker: WorkerRun) -> None:
        worker.begin()
        while not is_over.wait(0.02):
            worker.write(b"x")
        worker.succeed()

    at.node.workers.script = script
    answer = at.start()
    chunks, sent, pieces = iter(answer.app_iter), 0, 0
    while not sent or sent % GULP:
        chunk = next(chunks)
        sent += len(chunk)
        pieces += chunk.endswith(b"x")
    assert 2 <= pieces < 100
    is_over.set()
    assert b"ok" in b"".join(chunks)
    answer.app_iter.close()


@pytest.mark.parametrize("read", [0, 1, 2])
def test_closing_the_answer_at_any_time_cancels_and_closes_all_descriptors(
    at: Fixture, read: int
) -> None:
    cancelled: list[bool] = []

    def script(worker: WorkerRun) -> None:
        with contextlib.suppress(OSError):
            worker.begin()
            worker.write(b"x")
        cancelled.append(worker.wait_for_cancel())

    at.node.workers.script = script
    before = open_descriptors()
    answer = at.start()
    chunks = iter(answer.app_iter)
    for _ in range(read):
        next(chunks)
    answer.app_iter.close()
    assert wait_until(lambda: open_descriptors() <= before)
    assert read == 0 or wait_until(lambda: cancelled == [True])


def test_an_internal_error_is_reported_and_logged(at: Fixture) -> None:
    del at.server.headers["X-Timestamp"]
    at.filter._context = replace(at.filter._context, launcher=None)  # type: ignore[arg-type]
    with pytest.raises(Exception, match="internal error") as caught:
        at.read()
    assert caught.value.status == 500
    assert "ERROR storlets" in at.logger.text


def test_lines_of_the_log_come_with_heartbeats_if_the_proxy_requests_them(at: Fixture) -> None:
    seen = threading.Event()

    def script(worker: WorkerRun) -> None:
        worker.begin()
        os.write(worker.log, b"early\n")
        seen.wait(10)
        os.write(worker.log, b"late")
        worker.write(b"x")
        worker.succeed()

    at.node.workers.script = script
    kinds, pieces, decoder = [], [], frames.Decoder()
    for chunk in at.start(log_delay=0.0).app_iter:
        for kind, payload in decoder.feed(chunk):
            kinds.append(kind)
            if kind == frames.PIECE:
                pieces.append(payload)
                seen.set()
    assert pieces == [{"text": "early\n", "skipped_bytes": 0}, {"text": "late", "skipped_bytes": 0}]
    assert kinds == [frames.PIECE, frames.START, frames.DATA, frames.PIECE, frames.DONE]


def test_a_proxy_without_a_request_for_lines_gets_none_and_a_short_run_sends_none(
    at: Fixture,
) -> None:
    def script(worker: WorkerRun) -> None:
        if worker.log >= 0:
            os.write(worker.log, b"line\n")
        worker.begin()
        worker.write(b"x")
        worker.succeed()

    at.node.workers.script = script
    for answer in (at.start(), at.start(log_delay=30.0)):
        decoder = frames.Decoder()
        found = [kind for chunk in answer.app_iter for kind, _ in decoder.feed(chunk)]
        assert found == [frames.START, frames.DATA, frames.DONE]


def test_a_run_that_cannot_be_closed_gives_the_objects_file_back(
    at: Fixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    close = Invocation.close

    def interrupted(invocation: Invocation) -> None:
        close(invocation)
        raise eventlet.Timeout

    at.node.workers.script = lambda worker: worker.fail()
    monkeypatch.setattr(Invocation, "close", interrupted)
    before = open_descriptors()
    with pytest.raises(eventlet.Timeout):
        at.start()
    at.node.workers.settle()
    assert open_descriptors() == before
