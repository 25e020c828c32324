"""Error code and traceback of a failed run, for the storlet's author."""

from __future__ import annotations

import errno
import os
import resource
import sys

from storlet_daemon import author
from storlet_daemon.author import failure_text
from storlet_daemon.control_groups import ControlGroup, Counter
from storlet_daemon.protocol import messages
from storlet_daemon.protocol.redaction import Redaction
from storlet_daemon.worker.process_state import has_children

_PACKAGE_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_CHILD_ERRORS = (
    "CalledProcessError",
    "BrokenProcessPool",
    "BrokenPipeError",
    "EOFError",
    "StillWritingError",
)
"""Exceptions that a killed child process causes; by name, because few storlets import them."""
_CAUSES_MAX = 16
_NOTHING_HIDDEN = Redaction(())


class LimitClassifier:
    """Finds the limit that made a run fail.

    Neither the exception nor the kernel's counters suffice: both together show which limit it was.
    """

    def __init__(self, group: ControlGroup) -> None:
        self._kills = Counter(group.kills)
        self._forks = Counter(group.refused_forks)
        self._reaped = _work_of_reaped_children()

    def begin_run(self) -> None:
        """Note what children of earlier runs did."""
        self._reaped = _work_of_reaped_children()

    def explain(self, error: BaseException) -> tuple[str, str]:
        """The error code, and the explanation to append to the exception's own text."""
        causes = _causes(error)
        if any(isinstance(cause, MemoryError) for cause in causes):
            return messages.LIMIT_MEMORY, ""
        named = _named_limit(error)
        if named is not None:
            return named, ""
        # Programs report a killed child in any way, or not at all.
        had_child = self._reaped != _work_of_reaped_children() or has_children()
        if (had_child or any(map(_is_child_error, causes))) and self._kills.has_grown():
            explanation = " (a process of the storlet was killed: out of memory)"
            return messages.LIMIT_MEMORY, explanation
        is_fork = any(_is_child_error(cause) or _is_refused_fork(cause) for cause in causes)
        if is_fork and self._forks.has_grown():
            explanation = " (the storlet has reached its limit of processes and threads)"
            return messages.LIMIT_PROCESSES, explanation
        if any(map(_is_disk_full, causes)):
            return messages.LIMIT_SCRATCH, ""
        return messages.FAILED, ""


def _work_of_reaped_children() -> tuple[int, int]:
    """Counters that each child that was reaped has increased."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_minflt, used.ru_nvcsw + used.ru_nivcsw


def _causes(error: BaseException) -> list[BaseException]:
    """The exception and all exceptions that led to it."""
    causes: list[BaseException] = []
    todo: list[BaseException | None] = [error]
    while todo and len(causes) < _CAUSES_MAX:
        cause = todo.pop()
        if cause is not None and not any(cause is known for known in causes):
            causes.append(cause)
            todo += [cause.__cause__, cause.__context__]
    return causes


def _named_limit(error: BaseException) -> str | None:
    """The code of a limit that has an exception of its own."""
    if isinstance(error, author.MetadataTooLargeError):
        return messages.LIMIT_METADATA
    # Loaded on first use: without the module there is no such exception.
    services = sys.modules.get("storlet_daemon.author.services")
    if services is not None and isinstance(error, services.LimitExceeded):
        return messages.LIMIT_SERVICES
    return None


def _is_disk_full(error: BaseException) -> bool:
    """A storlet can write to no other file system than its scratch space."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)


def _is_refused_fork(error: BaseException) -> bool:
    if isinstance(error, OSError):
        return error.errno == errno.EAGAIN
    return isinstance(error, RuntimeError) and error.args[:1] == ("can't start new thread",)


def _is_child_error(error: BaseException) -> bool:
    return type(error).__name__ in _CHILD_ERRORS


def traceback_text(error: BaseException, redaction: Redaction = _NOTHING_HIDDEN) -> str:
    """The traceback without the frames of this package, cut in the middle."""
    text = redaction.text(failure_text.traceback_text(error, _PACKAGE_FOLDER))
    return messages.cut_middle(text)


def rest_of(text: str) -> str:
    """All of a message in place of its traceback, if one line cannot hold it; else nothing."""
    return "" if messages.one_line(text) == text else messages.cut_middle(text)


def log_error(log: author.LogFile | None, main: str, text: str) -> None:
    """Write an error into the invocation's log, if there is one."""
    if log is not None:
        log.write(f"{main} ERROR: {text.rstrip()}\n".encode("utf-8", "backslashreplace"))
