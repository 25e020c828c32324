"""Background tasks: references, failures in the log, cancellation."""

from __future__ import annotations

import asyncio
import gc
import logging

import pytest

from storlet_middleware.errors import NodeBusy
from storlet_middleware.sandboxd.background import Background
from storlet_middleware.sandboxd.errors import SandboxLost


def test_a_task_without_another_reference_runs_to_its_end() -> None:
    async def main() -> list[int]:
        done: list[int] = []

        async def work(number: int) -> None:
            await asyncio.sleep(0)
            gc.collect()
            done.append(number)

        background = Background()
        for number in range(3):
            background.start(work(number))
        await asyncio.sleep(0.01)
        return done

    assert asyncio.run(main()) == [0, 1, 2]


@pytest.mark.parametrize(
    ("error", "is_logged"),
    [
        (ZeroDivisionError("a defect"), True),
        (SandboxLost("the sandbox ended"), False),
        (NodeBusy("all sandboxes are busy"), False),
    ],
)
def test_only_unexpected_exceptions_are_logged(
    caplog: pytest.LogCaptureFixture, error: Exception, *, is_logged: bool
) -> None:
    async def fail() -> None:
        raise error

    async def main() -> None:
        task = Background().start(fail())
        await asyncio.wait({task})

    with caplog.at_level(logging.ERROR):
        asyncio.run(main())
    logged = [record for record in caplog.records if record.name == "storlet.sandboxd"]
    assert [record.exc_info[1] for record in logged if record.exc_info] == [error] * is_logged


def test_cancel_ends_all_tasks_without_a_line_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> list[bool]:
        background = Background()
        tasks = [background.start(asyncio.sleep(60)) for _ in range(3)]
        await asyncio.sleep(0)
        background.cancel()
        await asyncio.wait(tasks)
        return [task.cancelled() for task in tasks]

    assert asyncio.run(main()) == [True] * 3
    assert not caplog.records
