"""The few kernel facilities that Python's library does not wrap: signals as a descriptor, prctl, limits, process trees.

All of them are for process 1 of a sandbox, which must neither be blinded nor be fooled by the processes it runs: they have
its uid, may send it any signal, and may leave children behind in any way.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import struct
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

_PR_SET_DUMPABLE = 4
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36

_LIBC = ctypes.CDLL(None, use_errno=True)
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_BLOCK_BYTES = 1 << 20
_KEPT_BYTES = 2 << 20


def _prctl(option: int, value: int | bytes) -> None:
    if _LIBC.prctl(option, value, 0, 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def keep_freed_memory() -> None:
    """Have the C library keep what is freed, up to 2 MiB at the end of its heap, and have blocks from 1 MiB on come and go alone.

    By itself glibc gives back what is more than twice the largest block, and so asks for the same buffers in each run anew:
    a page fault for each 4 KiB.  Where the C library has no such choice, it does as it likes.
    """
    mallopt = getattr(_LIBC, "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _BLOCK_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)


def hide_memory() -> None:
    """Let no other process of this uid trace this one, read its memory or open its descriptors through /proc."""
    _prctl(_PR_SET_DUMPABLE, 0)


def show_memory() -> None:
    """Undo ``hide_memory``, which a forked child inherits and which takes its own /proc files away from it."""
    _prctl(_PR_SET_DUMPABLE, 1)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, as process 1 is for all."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def set_name(name: str) -> None:
    """What ``ps`` shows for this process; cut to 15 bytes."""
    _prctl(_PR_SET_NAME, name.encode("utf-8", "replace")[:15])


@dataclass(frozen=True)
class Signal:
    """A signal that arrived; ``code`` says by which call, and what ``sender`` is worth."""

    number: int
    sender: int
    code: int

    @property
    def is_from_outside(self) -> bool:
        """Whether somebody outside of this pid namespace has sent it with ``kill``.

        A number of 0 alone says nothing: ``rt_sigqueueinfo`` takes any sender that it is told, with codes below 0, and a
        descriptor that signals its owner (``F_SETSIG``) has none, with codes above. Code 0 is the kernel's word for ``kill``.
        It also stands for a signal whose details had no room, which only ``limit_process`` rules out.
        """
        return self.sender == 0 and self.code == _SI_USER


_SI_USER = 0
_SIGINFO_BYTES = 128
_SIGINFO_HEAD = struct.Struct("=IiiI")  # ssi_signo, ssi_errno, ssi_code, ssi_pid
_SIGSET_BYTES = 128


class SignalQueue:
    """Signals read from a descriptor instead of handlers, with their sender.

    The sender matters: a storlet can signal process 1, and only a SIGTERM from outside may end the sandbox. The numbers
    given stay blocked in this process; a child must unblock them (``unblock_all``).
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
        """The descriptor: readable when a signal waits."""
        return self._fd

    def read(self) -> Iterator[Signal]:
        """The signals that wait. Several of one number may have become one, as ever."""
        while True:
            try:
                data = os.read(self._fd, _SIGINFO_BYTES * 16)
            except BlockingIOError:
                return
            for offset in range(0, len(data), _SIGINFO_BYTES):
                number, _, code, sender = _SIGINFO_HEAD.unpack_from(data, offset)
                yield Signal(number, sender, code)


def unblock_all() -> None:
    """Let every signal through again: a child must not inherit what its parent blocks."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


_OFFER = 300


class Expendable:
    """When the sandbox is out of memory the kernel shall take a child that was made inside ``with``, not process 1.

    A child inherits this at its birth. It could say so itself only if it let other processes of its user look into it for
    that moment. Made before ``hide_memory``, which takes the file away.
    """

    def __init__(self, path: str = "/proc/self/oom_score_adj") -> None:
        """Open the file for good."""
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            self._own = int(os.pread(self._fd, 16, 0))
        except OSError:
            # Not worth more: a sandbox whose process 1 is taken is started anew.
            self._fd = -1

    def __enter__(self) -> None:
        """From here on children are to be taken first."""
        self._write(min(self._own + _OFFER, 1000) if self._fd >= 0 else 0)

    def __exit__(self, *exc_info: object) -> None:
        """This process itself is not."""
        self._write(self._own if self._fd >= 0 else 0)

    def _write(self, score: int) -> None:
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                os.pwrite(self._fd, str(score).encode(), 0)


OPEN_FILES_MIN = 64
"""A worker with fewer could not take an invocation: 32 descriptors may come with one, a JVM holds some twenty."""
FILE_BYTES_MIN = 1 << 20
"""The log of an invocation is a file too, and has its own limit."""
SIGNALS_MAX = 1024
"""Signals that wait for storlets, of a whole user id. Process 1 has the limit that it was born with, and must have more:
with all places taken, the kernel delivers ``tkill`` to it without a sender, as if it came from outside."""


def limit_process(open_files: int, file_bytes: int) -> None:
    """Bound what each process, from here on with its children, may have open and how long a file it may write; 0: no bound.

    Beyond it a write fails with EFBIG: the signal that would end the process is ignored. There are no core files in any case. The number of processes is not limited here: the kernel counts those of a uid, not of a group.
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
    """Live descendants of ``root`` that are neither in ``keep`` nor descend from one of those; zombies are left out."""
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
    """A line of ``ps``: ``cpu_seconds`` with the children that it has waited for."""

    pid: int
    parent: int
    is_zombie: bool
    cpu_seconds: float


_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def processes() -> Iterator[Process]:
    """All processes that can be seen from here."""
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            one = process(int(entry))
            if one is not None:
                yield one


def process(pid: int) -> Process | None:
    """One process; ``None`` when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name in parentheses may hold anything, parentheses too; what follows the last one is ours to read.
            fields = file.read().rpartition(b")")[2].split()
        ticks = sum(map(int, fields[11:15]))  # utime, stime, cutime, cstime
        return Process(pid, int(fields[1]), fields[0] in (b"Z", b"X"), ticks / _TICKS_PER_SECOND)
    except (OSError, ValueError, IndexError):
        return None


def kill(pid: int, number: int) -> None:
    """Signal a process that may be gone already. Never 0 or below: that would name whole groups."""
    if pid > 1:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def kill_group(leader: int) -> None:
    """SIGKILL the process group of ``leader``; the kernel does it as one step, so that no fork escapes."""
    if leader > 1:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)
