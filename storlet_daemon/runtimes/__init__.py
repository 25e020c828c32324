"""What it takes to run a worker of each language: one file and one row of ``table.py`` per language.

A runtime does two things: it says whether the image has what a storlet asks for, and, in a freshly forked child whose
descriptors are already in order, it turns the child into the worker.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import NoReturn, Protocol

from storlet_daemon.budget import Cost
from storlet_daemon.protocol.messages import Load

LISTENING = 3
CHANNEL = 4
"""The descriptors of a worker when its runtime takes over; 0 is /dev/null, 1 and 2 the load's output, nothing else is open."""


@dataclass(frozen=True)
class Places:
    """Where an image has things; tests on a host have them elsewhere."""

    code_root: str = "/var/lib/storlets"
    python_dir: str = "/usr/bin"
    java: str = "/usr/bin/java"
    java_dir: str = "/usr/local/lib/storlets/java"

    def execution_path(self, load: Load) -> str:
        """The folder of a storlet version: its file and its dependencies."""
        return os.path.join(self.code_root, load.code)


class Runtime(Protocol):
    """How one language's workers are started, and what each needs (measured idle, rounded up)."""

    cost: Cost

    def missing(self, load: Load) -> str | None:
        """Why this image cannot run the storlet, for its author to read; ``None`` when it can."""

    def workers_max(self, load: Load) -> int:
        """How many workers of the storlet may be at most, so that what it is given suffices for each of them; at least 1."""

    def become_worker(self, load: Load, control_group: str) -> NoReturn:
        """Turn this process, a new child of the supervisor, into a worker. Never returns; an exception ends the child.

        ``control_group`` is the directory of the worker group's control groups, empty when it has none of its own.
        """
