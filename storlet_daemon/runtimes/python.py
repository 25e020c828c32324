"""Python workers. The supervisor's own interpreter is forked (about a millisecond); any other version is started."""

from __future__ import annotations

import os
import re
import sys
from typing import NoReturn

from storlet_daemon.budget import MIB, Cost, workers_max
from storlet_daemon.protocol.messages import Load
from storlet_daemon.runtimes import CHANNEL, LISTENING, Places
from storlet_daemon.worker import run_loop
from storlet_daemon.worker.config import WorkerConfig

_OWN = f"{sys.version_info.major}.{sys.version_info.minor}"
_DAEMON = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


class PythonRuntime:
    """Starts Python workers."""

    cost = Cost(tasks=2, memory_bytes=16 * MIB)
    share = Cost(tasks=4, memory_bytes=32 * MIB)
    """Of the storlet's own limits, what a worker must have: with less, run fewer of them."""

    def __init__(self, places: Places) -> None:
        """Only remember where things are."""
        self._places = places

    def missing(self, load: Load) -> str | None:
        """The version is ``3`` or ``3.<minor>`` and its interpreter is there."""
        if self._is_own(load) or os.access(self._interpreter(load), os.X_OK):
            return None
        return f"python {load.language_version} is not in this sandbox; there are: {', '.join(self._versions())}"

    def workers_max(self, load: Load) -> int:
        """As many as the storlet's limits have room for."""
        return workers_max(load, self.share)

    def become_worker(self, load: Load, control_group: str) -> NoReturn:
        """Load and serve in this very process, or in another interpreter that takes its place."""
        path = self._places.execution_path(load)
        runs = load.runs_per_worker
        if self._is_own(load):
            run_loop.serve(
                WorkerConfig(LISTENING, CHANNEL, load.main, load.file, path, runs, control_group)
            )
        os.set_inheritable(LISTENING, True)
        os.set_inheritable(CHANNEL, True)
        interpreter = self._interpreter(load)
        words = [
            str(word)
            for word in (LISTENING, CHANNEL, load.main, load.file, path, runs, control_group)
        ]
        os.execv(interpreter, [interpreter, "-B", _DAEMON, "worker", *words])  # noqa: S606  no shell is wanted

    def _is_own(self, load: Load) -> bool:
        return load.language_version in (None, "3", _OWN)

    def _interpreter(self, load: Load) -> str:
        version = load.language_version or ""
        # The text becomes part of a path.
        name = (
            f"python{version}"
            if re.fullmatch(r"3(\.[0-9]{1,3})?", version)
            else "python-of-no-such-version"
        )
        return os.path.join(self._places.python_dir, name)

    def _versions(self) -> list[str]:
        try:
            names = os.listdir(self._places.python_dir)
        except OSError:
            names = []
        minors = {
            int(match[1]) for name in names if (match := re.fullmatch(r"python3\.([0-9]+)", name))
        }
        return [f"3.{minor}" for minor in sorted(minors | {sys.version_info.minor})]
