"""Starts native workers: one small C program per worker, for both forms of a native storlet."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NoReturn

from storlet_daemon.budget import workers_max
from storlet_daemon.protocol.messages import Load
from storlet_daemon.runtimes.language import CHANNEL, LISTENING, ImagePaths, Language, Start

_LOCALE = "C.UTF-8"


class NativeRuntime:
    """Starts native workers."""

    def __init__(self, language: Language, paths: ImagePaths) -> None:
        """Nothing is checked before it is needed."""
        self.cost = language.worker_cost
        self._share = language.worker_share
        self._paths = paths
        self._worker = paths.get(language.paths["worker"])

    def missing(self, load: Load) -> str | None:
        """The worker must be installed; what the code needs is the worker's own check."""
        if os.access(self._worker, os.X_OK):
            return None
        return "the native worker is not in this sandbox"

    def workers_max(self, load: Load) -> int:
        """How many workers the storlet's limits suffice for."""
        return workers_max(load, self._share)

    def become_worker(self, load: Load, start: Start) -> NoReturn:
        """Execute the worker, which inherits the listening socket and the channel by number."""
        os.set_inheritable(LISTENING, True)
        os.set_inheritable(start.channel, True)
        os.execve(self._worker, self.command(load, start), environment_of(os.environ))  # noqa: S606  no shell is wanted

    def command(self, load: Load, start: Start | None = None) -> list[str]:
        """The command line of the worker."""
        return [
            self._worker,
            str(LISTENING),
            str(CHANNEL if start is None else start.channel),
            load.main,
            self._paths.execution_path(load),
            str(load.runs_per_worker),
            str(load.worker_seconds),
            "" if start is None else start.control_group,
            *load.arguments,
        ]


def environment_of(given: Mapping[str, str]) -> dict[str, str]:
    """The variables of a worker and of the programs that it starts.

    ``LC_CTYPE`` stands in for ``LANG``. In C.UTF-8 all other categories are those of the C locale,
    which the C library has in itself. With ``LANG`` it opens and maps a file for each of twelve
    categories, in each program that uses the locale.
    """
    environment = dict(given)
    if environment.get("LANG") == _LOCALE:
        del environment["LANG"]
        environment.setdefault("LC_CTYPE", _LOCALE)
    return environment
