"""The control groups of storlets: workers are moved below their sandbox only."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from storlet_daemon.protocol.messages import Resources
from storlet_middleware.sandboxd.cgroups import hierarchy, workers
from storlet_middleware.sandboxd.cgroups.hierarchy import Hierarchy
from storlet_middleware.sandboxd.cgroups.workers import WorkerCgroups
from tests.unit.sandboxd.cgroups.fake_tree import (
    CONTAINER,
    DIRECTORY,
    GROUP,
    LIMITS,
    NODE,
    V1_FILES,
    FakeTree,
    groups_of,
)


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


@pytest.mark.parametrize("version", [1, 2])
def test_a_worker_that_ends_before_it_is_moved_moves_no_other_process(
    make_tree: Callable[[int], FakeTree], version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = make_tree(version)
    monkeypatch.setattr(hierarchy, "watched", lambda _: contextlib.nullcontext(lambda: False))
    assert groups_of(tree).move_worker(1000, 7, GROUP, LIMITS) == ""
    assert tree.read("memory", f"{CONTAINER}/{DIRECTORY}/cgroup.procs") == ""


def test_a_number_that_another_process_gets_during_the_search_is_not_moved(
    make_tree: Callable[[int], FakeTree], monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = make_tree(1)

    @contextlib.contextmanager
    def watched(pid: int) -> Iterator[Callable[[], bool]]:
        assert pid == 1007
        tree.put(CONTAINER, [1000])
        yield lambda: True

    monkeypatch.setattr(hierarchy, "watched", watched)
    assert groups_of(tree).move_worker(1000, 7, GROUP, LIMITS) == ""
    assert tree.read("memory", f"{CONTAINER}/{DIRECTORY}/cgroup.procs") == ""


@pytest.mark.parametrize("path", ["/", "/../../outside", "/not/there"])
def test_a_path_that_is_no_containers_is_left_alone(
    make_tree: Callable[[int], FakeTree], path: str
) -> None:
    tree = make_tree(1)
    tree.process(1000, [1000, 1], path)
    assert groups_of(tree).move_worker(1000, 7, GROUP, LIMITS) == ""
    assert groups_of(tree).directories(1000) == {}


def test_a_sandbox_cannot_request_any_number_of_groups(
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
