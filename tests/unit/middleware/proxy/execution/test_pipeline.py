"""Several storlets on one request: each reads the output of the one before."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from dataclasses import replace
from typing import Any, cast

import eventlet
import pytest

from rules.model import Passes
from storlet_middleware.errors import InputIncomplete, StorletError, Unprocessable
from storlet_middleware.proxy.execution.pipeline import Pipeline
from storlet_middleware.proxy.execution.result import Result
from tests.unit.middleware.rule_runs import MANDATORY, PLAN, THREE, TWO, Script, by_step, setting
from tests.unit.middleware.storlets import failing
from tests.unit.middleware.support import BrokenInput, FakeSwift, WorkerRun, upper, wait_until

pytestmark = pytest.mark.usefixtures("nothing_is_left_open")


@pytest.mark.parametrize("method", ["GET", "COPY", "PUT"])
def test_each_step_reads_the_output_of_the_previous_one(
    make: Any, swift: FakeSwift, method: str
) -> None:
    harness = make(by_step(setting(b"1"), setting(b"2"), upper))
    answer = harness.call(method, PLAN, THREE, body=b"hello" if method == "PUT" else None)
    name = {"PUT": "o", "COPY": "copy"}.get(method)
    assert (answer.data if name is None else swift.containers["c"].objects[name].body) == b"21HELLO"
    assert answer.headers["X-Storlet-Ran-On"] == "proxy,proxy,proxy"
    harness.assert_idle()


def test_metadata_accumulates_over_steps_and_the_last_value_wins(
    make: Any, swift: FakeSwift
) -> None:
    swift.put(
        "c",
        "o",
        b"hello",
        X_Object_Meta_Color="red",
        X_Object_Meta_Size="5",
        X_Object_Meta_Gone="1",
    )
    seen = []

    def second(worker: WorkerRun) -> None:
        seen.append(dict(worker.invoke.inputs[0].metadata))
        setting(color="blue", mine="2")(worker)

    harness = make(by_step(setting(Color="green", gone="", **{"Content-Type": "a/b"}), second))
    answer = harness.call("GET", PLAN, TWO)
    assert seen[-1] == {"Size": "5", "Color": "green", "Content-Type": "a/b"}
    prefixes = ("X-Object", "Content-T")
    passed = {key: value for key, value in answer.headers.items() if key.startswith(prefixes)}
    assert passed == {
        "X-Object-Meta-Color": "blue",
        "X-Object-Meta-Size": "5",
        "X-Object-Meta-Mine": "2",
        "Content-Type": "a/b",
    }
    harness.call("GET", replace(MANDATORY, passes=Passes(("size",))), TWO)
    assert seen[-1] == {"Size": "5", "Color": "green", "Content-Type": "a/b"}
    harness.call("GET", MANDATORY, TWO)
    assert seen[-1] == {"Color": "green", "Content-Type": "a/b"}


def test_usage_is_the_sum_of_all_steps(make: Any) -> None:
    answer = make(by_step(setting(b"12345"), upper)).call("COPY", PLAN, TWO)
    assert answer.headers["X-Storlet-Usage"] == "cpu=0.500000;peak-memory=8192;in=5;out=10"


@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize("method", ["GET", "COPY", "PUT"])
def test_step_that_fails_early_fails_the_request_and_is_named(
    make: Any, swift: FakeSwift, step: int, method: str
) -> None:
    scripts: list[Script] = [upper, upper, upper]
    scripts[step - 1] = failing()
    harness = make(by_step(*scripts))
    answer = harness.call(method, PLAN, THREE, body=b"hello" if method == "PUT" else None)
    assert (answer.status, answer.error) == (422, "storlet.failed")
    assert f"step {step} of 3 (up.py): ValueError: no".encode() in answer.data
    assert swift.requests("PUT") == [] if method != "GET" else True
    harness.assert_idle()


@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize("method", ["GET", "COPY", "PUT"])
def test_step_that_fails_late_never_produces_a_complete_result(
    make: Any, swift: FakeSwift, step: int, method: str
) -> None:
    may_fail = threading.Event()

    def late(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(b"x" * 600_000)
        assert may_fail.wait(5)
        worker.fail("ValueError: late")

    def forward(worker: WorkerRun) -> None:
        worker.begin()
        while piece := os.read(worker.inputs[0], 65536):
            worker.write(piece)
            may_fail.set()
        worker.succeed()

    scripts: list[Script] = [forward, forward, forward]
    scripts[step - 1] = late
    if step == 3:
        may_fail.set()
    harness = make(by_step(*scripts))
    answer = harness.call(method, PLAN, THREE, body=b"hello" if method == "PUT" else None)
    if method == "GET" and answer.status == 200:
        assert answer.broken is not None
    else:
        assert (answer.status, answer.error) == (422, "storlet.failed")
        assert f"step {step} of 3".encode() in answer.data
    assert "copy" not in swift.containers["c"].objects
    assert swift.containers["c"].objects["o"].body == b"hello"
    assert f"failed_step={step}" in harness.logger.text
    harness.assert_idle()


def test_step_that_stops_reading_does_not_end_the_previous_ones(make: Any) -> None:
    ended = []

    def first(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(b"x" * 3_000_000)
        worker.succeed()
        ended.append(True)

    def head(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(os.read(worker.inputs[0], 3))
        worker.succeed()

    answer = make(by_step(first, head)).call("GET", PLAN, TWO)
    assert (answer.status, answer.data, answer.broken) == (200, b"xxx", None)
    assert wait_until(lambda: ended == [True])


def test_previous_step_must_succeed_even_if_its_output_is_not_read(make: Any) -> None:
    def first(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(b"x" * 3_000_000)
        worker.fail("ValueError: late")

    def head(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(b"h")
        worker.succeed()

    answer = make(by_step(first, head)).call("GET", PLAN, TWO)
    if answer.status == 200:
        assert (answer.data, answer.broken is None) == (b"h", False)
    else:
        assert (answer.status, answer.error) == (422, "storlet.failed")
        assert b"step 1 of 2 (up.py): ValueError: late" in answer.data


@pytest.mark.parametrize("source", ["client", "object"])
def test_source_that_breaks_off_fails_all_steps(make: Any, swift: FakeSwift, source: str) -> None:
    harness = make(by_step(upper, upper))
    if source == "client":
        answer = harness.call(
            "PUT", PLAN, TWO, body=BrokenInput(b"he"), headers={"Content-Length": "5"}
        )
        assert answer.status == 499
    else:
        swift.containers["c"].objects["o"].chunks = lambda: [b"hel"]
        answer = harness.call("GET", PLAN, TWO)
        assert answer.status == 503
    assert b"step" not in answer.data
    harness.assert_idle()


def test_client_disconnect_cancels_all_steps(make: Any) -> None:
    cancelled = []

    def endless(worker: WorkerRun) -> None:
        worker.begin()
        with contextlib.suppress(ConnectionError):
            while True:
                worker.write(b"x" * 65536)
        cancelled.append(worker.wait_for_cancel())

    def forward(worker: WorkerRun) -> None:
        worker.begin()
        with contextlib.suppress(ConnectionError):
            while piece := os.read(worker.inputs[0], 65536):
                worker.write(piece)
        cancelled.append(worker.wait_for_cancel())

    harness = make(by_step(endless, forward, forward))
    answer = harness.start("GET", PLAN, THREE)
    next(iter(answer.app_iter))
    with eventlet.Timeout(0.9):
        answer.app_iter.close()
    assert wait_until(lambda: cancelled == [True, True, True])
    assert "code=client.gone" in harness.logger.text
    harness.assert_idle()


def copy_input(worker: WorkerRun) -> None:
    worker.begin()
    while piece := os.read(worker.inputs[0], 50_000):
        worker.write(piece)
    worker.succeed()


def test_large_data_passes_all_steps_unchanged(make: Any, swift: FakeSwift) -> None:
    data = os.urandom(5_000_001)
    swift.put("c", "o", data)
    harness = make(copy_input)
    answer = harness.call("GET", PLAN, THREE)
    assert (answer.data == data, answer.broken) == (True, None)
    harness.assert_idle()


def test_many_small_writes_arrive_complete(make: Any) -> None:
    def drip(worker: WorkerRun) -> None:
        worker.begin()
        for index in range(20_000):
            worker.write(b"%d\n" % index)
        worker.succeed()

    answer = make(by_step(drip, copy_input, copy_input)).call("GET", PLAN, THREE)
    assert answer.data == b"".join(b"%d\n" % index for index in range(20_000))


@pytest.mark.parametrize("step", [1, 2])
def test_output_limit_applies_to_each_step(make: Any, step: int) -> None:
    def much(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(b"x" * 5000)
        worker.succeed()

    def little(worker: WorkerRun) -> None:
        worker.begin()
        worker.read()
        worker.write(b"y")
        worker.succeed()

    scripts = [little, little, little]
    scripts[step - 1] = much
    answer = make(by_step(*scripts), limits__output_bytes="1000").call("GET", PLAN, THREE)
    assert (answer.status, answer.error) == (422, "storlet.limit.output")
    assert f"step {step} of 3".encode() in answer.data


SHORT = {"invocation__first_byte_seconds": "0.4", "invocation__idle_seconds": "0.4"}

#: Shorter than the total time of the slow step, and much longer than its pauses.
LONGER = {"invocation__first_byte_seconds": "1.5", "invocation__idle_seconds": "1.5"}


def test_slow_reader_does_not_time_out_the_previous_step(make: Any) -> None:
    def much(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(b"x" * 3_500_000)
        worker.succeed()

    def slow(worker: WorkerRun) -> None:
        worker.begin()
        while os.read(worker.inputs[0], 200_000):
            time.sleep(0.1)
        worker.write(b"y")
        worker.succeed()

    answer = make(by_step(much, slow), **LONGER).call("GET", PLAN, TWO)
    assert (answer.status, answer.data) == (200, b"y")


def test_slow_writer_does_not_time_out_the_next_step(make: Any) -> None:
    def slow(worker: WorkerRun) -> None:
        worker.begin()
        for _ in range(12):
            worker.write(b"x")
            time.sleep(0.15)
        worker.succeed()

    answer = make(by_step(slow, upper), **LONGER).call("GET", PLAN, TWO)
    assert (answer.status, answer.data) == (200, b"X" * 12)


@pytest.mark.parametrize(
    ("step", "code"), [(1, "storlet.timeout.idle"), (2, "storlet.timeout.first_byte")]
)
def test_error_names_the_step_that_stalls(make: Any, step: int, code: str) -> None:
    def much(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(b"x" * 2_000_000)
        worker.wait_for_cancel()

    def reads(worker: WorkerRun) -> None:
        worker.begin()
        worker.read()

    def stalls(worker: WorkerRun) -> None:
        worker.begin()
        worker.wait_for_cancel()

    harness = make(by_step(much, reads if step == 1 else stalls), **SHORT)
    answer = harness.call("GET", PLAN, TWO)
    assert (answer.status, answer.error) == (422, code)
    assert f"step {step} of 2".encode() in answer.data
    harness.assert_idle()


class Stalled:
    """A result of which only :meth:`stalled` is used."""

    def __init__(self, error: StorletError) -> None:
        self._error = error

    def stalled(self, reason: str) -> StorletError:
        return self._error


WAITS = InputIncomplete("no input")
HANGS = Unprocessable("stalled", code="storlet.timeout.idle")


@pytest.mark.parametrize(
    ("steps", "cause"),
    [((WAITS, HANGS), 1), ((HANGS, WAITS), 0), ((HANGS, WAITS, WAITS), 0), ((WAITS, WAITS), 0)],
)
def test_a_stall_is_that_of_the_step_which_the_later_ones_wait_for(
    steps: tuple[StorletError, ...], cause: int
) -> None:
    first, *others = [cast(Result, Stalled(error)) for error in steps]
    pipeline = Pipeline(first)
    for result in others:
        pipeline.add(result)
    assert pipeline.stalled("60 s") is steps[cause]
