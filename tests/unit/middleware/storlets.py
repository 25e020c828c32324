"""Scripts of workers: storlets of the unit tests."""

from __future__ import annotations

from collections.abc import Callable

from tests.unit.middleware.support import WorkerRun


def failing(after: bytes = b"", message: str = "ValueError: no") -> Callable[[WorkerRun], None]:
    def script(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(after)
        worker.fail(message, traceback="Traceback: secret")

    return script
