"""Supervisors that end, stay silent or break the protocol."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from storlet_daemon.protocol import messages
from storlet_middleware.sandboxd.sandbox.supervisor import Supervisor
from tests.unit.sandboxd.doubles import FakeDocker, FakeNode, refused, until

MakeNode = Callable[..., FakeNode]


def test_a_supervisor_that_ends_before_hello_is_noticed_before_the_deadline(
    make_node: MakeNode,
) -> None:
    began = time.monotonic()
    answer = refused(make_node(FakeDocker(behaviour="exits"), start_deadline_seconds=20).load())
    assert "exit code 3" in answer.message
    assert time.monotonic() - began < 5


def test_a_silent_supervisor_is_removed_at_the_deadline(make_node: MakeNode) -> None:
    node = make_node(FakeDocker(behaviour="silent"), start_deadline_seconds=0.5)
    assert "0.5 seconds" in refused(node.load()).message
    until(lambda: not node.docker.containers)


def test_a_supervisor_that_breaks_the_protocol_is_removed(make_node: MakeNode) -> None:
    node = make_node(FakeDocker(behaviour="garbage"))
    assert refused(node.load()).code == "sandbox.unavailable"
    until(lambda: not node.docker.containers)


def test_refused_connections_are_logged_at_intervals_with_their_number(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def refuse() -> None:
        node: Any = None
        supervisor = Supervisor(node, lambda _reason: None)
        for _ in range(5):
            supervisor._log_refusal("it is process 7")
        supervisor._refused.due = 0.0
        supervisor._log_refusal("it is process 8")

    asyncio.run(refuse())
    lines = [one.getMessage() for one in caplog.records if "socket refused" in one.getMessage()]
    assert [line.partition("times=")[2] for line in lines] == [
        '1 reason="it is process 7"',
        '5 reason="it is process 8"',
    ]


def test_workers_that_are_not_placed_are_logged_at_intervals_with_their_number(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A supervisor that a storlet controls could fill the operator's log."""

    async def place() -> None:
        node: Any = None
        supervisor = Supervisor(node, lambda _reason: None)
        for pid in range(2, 7):
            assert await supervisor._move_worker(messages.Place("0f" * 32, pid)) == ""
        supervisor._unplaced.due = 0.0
        assert await supervisor._move_worker(messages.Place("0f" * 32, 7)) == ""

    asyncio.run(place())
    lines = [one.getMessage() for one in caplog.records if "not placed" in one.getMessage()]
    assert [line.partition("pid=")[2] for line in lines] == ["2 times=1", "7 times=5"]
