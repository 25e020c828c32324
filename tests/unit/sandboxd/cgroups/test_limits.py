"""Limits as files of a control group, for version 1 and version 2."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from storlet_middleware.config import NodeSection
from storlet_middleware.sandboxd.cgroups import limits
from tests.unit.sandboxd.cgroups.fake_tree import GIB, NODE, FakeTree, node_of


def test_no_quota_is_set_when_none_is_configured(make_tree: Callable[[int], FakeTree]) -> None:
    tree = make_tree(1)
    node_of(tree).make(NodeSection(GIB, 0, 256, 4096))
    assert tree.read("cpu", f"{NODE}/cpu.cfs_quota_us") == ""


@pytest.mark.parametrize(
    ("shares", "weight"), [(1024, 100), (256, 25), (2, 1), (262144, 10000), (10, 1)]
)
def test_weights_are_shares_in_proportion_to_a_process_of_swifts(shares: int, weight: int) -> None:
    assert limits.weight_of(shares) == weight
