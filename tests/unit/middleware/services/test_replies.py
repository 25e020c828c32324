"""Replies to the worker: failures, and a worker that reads none."""

from __future__ import annotations

import contextlib
from typing import Any

import eventlet
import pytest

from storlet_daemon.protocol import messages
from storlet_daemon.protocol.messages import StatObject
from storlet_middleware.errors import BackendFailed
from storlet_middleware.services.requests import StoreRefusal
from tests.unit.middleware.services.asking import Make
from tests.unit.middleware.support import wait_until


def stat(number: int) -> StatObject:
    return StatObject(number, "/c/o")


@pytest.mark.parametrize(
    ("error", "code", "status"),
    [
        (StoreRefusal("input.not_found", 404, "no"), "input.not_found", 404),
        (BackendFailed("no"), "backend.failed", 503),
        (eventlet.Timeout(), "backend.failed", 503),
        (KeyError("ours"), "internal", 500),
    ],
)
def test_a_failure_is_replied(make: Make, error: BaseException, code: str, status: int) -> None:
    def fail(request: Any) -> Any:
        raise error

    asking = make()
    asking.answer = fail
    asking.send(stat(1))
    failed, _ = asking.reply()
    assert (failed.code, failed.status) == (code, status)
    assert "ours" not in failed.message


def test_a_worker_that_reads_no_replies_blocks_itself_only(make: Make) -> None:
    asking = make(rate=10_000)
    text = "x" * 400
    asking.answer = lambda request: messages.ServiceFailed(request.id, "a.b", 404, text * 100)
    with contextlib.suppress(BlockingIOError):
        for number in range(1, 20_000):
            asking.send(stat(number))
            eventlet.sleep(0)
    assert wait_until(lambda: asking.channel._replies.is_blocked)
    # It does not wait for the store: its deadlines hold.
    assert not asking.channel.were_active_since(0)
    assert len(asking.channel._tasks) <= 8
