"""The node's control group as a slice of systemd."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from storlet_middleware.config import NodeSection
from storlet_middleware.sandboxd.cgroups.hierarchy import Hierarchy
from storlet_middleware.sandboxd.cgroups.node import NodeCgroup
from tests.unit.sandboxd.cgroups.fake_tree import GIB, FakeTree, node_of


def test_groups_below_a_slice_are_systemds(make_tree: Callable[[int], FakeTree]) -> None:
    assert node_of(make_tree(1), "storlets-n.slice").sandboxes() == set()


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
