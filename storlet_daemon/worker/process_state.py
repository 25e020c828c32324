"""The state of the worker's process, and how it is restored after a run.

The working directory, umask, environment, import path and standard streams can be restored.
Threads, child processes and signal handlers cannot: the worker is replaced if a run leaves any.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import resource
import signal
import sys
import time
from collections.abc import Callable

FileId = tuple[int, int]
"""Device and inode number of a file."""

_HANDLED_SIGNALS = (
    signal.SIGALRM,
    signal.SIGCHLD,
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGPIPE,
    signal.SIGPROF,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGVTALRM,
)
"""Signals that programs usually handle; checking all would take longer than a short run."""
# The C function below the library's, which spends most of its time on making enumeration members.
_get_handler: Callable[[int], object] = importlib.import_module("_signal").getsignal
_DESCRIPTORS = "/proc/self/fd"
_PAUSES = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032)
"""Seconds until a thread that was joined has ended.

It has to run once more to end, for which it waits while other processes use the processors. A new
worker takes more of their time than the pauses.
"""


class ProcessState:
    """The process as it was after the load. Compared after every run, so it has to be cheap."""

    def __init__(self) -> None:
        self._directory = os.getcwd()
        self._umask = os.umask(0o022)
        os.umask(self._umask)
        self._environ = os.environ
        # The mapping behind os.environ is in bytes already, so comparing it needs no conversion.
        self._environment_now: dict[bytes, bytes] = os.environ._data  # type: ignore[attr-defined]  # noqa: SLF001
        self._environment = dict(self._environment_now)
        self._path = list(sys.path)
        self._handlers = self._current_handlers()
        self._threads = _count_threads()
        self._descriptors = len(os.listdir(_DESCRIPTORS))

    def restore(self, donated: set[FileId]) -> bool:
        """Restore the process; return True if leftovers remain and it must be replaced.

        ``donated`` are the files of the run. A leftover duplicate of one would keep an object's
        data or a pipe open.
        """
        try:
            return self._restore(donated)
        except BaseException:  # noqa: BLE001  a storlet's signal handler may raise anything here
            return True

    def _restore(self, donated: set[FileId]) -> bool:
        self._restore_settings()
        if self._has_new_threads() or has_children() or self._current_handlers() != self._handlers:
            return True
        count = len(os.listdir(_DESCRIPTORS))
        has_more, self._descriptors = count > self._descriptors, count
        return has_more and not donated.isdisjoint(files_in(_DESCRIPTORS))

    def _has_new_threads(self) -> bool:
        for pause in _PAUSES:
            if _count_threads() <= self._threads:
                return False
            time.sleep(pause)
        return _count_threads() > self._threads

    def _restore_settings(self) -> None:
        for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
            signal.setitimer(timer, 0)
        if os.getcwd() != self._directory:
            os.chdir(self._directory)
        os.umask(self._umask)
        if os.environ is not self._environ:
            os.environ = self._environ  # noqa: B003  the very object that was there before
        if self._environment_now != self._environment:
            for name in [name for name in self._environment_now if name not in self._environment]:
                del os.environb[name]
            os.environb.update(self._environment)
        if sys.path != self._path:
            sys.path[:] = self._path

    @staticmethod
    def _current_handlers() -> list[object]:
        return [_get_handler(number) for number in _HANDLED_SIGNALS]


def _count_threads() -> int:
    """All threads of the process, including those that Python did not create."""
    return os.stat("/proc/self/task").st_nlink - 2


def has_children() -> bool:
    """True if a child process is alive.

    Reaps dead children. This process is a subreaper, so it sees all descendants.
    """
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True


def file_of(status: os.stat_result) -> FileId:
    return status.st_dev, status.st_ino


def files_in(directory: str) -> set[FileId]:
    """The files that a process has open; ``directory`` is its ``fd`` directory in /proc."""
    files = set()
    for name in os.listdir(directory):
        with contextlib.suppress(FileNotFoundError):
            files.add(file_of(os.stat(f"{directory}/{name}")))
    return files


def cpu_seconds() -> float:
    """CPU time of this process and of its children that were reaped."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
