"""An invocation against a worker with real sockets."""

from __future__ import annotations

import array
import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import eventlet
import pytest

from storlet_daemon import kernel
from storlet_daemon.protocol import messages
from storlet_middleware.engine.invocation import Invocation
from storlet_middleware.engine.task import FileInput, StreamInput
from storlet_middleware.errors import StorletError
from tests.unit.middleware.engine.invocations import Source, failure, make, run, silent_after
from tests.unit.middleware.support import WorkerRun, Workers, open_descriptors, wait_until


def test_output_of_a_stream_arrives_whole_with_metadata_and_usage(workers: Workers) -> None:
    def script(worker: WorkerRun) -> None:
        assert worker.invoke.parameters == {"k": "v"}
        worker.begin(color="red")
        worker.write(worker.read() * 2)
        worker.succeed()

    workers.script = script
    data = os.urandom(3_000_000)
    invocation = make([StreamInput(Source([data[:7], data[7:]]), {})])
    assert run(invocation, workers) == data * 2
    assert invocation.metadata == {"color": "red"}
    assert invocation.usage == {"cpu_seconds": 0.25, "peak_memory_bytes": 4096}
    assert invocation.bytes_out == 2 * len(data)


def test_a_file_is_donated_and_its_offset_counts_as_what_was_read(
    workers: Workers, short_dir: Path
) -> None:
    path = short_dir / "o"
    path.write_bytes(b"0123456789")
    with path.open("rb") as file:
        invocation = make([FileInput(file.fileno(), {}, 2, 5)])
        invocation.start(workers.connect())
        invocation.output.first()
        assert invocation.output.read() == b"2345"
        assert invocation.output.read() == b""
        assert invocation.bytes_in() == 4
        invocation.close()


def test_an_invocation_prepared_before_there_is_a_connection_reaches_the_worker(
    workers: Workers, short_dir: Path
) -> None:
    path = short_dir / "o"
    path.write_bytes(b"0123456789")
    with path.open("rb") as file:
        invocation = make([FileInput(file.fileno(), {}, 2, 5)], log=True)
        invocation.prepare()
        prepared = open_descriptors()
        invocation.prepare()
        assert open_descriptors() == prepared
        assert run(invocation, workers) == b"2345"
        # It is the caller's still.
        assert os.pread(file.fileno(), 10, 0) == b"0123456789"


def test_an_invocation_prepared_in_vain_is_released(short_dir: Path) -> None:
    path = short_dir / "o"
    path.write_bytes(b"0123456789")
    before = open_descriptors()
    with path.open("rb") as file:
        invocation = make([FileInput(file.fileno(), {})], log=True)
        invocation.prepare()
        invocation.close()
    assert open_descriptors() == before


def test_no_source_is_touched_before_there_is_a_connection() -> None:
    source = Source([b"x"])
    before = open_descriptors()
    invocation = make([StreamInput(source, {})])
    invocation.prepare()
    eventlet.sleep(0.01)
    assert (open_descriptors(), source.taken) == (before, 0)
    invocation.close()
    assert source.is_closed


def test_a_failure_of_the_storlet_carries_its_message_and_traceback(workers: Workers) -> None:
    def script(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(b"half")
        worker.fail("ValueError: no\r\nX-Evil: 1", traceback="t" * 40000)

    workers.script = script
    error = failure(make(), workers)
    assert (error.status, error.code, str(error)) == (
        422,
        "storlet.failed",
        "ValueError: no X-Evil: 1",
    )
    assert len(error.detail) <= 16384


# --- time between heartbeats


# --- a sandbox that does not keep to the protocol


@pytest.mark.parametrize(
    "events",
    [
        [messages.Started(), messages.Started()],
        [messages.Started(), messages.Metadata({}), messages.Metadata({})],
        [messages.Started(), messages.Done("ok")],
        [messages.Done("ok")],
        [messages.Ready()],
        [messages.Started(), messages.Metadata({}), messages.Started()],
    ],
    ids=lambda events: "-".join(type(event).__name__ for event in events),
)
def test_events_out_of_order_never_make_a_success(
    workers: Workers, events: list[messages.Message]
) -> None:
    def script(worker: WorkerRun) -> None:
        for event in events:
            worker.send(event)
        worker.close_files()

    workers.script = script
    assert failure(make(), workers).status in {422, 503}


@pytest.mark.parametrize(
    "garbage", [b"\xff\xfe", b"[]", b"{}", b'{"type":"done"}', b'{"type":"done","outcome":"fine"}']
)
def test_garbage_from_a_sandbox_is_a_failure(workers: Workers, garbage: bytes) -> None:
    def script(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(b"x")
        worker.connection.send(garbage)

    workers.script = script
    assert failure(make(), workers).code == "storlet.failed"


def test_a_sandbox_cannot_blame_the_service_or_invent_a_code(workers: Workers) -> None:
    workers.script = lambda worker: worker.fail("mine", code="protocol")
    assert failure(make(), workers).code == "storlet.failed"


def test_the_kernel_refuses_descriptors_that_a_sandbox_sends(workers: Workers) -> None:
    """Closing them could take milliseconds each, in Swift's process."""
    refused: list[object] = []

    def script(worker: WorkerRun) -> None:
        worker.begin()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [worker.out]))]
        output = socket.socket(fileno=os.dup(worker.out))
        for sender in (worker.connection, output):
            with sender if sender is output else contextlib.nullcontext():
                try:
                    sender.sendmsg([b"x"], rights)
                except PermissionError as error:
                    refused.append(error)
        worker.write(b"output")
        worker.succeed()

    workers.script = script
    before = open_descriptors()
    if kernel.can_refuse_descriptors():
        run(make(), workers)
    else:
        # There the worker gives up the system call; a record that is no event fails the storlet.
        assert failure(make(), workers).code == "storlet.failed"
    workers.settle()
    assert len(refused) == 2 * kernel.can_refuse_descriptors()
    assert open_descriptors() == before


# --- log, descriptors


def leave(invocation: Invocation, workers: Workers, step: str) -> None:
    if step == "new":
        return
    invocation.start(workers.connect())
    if step == "start":
        return
    invocation.output.first()
    if step == "read":
        invocation.output.read()


@pytest.mark.parametrize("step", ["new", "start", "first", "read"])
def test_close_at_any_time_gives_every_descriptor_back_and_cancels(
    workers: Workers, short_dir: Path, step: str
) -> None:
    cancelled: list[bool] = []

    def script(worker: WorkerRun) -> None:
        try:
            worker.begin()
            worker.write(b"x")
        except OSError:
            cancelled.append(True)
        else:
            cancelled.append(worker.wait_for_cancel())

    workers.script = script
    path = short_dir / "o"
    path.write_bytes(b"0123456789")
    before = open_descriptors()
    source = Source(b"x" * 65536 for _ in range(100))
    with path.open("rb") as file:
        invocation = make([FileInput(file.fileno(), {}), StreamInput(source, {})], log=True)
        leave(invocation, workers, step)
        invocation.close()
        invocation.close()
    assert source.is_closed
    assert wait_until(lambda: open_descriptors() == before)
    assert step == "new" or wait_until(lambda: cancelled == [True])


def test_a_source_that_fails_to_be_closed_keeps_nothing_else_open(workers: Workers) -> None:
    class Stubborn(Source):
        def close(self) -> None:
            super().close()
            raise OSError("not now")

    workers.script = silent_after("start")
    before = open_descriptors()
    sources = [Stubborn(b"x" * 65536 for _ in range(100)), Source(b"x" * 65536 for _ in range(100))]
    invocation = make([StreamInput(source, {}) for source in sources], log=True)
    invocation.start(workers.connect())
    with pytest.raises(OSError, match="not now"):
        invocation.close()
    assert all(source.is_closed for source in sources)
    assert wait_until(lambda: open_descriptors() == before)


def test_a_start_that_fails_gives_every_descriptor_back(workers: Workers) -> None:
    before = open_descriptors()
    connection = workers.connect()
    connection.close()
    source = Source([b"x"])
    invocation = make([StreamInput(source, {"k": "v"})], log=True)
    with pytest.raises((StorletError, OSError)):
        invocation.start(connection)
    invocation.close()
    assert source.is_closed
    assert wait_until(lambda: open_descriptors() == before)


def test_a_description_that_is_too_long_is_the_clients_fault(workers: Workers) -> None:
    invocation = make([StreamInput(Source([]), {"k": "v" * 70000})])
    with pytest.raises(StorletError) as caught:
        invocation.start(workers.connect())
    invocation.close()
    assert caught.value.status == 400


def test_many_invocations_at_once_do_not_disturb_each_other(workers: Workers) -> None:
    def one(index: int) -> bytes:
        return run(make([StreamInput(Source([b"%d" % index] * 50), {})]), workers)

    tasks = [eventlet.spawn(one, index) for index in range(40)]
    assert [task.wait() for task in tasks] == [b"%d" % index * 50 for index in range(40)]


def test_a_reader_that_waits_too_long_learns_what_has_stalled(workers: Workers) -> None:
    def endless() -> Iterator[bytes]:
        yield b"x"
        eventlet.sleep(60)

    workers.script = silent_after("metadata")
    waiting = make([StreamInput(Source(endless()), {})])
    waiting.start(workers.connect())
    eventlet.sleep(0.2)
    assert waiting.stalled("60 s").code == "input.incomplete"
    waiting.close()
    workers.script = silent_after("byte")
    silent = make()
    silent.start(workers.connect())
    silent.output.first()
    assert silent.stalled("60 s").code == "storlet.timeout.idle"
    silent.adopt_node_check(lambda: "frozen")
    assert silent.stalled("60 s").code == "sandbox.unavailable"
    silent.close()
