"""Processes that work on the rules of tenants, isolated from the server.

Parsing and checking rules can take seconds of CPU time, and every owner of an account can start it.
In a process of its own the work cannot delay the server's other requests, and the kernel ends it at
its limits of CPU time and memory.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from pathlib import Path
from typing import Final

from storlet_middleware.concurrency import run_process

_MEMORY_BYTES: Final = 1 << 30
_NICE: Final = 10
#: The exit status after :class:`MemoryError`.
NO_MEMORY: Final = 3
#: Exit statuses if a limit was exceeded.
TOO_MUCH: Final = (-signal.SIGXCPU, -signal.SIGKILL, NO_MEMORY)
#: The ratio of the deadline to the limit of CPU time: a process can wait for the CPU.
_DEADLINE_FACTOR: Final = 3


def run(module: str, given: bytes, cpu_seconds: int) -> tuple[int, bytes]:
    """Run ``module`` with the input ``given``; returns its exit status and its output.

    Its argument is the limit of CPU time, for :func:`confine`.  Raises
    :class:`~storlet_middleware.concurrency.WaitExpired` at the deadline.
    """
    command = (sys.executable, "-P", "-m", module, str(cpu_seconds))
    # The module path of the server can differ from the interpreter's default.
    path = os.pathsep.join(str(Path(each).absolute()) for each in sys.path)
    environment = {**os.environ, "PYTHONPATH": path}
    return run_process(command, given, environment, _DEADLINE_FACTOR * cpu_seconds)


def confine(cpu_seconds: int) -> None:
    """Limit this process; it also gives way to the node's other processes."""
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(_NICE)
