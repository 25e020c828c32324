"""The output of an invocation, and its metadata."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from storlet_middleware.engine import handover, output
from storlet_middleware.engine.output import OutputStream, checked_metadata
from storlet_middleware.errors import Unprocessable
from tests.unit.middleware.engine.invocations import failure, make, run
from tests.unit.middleware.support import WorkerRun, Workers, open_descriptors


def test_output_beyond_its_limit_is_an_error(workers: Workers) -> None:
    def script(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(b"x" * 101)
        worker.succeed()

    workers.script = script
    assert failure(make(limits=(100, 4096, 65536)), workers).code == "storlet.limit.output"


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        ({"k": "v" * 5000}, "storlet.limit.metadata"),
        ({"k": "a\r\nX-Evil: 1"}, "storlet.failed"),
        ({"k\n": "v"}, "storlet.failed"),
        ({"k": "a\0"}, "storlet.failed"),
        ({"": "v"}, "storlet.failed"),
        ({"a b": "v"}, "storlet.failed"),
        ({"a: b": "v"}, "storlet.failed"),
    ],
)
def test_metadata_that_no_header_can_carry_is_a_failure_of_the_storlet(
    workers: Workers, metadata: dict[str, str], code: str
) -> None:
    def script(worker: WorkerRun) -> None:
        worker.begin(**metadata)
        worker.succeed()

    workers.script = script
    error = failure(make(), workers)
    assert (error.status, error.code) == (422, code)


def test_metadata_can_be_any_text_that_swift_accepts(workers: Workers) -> None:
    def script(worker: WorkerRun) -> None:
        worker.begin(**{"Größe_1.x": "zwölf: 12", "Content-Type": "text/csv; charset=utf-8"})
        worker.succeed()

    workers.script = script
    invocation = make()
    run(invocation, workers)
    assert invocation.metadata["Größe_1.x"] == "zwölf: 12"


@pytest.fixture
def stream() -> Iterator[tuple[OutputStream, int]]:
    """An output, and the end that a storlet writes."""
    output = OutputStream()
    output.fd, writer = handover.stream(reader_is_ours=True)
    yield output, writer
    output.close()
    os.close(writer)


def test_a_read_returns_the_data_nothing_now_or_the_end(stream: tuple[OutputStream, int]) -> None:
    output, writer = stream
    assert output.read() is None
    os.write(writer, b"data")
    assert output.read() == b"data"
    assert output.read() is None


def test_bytes_written_after_the_end_are_no_output(stream: tuple[OutputStream, int]) -> None:
    output, writer = stream
    os.write(writer, b"data")
    output.end_here()
    os.write(writer, b" of a child process")
    assert [output.read(), output.read(), output.read()] == [b"data", b"", b""]


def test_a_closed_output_may_be_closed_again() -> None:
    before, output = open_descriptors(), OutputStream()
    output.fd, writer = handover.stream(reader_is_ours=True)
    os.close(writer)
    assert output.read() == b""
    output.close()
    output.close()
    assert open_descriptors() == before


@pytest.mark.parametrize(
    ("metadata", "size"),
    [({"k": "v"}, 2), ({"\u00fc": "\u00fc"}, 4), ({"a": "b", "c": ""}, 3), ({}, 0)],
)
def test_metadata_is_counted_in_bytes_of_names_and_values(
    metadata: dict[str, str], size: int
) -> None:
    assert checked_metadata(metadata, size) == metadata
    if size:
        with pytest.raises(Unprocessable, match=f"longer than {size - 1} bytes"):
            checked_metadata(metadata, size - 1)


def test_small_pieces_gather_and_large_ones_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reader of an output has its turn, and its own pace."""
    sleeps: list[float] = []
    monkeypatch.setattr(output, "sleep", lambda seconds=0.0: sleeps.append(seconds))
    pace = output.ReadPace()
    for _ in range(30):
        pace.before_read()
        pace.after_read(1)
    assert sleeps == [0.002] * 13
    pace.after_read(1 << 20)
    pace.before_read()
    assert len(sleeps) == 13
    for _ in range(8):
        pace.after_read(1 << 20)
    assert 0.0 in sleeps
