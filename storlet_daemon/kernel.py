"""The few kernel facilities that Python's library does not wrap: signals as a descriptor, prctl, memory kills, process trees.

All of them are for process 1 of a sandbox, which must neither be blinded nor be fooled by the processes it runs: they have
its uid, may send it any signal, and may leave children behind in any way.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import struct
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

_PR_SET_DUMPABLE = 4
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36

_LIBC = ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int | bytes) -> None:
    if _LIBC.prctl(option, value, 0, 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


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
    """A signal that arrived; ``sender`` is 0 when it came from outside this pid namespace (or from the kernel)."""

    number: int
    sender: int


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
                number, _, _, sender = _SIGINFO_HEAD.unpack_from(data, offset)
                yield Signal(number, sender)


def unblock_all() -> None:
    """Let every signal through again: a child must not inherit what its parent blocks."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


MEMORY_KILL_FILES = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")
"""Where a container sees its own memory cgroup: version 2, version 1."""


class MemoryKills:
    """The kernel's count of processes of this sandbox that it killed for memory."""

    def __init__(self, paths: Iterable[str] = MEMORY_KILL_FILES) -> None:
        """Remember the count as it is now."""
        self._paths = tuple(paths)
        self._seen = self._count()

    def has_grown(self) -> bool:
        """Whether the kernel has killed since the last time this was asked."""
        count = self._count()
        grown = count > self._seen
        self._seen = count
        return grown

    def _count(self) -> int:
        for path in self._paths:
            try:
                with open(path, encoding="ascii") as lines:
                    for line in lines:
                        key, _, value = line.partition(" ")
                        if key == "oom_kill":
                            return int(value)
            except (OSError, ValueError):
                continue
        return 0


def offer_to_memory_killer() -> None:
    """When the sandbox is out of memory the kernel shall take this process, not process 1. Needs ``show_memory`` first."""
    # Not worth more: a sandbox whose process 1 is taken is started anew.
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("500")


def strays(root: int, keep: Collection[int]) -> list[int]:
    """Live descendants of ``root`` that are neither in ``keep`` nor descend from one of those; zombies are left out."""
    children: dict[int, list[tuple[int, bool]]] = {}
    for pid, parent, is_zombie in _processes():
        children.setdefault(parent, []).append((pid, is_zombie))
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


def _processes() -> Iterator[tuple[int, int, bool]]:
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as file:
                # The name in parentheses may hold anything, parentheses too; what follows the last one is ours to read.
                state, parent = file.read().rpartition(b")")[2].split()[:2]
        except (OSError, ValueError):
            continue
        yield int(entry), int(parent), state in (b"Z", b"X")


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
