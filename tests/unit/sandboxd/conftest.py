"""A node per test."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.unit.sandboxd.doubles import FakeDocker, FakeNode


@pytest.fixture
def make_node() -> Iterator[Callable[..., FakeNode]]:
    """Makes started nodes with the options of ``[sandbox]`` that a test names."""
    nodes: list[FakeNode] = []

    def make(docker: FakeDocker | None = None, **options: object) -> FakeNode:
        nodes.append(FakeNode(docker or FakeDocker(), **options))
        return nodes[-1].start()

    yield make
    for node in nodes:
        node.remove()


@pytest.fixture
def node(make_node: Callable[..., FakeNode]) -> FakeNode:
    """A started node with default options."""
    return make_node()


@pytest.fixture
def idle_node() -> Iterator[FakeNode]:
    """A node that is not started: its options, its paths, its Docker."""
    node = FakeNode(FakeDocker())
    yield node
    node.remove()


@pytest.fixture
def with_options() -> Iterator[Callable[..., FakeNode]]:
    """Makes started nodes with these sections at the end of their options."""
    nodes: list[FakeNode] = []

    def make(more_options: str, docker: FakeDocker | None = None, **options: object) -> FakeNode:
        nodes.append(FakeNode(docker or FakeDocker(), **options))
        nodes[-1].more_options = more_options
        return nodes[-1].start()

    yield make
    for node in nodes:
        node.remove()
