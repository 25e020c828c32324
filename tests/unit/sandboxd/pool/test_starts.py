"""Starts of tenants' sandboxes."""

from __future__ import annotations

import threading
from collections.abc import Callable

from storlet_daemon.protocol import messages
from tests.unit.sandboxd.doubles import (
    FakeDocker,
    FakeNode,
    greeting,
    loaded,
    make_storlet,
    refused,
)

MakeNode = Callable[..., FakeNode]
V1, V2 = "1" * 64, "2" * 64


def test_twenty_callers_start_one_sandbox_and_load_once(make_node: MakeNode) -> None:
    node = make_node(FakeDocker(start_seconds=0.2))
    node.put_code("AUTH_a", V1)
    answers: list[object] = []
    request = messages.Acquire("AUTH_a", make_storlet(version=V1))
    threads = [
        threading.Thread(target=lambda: answers.append(node.ask(request))) for _ in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({loaded(answer) for answer in answers}) == 1
    assert len(answers) == 20
    assert node.docker.starts == 1


def test_a_killed_sandbox_is_replaced_by_the_next_load(node: FakeNode) -> None:
    _, old = greeting(loaded(node.load()))
    node.docker.kill()
    _, new = greeting(loaded(node.load()))
    assert new != old
    assert len(node.docker.containers) == 1


def test_a_missing_image_is_named_with_what_to_run(make_node: MakeNode) -> None:
    answer = refused(make_node(FakeDocker(image=None)).load())
    assert answer.code == "sandbox.unavailable"
    assert "storlets/sandbox:latest" in answer.message
    assert "make up" in answer.message
