"""The control groups of the node: one above all sandboxes, and one below each sandbox for each storlet that it runs.

::

    /storlets-<node id>             all sandboxes together: memory, CPU weight and quota, processes ([node] options)
    └── <container>                 made and limited by Docker (hardening.py)
        └── storlet-<32 digits>     the workers of one group: limits of the storlet, written here by root

Version 1 has such a tree for each controller, version 2 one for all; a host may have both (the *hybrid* layout), and then
the controllers are those of version 1.  In version 2 a group has either processes or children with controllers.  So before
the first storlet's group is made, the container's own processes go into a child ``init``; what process 1 forks later is
born there, and moved from there.

A sandbox sees its own groups read-only, its own at the top: the directory that :meth:`Cgroups.place` returns is below each
of those.  Nothing inside can leave a group or change a limit.

Where sandboxd runs in a container of its own, the host's groups and pids are out of sight: :func:`in_sight`.  Then the
sandboxes have their own limits, and neither totals nor groups for storlets; sandboxd says so once.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from storlet_daemon.protocol.messages import Resources
from storlet_middleware.config import NodeSection
from storlet_middleware.node_memory import host_memory, memory_total

ROOT: Final = Path("/sys/fs/cgroup")
PROC: Final = Path("/proc")
#: What is limited; on version 1 ``cpuacct`` is only there to say what was used.
CONTROLLERS: Final = ("memory", "pids", "cpu", "cpuacct")
PERIOD_MICROSECONDS: Final = 100_000
#: More groups than a sandbox ever has (``GROUPS_MAX`` and those that leave): one that asks for more is not believed.
GROUPS_MAX: Final = 256
PREFIX: Final = "storlet-"
INIT: Final = "init"
#: Version 2 counts weights from 1 to 10000 around 100, version 1 shares from 2 to 262144 around 1024.
_SHARES_MAX: Final = 262144
_MOVES_MAX: Final = 20
_DYING_SECONDS: Final = 1.0
_CREDENTIALS: Final = struct.Struct("3i")
_SYSTEMCTL_SECONDS: Final = 20


def in_sight(docker_url: str, proc: Path = PROC) -> bool:
    """Whether the groups that Docker makes are in the tree that we see: its process is not out of sight, nor its groups.

    Under socket activation the socket is systemd's, which is as good: it is the host's.  Its namespace itself may be looked at
    only with all of its capabilities, which sandboxd does not have under its unit.
    """
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(3)
            connection.connect(docker_url.removeprefix("unix://"))
            credentials = connection.getsockopt(
                socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
            )
        pid, _, _ = _CREDENTIALS.unpack(credentials)
        # A process in a pid namespace out of sight has the pid 0; a group that is not below what we see begins with "/..".
        return pid > 0 and not any(
            ".." in Path(path).parts for path in _paths(_read(proc / str(pid) / "cgroup")).values()
        )
    except (OSError, ValueError):
        return False  # over TCP, too: the engine may be on another machine


@dataclass(frozen=True)
class _Tree:
    """Where some controllers' groups are; ``is_unified``: version 2."""

    path: Path
    controllers: tuple[str, ...]
    is_unified: bool

    def limits(self, limits: Resources) -> list[tuple[str, str]]:
        """Files and what to write into them, for a storlet's group."""
        rows: list[tuple[str, str]] = []
        if "memory" in self.controllers and limits.memory_bytes:
            rows += _memory(limits.memory_bytes, is_unified=self.is_unified)
        if "pids" in self.controllers and limits.processes:
            rows.append(("pids.max", str(limits.processes)))
        if "cpu" in self.controllers and limits.cpus:
            rows.append(_quota(limits.cpus, is_unified=self.is_unified))
        return rows

    def totals(self, node: NodeSection, host_memory: int) -> list[tuple[str, str]]:
        """The same for the group of the node."""
        rows: list[tuple[str, str]] = []
        if "memory" in self.controllers:
            rows += _memory(memory_total(node, host_memory), is_unified=self.is_unified)
        if "pids" in self.controllers:
            rows.append(("pids.max", str(node.pids)))
        if "cpu" in self.controllers:
            weight = ("cpu.weight", str(weight_of(node.cpu_shares)))
            rows.append(weight if self.is_unified else ("cpu.shares", str(node.cpu_shares)))
            if node.cpus:
                rows.append(_quota(node.cpus, is_unified=self.is_unified))
        return rows


def weight_of(shares: int) -> int:
    """``cpu.shares`` of version 1 as ``cpu.weight`` of version 2, in the same proportion to a process of Swift's (1024: 100)."""
    return min(max(round(min(shares, _SHARES_MAX) * 100 / 1024), 1), 10000)


def _memory(count: int, *, is_unified: bool) -> list[tuple[str, str]]:
    if is_unified:
        return [("memory.max", str(count)), ("memory.swap.max", "0")]
    # The second counts memory and swap, and must never be below the first.
    return [("memory.limit_in_bytes", str(count)), ("memory.memsw.limit_in_bytes", str(count))]


def _quota(cpus: float, *, is_unified: bool) -> tuple[str, str]:
    quota = max(int(cpus * PERIOD_MICROSECONDS), 1000)  # the kernel's least
    if is_unified:
        return "cpu.max", f"{quota} {PERIOD_MICROSECONDS}"
    return "cpu.cfs_quota_us", str(quota)


#: Files that a kernel may lack: then there is no swap to count.
_OPTIONAL: Final = ("memory.memsw.limit_in_bytes", "memory.swap.max")


class Cgroups:
    """Methods block for milliseconds; those that say nothing else never raise, because every limit here is a second one."""

    def __init__(self, root: Path = ROOT, proc: Path = PROC) -> None:
        self._root = root
        self._proc = proc

    # --- the node ---------------------------------------------------------------------------------------------------

    def make_node(self, name: str, node: NodeSection) -> list[str]:
        """Make the group above all sandboxes with its totals; returns what could not be set, for the log.

        ``name`` as Docker knows it (``hardening.cgroup_parent``).  A slice is made by systemd, which would undo limits that
        somebody else wrote.
        """
        if name.endswith(".slice"):
            return _make_slice(name, node, host_memory(self._proc))
        faults = []
        for tree in self._trees():
            try:
                group = tree.path / name.lstrip("/")
                self._mkdir(group)
                with contextlib.suppress(OSError):  # of version 1; always so since Linux 5.11
                    _write(group / "memory.use_hierarchy", "1")
                if tree.is_unified:
                    faults += _enable(tree.path, tree.controllers)
                faults += _set(group, tree.totals(node, host_memory(self._proc)))
            except OSError as error:
                faults.append(f"{tree.path}/{name.lstrip('/')}: {error.strerror}")
        present = {controller for tree in self._trees() for controller in tree.controllers}
        faults += [
            f"no control groups for {one}"
            for one in ("memory", "cpu", "pids")
            if one not in present
        ]
        return faults

    def remove_node(self, name: str) -> None:
        """Remove it from every tree, with what ended sandboxes left below it; one that is in use stays."""
        if name.endswith(".slice"):
            _systemctl("stop", name)
            _systemctl("revert", name)
            return
        for tree in self._all_trees():
            _remove(tree / name.lstrip("/"))

    def sandboxes(self, name: str) -> set[str]:
        """The groups of single containers below the node's, named by the containers' ids; a slice's are systemd's to remove.

        The runtime leaves empty ones when the engine dies while it starts a container.
        """
        found: set[str] = set()
        if name.endswith(".slice"):
            return found
        for tree in self._all_trees():
            with contextlib.suppress(OSError):
                found |= {
                    path.name for path in (tree / name.lstrip("/")).iterdir() if path.is_dir()
                }
        return found

    def remove_sandboxes(self, name: str, groups: Iterable[str]) -> None:
        """Remove groups that :meth:`sandboxes` named and whose containers are gone, and kill what is in them.

        An engine that dies while it starts a container leaves the process that was to become it, which waits for ever.
        """
        for group in groups:
            paths = [tree / name.lstrip("/") / group for tree in self._all_trees()]
            killed = sum(_kill(path) for path in paths)
            for path in paths:
                _remove(path)
                # A killed process is in its group until somebody has asked for it.
                give_up = time.monotonic() + _DYING_SECONDS
                while killed and path.exists() and time.monotonic() < give_up:
                    time.sleep(0.02)
                    _remove(path)

    # --- the workers of a storlet -----------------------------------------------------------------------------------

    def place(self, supervisor_pid: int, sandbox_pid: int, group: str, limits: Resources) -> str:
        """Move a worker into the groups of its storlet, which are made when they are not there.

        ``supervisor_pid`` is process 1 of the sandbox as we see it, ``sandbox_pid`` the worker as the sandbox does.  Returns
        the directory below each of the sandbox's own groups, or "" when it is in none.  A process that is not of this very
        sandbox is never moved.
        """
        is_placed = False
        try:
            directory = directory_of(group)
            for container in self._containers(supervisor_pid):
                pid = self._find(container.path, supervisor_pid, sandbox_pid)
                if pid is None:
                    return ""
                if container.is_unified:
                    self._make_leaf(container)
                target = container.path / directory
                self._make_group(container, target, limits)
                _write(target / "cgroup.procs", str(pid))
                is_placed = True
        except (OSError, ValueError):
            return ""
        return directory if is_placed else ""

    def hurry(self) -> None:
        """Make a :meth:`place` that follows within 20 milliseconds a quick one.

        The kernel moves a process while none forks or ends.  To see to that costs the first move after a pause 5 to 20
        milliseconds (a grace period of RCU), and the next ones nothing, in whichever tree they are.  So that a new worker need
        not wait for it, this process is "moved" to where it is.
        """
        with contextlib.suppress(OSError, ValueError):
            own = _paths(_read(self._proc / "self" / "cgroup"))
            for tree in self._trees()[:1]:
                name = own["" if tree.is_unified else tree.controllers[0]].lstrip("/")
                _write(tree.path / name / "cgroup.procs", str(os.getpid()))

    def remove_group(self, supervisor_pid: int, group: str) -> None:
        """Remove the groups of a storlet whose workers have ended; those that still have processes stay."""
        with contextlib.suppress(OSError, ValueError):
            for container in self._containers(supervisor_pid):
                _remove(container.path / directory_of(group))

    def sweep(self, supervisor_pid: int, groups: Collection[str]) -> None:
        """Remove the groups of every storlet that is not one of ``groups``, where no process is left."""
        with contextlib.suppress(OSError, ValueError):
            keep = {directory_of(group) for group in groups}
            for container in self._containers(supervisor_pid):
                for path in container.path.glob(f"{PREFIX}*"):
                    if path.name not in keep:
                        _remove(path)

    def directories(self, supervisor_pid: int) -> dict[str, Path]:
        """The sandbox's own group by controller, for those who look from outside."""
        return {
            one: container.path
            for container in self._containers(supervisor_pid)
            for one in container.controllers
        }

    # --- how --------------------------------------------------------------------------------------------------------

    def _make_group(self, container: _Tree, target: Path, limits: Resources) -> None:
        if not target.is_dir():
            if sum(1 for _ in container.path.glob(f"{PREFIX}*")) >= GROUPS_MAX:
                raise ValueError(f"{container.path} has {GROUPS_MAX} groups")
            self._mkdir(target)
        # Other limits are another group; but one that is there may have none yet: whoever made it was killed, or is about to.
        faults = _set(target, container.limits(limits))
        if faults:
            _remove(target)
            raise ValueError(faults[0])

    @staticmethod
    def _mkdir(path: Path) -> None:
        path.mkdir(exist_ok=True)

    def _make_leaf(self, container: _Tree) -> None:
        """Version 2: have controllers for the children of a container's group, whose own processes must leave it for that."""
        leaf = container.path / INIT
        wanted = set(container.controllers)
        if wanted <= set(_read(container.path / "cgroup.subtree_control").split()):
            return
        self._mkdir(leaf)
        for _ in range(_MOVES_MAX):
            for pid in _read(container.path / "cgroup.procs").split():
                with contextlib.suppress(ProcessLookupError):
                    _write(leaf / "cgroup.procs", pid)
            try:
                _write(
                    container.path / "cgroup.subtree_control",
                    " ".join(f"+{one}" for one in sorted(wanted)),
                )
            except OSError as error:
                if error.errno != errno.EBUSY:
                    raise
                time.sleep(0.001)  # somebody forked meanwhile
                continue
            return
        raise ValueError(f"{container.path} does not get empty")

    def _find(self, path: Path, supervisor_pid: int, sandbox_pid: int) -> int | None:
        """The host's pid of a process of this sandbox.  Looked for in the sandbox's groups only: it may lie as it likes."""
        if sandbox_pid <= 1:
            return None  # the supervisor itself stays where no storlet's limits are
        depth = len(self._pids(supervisor_pid))
        for folder in (path, path / INIT, *path.glob(f"{PREFIX}*")):
            with contextlib.suppress(FileNotFoundError):
                for text in _read(folder / "cgroup.procs").split():
                    pids = self._pids(int(text))
                    if len(pids) == depth and pids[-1] == sandbox_pid:
                        return int(text)
        return None

    def _pids(self, pid: int) -> list[int]:
        """The numbers of a process, from our pid namespace down to its own; none when it is gone."""
        try:
            status = _read(self._proc / str(pid) / "status")
        except (FileNotFoundError, ProcessLookupError):
            return []
        lines = (line for line in status.splitlines() if line.startswith("NSpid:"))
        return [int(word) for word in next(lines, "").split()[1:]]

    def _containers(self, supervisor_pid: int) -> Iterator[_Tree]:
        """The groups of a sandbox, one for each tree; none when its process is out of sight."""
        if supervisor_pid <= 1:
            return  # out of sight, or the host's own
        own = _paths(_read(self._proc / str(supervisor_pid) / "cgroup"))
        for tree in self._trees():
            name = own.get("" if tree.is_unified else tree.controllers[0], "")
            parts = Path(name.lstrip("/")).parts
            if tree.is_unified and parts and parts[-1] == INIT:
                parts = parts[:-1]
            # The root, or a path with "..", is a process that is not in a container below what we see.
            if parts and ".." not in parts and (tree.path.joinpath(*parts)).is_dir():
                yield _Tree(tree.path.joinpath(*parts), tree.controllers, tree.is_unified)

    def _trees(self) -> list[_Tree]:
        if (self._root / "cgroup.controllers").is_file():
            present = _read(self._root / "cgroup.controllers").split()
            return [
                _Tree(
                    self._root, tuple(one for one in CONTROLLERS if one in present), is_unified=True
                )
            ]
        found: dict[Path, list[str]] = {}
        for one in CONTROLLERS:
            if (self._root / one).is_dir():
                # "cpu" is often a link to "cpu,cpuacct", which is one tree.
                found.setdefault((self._root / one).resolve(), []).append(one)
        return [_Tree(path, tuple(names), is_unified=False) for path, names in found.items()]

    def _all_trees(self) -> Iterable[Path]:
        """Every tree of the host: Docker makes its groups in all of them."""
        if (self._root / "cgroup.controllers").is_file():
            return [self._root]
        with contextlib.suppress(OSError):
            return {path.resolve() for path in self._root.iterdir() if path.is_dir()}
        return []


def directory_of(group: str) -> str:
    """The name of a worker group's control groups; ``group`` is 64 hexadecimal digits."""
    if not re.fullmatch("[0-9a-f]{64}", group):
        raise ValueError("not the id of a group")
    return f"{PREFIX}{group[:32]}"


def _paths(text: str) -> Mapping[str, str]:
    """``/proc/<pid>/cgroup``: the path by controller, that of version 2 under an empty name."""
    found = {}
    for line in text.splitlines():
        _, names, path = line.split(":", 2)
        found.update(dict.fromkeys(names.split(","), path))
    return found


def _set(group: Path, rows: Iterable[tuple[str, str]]) -> list[str]:
    """Write limits; what was not possible.  A limit that is below what is in use already may take a second attempt."""
    faults = []
    for name, value in _in_order(group, list(rows)):
        try:
            if (group / name).exists() or name not in _OPTIONAL:
                _write(group / name, value)
        except OSError as error:
            faults.append(f"{group / name} = {value}: {error.strerror}")
    return faults


def _in_order(group: Path, rows: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Memory and memory with swap of version 1: the larger one first when they grow, the smaller first when they shrink."""
    with contextlib.suppress(OSError, ValueError, StopIteration):
        now = int(_read(group / "memory.limit_in_bytes"))
        wanted = next(int(value) for name, value in rows if name == "memory.limit_in_bytes")
        if wanted > now:
            return sorted(rows, key=lambda row: row[0] != "memory.memsw.limit_in_bytes")
    return rows


def _enable(path: Path, controllers: Iterable[str]) -> list[str]:
    faults = []
    for one in controllers:
        try:
            _write(path / "cgroup.subtree_control", f"+{one}")
        except OSError as error:
            faults.append(f"{path}/cgroup.subtree_control +{one}: {error.strerror}")
    return faults


def _kill(path: Path) -> int:
    """Kill what is in a group or in one below it; how many that were."""
    killed = 0
    for procs in path.rglob("cgroup.procs"):
        with contextlib.suppress(OSError):
            for pid in _read(procs).split():
                # Groups that other namespaces share show a process of theirs as 0.
                if int(pid) > 1:
                    os.kill(int(pid), signal.SIGKILL)
                    killed += 1
    return killed


def _remove(path: Path) -> None:
    """A group with those below it, as far as no process is in them.  The files in it go with it."""
    with contextlib.suppress(OSError):
        for entry in path.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                _remove(entry)
        path.rmdir()


def _read(path: Path) -> str:
    return path.read_text(encoding="ascii", errors="replace")


def _write(path: Path, text: str) -> None:
    # One write call, and never a new file: in a tree that is not the kernel's that would look like success.
    descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


# --- systemd ------------------------------------------------------------------------------------------------------------


def _make_slice(name: str, node: NodeSection, host_memory: int) -> list[str]:
    properties = [
        "MemoryAccounting=yes", "CPUAccounting=yes", "TasksAccounting=yes",
        f"MemoryMax={memory_total(node, host_memory)}", "MemorySwapMax=0", f"TasksMax={node.pids}",
        f"CPUWeight={weight_of(node.cpu_shares)}", f"CPUQuota={round(node.cpus * 100)}%" if node.cpus else "CPUQuota=",
    ]  # fmt: skip
    # Version 1 understands MemoryLimit= and CPUShares= only in old releases; newer ones translate the names above.
    return _systemctl("set-property", "--runtime", name, *properties) + _systemctl("start", name)


def _systemctl(*words: str) -> list[str]:
    try:
        done = subprocess.run(
            ["systemctl", *words],
            capture_output=True,
            text=True,
            timeout=_SYSTEMCTL_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return [f"systemctl {words[0]}: {error}"]
    return [f"systemctl {words[0]}: {' '.join(done.stderr.split())}"] if done.returncode else []
