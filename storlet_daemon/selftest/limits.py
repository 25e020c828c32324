"""The limits, each reached on purpose."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import resource
import signal

from storlet_daemon import kernel
from storlet_daemon.selftest.model import SCRATCH, Facts, SelfTest, own_folder

#: Beyond the limit; a sandbox without one would get no more than this.
_BEYOND_BYTES = 32 << 20
_PIECE_BYTES = 8 << 20
_BEYOND = 16
_INODES_MAX = 20_000
#: The score that sandboxd's hardening table sets; the kernel kills higher scores first.
_OOM_SCORE = 500


def _processes(facts: Facts) -> str:
    """Start waiting children until the kernel refuses."""
    limit = facts.limits.processes
    if not limit:
        return "there is no limit"
    ready, end = os.pipe()
    count = 0
    try:
        while count <= limit + _BEYOND:
            try:
                pid = os.fork()
            except OSError as error:
                return (
                    "" if error.errno == errno.EAGAIN else f"fork: {os.strerror(error.errno or 0)}"
                )
            if pid == 0:
                os.close(end)
                os.read(ready, 1)
                os._exit(0)
            count += 1
        return f"{count} children were started, the limit is {limit}"
    finally:
        os.close(end)  # they all end
        os.close(ready)
        with contextlib.suppress(ChildProcessError):
            while True:
                os.wait()


def _memory(facts: Facts) -> str:
    limit = facts.limits.memory_bytes
    if not limit:
        return "there is no limit"
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            _hold(limit + _BEYOND_BYTES)
            os._exit(0)
        os._exit(1)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return ""
    if os.waitstatus_to_exitcode(status) == 0:
        return f"a process held {limit + _BEYOND_BYTES} bytes, the limit is {limit}"
    return ""  # the kernel refused them, which is as good


def _hold(size: int) -> None:
    """Touch ``size`` bytes, as the first that the kernel should take when there are no more."""
    with (
        contextlib.suppress(OSError),
        open("/proc/self/oom_score_adj", "w", encoding="ascii") as file,
    ):
        file.write("1000")
    pieces = [
        mmap.mmap(-1, _PIECE_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE)
        for _ in range(size // _PIECE_BYTES)
    ]
    for piece in pieces:
        for offset in range(0, _PIECE_BYTES, mmap.PAGESIZE):
            piece[offset] = 1


def _open_files(facts: Facts) -> str:
    limit = facts.limits.open_files
    if not limit:
        return "there is no limit"
    held: list[int] = []
    try:
        while len(held) <= limit:
            held.append(os.dup(0))
    except OSError as error:
        return "" if error.errno == errno.EMFILE else f"dup: {os.strerror(error.errno or 0)}"
    finally:
        for descriptor in held:
            os.close(descriptor)
    return f"{len(held)} files are open, the limit is {limit}"


def _raise(facts: Facts) -> str:
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        return "there is no limit of open files"
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard + 1, hard + 1))
        return "a limit could be raised"
    return ""


def _core(_facts: Facts) -> str:
    limit = resource.getrlimit(resource.RLIMIT_CORE)
    return "" if limit == (0, 0) else f"core files may have {limit} bytes"


def _scratch(facts: Facts) -> str:
    limit = facts.limits.scratch_bytes
    if not limit:
        return "there is no limit"
    with own_folder() as folder, open(f"{folder}/full", "wb", buffering=0) as file:
        block = b"\1" * (1 << 18)
        written = 0
        try:
            while written <= limit:
                written += file.write(block)
        except OSError as error:
            return (
                ""
                if error.errno in (errno.ENOSPC, errno.ENOMEM)
                else f"write: {os.strerror(error.errno or 0)}"
            )
    return f"{SCRATCH} took {written} bytes, the limit is {limit}"


def _scratch_inodes(_facts: Facts) -> str:
    most = os.statvfs(SCRATCH).f_files
    return "" if 0 < most < _INODES_MAX else f"{SCRATCH} takes {most or 'any number of'} files"


def _oom_score(_facts: Facts) -> str:
    kernel.show_memory()
    try:
        with open("/proc/self/oom_score_adj", encoding="ascii") as file:
            score = int(file.read())
    except (OSError, ValueError):
        return "the score cannot be read"
    if score < _OOM_SCORE:
        return f"the score is {score}: the kernel may take Swift first"
    return ""


def _oom_score_kept(_facts: Facts) -> str:
    """The kernel keeps a minimum if root has set the score.

    It does not if root itself lacked CAP_SYS_RESOURCE.
    """
    kernel.show_memory()
    with contextlib.suppress(OSError):
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("0")
        return "the score could be lowered"
    return ""


def _priority(_facts: Facts) -> str:
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, -1)
        return "the priority could be raised"
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_USER, 0, 0)  # as it is
        return "the priority of all processes of the user could be set, the supervisor's too"
    return ""


TESTS = (
    SelfTest("limit-processes", "fork bombs", _processes, seconds=10),
    SelfTest("limit-memory", "memory bombs", _memory, seconds=10),
    SelfTest("limit-open-files", "a full table of open files", _open_files),
    SelfTest("limit-raise", "limits that the limited process raises", _raise),
    SelfTest("limit-core", "core files", _core),
    SelfTest("limit-scratch", "memory and disk filled through the scratch", _scratch),
    SelfTest(
        "limit-scratch-inodes", "the kernel's memory filled with empty files", _scratch_inodes
    ),
    SelfTest(
        "limit-oom-score", "Swift as the kernel's victim when the host is out of memory", _oom_score
    ),
    SelfTest(
        "limit-oom-score-kept",
        "a process that exempts itself from the kernel's choice",
        _oom_score_kept,
    ),
    SelfTest("limit-priority", "Swift's share of the CPUs", _priority),
)
