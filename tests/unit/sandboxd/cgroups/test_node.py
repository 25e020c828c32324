"""The control group above all sandboxes: its totals, and leftovers below it."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from storlet_middleware.config import NodeSection
from storlet_middleware.sandboxd.cgroups import node
from storlet_middleware.sandboxd.cgroups.hierarchy import Hierarchy
from storlet_middleware.sandboxd.cgroups.node import NodeCgroup
from tests.unit.sandboxd.cgroups.fake_tree import GIB, NODE, FakeTree, node_of


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
