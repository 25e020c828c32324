"""A fake tree of control groups, of version 1, version 2 or both.

A fake tree stores every value as it is written: the kernel's rules are not in it.
``FakeTree.group`` makes the files that a kernel would make with a directory.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from storlet_daemon.protocol.messages import Resources
from storlet_middleware.sandboxd.cgroups.hierarchy import Hierarchy
from storlet_middleware.sandboxd.cgroups.node import NodeCgroup
from storlet_middleware.sandboxd.cgroups.workers import WorkerCgroups

GROUP = "ab" * 32
DIRECTORY = "storlet-" + "ab" * 16
NODE = "/storlets-unit"
CONTAINER = f"{NODE}/0123"
LIMITS = Resources(memory_bytes=64 << 20, cpus=0.5, processes=20)
GIB = 1 << 30
V1_FILES = {
    "memory": ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.use_hierarchy"),
    "pids": ("pids.max",),
    "cpu": ("cpu.shares", "cpu.cfs_quota_us", "cpu.cfs_period_us"),
    "cpuacct": (),
}


V2_FILES = (
    "memory.max",
    "memory.swap.max",
    "pids.max",
    "cpu.max",
    "cpu.weight",
    "cgroup.subtree_control",
)


@dataclass
class FakeTree:
    """A host with one sandbox: its process 1 is 1000, its worker is 7 inside and 1007 outside."""

    home: Path
    version: int

    @property
    def root(self) -> Path:
        return self.home / "cgroup"

    @property
    def proc(self) -> Path:
        return self.home / "proc"

    def trees(self) -> dict[str, Path]:
        return (
            {"": self.root} if self.version == 2 else {name: self.root / name for name in V1_FILES}
        )

    def group(self, path: str) -> None:
        for tree in self.trees().values():
            folder = tree / path.lstrip("/")
            for above in reversed([folder, *folder.parents]):
                if above.is_relative_to(tree):
                    self.make(above)

    def make(self, folder: Path) -> None:
        """Create a group in one tree with the kernel's files; an existing group stays unchanged."""
        if (folder / "cgroup.procs").exists():
            return
        folder.mkdir(parents=True, exist_ok=True)
        name = folder.relative_to(self.root).parts[:1]
        for file in (*(V2_FILES if self.version == 2 else V1_FILES[name[0]]), "cgroup.procs"):
            (folder / file).touch()

    def process(self, pid: int | str, pids: Iterable[int], path: str = CONTAINER) -> None:
        folder = self.proc / str(pid)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "status").write_text(f"Name:\tx\nNSpid:\t{' '.join(map(str, pids))}\n")
        lines = (
            [f"0::{path}\n"]
            if self.version == 2
            else [f"{n}:{name}:{path}\n" for n, name in enumerate(V1_FILES)]
        )
        (folder / "cgroup").write_text("".join(lines))

    def put(self, path: str, pids: Iterable[int]) -> None:
        for tree in self.trees().values():
            (tree / path.lstrip("/") / "cgroup.procs").write_text(
                "".join(f"{pid}\n" for pid in pids)
            )

    def read(self, controller: str, path: str) -> str:
        return (
            self.trees()[controller if self.version == 1 else ""] / path.lstrip("/")
        ).read_text()


class FakeHierarchy(Hierarchy):
    """Fills new directories with files, as a kernel does."""

    def __init__(self, tree: FakeTree) -> None:
        super().__init__(tree.root, tree.proc)
        self.make = tree.make  # type: ignore[method-assign]


def groups_of(tree: FakeTree) -> WorkerCgroups:
    return WorkerCgroups(FakeHierarchy(tree))


def node_of(tree: FakeTree, name: str = NODE) -> NodeCgroup:
    return NodeCgroup(name, FakeHierarchy(tree))
