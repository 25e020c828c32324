"""Starts Python workers.

A worker of the supervisor's own version is forked (about a millisecond); any other version is
executed as a new program.
"""

from __future__ import annotations

import os
import re
import sys
from typing import NoReturn

from storlet_daemon.budget import workers_max
from storlet_daemon.protocol.messages import Load
from storlet_daemon.runtimes.language import LISTENING, ImagePaths, Language, Start
from storlet_daemon.worker import run_loop
from storlet_daemon.worker.config import WorkerConfig

_OWN = f"{sys.version_info.major}.{sys.version_info.minor}"
_DAEMON = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


class PythonRuntime:
    """Starts Python workers."""

    def __init__(self, language: Language, paths: ImagePaths) -> None:
        """Nothing is checked before it is needed."""
        self.cost = language.worker_cost
        self._share = language.worker_share
        self._paths = paths
        self._directory = paths.get(language.paths["interpreters"])

    def missing(self, load: Load) -> str | None:
        """The version must be ``3`` or ``3.<minor>``, and its interpreter must be installed."""
        if self._is_own(load) or os.access(self._interpreter(load), os.X_OK):
            return None
        known = ", ".join(self._versions())
        return f"python {load.language_version} is not in this sandbox; there are: {known}"

    def workers_max(self, load: Load) -> int:
        """How many workers the storlet's limits suffice for."""
        return workers_max(load, self._share)

    def become_worker(self, load: Load, start: Start) -> NoReturn:
        """Load and serve in this process, or execute another interpreter in it."""
        path = self._paths.execution_path(load)
        arguments = (
            LISTENING, start.channel, load.main, load.file, path, load.runs_per_worker,
            start.control_group, load.worker_seconds,
        )  # fmt: skip
        if self._is_own(load):
            run_loop.serve(WorkerConfig(*arguments))
        os.set_inheritable(LISTENING, True)
        os.set_inheritable(start.channel, True)
        interpreter = self._interpreter(load)
        words = [str(word) for word in arguments]
        # Isolated: nothing that it imports comes from folders that storlets can write to.
        command = [interpreter, "-I", "-B", _DAEMON, "worker", *words]
        os.execv(interpreter, command)  # noqa: S606  no shell is wanted

    def _is_own(self, load: Load) -> bool:
        return load.language_version in (None, "3", _OWN)

    def _interpreter(self, load: Load) -> str:
        version = load.language_version or ""
        # The text becomes part of a path.
        is_version = re.fullmatch(r"3(\.[0-9]{1,3})?", version)
        name = f"python{version}" if is_version else "python-of-no-such-version"
        return os.path.join(self._directory, name)

    def _versions(self) -> list[str]:
        try:
            names = os.listdir(self._directory)
        except OSError:
            names = []
        matches = (re.fullmatch(r"python3\.([0-9]+)", name) for name in names)
        minors = {int(match[1]) for match in matches if match}
        return [f"3.{minor}" for minor in sorted(minors | {sys.version_info.minor})]
