"""Processes that work on texts and files of tenants, isolated from the server.

Checking rules or a bundle can take seconds of CPU time, and every owner of an account can start it.
In a process of its own the work cannot delay the server's other requests, and the kernel ends it at
its limits of CPU time and memory.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO, Final

from storlet_middleware import child_limits
from storlet_middleware.concurrency import conversation, run_process

#: Exit statuses if a limit was exceeded.
TOO_MUCH: Final = (-signal.SIGXCPU, -signal.SIGKILL, child_limits.NO_MEMORY)
#: The ratio of the deadline to the limit of CPU time: a process can wait for the CPU.
_DEADLINE_FACTOR: Final = 3


def run(
    module: str, given: bytes | BinaryIO, cpu_seconds: int, *arguments: str
) -> tuple[int, bytes]:
    """Run ``module`` with the input ``given``; returns its exit status and its output.

    Its first argument is the limit of CPU time, for :func:`~.child_limits.confine`.  Raises
    :class:`~storlet_middleware.concurrency.WaitExpired` at the deadline.
    """
    command, environment = _command(module, cpu_seconds, arguments)
    return run_process(command, given, environment, _DEADLINE_FACTOR * cpu_seconds)


def answers(
    module: str, cpu_seconds: int, *arguments: str, has_rest: bool = False
) -> contextlib.AbstractContextManager[Callable[[bytes], bytes]]:
    """Run ``module`` during a block: a :func:`~storlet_middleware.concurrency.conversation`.

    The limit of CPU time is that of the process, the deadline that of an answer.
    """
    command, environment = _command(module, cpu_seconds, arguments)
    seconds = _DEADLINE_FACTOR * cpu_seconds
    return conversation(command, environment, seconds, has_rest=has_rest)


def _command(
    module: str, cpu_seconds: int, arguments: Iterable[str]
) -> tuple[tuple[str, ...], dict[str, str]]:
    command = (sys.executable, "-P", "-m", module, str(cpu_seconds), *arguments)
    # The module path of the server can differ from the interpreter's default.
    path = os.pathsep.join(str(Path(each).absolute()) for each in sys.path)
    return command, {**os.environ, "PYTHONPATH": path}
