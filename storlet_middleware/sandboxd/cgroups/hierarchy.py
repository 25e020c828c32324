"""The control group trees of this host, and the files of a group."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path("/sys/fs/cgroup")
PROC: Final = Path("/proc")
#: The controllers that have limits; on version 1 ``cpuacct`` only reports usage.
CONTROLLERS: Final = ("memory", "pids", "cpu", "cpuacct")
#: On version 2, the child group of a sandbox's own processes.
INIT: Final = "init"
_CREDENTIALS: Final = struct.Struct("3i")
_CONNECT_SECONDS: Final = 3


def in_sight(docker_url: str, proc: Path = PROC) -> bool:
    """Whether the groups that Docker makes are in the tree that this process sees.

    The process that listens at Docker's socket must be visible, and so must its groups.  With
    socket activation that process is systemd, which is equivalent: it is the host's.  Comparing
    the cgroup namespaces themselves would take all capabilities, which the unit of sandboxd drops.
    """
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_CONNECT_SECONDS)
            connection.connect(docker_url.removeprefix("unix://"))
            credentials = connection.getsockopt(
                socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
            )
        pid, _, _ = _CREDENTIALS.unpack(credentials)
        # A process in an invisible pid namespace has the pid 0.  The path of a group that is not
        # below the visible root begins with "/..".
        paths = paths_by_controller(read(proc / str(pid) / "cgroup")).values()
        return pid > 0 and not any(".." in Path(path).parts for path in paths)
    except (OSError, ValueError):
        return False  # over TCP, too: the engine may be on another machine


@dataclass(frozen=True)
class Tree:
    """A directory with the groups of some controllers; ``is_unified``: version 2."""

    path: Path
    controllers: tuple[str, ...]
    is_unified: bool

    def own_path(self, paths: Mapping[str, str]) -> str:
        """The path in this tree of a process, given its :func:`paths_by_controller`."""
        return paths.get("" if self.is_unified else self.controllers[0], "")


class Hierarchy:
    """The trees below ``root``; ``proc`` is the process table that belongs to them."""

    def __init__(self, root: Path = ROOT, proc: Path = PROC) -> None:
        self.root = root
        self.proc = proc

    @property
    def is_unified(self) -> bool:
        """Whether version 2 has all controllers."""
        return (self.root / "cgroup.controllers").is_file()

    def trees(self) -> list[Tree]:
        """The trees of the controllers that have limits."""
        if self.is_unified:
            present = read(self.root / "cgroup.controllers").split()
            controllers = tuple(one for one in CONTROLLERS if one in present)
            return [Tree(self.root, controllers, is_unified=True)]
        found: dict[Path, list[str]] = {}
        for one in CONTROLLERS:
            if (self.root / one).is_dir():
                # "cpu" is often a link to "cpu,cpuacct", which is one tree.
                found.setdefault((self.root / one).resolve(), []).append(one)
        return [Tree(path, tuple(names), is_unified=False) for path, names in found.items()]

    def all_trees(self) -> Iterable[Path]:
        """Every tree of the host: Docker makes its groups in all of them."""
        if self.is_unified:
            return [self.root]
        with contextlib.suppress(OSError):
            return {path.resolve() for path in self.root.iterdir() if path.is_dir()}
        return []

    def sandbox_groups(self, supervisor_pid: int) -> Iterator[Tree]:
        """The groups of a sandbox, one for each tree; none when its process is out of sight.

        ``supervisor_pid`` is process 1 of the sandbox in this process' pid namespace.
        """
        if supervisor_pid <= 1:
            return  # out of sight, or process 1 of the host
        own = paths_by_controller(read(self.proc / str(supervisor_pid) / "cgroup"))
        for tree in self.trees():
            parts = Path(tree.own_path(own).lstrip("/")).parts
            if tree.is_unified and parts and parts[-1] == INIT:
                parts = parts[:-1]
            # The root, or a path with "..": not a process of a container below the visible root.
            if parts and ".." not in parts and tree.path.joinpath(*parts).is_dir():
                yield Tree(tree.path.joinpath(*parts), tree.controllers, tree.is_unified)

    def pids(self, pid: int) -> list[int]:
        """The pids of a process, from our pid namespace down to its own; none when it has ended."""
        try:
            status = read(self.proc / str(pid) / "status")
        except (FileNotFoundError, ProcessLookupError):
            return []
        lines = (line for line in status.splitlines() if line.startswith("NSpid:"))
        return [int(word) for word in next(lines, "").split()[1:]]

    @staticmethod
    def make(path: Path) -> None:
        """Make a group in one tree."""
        path.mkdir(exist_ok=True)


def paths_by_controller(text: str) -> Mapping[str, str]:
    """``/proc/<pid>/cgroup`` as a table; version 2 has the empty name."""
    found = {}
    for line in text.splitlines():
        _, names, path = line.split(":", 2)
        found.update(dict.fromkeys(names.split(","), path))
    return found


def read(path: Path) -> str:
    """The text of a kernel file."""
    return path.read_text(encoding="ascii", errors="replace")


def write(path: Path, text: str) -> None:
    """Write a kernel file with one system call.

    Never creates a file: outside a kernel's tree that would look like success.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def watched(pid: int) -> Iterator[Callable[[], bool]]:
    """A function that returns whether the process of now has not ended; raises :class:`OSError`.

    While it has not, its number cannot be another process'.
    """
    process = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(process, select.POLLIN)
        yield lambda: not poll.poll(0)
    finally:
        os.close(process)


def kill_processes(path: Path) -> int:
    """Kill the processes of a group and of all groups below it; return their number."""
    killed = 0
    for procs in path.rglob("cgroup.procs"):
        with contextlib.suppress(OSError):
            for pid in read(procs).split():
                # Processes of another pid namespace appear as 0.
                if int(pid) > 1:
                    killed += _kill(procs, pid)
    return killed


def _kill(procs: Path, pid: str) -> bool:
    """Kill a process that is in the group of ``procs``; its number may be another's by now."""
    try:
        process = os.pidfd_open(int(pid))
    except ProcessLookupError:
        return False
    try:
        if pid not in read(procs).split():
            return False
        signal.pidfd_send_signal(process, signal.SIGKILL)
    finally:
        os.close(process)
    return True


def remove(path: Path) -> None:
    """Remove a group and those below it, except groups that still have processes."""
    with contextlib.suppress(OSError):
        for entry in path.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                remove(entry)
        path.rmdir()
