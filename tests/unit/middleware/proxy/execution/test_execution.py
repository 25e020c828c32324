"""The execution of steps: slots, start and failure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import eventlet
import pytest

from storlet_daemon.protocol import messages
from storlet_middleware.engine.launcher import Launcher
from storlet_middleware.engine.task import StreamInput
from storlet_middleware.errors import CodeReplaced
from storlet_middleware.proxy.execution.execution import Execution
from storlet_middleware.proxy.execution.steps import Settings, Step
from tests.unit.middleware.engine.storlet_code import Fetcher, Nothing, version
from tests.unit.middleware.logger import Logger
from tests.unit.middleware.rule_runs import PLAN, THREE, TWO, by_step
from tests.unit.middleware.support import FakeSwift, Node, WorkerRun, make_config, upper, wait_until

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


# --- without a request and without Swift ----------------------------------------------------------


class Data(Nothing):
    """An input with data."""

    def __iter__(self) -> Iterator[bytes]:
        return iter((b"a", b"b"))


def no_resolution(step: Step) -> None:
    raise AssertionError(f"the code of {step.id} was not replaced")


def test_an_execution_needs_neither_a_request_nor_swift(node: Node, short_dir: Path) -> None:
    def second(worker: WorkerRun) -> None:
        worker.begin(Tone="low")
        worker.write(worker.read() + b"2")
        worker.succeed()

    node.workers.script = by_step(upper, second)
    steps = [
        Step("tx-1", Settings({"n": "1"}, {"memory": 64 << 20}, wants_log=True), version()),
        Step("tx-1.2", Settings({"n": "2"}), version()),
    ]
    launcher = Launcher(make_config(short_dir), Logger())
    execution = Execution(launcher, steps, Fetcher(), no_resolution)
    execution.acquire_slots(is_first_elsewhere=False)
    try:
        execution.run_first([StreamInput(Data(), {})], None)
        result = execution.run_further(lambda: {"Colour": "red"})
        assert b"".join(result.chunks()) == b"AB2"
        assert (result.metadata, result.ran_on) == ({"Tone": "low"}, "proxy,proxy")
    finally:
        result.close()
        execution.release_slots()
    first, last = node.workers.runs
    assert [dict(run.invoke.parameters)["n"] for run in (first, last)] == ["1", "2"]
    assert last.invoke.inputs[0].metadata == {"Colour": "red"}


def test_the_code_of_a_step_that_was_replaced_is_resolved_again(
    node: Node, short_dir: Path
) -> None:
    """By the caller, who alone knows what was requested."""
    asked: list[Step] = []

    class Replaced(Fetcher):
        def fetch(self, account: str, file: Any) -> Iterator[bytes]:
            if not asked:
                raise CodeReplaced("up.py")
            return super().fetch(account, file)

    def resolve_again(step: Step) -> None:
        asked.append(step)
        step.version = version()

    step = Step("tx-1", Settings({}), version())
    launcher = Launcher(make_config(short_dir), Logger())
    execution = Execution(launcher, [step], Replaced(), resolve_again)
    result = execution.run_first([StreamInput(Data(), {})], None)
    assert b"".join(result.chunks()) == b"AB"
    assert asked == [step]
    result.close()
