"""A host with one sandbox, of either version."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from storlet_middleware.sandboxd.cgroups import hierarchy
from tests.unit.sandboxd.cgroups.fake_tree import CONTAINER, FakeTree


@pytest.fixture
def make_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], FakeTree]:
    """The processes are in files only."""
    monkeypatch.setattr(hierarchy, "watched", lambda _: contextlib.nullcontext(lambda: True))

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
