"""Tasks that run beside the requests, kept until they end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from storlet_middleware.errors import StorletError
from storlet_middleware.sandboxd.errors import SandboxdFault

log = logging.getLogger("storlet.sandboxd")


class Background:
    """Keeps a reference to each task, and logs failures that are defects of sandboxd."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run ``work`` as a task."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def cancel(self) -> None:
        """Cancel all tasks."""
        for task in self._tasks:
            task.cancel()

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, (SandboxdFault, StorletError)):
            log.error("background task failed", exc_info=error)
