"""The execution of steps: slots, start and failure."""

from __future__ import annotations

from typing import Any

import eventlet
import pytest

from storlet_daemon.protocol import messages
from tests.unit.middleware.rule_runs import PLAN, THREE, TWO
from tests.unit.middleware.support import FakeSwift, Node, WorkerRun, upper, wait_until

pytestmark = pytest.mark.usefixtures("nothing_is_left_open")


def test_second_step_that_cannot_start_cancels_the_first(
    make: Any, swift: FakeSwift, node: Node
) -> None:
    cancelled = []

    def waiting(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(b"x")
        cancelled.append(worker.wait_for_cancel())

    swift.put_storlet("other.py")
    harness = make(waiting)
    answer_request = node.answer

    def refuse(request: Any) -> Any:
        if isinstance(request, messages.Acquire) and len(node.workers.runs):
            return messages.NodeRefused("sandbox.unavailable", "no Docker")
        return answer_request(request)

    node.answer = refuse
    answer = harness.call("GET", PLAN, ("up.py", "other.py"))
    assert (answer.status, answer.error) == (503, "sandbox.unavailable")
    assert b"step 2 of 2 (other.py)" in answer.data
    assert wait_until(lambda: cancelled == [True])
    harness.assert_idle()


def test_pipelines_acquire_all_slots_at_once_without_deadlock(make: Any) -> None:
    """Twelve pipelines of two storlets share two slots of the account."""
    running = []

    def counting(worker: WorkerRun) -> None:
        running.append(1)
        upper(worker)

    harness = make(counting, admission__invocations="4", invocation__queue_seconds="5")
    pool = eventlet.GreenPool(12)
    answers = list(pool.imap(lambda _: harness.call("GET", PLAN, TWO), range(12)))
    assert [answer.status for answer in answers] == [200] * 12
    assert len(running) == 24
    harness.assert_idle()


def test_pipeline_that_needs_more_slots_than_a_node_has_is_refused_at_once(make: Any) -> None:
    harness = make(admission__invocations="4", invocation__queue_seconds="30")
    with eventlet.Timeout(1):
        answer = harness.call("GET", PLAN, THREE)
    assert (answer.status, answer.error) == (429, "tenant.busy")
    harness.assert_idle()


def test_queued_pipeline_times_out_and_holds_no_slot(make: Any) -> None:
    def slow(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(b"x")
        worker.wait_for_cancel()

    harness = make(slow, admission__invocations="4", invocation__queue_seconds="0.3")
    holder = harness.start("GET", PLAN)
    with eventlet.Timeout(2):
        answer = harness.call("GET", PLAN, TWO)
    assert (answer.status, answer.error) == (429, "tenant.busy")
    assert (
        sum(
            group.running for group in harness.proxy.launcher._admission._counts.own.by_key.values()
        )
        == 1
    )
    holder.app_iter.close()
    harness.assert_idle()
