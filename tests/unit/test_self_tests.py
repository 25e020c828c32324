"""Which self-tests of a start are repeated; on a node with a Docker double of child processes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from storlet_daemon.protocol import messages
from storlet_middleware.sandboxd.self_test import gate
from storlet_middleware.self_test import FAIL, PASS, UNTESTED
from tests.support.self_tests import KnownSelfTests
from tests.unit.sandboxd.doubles import FakeDocker, FakeNode, until

Start = Callable[..., tuple[FakeNode, int]]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Starts nodes with the same folder; returns a node, once it has a result, and the number of
    sandboxes that it has started."""
    tests = functools.partial(KnownSelfTests, folder=tmp_path)
    monkeypatch.setattr(gate, "SelfTests", tests)
    nodes: list[FakeNode] = []

    def started(docker: FakeDocker | None = None, **options: object) -> tuple[FakeNode, int]:
        node = FakeNode(docker or FakeDocker(), **options)
        node.gate = functools.partial(gate.Gate, at_start=("user",))
        nodes.append(node)
        node.start()
        until(lambda: state(node) != UNTESTED, 10)
        return node, node.docker.starts

    yield started
    for node in nodes:
        node.remove()


def state(node: FakeNode) -> str:
    return node.status().self_tests[0].state


def test_a_node_takes_the_result_of_an_earlier_start(start: Start) -> None:
    first, sandboxes = start()
    assert sandboxes == 1
    second, sandboxes = start()
    assert (state(second), sandboxes) == (PASS, 0)
    tests = [node.status().self_tests[0].faults for node in (first, second)]
    assert tests[0] == tests[1]


def test_a_requested_test_is_made(start: Start) -> None:
    start()
    node, _ = start()
    node.docker.behaviour = "leaks"
    results = node.ask(messages.AskSelfTest()).self_tests
    assert [result.state for result in results] == [FAIL, FAIL]


def test_the_result_of_another_image_or_option_is_not_taken(start: Start) -> None:
    start()
    for docker, options in ((FakeDocker(image="sha256:two"), {}), (FakeDocker(), {"prewarmed": 1})):
        _, sandboxes = start(docker, **options)
        assert sandboxes


def test_a_failed_test_is_repeated(start: Start) -> None:
    for _ in range(2):
        node, sandboxes = start(FakeDocker(behaviour="leaks"))
        assert (state(node), sandboxes) == (FAIL, 1)
