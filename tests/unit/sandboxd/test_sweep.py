"""The periodic removal of containers and control groups without an owner."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from storlet_middleware.sandboxd.cgroups.node import NodeCgroup
from tests.unit.sandboxd.doubles import FakeNode, until

MakeNode = Callable[..., FakeNode]


def test_leftover_control_groups_of_a_crash_are_removed_at_the_start(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed: list[set[str]] = []
    monkeypatch.setattr(NodeCgroup, "sandboxes", lambda _self: {"left"})
    monkeypatch.setattr(
        NodeCgroup, "remove_sandboxes", lambda _self, groups: removed.append(set(groups))
    )
    make_node()
    until(lambda: removed == [{"left"}])
