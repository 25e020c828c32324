"""The output of an invocation, and its metadata."""

from __future__ import annotations

import pytest

from storlet_middleware.engine.output import checked_metadata
from storlet_middleware.errors import Unprocessable
from tests.unit.middleware.engine.invocations import failure, make, run
from tests.unit.middleware.support import WorkerRun, Workers


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
