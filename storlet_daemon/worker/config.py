"""The parameters of one worker process."""

from __future__ import annotations

from storlet_daemon.protocol.values import dataclass

BUNDLE_SUFFIX = ".storlet"
"""End of ``file`` of a bundle: its code is unpacked in the folder, and no file has the name."""
BUNDLE_LIBRARY = "lib"
"""The folder of a bundle's libraries."""


@dataclass(frozen=True)
class WorkerConfig:
    """The two inherited descriptors, the storlet, and how many runs one process serves, and
    for how long.

    ``control_group`` is the directory of the worker group's control groups; empty if there is none.
    """

    listening: int
    channel: int
    main: str
    file: str
    execution_path: str
    runs_per_worker: int
    control_group: str = ""
    worker_seconds: float = 600.0
