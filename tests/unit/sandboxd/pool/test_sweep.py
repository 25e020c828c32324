"""The removal of containers and control groups without an owner."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from storlet_middleware.sandboxd.cgroups.node import NodeCgroup
from storlet_middleware.sandboxd.pool import pool
from tests.unit.sandboxd.doubles import FakeNode, loaded, until

MakeNode = Callable[..., FakeNode]


@pytest.fixture
def removed(monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """The control groups that each sweep removes."""
    found: list[set[str]] = []
    monkeypatch.setattr(
        NodeCgroup, "remove_sandboxes", lambda _self, groups: found.append(set(groups))
    )
    return found


def leave(monkeypatch: pytest.MonkeyPatch, *groups: set[str]) -> None:
    """Let the sweeps find these control groups, and then none."""
    left = list(groups)
    monkeypatch.setattr(NodeCgroup, "sandboxes", lambda _self: left.pop(0) if left else set())


def test_leftover_control_groups_of_a_crash_are_removed_at_the_start(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch, removed: list[set[str]]
) -> None:
    leave(monkeypatch, {"left"})
    make_node()
    until(lambda: removed == [{"left"}])


def test_a_sweep_that_found_something_is_followed_by_others_until_nothing_is_left(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch, removed: list[set[str]]
) -> None:
    monkeypatch.setattr(pool, "AFTER_END_SECONDS", 0.02)
    leave(monkeypatch, {"left"}, {"left"})
    make_node()
    until(lambda: len(removed) == 3)
    time.sleep(0.2)
    assert removed == [{"left"}, {"left"}, set()]


def test_a_sweep_follows_the_end_of_a_sandbox(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch, removed: list[set[str]]
) -> None:
    monkeypatch.setattr(pool, "AFTER_END_SECONDS", 0.02)
    leave(monkeypatch, set(), {"left"})
    node = make_node()
    until(lambda: removed == [set()])
    loaded(node.load())
    time.sleep(0.2)
    assert removed == [set()]
    node.docker.kill()
    until(lambda: removed[:2] == [set(), {"left"}])


def test_a_sweep_without_docker_is_repeated(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch, removed: list[set[str]]
) -> None:
    monkeypatch.setattr(pool, "AFTER_END_SECONDS", 0.02)
    monkeypatch.setattr(pool, "ADOPT_AGAIN_SECONDS", 0.02)
    leave(monkeypatch, set(), {"left"})
    node = make_node()
    loaded(node.load())
    node.docker.is_down = True
    node.docker.kill()
    time.sleep(0.2)
    assert removed == [set()]
    node.docker.is_down = False
    until(lambda: {"left"} in removed)
