"""Invocations, and sources that record how far they were read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from storlet_daemon.protocol import messages
from storlet_middleware.engine.invocation import Invocation
from storlet_middleware.engine.task import Deadlines, Limits, StreamInput, Task
from storlet_middleware.errors import StorletError
from tests.unit.middleware.support import WorkerRun, Workers


class Source:
    """Chunks of an iterable; records how far it was read and whether it was closed."""

    def __init__(self, chunks: Any) -> None:
        self._chunks = chunks
        self.is_closed = False
        self.taken = 0

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            self.taken += 1
            yield chunk

    def abandon(self) -> None: ...

    def close(self) -> None:
        self.is_closed = True


def make(
    inputs: Any = None,
    *,
    deadlines: tuple[float, float, float, float] = (2, 2, 2, 5),
    limits: tuple[int, int, int] = (0, 4096, 65536),
    log: bool = False,
) -> Invocation:
    task = Task("tx-1", {"k": "v"}, Deadlines(*deadlines), Limits(*limits), wants_log=log)
    return Invocation(task, inputs if inputs is not None else [StreamInput(Source([b"abc"]), {})])


def run(invocation: Invocation, workers: Workers) -> bytes:
    """All output; closes in any case."""
    try:
        invocation.start(workers.connect())
        invocation.output.first()
        pieces = []
        while piece := invocation.output.read():
            pieces.append(piece)
        assert invocation.output.read() == b""
        return b"".join(pieces)
    finally:
        invocation.close()


def failure(invocation: Invocation, workers: Workers) -> StorletError:
    with pytest.raises(StorletError) as caught:
        run(invocation, workers)
    return caught.value


def silent_after(step: str) -> Any:
    """A storlet that does nothing more after ``step``: started, metadata, byte."""

    def script(worker: WorkerRun) -> None:
        worker.send(messages.Started())
        worker.read()
        if step != "started":
            worker.send(messages.Metadata({}))
        if step == "byte":
            worker.write(b"x")
        assert worker.wait_for_cancel()

    return script
