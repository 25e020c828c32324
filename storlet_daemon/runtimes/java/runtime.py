"""Starts Java workers: one small JVM per worker, which inherits the two sockets by number."""

from __future__ import annotations

import os
from typing import NoReturn

from storlet_daemon.budget import MIB, workers_max
from storlet_daemon.protocol.messages import Load
from storlet_daemon.runtimes.language import CHANNEL, LISTENING, ImagePaths, Language, Start

WORKER_CLASS = "org.openstack.storlet.daemon.Worker"

_FLAGS = (
    # Quick start and a small process: measured 21 to 24 MiB idle.
    "-Xshare:auto",
    "-XX:+UseSerialGC",
    # By default the initial heap is a 64th of the host's memory, independent of the storlet's
    # needs.
    "-Xms8m",
    # No file in /tmp/hsperfdata_*, no attach socket, no core or error files in the scratch space.
    "-XX:-UsePerfData",
    "-XX:+DisableAttachMechanism",
    "-XX:-CreateCoredumpOnCrash",
    "-XX:ErrorFile=/dev/null",
    # JDK 17 takes the encoding from the locale, and a sandbox has none.
    "-Dfile.encoding=UTF-8",
)
_BOTH_COMPILERS = (
    # One thread of each: by default their number grows with that of the host's processors.
    "-XX:CICompilerCount=2",
    # The size with one compiler; by default it would be 240 MB.
    "-XX:ReservedCodeCacheSize=48m",
)
_FIRST_COMPILER = ("-XX:TieredStopAtLevel=1",)
"""The second compiler makes storlets that compute twice as fast, and takes 12 MB."""
WORKING_DIRECTORY = "/tmp"  # noqa: S108  the JVM's own default
_HEAP_MIN_BYTES = 16 * MIB
_BESIDE_HEAP_BYTES = 32 * MIB
"""Memory of a JVM beside its heap: classes, compiled code, compilers, stacks, the collector's data.

Measured without mapped files: 18 MB with the first compiler only, 30 MB with both while they work.
"""


class JavaRuntime:
    """Starts Java workers."""

    def __init__(self, language: Language, paths: ImagePaths) -> None:
        """Nothing is checked before it is needed."""
        self.cost = language.worker_cost
        self._share = language.worker_share
        self._paths = paths
        self._java = paths.get(language.paths["java"])
        self._library = paths.get(language.paths["library"])

    def missing(self, load: Load) -> str | None:
        """A JVM must be installed; authors cannot choose its version."""
        if os.access(self._java, os.X_OK):
            return None
        return "java is not in this sandbox"

    def workers_max(self, load: Load) -> int:
        """How many workers the storlet's limits suffice for."""
        return workers_max(load, self._share)

    def become_worker(self, load: Load, start: Start) -> NoReturn:
        """Execute the JVM, which inherits the listening socket and the channel by number."""
        os.set_inheritable(LISTENING, True)
        os.set_inheritable(start.channel, True)
        environment = {name: value for name, value in os.environ.items() if name != "CLASSPATH"}
        environment.setdefault("LC_ALL", "C.UTF-8")
        os.execve(self._java, self.command(load, start.channel), environment)  # noqa: S606  no shell is wanted

    def command(self, load: Load, channel: int = CHANNEL) -> list[str]:
        """The command line of the JVM."""
        path = self._paths.execution_path(load)
        share_bytes = load.limits.memory_bytes // self.workers_max(load)
        is_small = 0 < share_bytes < self._share.memory_bytes
        return [
            self._java,
            *_FLAGS,
            *(_FIRST_COMPILER if is_small else _BOTH_COMPILERS),
            *_heap(share_bytes),
            f"-Djava.library.path={self._library}",
            f"-Djava.io.tmpdir={os.environ.get('TMPDIR', WORKING_DIRECTORY)}",
            "-cp",
            ":".join([os.path.join(self._library, "*"), *_archives(path, load)]),
            WORKER_CLASS,
            str(LISTENING),
            str(channel),
            load.main,
            path,
            str(load.runs_per_worker),
            str(load.worker_seconds),
        ]


def _heap(share_bytes: int) -> list[str]:
    """The heap option of one JVM.

    All JVMs of a storlet together stay below its memory limit, even with full heaps.
    """
    if not share_bytes:
        return []
    return [f"-Xmx{max(share_bytes - _BESIDE_HEAP_BYTES, share_bytes // 2, _HEAP_MIN_BYTES)}"]


def _archives(path: str, load: Load) -> list[str]:
    """The storlet and its archives, for the class path.

    A ``:`` in a name would separate two entries, a ``*`` at its end would match other files.
    """
    archives = (name for name in load.dependencies if name.lower().endswith((".jar", ".zip")))
    names = [load.file, *archives]
    return [
        os.path.join(path, name) for name in names if ":" not in name and not name.endswith("*")
    ]
