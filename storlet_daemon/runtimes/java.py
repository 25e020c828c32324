"""Java workers: one JVM per worker, kept small, with a real descriptor hand-over (see ``storlet_daemon/java``)."""

from __future__ import annotations

import os
from typing import NoReturn

from storlet_daemon.budget import MIB, Cost, workers_max
from storlet_daemon.protocol.messages import Load
from storlet_daemon.runtimes import CHANNEL, LISTENING, Places

WORKER_CLASS = "org.openstack.storlet.daemon.Worker"

_FLAGS = (
    # Quick start and a small process: measured 21 to 24 MiB idle.
    "-Xshare:auto",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    # By default the heap begins at a 64th of the host's memory, however little the storlet needs.
    "-Xms8m",
    # No file in /tmp/hsperfdata_*, no attach socket, no core or error files in the scratch space.
    "-XX:-UsePerfData",
    "-XX:+DisableAttachMechanism",
    "-XX:-CreateCoredumpOnCrash",
    "-XX:ErrorFile=/dev/null",
    # JDK 17 takes the encoding from the locale, and a sandbox has none.
    "-Dfile.encoding=UTF-8",
)
_HEAP_MIN_BYTES = 16 * MIB
_BESIDE_HEAP_BYTES = 32 * MIB
"""What a small JVM needs beside its heap: classes, compiled code, stacks, the collector's own."""


class JavaRuntime:
    """Starts Java workers."""

    cost = Cost(tasks=20, memory_bytes=48 * MIB)
    share = Cost(tasks=32, memory_bytes=128 * MIB)
    """Of the storlet's own limits, what a JVM must have: with less, run fewer of them."""

    def __init__(self, places: Places) -> None:
        """Only remember where things are."""
        self._places = places

    def missing(self, load: Load) -> str | None:
        """There is a JVM; its version is the image's, the contract lets authors choose it for Python only."""
        if os.access(self._places.java, os.X_OK):
            return None
        return "java is not in this sandbox"

    def workers_max(self, load: Load) -> int:
        """As many as the storlet's limits have room for."""
        return workers_max(load, self.share)

    def become_worker(self, load: Load, control_group: str) -> NoReturn:
        """Become the JVM, which inherits the listening socket and the channel by number."""
        os.set_inheritable(LISTENING, True)
        os.set_inheritable(CHANNEL, True)
        environment = {name: value for name, value in os.environ.items() if name != "CLASSPATH"}
        environment.setdefault("LC_ALL", "C.UTF-8")
        os.execve(self._places.java, self.command(load), environment)  # noqa: S606  no shell is wanted

    def command(self, load: Load) -> list[str]:
        """The command line of the JVM."""
        path = self._places.execution_path(load)
        return [
            self._places.java,
            *_FLAGS,
            *_heap(load.limits.memory_bytes // self.workers_max(load)),
            f"-Djava.library.path={self._places.java_dir}",
            "-cp",
            ":".join([os.path.join(self._places.java_dir, "*"), *_archives(path, load)]),
            WORKER_CLASS,
            str(LISTENING),
            str(CHANNEL),
            load.main,
            path,
            str(load.runs_per_worker),
        ]


def _heap(share_bytes: int) -> list[str]:
    """A part of the storlet's memory, so that all its JVMs together stay below its limit however full their heaps are."""
    if not share_bytes:
        return []
    return [f"-Xmx{max(share_bytes - _BESIDE_HEAP_BYTES, share_bytes // 2, _HEAP_MIN_BYTES)}"]


def _archives(path: str, load: Load) -> list[str]:
    """The storlet and its dependencies; a ``:`` or a ``*`` in a name would mean more than one name on a class path."""
    names = [
        load.file,
        *(name for name in load.dependencies if name.lower().endswith((".jar", ".zip"))),
    ]
    return [
        os.path.join(path, name) for name in names if ":" not in name and not name.endswith("*")
    ]
