"""The trees of control groups of a host, and their files."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from storlet_middleware.sandboxd.cgroups import hierarchy
from storlet_middleware.sandboxd.cgroups.hierarchy import Hierarchy
from tests.unit.sandboxd.cgroups.fake_tree import FakeTree


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


def test_the_end_of_a_watched_process_is_seen() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        with hierarchy.watched(process.pid) as is_alive:
            assert is_alive()
            process.kill()
            process.wait()
            assert not is_alive()
        with pytest.raises(ProcessLookupError), hierarchy.watched(process.pid):
            pass
