"""Kernel interfaces that Python's library lacks: signal descriptors, prctl, limits, processes.

Process 1 of a sandbox uses them. The processes that it runs have its uid, may send it any signal
and may leave children behind in any way; it must neither miss nor be deceived by them.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import socket
import struct
from collections.abc import Collection, Iterable, Iterator

from storlet_daemon.protocol.values import dataclass

_PR_SET_DUMPABLE = 4
_PR_SET_NAME = 15
_PR_SET_SECCOMP = 22
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_FILTER = 2
_SO_PASSRIGHTS = 83

_LIBC = ctypes.CDLL(None, use_errno=True)
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_BLOCK_BYTES = 1 << 20
_KEPT_BYTES = 2 << 20


def _prctl(option: int, value: int | bytes, further: bytes | int = 0) -> None:
    if _LIBC.prctl(option, value, further, 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def keep_freed_memory() -> None:
    """Have the C library keep up to 2 MiB of freed memory, and map blocks of 1 MiB and more.

    By default glibc returns freed memory above twice the largest block to the kernel, and requests
    the same buffers again in each run: a page fault for each 4 KiB. Other C libraries keep their
    own behaviour.
    """
    mallopt = getattr(_LIBC, "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _BLOCK_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)


def hide_memory() -> None:
    """Prevent other processes of this uid from reading this one.

    They cannot trace it, read its memory or open its descriptors through /proc.
    """
    _prctl(_PR_SET_DUMPABLE, 0)


def show_memory() -> None:
    """Undo ``hide_memory``.

    A forked child inherits it and cannot use its own /proc files.
    """
    _prctl(_PR_SET_DUMPABLE, 1)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent exits, as process 1 is for all."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def set_name(name: str) -> None:
    """Set the process name that ``ps`` shows; cut to 15 bytes."""
    _prctl(_PR_SET_NAME, name.encode("utf-8", "replace")[:15])


def can_refuse_descriptors() -> bool:
    """True if a Unix socket can refuse messages with descriptors (Linux 6.16)."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        try:
            ours.setsockopt(socket.SOL_SOCKET, _SO_PASSRIGHTS, 0)
        except OSError:
            return False
        return True


def forbid_new_privileges() -> None:
    """Prevent this process and its children from gaining privileges by executing a program."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def filter_calls(program: bytes) -> None:
    """Restrict the system calls of this process and its children by a ``struct sock_fprog``."""
    forbid_new_privileges()
    _prctl(_PR_SET_SECCOMP, _SECCOMP_FILTER, program)


@dataclass(frozen=True)
class Signal:
    """A signal that arrived. ``code`` is the call that sent it; see ``is_from_outside``."""

    number: int
    sender: int
    code: int

    @property
    def is_from_outside(self) -> bool:
        """True if a process outside of this pid namespace has sent it with ``kill``.

        A sender of 0 alone proves nothing. ``rt_sigqueueinfo`` accepts any sender, with codes below
        0. A descriptor that signals its owner (``F_SETSIG``) has none, with codes above 0. Code 0
        is the kernel's code for ``kill``. The kernel also uses it for a signal whose details it
        could not store; only ``limit_process`` rules that out.
        """
        return self.sender == 0 and self.code == _SI_USER


_SI_USER = 0
_SIGINFO_BYTES = 128
_SIGINFO_HEAD = struct.Struct("=IiiI")  # ssi_signo, ssi_errno, ssi_code, ssi_pid
_SIGSET_BYTES = 128


class SignalQueue:
    """Signals read from a descriptor instead of handlers, with their sender.

    The sender matters: a storlet can signal process 1, and only a SIGTERM from outside may end the
    sandbox. The given signals stay blocked in this process; a child must unblock them
    (``unblock_all``).
    """

    def __init__(self, numbers: Iterable[int]) -> None:
        """Block the signals and open the queue."""
        wanted = list(numbers)
        mask = bytearray(_SIGSET_BYTES)
        for number in wanted:
            mask[(number - 1) // 8] |= 1 << (number - 1) % 8
        signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
        buffer = ctypes.create_string_buffer(bytes(mask), _SIGSET_BYTES)
        self._fd: int = _LIBC.signalfd(-1, buffer, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))

    def fileno(self) -> int:
        """The descriptor; readable when a signal is pending."""
        return self._fd

    def read(self) -> Iterator[Signal]:
        """The pending signals. Several of one number may be merged into one."""
        while True:
            try:
                data = os.read(self._fd, _SIGINFO_BYTES * 16)
            except BlockingIOError:
                return
            for offset in range(0, len(data), _SIGINFO_BYTES):
                number, _, code, sender = _SIGINFO_HEAD.unpack_from(data, offset)
                yield Signal(number, sender, code)


def unblock_all() -> None:
    """Unblock every signal: a child must not inherit its parent's mask."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


_SCORE_OFFSET = 300


class Expendable:
    """Makes the kernel kill a child made inside ``with`` before process 1, if memory runs out.

    A child inherits its score at its birth. It could set it only if it let other processes of its
    user inspect it for that moment. Create this before ``hide_memory``, which closes the file.
    """

    def __init__(self, path: str = "/proc/self/oom_score_adj") -> None:
        """Open the score's file; it stays open."""
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            self._own = int(os.pread(self._fd, 16, 0))
        except OSError:
            # Not essential: a sandbox whose process 1 is killed is started again.
            self._fd = -1

    def __enter__(self) -> None:
        """Raise the score that new children inherit."""
        self._write(min(self._own + _SCORE_OFFSET, 1000) if self._fd >= 0 else 0)

    def __exit__(self, *exc_info: object) -> None:
        """Restore the score of this process."""
        self._write(self._own if self._fd >= 0 else 0)

    def _write(self, score: int) -> None:
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                os.pwrite(self._fd, str(score).encode(), 0)


OPEN_FILES_MIN = 64
"""A worker with fewer could not accept an invocation, which may bring 32 descriptors.

A JVM itself holds some twenty.
"""
FILE_BYTES_MIN = 1 << 20
"""Needed because the log of an invocation is a file too, with its own limit."""
SIGNALS_MAX = 1024
"""Pending signals of the storlets, per user id.

Process 1 keeps its initial limit, which must be higher: at the limit, the kernel delivers ``tkill``
to it without a sender, as if it came from outside.
"""


def limit_process(open_files: int, file_bytes: int) -> None:
    """Limit the open files and the file length of this process and its children; 0: no limit.

    A write beyond the length fails with EFBIG: the signal that would end the process is ignored.
    Core files are disabled in any case. The number of processes is not limited here, because the
    kernel counts processes per uid and not per group.
    """
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    _lower(resource.RLIMIT_CORE, 0)
    soft, _ = resource.getrlimit(resource.RLIMIT_SIGPENDING)
    _lower(
        resource.RLIMIT_SIGPENDING,
        SIGNALS_MAX if soft == resource.RLIM_INFINITY else min(SIGNALS_MAX, soft // 2),
    )
    if open_files:
        _lower(resource.RLIMIT_NOFILE, max(open_files, OPEN_FILES_MIN))
    if file_bytes:
        _lower(resource.RLIMIT_FSIZE, max(file_bytes, FILE_BYTES_MIN))


def _lower(kind: int, limit: int) -> None:
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(kind, (limit, limit))


def strays(root: int, keep: Collection[int]) -> list[int]:
    """Live descendants of ``root``, except ``keep`` and their descendants, and zombies."""
    children: dict[int, list[tuple[int, bool]]] = {}
    for one in processes():
        children.setdefault(one.parent, []).append((one.pid, one.is_zombie))
    found = []
    todo = [root]
    while todo:
        for pid, is_zombie in children.get(todo.pop(), ()):
            if pid in keep:
                continue
            todo.append(pid)
            if not is_zombie:
                found.append(pid)
    return found


@dataclass(frozen=True)
class Process:
    """One process; ``cpu_seconds`` includes the children that it has reaped."""

    pid: int
    parent: int
    is_zombie: bool
    cpu_seconds: float


_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def processes() -> Iterator[Process]:
    """All processes that are visible in this pid namespace."""
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            one = process(int(entry))
            if one is not None:
                yield one


def process(pid: int) -> Process | None:
    """One process; None if it does not exist any more."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name in parentheses may contain parentheses; the fields follow the last one.
            fields = file.read().rpartition(b")")[2].split()
        ticks = sum(map(int, fields[11:15]))  # utime, stime, cutime, cstime
        return Process(pid, int(fields[1]), fields[0] in (b"Z", b"X"), ticks / _TICKS_PER_SECOND)
    except (OSError, ValueError, IndexError):
        return None


def kill(pid: int, number: int) -> None:
    """Signal a process that may have exited. Never 0 or below: that would mean whole groups."""
    if pid > 1:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def kill_group(leader: int) -> None:
    """SIGKILL the process group of ``leader``, in one step of the kernel, so no fork escapes."""
    if leader > 1:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)
