"""Runs that a rule requires: pipelines, and which facts of the source pass with a result."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import eventlet
import pytest
from swift.common.swob import HTTPException, HTTPForbidden, Request, Response

from rules.model import Passes
from storlet_daemon.protocol import messages
from storlet_middleware import names
from storlet_middleware.backend import frames
from storlet_middleware.config import Config
from storlet_middleware.errors import REASONS, RuleRefused, StorletError
from storlet_middleware.proxy.plan import Plan
from storlet_middleware.proxy.run import Run
from storlet_middleware.proxy.shared import Proxy
from storlet_middleware.wsgi import grants
from storlet_middleware.wsgi.context import install
from storlet_middleware.wsgi.operation import parse
from storlet_middleware.wsgi.storlet_request import ObjectPath, StorletRequest
from storlet_middleware.wsgi.subrequest import SwiftRefusal
from tests.unit.middleware.support import (
    ACCOUNT,
    OWNER,
    Answer,
    BrokenInput,
    FakeSwift,
    Logger,
    Node,
    WorkerRun,
    authorize,
    make_config,
    open_descriptors,
    upper,
    wait_until,
)

BOB = "test:bob"
PLAN = Plan("R")
MANDATORY = Plan("R", is_mandatory=True)
TWO, THREE = ("up.py", "up.py"), ("up.py", "up.py", "up.py")
Script = Callable[[WorkerRun], None]


class RunHarness:
    """Executes runs that a rule requires, and answers like the filter."""

    def __init__(self, swift: FakeSwift, config: Config) -> None:
        self.logger = Logger()
        self.proxy = Proxy(swift, config, self.logger, 60.0)

    def call(
        self, method: str, plan: Plan | None, steps: Iterable[str] = ("up.py",), **more: Any
    ) -> Answer:
        answer = self.start(method, plan, steps, **more)
        chunks = []
        try:
            chunks.extend(answer.app_iter)
        except Exception as error:  # noqa: BLE001
            answer.broken = error
        finally:
            answer.app_iter.close() if hasattr(answer.app_iter, "close") else None
        answer.data = b"".join(chunks)
        return answer

    def start(
        self,
        method: str,
        plan: Plan | None,
        steps: Iterable[str] = ("up.py",),
        *,
        headers: dict[str, str] | None = None,
        user: str = OWNER,
        body: Any = None,
        guard: Any = authorize,
        rules: Any = None,
        **changes: Any,
    ) -> Answer:
        here = ObjectPath("c", "o")
        environ = {"swift.trans_id": "txtest", "swift.authorize": guard, "REMOTE_USER": user}
        request = Request.blank(
            f"/v1/{ACCOUNT}/c/o", method=method, headers=headers or {}, environ=environ
        )
        if isinstance(body, bytes):
            request.body = body
        elif body is not None:
            request.environ["wsgi.input"] = body
        target = {"GET": None, "PUT": here, "COPY": ObjectPath("c", "copy")}[method]
        requests = [
            replace(
                StorletRequest(
                    method, "v1", ACCOUNT, storlet, None if method == "PUT" else here, target, {}
                ),
                **(changes if index == 0 else {}),
            )
            for index, storlet in enumerate(steps)
        ]
        if plan is not None and len(requests) > 1:
            plan = replace(plan, further=(*requests[1:], *plan.further))
        context = install(request.environ, parse(request.environ), rules)
        run = Run(self.proxy, context, requests[0], plan)
        captured: list[Any] = []
        try:
            response: Any = run.answer()
        except SwiftRefusal as refusal:
            response = refusal.answer
            response.headers.update(run.headers())
        except HTTPException as refusal:
            response = refusal
        except StorletError as error:
            response = Response(
                status=f"{error.status} {REASONS[error.status]}",
                body=f"{error}\n{error.detail}",
                request=request,
            )
            response.headers.update({**run.headers(), "X-Storlet-Error": error.code})
            if isinstance(error, RuleRefused):
                response.headers[names.RULE] = error.rule
        chunks = response(request.environ, lambda *start: captured.extend(start))
        return Answer(captured[0], captured[1], chunks)

    def assert_idle(self) -> None:
        assert self.proxy._inflight == {}
        assert self.proxy.launcher._admission._local.by_key == {}


@pytest.fixture
def make(node: Node, swift: FakeSwift, short_dir: Any) -> Callable[..., RunHarness]:
    def make(script: Script | dict[str, Script] | None = None, **options: str) -> RunHarness:
        if callable(script):
            node.workers.script = script
        elif script:
            by_name = script
            node.workers.script = lambda worker: by_name[dict(worker.invoke.parameters)["script"]](
                worker
            )
        return RunHarness(swift, make_config(short_dir, **options))

    return make


@pytest.fixture
def harness(make: Any) -> RunHarness:
    made: RunHarness = make()
    return made


@pytest.fixture(autouse=True)
def nothing_is_left_open(swift: FakeSwift, node: Node) -> Iterator[None]:
    eventlet.sleep()  # creates the hub, which owns a descriptor
    before = open_descriptors()
    yield
    node.workers.settle()
    assert swift.unclosed() == 0
    assert wait_until(lambda: open_descriptors() <= before)


@pytest.fixture
def source_with_metadata(swift: FakeSwift) -> None:
    """A source with metadata, system metadata and other headers."""
    swift.put(
        "c", "o", b"hello", X_Object_Meta_Color="red", X_Object_Meta_Study="7",
        X_Object_Meta_Storlet_Main="x", X_Static_Large_Object="True",
        Content_Disposition="attachment", Access_Control_Expose_Headers="x-object-meta-color",
        X_Object_Sysmeta_Secret="s", Content_Type="text/csv",
    )  # fmt: skip


def setting(data: bytes = b"", **metadata: str) -> Script:
    def script(worker: WorkerRun) -> None:
        worker.begin(**metadata)
        worker.write(data + worker.read())
        worker.succeed()

    return script


def failing(worker: WorkerRun) -> None:
    worker.begin()
    worker.fail("ValueError: no", traceback="Traceback: secret")


# --- permissions ----------------------------------------------------------------------------------


def test_each_answer_of_a_rules_run_names_the_rule(harness: RunHarness, make: Any) -> None:
    assert harness.call("GET", PLAN).headers["X-Storlet-Rule"] == "R"
    answer = make(failing).call("GET", PLAN)
    assert (answer.status, answer.headers["X-Storlet-Rule"], answer.error) == (
        422,
        "R",
        "storlet.failed",
    )
    assert "X-Storlet-Rule" not in harness.call("GET", None).headers


def test_signed_url_runs_only_storlets_of_rules(harness: RunHarness, swift: FakeSwift) -> None:
    for user in (".wsgi.tempurl", ".wsgi.formpost"):
        assert harness.call("GET", None, user=user).status == 401
        assert harness.call("GET", replace(PLAN, explicit_last=True), user=user).status == 401
    swift.containers["c"].read = ".wsgi.tempurl"
    answer = harness.call("GET", PLAN, user=".wsgi.tempurl")
    assert (answer.status, answer.data) == (200, b"HELLO")


def test_caller_without_execute_permission_is_refused_by_the_rule(
    harness: RunHarness, swift: FakeSwift
) -> None:
    swift.containers["c"].read = BOB
    answer = harness.call("GET", MANDATORY, user=BOB)
    assert (answer.status, answer.error, answer.headers["X-Storlet-Rule"]) == (
        403,
        "access.rule",
        "R",
    )
    assert b"up.py" in answer.data


def test_caller_without_read_permission_does_not_learn_the_storlet_name(
    harness: RunHarness,
) -> None:
    answer = harness.call("GET", MANDATORY, user=BOB)
    assert (answer.status, b"up.py" in answer.data) == (403, False)


def test_last_storlet_requested_by_the_client_needs_execute_permission(
    harness: RunHarness, swift: FakeSwift
) -> None:
    swift.put_storlet("own.py")
    swift.containers["c"].read = BOB
    answer = harness.call(
        "GET", replace(MANDATORY, explicit_last=True), ("up.py", "own.py"), user=BOB
    )
    assert answer.error == "access.rule"
    swift.containers["storlet"].read = BOB
    answer = harness.call(
        "GET", replace(MANDATORY, explicit_last=True), ("up.py", "none.py"), user=BOB
    )
    assert (answer.status, answer.error) == (404, "storlet.not_found")
    assert (
        harness.call(
            "GET", replace(MANDATORY, explicit_last=True), ("up.py", "own.py"), user=BOB
        ).status
        == 200
    )


def test_missing_storlet_of_a_rule_is_not_reported_as_404(harness: RunHarness) -> None:
    answer = harness.call("GET", MANDATORY, ("none.py",))
    assert (answer.status, answer.error, answer.headers["X-Storlet-Rule"]) == (
        422,
        "storlet.not_found",
        "R",
    )


# --- headers and metadata that pass ---------------------------------------------------------------


def visible(answer: Answer) -> set[str]:
    return set(answer.headers) - {
        "X-Storlet-Usage", "X-Storlet-Invocation", "X-Storlet-Ran-On", "Server-Timing",
        "X-Storlet-Rule", "Content-Length",
    }  # fmt: skip


@pytest.mark.usefixtures("source_with_metadata")
@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (
            PLAN,
            {"Content-Type", "X-Object-Meta-Color", "X-Object-Meta-Study",
             "Access-Control-Expose-Headers"},
        ),
        (MANDATORY, {"Content-Type"}),
        (replace(PLAN, passes=Passes()), {"Content-Type"}),
        (replace(MANDATORY, passes=Passes(("study",))), {"Content-Type", "X-Object-Meta-Study"}),
        (
            replace(MANDATORY, passes=Passes(("*",), ("*",))),
            {"Content-Type", "X-Object-Meta-Color", "X-Object-Meta-Study", "Content-Disposition",
             "X-Timestamp", "Access-Control-Expose-Headers", "Last-Modified"},
        ),
    ],
)  # fmt: skip
def test_only_permitted_headers_of_the_source_pass(
    harness: RunHarness, plan: Plan, expected: set[str]
) -> None:
    answer = harness.call("GET", plan)
    assert (answer.status, answer.data, visible(answer)) == (200, b"HELLO", expected)


@pytest.mark.usefixtures("source_with_metadata")
@pytest.mark.parametrize(
    ("plan", "content_type"),
    [
        (PLAN, "text/csv"),
        (MANDATORY, "application/octet-stream"),
        (replace(MANDATORY, passes=Passes(headers=("content-type",))), "text/csv"),
    ],
)
def test_content_type_comes_from_the_storlet_or_passes_from_the_source(
    make: Any, plan: Plan, content_type: str
) -> None:
    assert make().call("GET", plan).headers["Content-Type"] == content_type
    answer = make(setting(**{"Content-Type": "image/png", "color": "blue"})).call("GET", plan)
    assert (answer.headers["Content-Type"], answer.headers["X-Object-Meta-Color"]) == (
        "image/png",
        "blue",
    )


@pytest.mark.usefixtures("source_with_metadata")
@pytest.mark.parametrize(
    ("plan", "stored", "modified"),
    [
        (
            PLAN,
            {"Content-Type": "text/csv", "X-Object-Meta-Color": "red", "X-Object-Meta-Study": "7"},
            True,
        ),
        (MANDATORY, {"Content-Type": "application/octet-stream"}, False),
        (
            replace(MANDATORY, passes=Passes(("study",), ("last-modified",))),
            {"Content-Type": "application/octet-stream", "X-Object-Meta-Study": "7"},
            True,
        ),
    ],
)
def test_copy_stores_only_headers_that_may_pass(
    harness: RunHarness, swift: FakeSwift, plan: Plan, stored: dict[str, str], *, modified: bool
) -> None:
    answer = harness.call("COPY", plan)
    assert (answer.status, swift.containers["c"].objects["copy"].body) == (201, b"HELLO")
    assert swift.containers["c"].objects["copy"].headers == stored
    assert ("X-Storlet-Generated-From-Last-Modified" in answer.headers) is modified


@pytest.mark.usefixtures("source_with_metadata")
def test_headers_that_the_client_sets_on_a_copy_are_stored(
    harness: RunHarness, swift: FakeSwift
) -> None:
    harness.call(
        "COPY", MANDATORY, headers={"X-Object-Meta-Mine": "1", "Content-Type": "text/x-own"}
    )
    assert swift.containers["c"].objects["copy"].headers == {
        "Content-Type": "text/x-own",
        "X-Object-Meta-Mine": "1",
    }


def test_put_stores_the_headers_of_the_client(harness: RunHarness, swift: FakeSwift) -> None:
    headers = {"X-Object-Meta-Mine": "1", "Content-Type": "text/x-own"}
    answer = harness.call("PUT", MANDATORY, headers=headers, body=b"new")
    assert (answer.status, swift.containers["c"].objects["o"].headers) == (201, headers)
    assert "in=3" in answer.headers["X-Storlet-Usage"]


def test_object_stored_by_a_reversible_rule_is_marked(
    harness: RunHarness, swift: FakeSwift
) -> None:
    seen = []
    swift.hooks["PUT", f"/v1/{ACCOUNT}/c/o"] = lambda request: seen.append(dict(request.headers))
    harness.call("PUT", replace(PLAN, reverse="R"), body=b"new")
    harness.call("PUT", PLAN, body=b"new")
    assert [headers.get("X-Object-Sysmeta-Storlet-Reverse") for headers in seen] == ["R", None]


@pytest.mark.parametrize("status", [404, 304, 412, 503])
def test_only_the_status_of_a_refused_source_passes_a_mandatory_rule(
    harness: RunHarness, swift: FakeSwift, status: int
) -> None:
    source_headers = {
        "Etag": "e",
        "Last-Modified": "x",
        "X-Object-Meta-Color": "red",
        "Content-Range": "bytes */5",
    }
    swift.hooks["GET", f"/v1/{ACCOUNT}/c/o"] = lambda request: Response(
        status=status, headers=source_headers, request=request
    )
    assert set(source_headers) <= set(harness.call("GET", PLAN).headers)
    answer = harness.call("GET", MANDATORY)
    assert (
        answer.status,
        set(source_headers) & set(answer.headers),
        answer.headers["X-Storlet-Rule"],
    ) == (status, set(), "R")


def test_usage_of_a_mandatory_rule_is_shown_to_the_owner_only(
    harness: RunHarness, swift: FakeSwift
) -> None:
    swift.containers["c"].read = swift.containers["c"].write = swift.containers["storlet"].read = (
        BOB
    )
    assert "in=5" in harness.call("COPY", MANDATORY).headers["X-Storlet-Usage"]
    assert "in=5" in harness.call("COPY", PLAN, user=BOB).headers["X-Storlet-Usage"]
    for method in ("GET", "COPY"):
        assert "X-Storlet-Usage" not in harness.call(method, MANDATORY, user=BOB).headers
    assert "X-Storlet-Usage" in harness.call("PUT", MANDATORY, user=BOB, body=b"x").headers


def test_error_text_does_not_reveal_the_length_of_a_covered_source(
    harness: RunHarness, swift: FakeSwift
) -> None:
    swift.containers["c"].read = swift.containers["storlet"].read = BOB
    swift.containers["c"].objects["o"].chunks = lambda: [b"hel"]
    assert b"3 of 5" in harness.call("GET", PLAN, user=BOB).data
    answer = harness.call("GET", MANDATORY, user=BOB)
    assert (answer.status, b"3 of 5" in answer.data) == (503, False)


# --- reads that rules refuse ----------------------------------------------------------------------


class ClosingRules:
    """Rules that refuse reads of one object; the last link of the authorization chain."""

    def __init__(self, closed: str = "") -> None:
        self.refused: list[StorletError] = []
        self._closed = closed

    def __call__(self, request: Any) -> Any:
        if self._closed and request.environ["PATH_INFO"].endswith(self._closed):
            self.refused.append(RuleRefused("other", "no"))
            return HTTPForbidden(request=request)
        return None

    def must_check(self, headers: Any) -> bool:
        return bool(self.refused)

    def check_answer(self, headers: Any) -> None:
        if self.refused:
            raise self.refused[0]


def test_input_that_a_rule_cuts_off_fails_the_run(harness: RunHarness, swift: FakeSwift) -> None:
    rules = ClosingRules()

    def large(request: Any) -> Any:
        def chunks() -> Iterator[bytes]:
            yield b"first "
            rules.refused.append(RuleRefused("other", "the second segment"))

        return Response(request=request, app_iter=chunks())

    swift.hooks["GET", f"/v1/{ACCOUNT}/c/o"] = large
    for plan, steps in ((None, ("up.py",)), (PLAN, TWO)):
        rules.refused.clear()
        answer = harness.call("GET", plan, steps, rules=rules)
        assert (answer.status, answer.error, answer.headers["X-Storlet-Rule"]) == (
            403,
            "access.rule",
            "other",
        )
    harness.assert_idle()


def test_covered_extra_input_is_refused_by_its_rule(harness: RunHarness, swift: FakeSwift) -> None:
    swift.put("c", "closed", b"secret")
    rules = ClosingRules("/c/closed")
    answer = harness.call("GET", None, extra=(ObjectPath("c", "closed"),), rules=rules)
    assert (answer.status, answer.error, answer.headers["X-Storlet-Rule"]) == (
        403,
        "access.rule",
        "other",
    )


def test_grant_for_any_of_the_storlets_opens_the_source_but_overrides_no_rule(
    harness: RunHarness, swift: FakeSwift
) -> None:
    swift.put_storlet("own.py")
    swift.containers["storlet"].read = BOB
    plan = replace(MANDATORY, explicit_last=True)
    assert harness.call("GET", plan, ("up.py", "own.py"), user=BOB).status == 403
    swift.containers["c"].sysmeta |= grants.change_headers((BOB, "own.py"), is_given=True)
    answer = harness.call("GET", plan, ("up.py", "own.py"), user=BOB, rules=ClosingRules())
    assert (answer.status, answer.data) == (200, b"HELLO")
    closed = ClosingRules("/c/o")
    assert harness.call("GET", plan, ("up.py", "own.py"), user=BOB, rules=closed).status == 403
    assert closed.refused


# --- several storlets -----------------------------------------------------------------------------


def step_number(worker: WorkerRun) -> int:
    """Return the number of the pipeline step that the worker runs."""
    return int(worker.invoke.id.partition(".")[2] or 1)


def by_step(*scripts: Script) -> Script:
    return lambda worker: scripts[step_number(worker) - 1](worker)


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


def test_step_that_requests_a_log_has_its_own(make: Any, swift: FakeSwift) -> None:
    def script(worker: WorkerRun) -> None:
        assert (worker.log >= 0) is (step_number(worker) == 2)
        if worker.log >= 0:
            os.write(worker.log, b"of the second\n")
        upper(worker)

    own = StorletRequest(
        "GET", "v1", ACCOUNT, "up.py", ObjectPath("c", "o"), None, {}, wants_log=True
    )
    answer = make(script).call("GET", replace(PLAN, further=(own,), explicit_last=True))
    (name, log), *others = swift.containers["storletlog"].objects.items()
    assert (name, others) == (f"up.py/{answer.headers['X-Storlet-Invocation']}.2.log", [])
    assert log.body.startswith(b"of the second\noutcome: ok\nusage: cpu=0.25")


@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize("method", ["GET", "COPY", "PUT"])
def test_step_that_fails_early_fails_the_request_and_is_named(
    make: Any, swift: FakeSwift, step: int, method: str
) -> None:
    scripts: list[Script] = [upper, upper, upper]
    scripts[step - 1] = failing
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


def test_first_step_runs_at_the_object_node_if_possible(
    make: Any, swift: FakeSwift, node: Node
) -> None:
    def framed(request: Any) -> Any:
        encoder = frames.Encoder(65536)
        start = {"metadata": {"color": "green"}, "size": 5, "ranges": [], "sandbox_seconds": 0}
        done = {
            "outcome": "ok",
            "usage": {"cpu_seconds": 1.0, "peak_memory_bytes": 1},
            "bytes_in": 5,
            "has_run": True,
        }
        body = [
            encoder.message(frames.START, start),
            encoder.data(b"there"),
            encoder.message(frames.DONE, done),
        ]
        return Response(
            headers={names.BACKEND_RUN: frames.VERSION, "Content-Type": "a/b"},
            app_iter=body,
            request=request,
        )

    swift.hooks["GET", f"/v1/{ACCOUNT}/c/o"] = framed
    answer = make().call("GET", PLAN, TWO)
    assert (answer.status, answer.data, answer.headers["X-Storlet-Ran-On"]) == (
        200,
        b"THERE",
        "object,proxy",
    )
    assert (len(node.workers.runs), answer.headers["X-Object-Meta-Color"]) == (1, "green")
    usage = make().call("COPY", PLAN, TWO).headers["X-Storlet-Usage"]
    assert usage == "cpu=1.250000;peak-memory=4097;in=5;out=5"


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


# --- slots ----------------------------------------------------------------------------------------


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
        sum(group.running for group in harness.proxy.launcher._admission._local.by_key.values())
        == 1
    )
    holder.app_iter.close()
    harness.assert_idle()


def test_pipeline_holding_slots_does_not_queue_at_a_full_object_node(
    make: Any, swift: FakeSwift
) -> None:
    held = []

    def full_once(request: Any) -> Any:
        admission = harness.proxy.launcher._admission
        held.append(sum(group.running for group in admission._local.by_key.values()))
        may_queue = names.BACKEND_OVERFLOW not in request.headers
        full = Response(status=409, request=request, headers={names.BACKEND_REFUSAL: "full"})
        return None if may_queue else full

    swift.hooks["GET", f"/v1/{ACCOUNT}/c/o"] = full_once
    harness = make()
    answer = harness.call("GET", PLAN, TWO)
    assert (answer.status, answer.data, held) == (200, b"HELLO", [1, 2])
    assert answer.headers["X-Storlet-Ran-On"] == "proxy,proxy"
    harness.assert_idle()


# --- data between steps ---------------------------------------------------------------------------


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
