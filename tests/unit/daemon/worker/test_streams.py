"""The files of one run: ownership, ranges, and processes that still hold the output."""

from __future__ import annotations

import os
import signal
import socket
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from storlet_daemon.protocol.descriptors import Descriptors, sealed_memory
from storlet_daemon.protocol.messages import Input, Invoke, Limits, Log, Output
from storlet_daemon.worker.process_state import file_of
from storlet_daemon.worker.streams import InputError, StillWritingError, Streams
from tests.unit.daemon.children import in_child


class Run:
    """Streams of a run with files and pipes, and the metadata that they send."""

    def __init__(self, *inputs: int, **changes: Any) -> None:
        """``changes`` are fields of the message; each of ``inputs`` is an open descriptor."""
        self.reading, writing = os.pipe()
        os.set_blocking(self.reading, False)
        self.metadata: list[Mapping[str, str]] = []
        self.descriptors = Descriptors([*inputs, writing])
        given = tuple(Input(number) for number in range(len(inputs)))
        fields = {"inputs": given, "output": Output(len(inputs)), **changes}
        self.streams = Streams(Invoke("tx", **fields), self.descriptors, self._keep)

    def _keep(self, number: int, metadata: Mapping[str, str]) -> None:
        assert number == len(self.metadata)
        self.metadata.append(metadata)

    def output(self) -> bytes:
        """All bytes of the output, after the end of the run was reported; fails if it is still
        open.
        """
        self.streams.end_outputs()
        data = b""
        while part := os.read(self.reading, 65536):
            data += part
        return data

    def close(self) -> None:
        self.streams.abandon()
        self.streams.end_outputs()
        self.descriptors.close()
        os.close(self.reading)


@pytest.fixture
def make_run() -> Iterator[Callable[..., Run]]:
    runs: list[Run] = []

    def make(*inputs: int, **changes: Any) -> Run:
        runs.append(Run(*inputs, **changes))
        return runs[-1]

    yield make
    for each in runs:
        each.close()


@pytest.fixture
def source(tmp_path: Path) -> Callable[[], int]:
    path = tmp_path / "object"
    path.write_bytes(b"0123456789")
    return lambda: os.open(path, os.O_RDONLY)


MakeRun = Callable[..., Run]


def test_a_file_in_which_a_storlet_seeks_is_counted(
    make_run: MakeRun, source: Callable[[], int]
) -> None:
    run = make_run(source(), inputs=(Input(0, {"a": "b"}, seekable="file", size=10),))
    run.streams.open()
    given = run.streams.inputs[0]
    assert given.seekable()
    assert given.seek(-3, os.SEEK_END) == 7
    assert given.read() == b"789"
    assert run.streams.bytes_read == 3


def test_an_input_elsewhere_is_read_through_its_socket(make_run: MakeRun) -> None:
    ours, theirs = socket.socketpair()
    run = make_run(theirs.detach(), inputs=(Input(0, seekable="reads", size=10),))
    run.streams.open()
    with ours:
        ours.send(b"0123456789")
        given = run.streams.inputs[0]
        given.seek(4)
        assert given.read(6) == b"012345"
        assert ours.recv(32) == struct.pack(">QQ", 4, 6)


def test_a_run_without_seekable_inputs_reports_no_bytes(
    make_run: MakeRun, source: Callable[[], int]
) -> None:
    run = make_run(source())
    run.streams.open()
    assert run.streams.bytes_read is None


def test_a_stream_in_which_a_storlet_would_seek_is_refused(make_run: MakeRun) -> None:
    reading, writing = os.pipe()
    run = make_run(reading, inputs=(Input(0, seekable="file", size=10),))
    with pytest.raises(InputError, match=r"inputs\[0\] does not support seeks: Illegal seek"):
        run.streams.open()
    os.close(writing)


@pytest.fixture(autouse=True)
def no_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """``finish`` reaps children of its process, which here is pytest."""
    monkeypatch.setattr("storlet_daemon.worker.streams.has_children", lambda: False)


def test_a_run_reads_its_inputs_and_writes_its_output(
    make_run: MakeRun, source: Callable[[], int]
) -> None:
    run = make_run(source(), source(), limits=Limits(100))
    streams = run.streams
    streams.open()
    out = streams.outputs[0]
    out.set_metadata({"k": 1})
    out.write(streams.inputs[0].read(3) + streams.inputs[1].read())
    streams.finish()
    assert (run.output(), run.metadata) == (b"0120123456789", [{"k": "1"}])


def test_an_output_ends_after_the_end_of_the_run_was_reported(
    make_run: MakeRun, source: Callable[[], int]
) -> None:
    """The filter waits for the end of the output, and finds the report when it has that."""
    run = make_run(source())
    run.streams.open()
    out = run.streams.outputs[0]
    out.write(b"all")
    out.close()
    run.streams.finish()
    run.streams.abandon()
    assert os.read(run.reading, 10) == b"all"
    with pytest.raises(BlockingIOError):
        os.read(run.reading, 10)
    run.streams.end_outputs()
    assert os.read(run.reading, 10) == b""


def test_a_run_writes_further_outputs_with_metadata_of_their_own(
    make_run: MakeRun, source: Callable[[], int]
) -> None:
    ends = [os.pipe() for _ in range(2)]
    outputs = tuple(Output(2 + number) for number in range(2))
    run = make_run(source(), further_outputs=outputs)
    for _, writing in ends:
        run.descriptors.add(writing)
    run.streams.open()
    for number, out in enumerate(run.streams.outputs):
        out.set_metadata({"number": number})
        out.write(b"%d" % number)
    run.streams.finish()
    assert [run.output(), *(os.read(reading, 10) for reading, _ in ends)] == [b"0", b"1", b"2"]
    assert run.metadata == [{"number": "0"}, {"number": "1"}, {"number": "2"}]
    assert [os.read(reading, 1) for reading, _ in ends] == [b"", b""]
    for reading, _ in ends:
        os.close(reading)


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (2, 4, b"234"),
        (None, 0, b"0"),
        (7, None, b"789"),
        (0, 100, b"0123456789"),
        (100, None, b""),
    ],
)
def test_ranges_include_both_ends(
    make_run: MakeRun,
    source: Callable[[], int],
    start: int | None,
    end: int | None,
    expected: bytes,
) -> None:
    run = make_run(source(), inputs=(Input(0, start=start, end=end),))
    run.streams.open()
    assert run.streams.inputs[0].read() == expected


def test_a_range_of_a_pipe_is_an_error_of_the_message(make_run: MakeRun) -> None:
    reading, writing = os.pipe()
    os.close(writing)
    run = make_run(reading, inputs=(Input(0, start=1),))
    with pytest.raises(InputError, match=r"^inputs\[0\] does not support the requested range: "):
        run.streams.open()
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(reading)


def test_an_abandoned_run_closes_its_files_and_drops_buffered_output(
    make_run: MakeRun, source: Callable[[], int]
) -> None:
    fd = source()
    run = make_run(fd)
    run.streams.open()
    out = run.streams.outputs[0]
    out.write(b"first")
    out.write(b"buffered")
    run.streams.abandon()
    assert run.output() == b"first"
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(fd)
    run.streams.abandon()


def test_a_storlet_that_empties_its_lists_does_not_keep_files_open(
    make_run: MakeRun, source: Callable[[], int]
) -> None:
    fd = source()
    run = make_run(fd)
    run.streams.open()
    run.streams.outputs[0].write(b"all")
    run.streams.inputs.clear()
    run.streams.outputs.clear()
    run.streams.finish()
    run.streams.abandon()
    assert run.output() == b"all"
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(fd)


def test_a_run_whose_storlet_detached_its_output_can_be_abandoned(
    make_run: MakeRun, source: Callable[[], int]
) -> None:
    run = make_run(source())
    run.streams.open()
    raw = run.streams.outputs[0].detach()
    with pytest.raises(ValueError, match="detached"):
        run.streams.finish()
    run.streams.abandon()
    assert raw.closed
    assert run.output() == b""


def test_every_file_of_the_run_is_donated_and_the_log_stays_open(
    make_run: MakeRun, source: Callable[[], int]
) -> None:
    one, log = source(), sealed_memory("log", 100)
    run = make_run(one, output=Output(1), log=Log(2, 100))
    run.descriptors.add(log)
    expected = {file_of(os.fstat(fd)) for fd in run.descriptors.filenos()}
    run.streams.open()
    assert run.streams.donated == expected
    assert len(expected) == 3
    assert run.streams.log is not None
    run.streams.log.write(b"line")
    run.streams.abandon()
    assert os.pread(log, 4, 0) == b"line"


@pytest.mark.parametrize(("closes_output", "fails"), [(False, True), (True, False)])
def test_a_child_that_holds_the_output_fails_the_run(
    monkeypatch: pytest.MonkeyPatch, closes_output: bool, fails: bool
) -> None:
    """Bytes that it writes later would be missing from a result that looks complete."""
    monkeypatch.undo()

    def child() -> bool:
        run = Run(os.open(os.devnull, os.O_RDONLY))
        run.streams.open()
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(run.reading)  # the other end of the same pipe, which a worker does not have
            if closes_output:
                os.close(run.streams.outputs[0].fileno())
            os.write(writing, b"x")
            signal.pause()
        os.read(reading, 1)
        try:
            run.streams.finish()
        except StillWritingError:
            return True
        finally:
            os.kill(pid, signal.SIGKILL)
        return False

    assert in_child(child) is fails


def test_a_failing_last_write_fails_the_run(make_run: MakeRun) -> None:
    run = make_run(os.open(os.devnull, os.O_RDONLY))
    run.streams.open()
    run.streams.outputs[0].write(b"first")
    os.close(run.reading)
    run.streams.outputs[0].write(b"second")
    with pytest.raises(BrokenPipeError):
        run.streams.finish()
    run.reading = os.open(os.devnull, os.O_RDONLY)
