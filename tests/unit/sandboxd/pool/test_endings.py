"""Ends of sandboxes: removal in the background, back-off of the next start."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from storlet_middleware.sandboxd.pool import backoff
from tests.unit.sandboxd.doubles import FakeDocker, FakeNode, greeting, loaded, refused, until

MakeNode = Callable[..., FakeNode]


def test_a_killed_sandbox_leaves_no_socket_and_no_container(node: FakeNode) -> None:
    path = loaded(node.load())
    node.docker.kill()
    until(lambda: not Path(path).exists() and not node.docker.containers)
    assert node.status().sandboxes == ()


def test_a_sandbox_that_dies_while_docker_is_down_is_replaced_when_docker_is_back(
    node: FakeNode,
) -> None:
    node.load()
    node.docker.is_down = True
    node.docker.kill()
    answer = refused(node.load())
    assert (answer.code, answer.retry_after) == ("sandbox.unavailable", 2)
    assert "Connection refused" in answer.message
    node.docker.is_down = False
    assert greeting(loaded(node.load()))
    assert len(node.docker.containers) == 1


def test_a_sandbox_that_ends_repeatedly_is_restarted_with_back_off(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backoff, "FREE", 2)
    monkeypatch.setattr(backoff, "PATIENCE_SECONDS", 0.0)
    node = make_node(FakeDocker(behaviour="exits"))
    answers = [refused(node.load()) for _ in range(4)]
    assert answers[-1].retry_after == 1
    assert "times in a row" in answers[-1].message
    assert node.docker.starts <= 4


def test_slow_removals_do_not_delay_starts(
    make_node: MakeNode, slow_removals: threading.Event
) -> None:
    node = make_node()
    for number in range(7):
        loaded(node.load(f"AUTH_{number}"))
    node.docker.kill()
    until(lambda: not node.status().sandboxes)
    assert greeting(loaded(node.load("AUTH_new")))
    assert len(node.docker.containers) == 8
    slow_removals.set()
    until(lambda: len(node.docker.containers) == 1)
