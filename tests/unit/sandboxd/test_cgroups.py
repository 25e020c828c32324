"""Control groups on fake trees of version 1, version 2 and both; tests/probe/test_hardening.py uses
real ones.

A made-up tree holds what it is written, but the kernel's rules are not in it: ``FakeTree.group``
makes the files that a kernel would make with a directory.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from storlet_daemon.protocol.messages import Resources
from storlet_middleware.config import NodeSection
from storlet_middleware.sandboxd.cgroups import hierarchy, limits, node, workers
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


@pytest.fixture
def make_tree(tmp_path: Path) -> Callable[[int], FakeTree]:
    def make(version: int) -> FakeTree:
        tree = FakeTree(tmp_path, version)
        tree.group("/")
        tree.proc.mkdir()
        (tree.proc / "meminfo").write_text("MemTotal:       16777216 kB\n")
        if version == 2:
            (tree.root / "cgroup.controllers").write_text("cpuset cpu io memory hugetlb pids\n")
        tree.group(CONTAINER)
        tree.process(1000, [1000, 1])
        tree.process(1007, [1007, 7])
        tree.put(CONTAINER, [1000, 1007])
        return tree

    return make


class FakeHierarchy(Hierarchy):
    """Fills new directories with files, as a kernel does."""

    def __init__(self, tree: FakeTree) -> None:
        super().__init__(tree.root, tree.proc)
        self.make = tree.make  # type: ignore[method-assign]


def groups_of(tree: FakeTree) -> WorkerCgroups:
    return WorkerCgroups(FakeHierarchy(tree))


def node_of(tree: FakeTree, name: str = NODE) -> NodeCgroup:
    return NodeCgroup(name, FakeHierarchy(tree))


# --- the node ------------------------


def test_the_node_gets_its_totals_on_version_1(make_tree: Callable[[int], FakeTree]) -> None:
    tree = make_tree(1)
    assert node_of(tree).make(NodeSection(0.75, 1.5, 256, 4096)) == []
    assert tree.read("memory", f"{NODE}/memory.limit_in_bytes") == str(12 * GIB)
    assert tree.read("memory", f"{NODE}/memory.memsw.limit_in_bytes") == str(12 * GIB)
    assert tree.read("memory", f"{NODE}/memory.use_hierarchy") == "1"
    assert tree.read("cpu", f"{NODE}/cpu.shares") == "256"
    assert tree.read("cpu", f"{NODE}/cpu.cfs_quota_us") == "150000"
    assert tree.read("pids", f"{NODE}/pids.max") == "4096"


def test_the_node_gets_its_totals_on_version_2(make_tree: Callable[[int], FakeTree]) -> None:
    tree = make_tree(2)
    assert node_of(tree).make(NodeSection(2 * GIB, 1.5, 256, 4096)) == []
    assert tree.read("", f"{NODE}/memory.max") == str(2 * GIB)
    assert tree.read("", f"{NODE}/memory.swap.max") == "0"
    assert tree.read("", f"{NODE}/cpu.weight") == "25"
    assert tree.read("", f"{NODE}/cpu.max") == "150000 100000"
    assert tree.read("", f"{NODE}/pids.max") == "4096"
    assert tree.read("", "cgroup.subtree_control").startswith("+")


def test_no_quota_is_set_when_none_is_configured(make_tree: Callable[[int], FakeTree]) -> None:
    tree = make_tree(1)
    node_of(tree).make(NodeSection(GIB, 0, 256, 4096))
    assert tree.read("cpu", f"{NODE}/cpu.cfs_quota_us") == ""


def test_a_host_without_swap_accounting_has_the_other_totals(
    make_tree: Callable[[int], FakeTree],
) -> None:
    tree = make_tree(1)
    tree.group(NODE)
    (tree.root / "memory/storlets-unit/memory.memsw.limit_in_bytes").unlink()
    faults = node_of(tree).make(NodeSection(GIB, 0, 256, 4096))
    assert faults == []
    assert tree.read("memory", f"{NODE}/memory.limit_in_bytes") == str(GIB)


def test_totals_that_cannot_be_set_are_named_and_the_others_are_set(
    make_tree: Callable[[int], FakeTree],
) -> None:
    tree = make_tree(1)
    tree.group(NODE)
    pids = tree.root / "pids/storlets-unit/pids.max"
    pids.unlink()
    pids.symlink_to("/proc/self/nothing")
    faults = node_of(tree).make(NodeSection(GIB, 0, 256, 4096))
    assert len(faults) == 1
    assert "pids.max = 4096" in faults[0]
    assert tree.read("cpu", f"{NODE}/cpu.shares") == "256"


def test_a_host_without_control_groups_is_reported_without_a_failure(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 1024 kB\n")
    faults = NodeCgroup(NODE, Hierarchy(tmp_path / "nothing", tmp_path)).make(
        NodeSection(0.5, 0, 256, 4096)
    )
    assert faults == [f"no control groups for {name}" for name in ("memory", "cpu", "pids")]


@pytest.mark.parametrize("version", [1, 2])
def test_leftover_groups_of_the_runtime_are_removed(
    make_tree: Callable[[int], FakeTree], version: int
) -> None:
    tree = make_tree(version)
    group = node_of(tree, "/storlets-n")
    for folder in tree.trees().values():
        for name in ("a" * 64, "b" * 64):
            (folder / "storlets-n" / name).mkdir(parents=True)
    assert group.sandboxes() == {"a" * 64, "b" * 64}
    group.remove_sandboxes(["a" * 64])
    assert group.sandboxes() == {"b" * 64}


@pytest.mark.parametrize("version", [1, 2])
def test_processes_in_a_group_without_a_container_are_killed(
    make_tree: Callable[[int], FakeTree], version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        node, "_DYING_SECONDS", 0.1
    )  # files that are the kernel's go with the directory, ours do not
    tree = make_tree(version)
    orphans = [subprocess.Popen(["sleep", "1000"]) for _ in range(3)]
    try:
        for folder in tree.trees().values():
            for name, orphan in zip(("a", "a/below", "b"), orphans, strict=True):
                (folder / "storlets-n" / name).mkdir(parents=True, exist_ok=True)
                (folder / "storlets-n" / name / "cgroup.procs").write_text(f"{orphan.pid}\n")
        node_of(tree, "/storlets-n").remove_sandboxes(["a"])
        assert [orphan.wait(10) for orphan in orphans[:2]] == [-signal.SIGKILL, -signal.SIGKILL]
        assert orphans[2].poll() is None
    finally:
        for orphan in orphans:
            orphan.kill()
            orphan.wait()


def test_groups_below_a_slice_are_systemds(make_tree: Callable[[int], FakeTree]) -> None:
    assert node_of(make_tree(1), "storlets-n.slice").sandboxes() == set()


@pytest.mark.parametrize(
    ("shares", "weight"), [(1024, 100), (256, 25), (2, 1), (262144, 10000), (10, 1)]
)
def test_weights_are_shares_in_proportion_to_a_process_of_swifts(shares: int, weight: int) -> None:
    assert limits.weight_of(shares) == weight


def test_a_slice_is_made_by_systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """systemd would revert other programs' writes into its groups."""
    program = tmp_path / "systemctl"
    program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "meminfo").write_text("MemTotal: 16777216 kB\n")
    made = NodeCgroup("storlets-unit.slice", Hierarchy(tmp_path / "none", tmp_path))
    assert made.make(NodeSection(0.5, 1.5, 256, 4096)) == []
    made.remove()
    first, *others = (tmp_path / "calls").read_text().splitlines()
    assert first.startswith("set-property --runtime storlets-unit.slice ")
    for word in (
        f"MemoryMax={8 * GIB}",
        "MemorySwapMax=0",
        "TasksMax=4096",
        "CPUWeight=25",
        "CPUQuota=150%",
    ):
        assert word in first.split()
    assert others == [f"{verb} storlets-unit.slice" for verb in ("start", "stop", "revert")]


def test_a_host_without_systemctl_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "meminfo").write_text("MemTotal: 16777216 kB\n")
    assert (
        "systemctl"
        in NodeCgroup("storlets-x.slice", Hierarchy(tmp_path, tmp_path)).make(
            NodeSection(0.5, 0, 256, 9)
        )[0]
    )


# --- workers ------------------------


def test_a_worker_is_moved_below_its_sandbox_with_the_limits_of_its_storlet(
    make_tree: Callable[[int], FakeTree],
) -> None:
    tree = make_tree(1)
    assert groups_of(tree).move_worker(1000, 7, GROUP, LIMITS) == DIRECTORY
    for controller in V1_FILES:
        assert tree.read(controller, f"{CONTAINER}/{DIRECTORY}/cgroup.procs") == "1007"
    assert tree.read("memory", f"{CONTAINER}/{DIRECTORY}/memory.limit_in_bytes") == str(64 << 20)
    assert tree.read("memory", f"{CONTAINER}/{DIRECTORY}/memory.memsw.limit_in_bytes") == str(
        64 << 20
    )
    assert tree.read("pids", f"{CONTAINER}/{DIRECTORY}/pids.max") == "20"
    assert tree.read("cpu", f"{CONTAINER}/{DIRECTORY}/cpu.cfs_quota_us") == "50000"


def test_version_2_moves_the_sandboxs_own_processes_into_a_leaf(
    make_tree: Callable[[int], FakeTree],
) -> None:
    tree = make_tree(2)
    assert groups_of(tree).move_worker(1000, 7, GROUP, LIMITS) == DIRECTORY
    assert (
        tree.read("", f"{CONTAINER}/init/cgroup.procs") == "1007"
    )  # a real file takes each pid in turn
    assert tree.read("", f"{CONTAINER}/cgroup.subtree_control") == "+cpu +memory +pids"
    assert tree.read("", f"{CONTAINER}/{DIRECTORY}/cgroup.procs") == "1007"
    assert tree.read("", f"{CONTAINER}/{DIRECTORY}/memory.max") == str(64 << 20)
    assert tree.read("", f"{CONTAINER}/{DIRECTORY}/cpu.max") == "50000 100000"


def test_version_2_finds_the_sandbox_when_its_process_1_is_in_the_leaf(
    make_tree: Callable[[int], FakeTree],
) -> None:
    tree = make_tree(2)
    tree.group(f"{CONTAINER}/init")
    tree.process(1000, [1000, 1], f"{CONTAINER}/init")
    tree.put(CONTAINER, [])
    tree.put(f"{CONTAINER}/init", [1000, 1007])
    (tree.root / CONTAINER.lstrip("/") / "cgroup.subtree_control").write_text("cpu memory pids")
    assert groups_of(tree).move_worker(1000, 7, GROUP, LIMITS) == DIRECTORY
    assert not (tree.root / f"{CONTAINER.lstrip('/')}/init/init").exists()


def test_both_versions_at_once_are_version_1(make_tree: Callable[[int], FakeTree]) -> None:
    tree = make_tree(1)
    (tree.root / "unified").mkdir()
    (tree.root / "unified/cgroup.controllers").write_text("hugetlb\n")
    assert groups_of(tree).move_worker(1000, 7, GROUP, LIMITS) == DIRECTORY
    assert tree.read("memory", f"{CONTAINER}/{DIRECTORY}/cgroup.procs") == "1007"


def test_controllers_that_share_a_tree_are_one(
    tmp_path: Path, make_tree: Callable[[int], FakeTree]
) -> None:
    tree = make_tree(1)
    for name in ("cpu", "cpuacct"):
        (tree.root / name).rename(tree.root / f"{name}-old")
        (tree.root / name).symlink_to("cpu-old")
    assert [
        names
        for names in (one.controllers for one in Hierarchy(tree.root, tree.proc).trees())
        if "cpu" in names
    ] == [("cpu", "cpuacct")]


def test_a_limit_of_0_is_not_set(make_tree: Callable[[int], FakeTree]) -> None:
    tree = make_tree(1)
    assert groups_of(tree).move_worker(1000, 7, GROUP, Resources()) == DIRECTORY
    assert tree.read("memory", f"{CONTAINER}/{DIRECTORY}/memory.limit_in_bytes") == ""
    assert tree.read("pids", f"{CONTAINER}/{DIRECTORY}/pids.max") == ""


def test_placing_twice_is_placing_once(make_tree: Callable[[int], FakeTree]) -> None:
    tree = make_tree(1)
    groups = groups_of(tree)
    assert groups.move_worker(1000, 7, GROUP, LIMITS) == DIRECTORY
    tree.put(CONTAINER, [1000])
    assert groups.move_worker(1000, 7, GROUP, LIMITS) == DIRECTORY


@pytest.mark.parametrize(
    ("supervisor", "worker", "group"),
    [
        pytest.param(1000, 8, GROUP, id="a process that is not there"),
        pytest.param(1000, 1, GROUP, id="the supervisor itself"),
        pytest.param(0, 7, GROUP, id="a sandbox out of sight"),
        pytest.param(1, 7, GROUP, id="the host's first process"),
        pytest.param(4242, 7, GROUP, id="a sandbox that is gone"),
        pytest.param(1000, 7, "../../etc", id="a group that is a path"),
        pytest.param(1000, 9, GROUP, id="a process of another sandbox with that number"),
        pytest.param(1000, 5, GROUP, id="a process in a namespace of its own inside"),
    ],
)
def test_a_worker_is_not_moved_for_an_invalid_request(
    make_tree: Callable[[int], FakeTree], supervisor: int, worker: int, group: str
) -> None:
    tree = make_tree(1)
    tree.group(f"{NODE}/other")
    tree.process(1009, [1009, 9], f"{NODE}/other")
    tree.put(f"{NODE}/other", [1009])
    tree.process(1005, [1005, 6, 5])
    tree.put(CONTAINER, [1000, 1007, 1005])
    assert groups_of(tree).move_worker(supervisor, worker, group, LIMITS) == ""
    assert tree.read("memory", f"{CONTAINER}/cgroup.procs").split() == ["1000", "1007", "1005"]


@pytest.mark.parametrize("path", ["/", "/../../outside", "/not/there"])
def test_a_path_that_is_no_containers_is_left_alone(
    make_tree: Callable[[int], FakeTree], path: str
) -> None:
    tree = make_tree(1)
    tree.process(1000, [1000, 1], path)
    assert groups_of(tree).move_worker(1000, 7, GROUP, LIMITS) == ""
    assert groups_of(tree).directories(1000) == {}


def test_a_sandbox_cannot_ask_for_any_number_of_groups(
    make_tree: Callable[[int], FakeTree],
) -> None:
    tree = make_tree(1)
    for number in range(workers.GROUPS_MAX):
        tree.group(f"{CONTAINER}/storlet-{number}")
    assert groups_of(tree).move_worker(1000, 7, GROUP, LIMITS) == ""


def test_a_group_without_its_limit_is_not_used(make_tree: Callable[[int], FakeTree]) -> None:
    """Better in the sandbox's own limits than in a group that looks like one and has none."""
    tree = make_tree(1)
    real = hierarchy.write

    def write(path: Path, text: str) -> None:
        if path.name == "memory.limit_in_bytes":
            raise OSError(16, "Device or resource busy")
        real(path, text)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hierarchy, "write", write)
        assert groups_of(tree).move_worker(1000, 7, GROUP, LIMITS) == ""


@pytest.mark.parametrize("version", [1, 2])
def test_prepare_move_writes_this_process_to_its_own_group(
    make_tree: Callable[[int], FakeTree], version: int
) -> None:
    tree = make_tree(version)
    tree.group("/service")
    tree.process("self", [os.getpid()], "/service")
    groups_of(tree).prepare_move()
    assert tree.read("memory", "/service/cgroup.procs") == str(os.getpid())
    assert tree.read("memory", f"{CONTAINER}/cgroup.procs").split() == ["1000", "1007"]


def test_prepare_move_without_control_groups_does_nothing(tmp_path: Path) -> None:
    WorkerCgroups(Hierarchy(tmp_path / "none", tmp_path)).prepare_move()


# --- in sight ------------------------


def test_an_engine_of_this_machine_is_in_sight(tmp_path: Path) -> None:
    path = tmp_path / "docker.sock"
    with socket.socket(socket.AF_UNIX) as engine:
        engine.bind(str(path))
        engine.listen()
        assert hierarchy.in_sight(f"unix://{path}")


@pytest.mark.parametrize("url", ["tcp://192.0.2.1:2375", "unix:///nowhere", ""])
def test_a_remote_engine_is_not_in_sight(url: str) -> None:
    assert not hierarchy.in_sight(url)


@pytest.mark.parametrize("group", ["/../..", "/../../system.slice/docker.service", None])
def test_one_whose_control_groups_are_not_below_ours_is_not(
    tmp_path: Path, group: str | None
) -> None:
    path = tmp_path / "docker.sock"
    (tmp_path / str(os.getpid())).mkdir()
    if group is not None:
        (tmp_path / str(os.getpid()) / "cgroup").write_text(f"4:memory:/\n0::{group}\n")
    with socket.socket(socket.AF_UNIX) as engine:
        engine.bind(str(path))
        engine.listen()
        assert not hierarchy.in_sight(f"unix://{path}", tmp_path)


@pytest.mark.parametrize("version", [1, 2])
def test_a_group_that_was_made_and_not_yet_limited_gets_its_limits(
    make_tree: Callable[[int], FakeTree], version: int
) -> None:
    """sandboxd was killed between the two."""
    tree = make_tree(version)
    tree.group(f"{CONTAINER}/{DIRECTORY}")
    assert groups_of(tree).move_worker(1000, 7, GROUP, LIMITS) == DIRECTORY
    name = "memory.max" if version == 2 else "memory.limit_in_bytes"
    assert tree.read("memory", f"{CONTAINER}/{DIRECTORY}/{name}") == str(64 << 20)
    assert tree.read("pids", f"{CONTAINER}/{DIRECTORY}/pids.max") == "20"
