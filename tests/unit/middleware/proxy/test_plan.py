"""Runs that a rule asks for: pipelines, and what of the source leaves with their results."""

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
from storlet_middleware.proxy.run import Proxy, Run
from storlet_middleware.wsgi import grants
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


class Ruled:
    """What the filter does with a run that a rule asks for."""

    def __init__(self, swift: FakeSwift, config: Config) -> None:
        self.logger = Logger()
        self.proxy = Proxy(swift, config, self.logger, 60.0)

    def call(self, method: str, plan: Plan | None, steps: Iterable[str] = ("up.py",), **more: Any) -> Answer:
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
        **changes: Any,
    ) -> Answer:
        here = ObjectPath("c", "o")
        environ = {"swift.trans_id": "txtest", "swift.authorize": guard, "REMOTE_USER": user}
        request = Request.blank(f"/v1/{ACCOUNT}/c/o", method=method, headers=headers or {}, environ=environ)
        if isinstance(body, bytes):
            request.body = body
        elif body is not None:
            request.environ["wsgi.input"] = body
        target = {"GET": None, "PUT": here, "COPY": ObjectPath("c", "copy")}[method]
        requests = [
            replace(
                StorletRequest(method, "v1", ACCOUNT, storlet, None if method == "PUT" else here, target, {}),
                **(changes if index == 0 else {}),
            )
            for index, storlet in enumerate(steps)
        ]
        if plan is not None and len(requests) > 1:
            plan = replace(plan, further=(*requests[1:], *plan.further))
        run = Run(self.proxy, request.environ, requests[0], plan)
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
                status=f"{error.status} {REASONS[error.status]}", body=f"{error}\n{error.detail}", request=request
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
def make(node: Node, swift: FakeSwift, short_dir: Any) -> Callable[..., Ruled]:
    def make(script: Script | dict[str, Script] | None = None, **options: str) -> Ruled:
        if callable(script):
            node.workers.script = script
        elif script:
            by_name = script
            node.workers.script = lambda worker: by_name[dict(worker.invoke.parameters)["script"]](worker)
        return Ruled(swift, make_config(short_dir, **options))

    return make


@pytest.fixture
def ruled(make: Any) -> Ruled:
    made: Ruled = make()
    return made


@pytest.fixture(autouse=True)
def nothing_is_left_open(swift: FakeSwift, node: Node) -> Iterator[None]:
    eventlet.sleep()  # the hub has a descriptor of its own
    before = open_descriptors()
    yield
    node.workers.settle()
    assert swift.unclosed() == 0
    assert wait_until(lambda: open_descriptors() <= before)


@pytest.fixture
def rich(swift: FakeSwift) -> None:
    """A source of which there is much to tell."""
    swift.put(
        "c", "o", b"hello", X_Object_Meta_Color="red", X_Object_Meta_Study="7", X_Object_Meta_Storlet_Main="x",
        X_Static_Large_Object="True", Content_Disposition="attachment", Access_Control_Expose_Headers="x-object-meta-color",
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


# --- whose storlets they are


def test_every_answer_names_the_rule(ruled: Ruled, make: Any) -> None:
    assert ruled.call("GET", PLAN).headers["X-Storlet-Rule"] == "R"
    answer = make(failing).call("GET", PLAN)
    assert (answer.status, answer.headers["X-Storlet-Rule"], answer.error) == (422, "R", "storlet.failed")
    assert "X-Storlet-Rule" not in ruled.call("GET", None).headers


def test_a_signed_url_may_run_a_rules_storlet_and_no_other(ruled: Ruled, swift: FakeSwift) -> None:
    for user in (".wsgi.tempurl", ".wsgi.formpost"):
        assert ruled.call("GET", None, user=user).status == 401
        assert ruled.call("GET", replace(PLAN, explicit_last=True), user=user).status == 401
    swift.containers["c"].read = ".wsgi.tempurl"
    answer = ruled.call("GET", PLAN, user=".wsgi.tempurl")
    assert (answer.status, answer.data) == (200, b"HELLO")


def test_who_may_not_run_the_rules_storlet_is_refused_in_the_rules_name(ruled: Ruled, swift: FakeSwift) -> None:
    swift.containers["c"].read = BOB
    answer = ruled.call("GET", MANDATORY, user=BOB)
    assert (answer.status, answer.error, answer.headers["X-Storlet-Rule"]) == (403, "access.rule", "R")
    assert b"up.py" in answer.data


def test_who_may_not_read_the_object_learns_nothing_of_the_rules_storlet(ruled: Ruled) -> None:
    answer = ruled.call("GET", MANDATORY, user=BOB)
    assert (answer.status, b"up.py" in answer.data) == (403, False)


def test_the_last_storlet_that_the_client_asks_for_needs_the_clients_right(ruled: Ruled, swift: FakeSwift) -> None:
    swift.put_storlet("own.py")
    swift.containers["c"].read = BOB
    answer = ruled.call("GET", replace(MANDATORY, explicit_last=True), ("up.py", "own.py"), user=BOB)
    assert answer.error == "access.rule"
    swift.containers["storlet"].read = BOB
    answer = ruled.call("GET", replace(MANDATORY, explicit_last=True), ("up.py", "none.py"), user=BOB)
    assert (answer.status, answer.error) == (404, "storlet.not_found")
    assert ruled.call("GET", replace(MANDATORY, explicit_last=True), ("up.py", "own.py"), user=BOB).status == 200


def test_a_storlet_that_a_rule_misses_is_no_missing_object(ruled: Ruled) -> None:
    answer = ruled.call("GET", MANDATORY, ("none.py",))
    assert (answer.status, answer.error, answer.headers["X-Storlet-Rule"]) == (422, "storlet.not_found", "R")


# --- what leaves


def visible(answer: Answer) -> set[str]:
    return set(answer.headers) - {
        "X-Storlet-Usage", "X-Storlet-Invocation", "X-Storlet-Ran-On", "Server-Timing", "X-Storlet-Rule", "Content-Length",
    }  # fmt: skip


@pytest.mark.usefixtures("rich")
@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (PLAN, {"Content-Type", "X-Object-Meta-Color", "X-Object-Meta-Study", "Access-Control-Expose-Headers"}),
        (MANDATORY, {"Content-Type"}),
        (replace(PLAN, passes=Passes()), {"Content-Type"}),
        (replace(MANDATORY, passes=Passes(("study",))), {"Content-Type", "X-Object-Meta-Study"}),
        (
            replace(MANDATORY, passes=Passes(("*",), ("*",))),
            {"Content-Type", "X-Object-Meta-Color", "X-Object-Meta-Study", "Content-Disposition", "X-Timestamp",
             "Access-Control-Expose-Headers", "Last-Modified"},
        ),
    ],
)  # fmt: skip
def test_what_of_the_source_leaves(ruled: Ruled, plan: Plan, expected: set[str]) -> None:
    answer = ruled.call("GET", plan)
    assert (answer.status, answer.data, visible(answer)) == (200, b"HELLO", expected)


@pytest.mark.usefixtures("rich")
@pytest.mark.parametrize(
    ("plan", "content_type"),
    [
        (PLAN, "text/csv"),
        (MANDATORY, "application/octet-stream"),
        (replace(MANDATORY, passes=Passes(headers=("content-type",))), "text/csv"),
    ],
)
def test_the_content_type_is_the_storlets_or_may_pass(make: Any, plan: Plan, content_type: str) -> None:
    assert make().call("GET", plan).headers["Content-Type"] == content_type
    answer = make(setting(**{"Content-Type": "image/png", "color": "blue"})).call("GET", plan)
    assert (answer.headers["Content-Type"], answer.headers["X-Object-Meta-Color"]) == ("image/png", "blue")


@pytest.mark.usefixtures("rich")
@pytest.mark.parametrize(
    ("plan", "stored", "modified"),
    [
        (PLAN, {"Content-Type": "text/csv", "X-Object-Meta-Color": "red", "X-Object-Meta-Study": "7"}, True),
        (MANDATORY, {"Content-Type": "application/octet-stream"}, False),
        (
            replace(MANDATORY, passes=Passes(("study",), ("last-modified",))),
            {"Content-Type": "application/octet-stream", "X-Object-Meta-Study": "7"},
            True,
        ),
    ],
)
def test_a_copy_stores_what_may_leave(
    ruled: Ruled, swift: FakeSwift, plan: Plan, stored: dict[str, str], *, modified: bool
) -> None:
    answer = ruled.call("COPY", plan)
    assert (answer.status, swift.containers["c"].objects["copy"].body) == (201, b"HELLO")
    assert swift.containers["c"].objects["copy"].headers == stored
    assert ("X-Storlet-Generated-From-Last-Modified" in answer.headers) is modified


@pytest.mark.usefixtures("rich")
def test_what_a_client_sets_on_a_copy_is_its_own(ruled: Ruled, swift: FakeSwift) -> None:
    ruled.call("COPY", MANDATORY, headers={"X-Object-Meta-Mine": "1", "Content-Type": "text/x-own"})
    assert swift.containers["c"].objects["copy"].headers == {"Content-Type": "text/x-own", "X-Object-Meta-Mine": "1"}


def test_a_put_keeps_what_the_client_says_of_its_own_bytes(ruled: Ruled, swift: FakeSwift) -> None:
    headers = {"X-Object-Meta-Mine": "1", "Content-Type": "text/x-own"}
    answer = ruled.call("PUT", MANDATORY, headers=headers, body=b"new")
    assert (answer.status, swift.containers["c"].objects["o"].headers) == (201, headers)
    assert "in=3" in answer.headers["X-Storlet-Usage"]


def test_what_a_rule_can_undo_is_marked(ruled: Ruled, swift: FakeSwift) -> None:
    seen = []
    swift.hooks["PUT", f"/v1/{ACCOUNT}/c/o"] = lambda request: seen.append(dict(request.headers))
    ruled.call("PUT", replace(PLAN, reverse="R"), body=b"new")
    ruled.call("PUT", PLAN, body=b"new")
    assert [headers.get("X-Object-Sysmeta-Storlet-Reverse") for headers in seen] == ["R", None]


@pytest.mark.parametrize("status", [404, 304, 412, 503])
def test_a_source_that_swift_does_not_give_tells_its_status_only(ruled: Ruled, swift: FakeSwift, status: int) -> None:
    told = {"Etag": "e", "Last-Modified": "x", "X-Object-Meta-Color": "red", "Content-Range": "bytes */5"}
    swift.hooks["GET", f"/v1/{ACCOUNT}/c/o"] = lambda request: Response(status=status, headers=told, request=request)
    assert set(told) <= set(ruled.call("GET", PLAN).headers)
    answer = ruled.call("GET", MANDATORY)
    assert (answer.status, set(told) & set(answer.headers), answer.headers["X-Storlet-Rule"]) == (status, set(), "R")


def test_the_usage_of_a_mandatory_rule_is_the_owners(ruled: Ruled, swift: FakeSwift) -> None:
    swift.containers["c"].read = swift.containers["c"].write = swift.containers["storlet"].read = BOB
    assert "in=5" in ruled.call("COPY", MANDATORY).headers["X-Storlet-Usage"]
    assert "in=5" in ruled.call("COPY", PLAN, user=BOB).headers["X-Storlet-Usage"]
    for method in ("GET", "COPY"):
        assert "X-Storlet-Usage" not in ruled.call(method, MANDATORY, user=BOB).headers
    assert "X-Storlet-Usage" in ruled.call("PUT", MANDATORY, user=BOB, body=b"x").headers


def test_the_text_of_an_error_does_not_tell_the_length_of_a_closed_source(ruled: Ruled, swift: FakeSwift) -> None:
    swift.containers["c"].read = swift.containers["storlet"].read = BOB
    swift.containers["c"].objects["o"].chunks = lambda: [b"hel"]
    assert b"3 of 5" in ruled.call("GET", PLAN, user=BOB).data
    answer = ruled.call("GET", MANDATORY, user=BOB)
    assert (answer.status, b"3 of 5" in answer.data) == (503, False)


# --- reads that rules refuse


class Guard:
    """What the filter puts in the place of ``swift.authorize``."""

    def __init__(self, original: Any, refused: list[StorletError], closed: str = "") -> None:
        self.original, self.refused, self._closed = original, refused, closed

    def around(self, other: Any) -> Guard:
        return Guard(other, self.refused, self._closed)

    def __call__(self, request: Any) -> Any:
        if self._closed and request.environ["PATH_INFO"].endswith(self._closed):
            self.refused.append(RuleRefused("other", "no"))
            return HTTPForbidden(request=request)
        return self.original(request)


def test_an_object_that_ends_where_a_rule_closes_it_is_no_whole_input(ruled: Ruled, swift: FakeSwift) -> None:
    guard = Guard(authorize, [])

    def large(request: Any) -> Any:
        def chunks() -> Iterator[bytes]:
            yield b"first "
            guard.refused.append(RuleRefused("other", "the second segment"))

        return Response(request=request, app_iter=chunks())

    swift.hooks["GET", f"/v1/{ACCOUNT}/c/o"] = large
    for plan, steps in ((None, ("up.py",)), (PLAN, TWO)):
        guard.refused.clear()
        answer = ruled.call("GET", plan, steps, guard=guard)
        assert (answer.status, answer.error, answer.headers["X-Storlet-Rule"]) == (403, "access.rule", "other")
    ruled.assert_idle()


def test_another_input_that_a_rule_closes_is_refused_in_the_rules_name(ruled: Ruled, swift: FakeSwift) -> None:
    swift.put("c", "closed", b"secret")
    guard = Guard(authorize, [], closed="/c/closed")
    answer = ruled.call("GET", None, extra=(ObjectPath("c", "closed"),), guard=guard)
    assert (answer.status, answer.error, answer.headers["X-Storlet-Rule"]) == (403, "access.rule", "other")


def test_a_grant_for_any_of_the_storlets_opens_the_source_and_no_rule_s_refusal(ruled: Ruled, swift: FakeSwift) -> None:
    swift.put_storlet("own.py")
    swift.containers["storlet"].read = BOB
    plan = replace(MANDATORY, explicit_last=True)
    assert ruled.call("GET", plan, ("up.py", "own.py"), user=BOB).status == 403
    swift.containers["c"].sysmeta |= grants.stored((BOB, "own.py"), is_given=True)
    answer = ruled.call("GET", plan, ("up.py", "own.py"), user=BOB, guard=Guard(authorize, []))
    assert (answer.status, answer.data) == (200, b"HELLO")
    closed = Guard(authorize, [], closed="/c/o")
    assert ruled.call("GET", plan, ("up.py", "own.py"), user=BOB, guard=closed).status == 403
    assert closed.refused


# --- several storlets


def number(worker: WorkerRun) -> int:
    """Which step of a pipeline this is."""
    return int(worker.invoke.id.partition(".")[2] or 1)


def by_number(*scripts: Script) -> Script:
    return lambda worker: scripts[number(worker) - 1](worker)


@pytest.mark.parametrize("method", ["GET", "COPY", "PUT"])
def test_each_step_reads_what_the_one_before_wrote(make: Any, swift: FakeSwift, method: str) -> None:
    ruled = make(by_number(setting(b"1"), setting(b"2"), upper))
    answer = ruled.call(method, PLAN, THREE, body=b"hello" if method == "PUT" else None)
    name = {"PUT": "o", "COPY": "copy"}.get(method)
    assert (answer.data if name is None else swift.containers["c"].objects[name].body) == b"21HELLO"
    assert answer.headers["X-Storlet-Ran-On"] == "proxy,proxy,proxy"
    ruled.assert_idle()


def test_a_step_knows_what_the_ones_before_it_said_and_the_last_word_counts(make: Any, swift: FakeSwift) -> None:
    swift.put("c", "o", b"hello", X_Object_Meta_Color="red", X_Object_Meta_Size="5", X_Object_Meta_Gone="1")
    seen = []

    def second(worker: WorkerRun) -> None:
        seen.append(dict(worker.invoke.inputs[0].metadata))
        setting(color="blue", mine="2")(worker)

    ruled = make(by_number(setting(Color="green", gone="", **{"Content-Type": "a/b"}), second))
    answer = ruled.call("GET", PLAN, TWO)
    assert seen[-1] == {"Size": "5", "Color": "green", "Content-Type": "a/b"}
    assert {key: value for key, value in answer.headers.items() if key.startswith(("X-Object", "Content-T"))} == {
        "X-Object-Meta-Color": "blue", "X-Object-Meta-Size": "5", "X-Object-Meta-Mine": "2", "Content-Type": "a/b",
    }  # fmt: skip
    ruled.call("GET", replace(MANDATORY, passes=Passes(("size",))), TWO)
    assert seen[-1] == {"Size": "5", "Color": "green", "Content-Type": "a/b"}
    ruled.call("GET", MANDATORY, TWO)
    assert seen[-1] == {"Color": "green", "Content-Type": "a/b"}


def test_what_was_used_is_the_sum(make: Any) -> None:
    answer = make(by_number(setting(b"12345"), upper)).call("COPY", PLAN, TWO)
    assert answer.headers["X-Storlet-Usage"] == "cpu=0.500000;peak-memory=8192;in=5;out=10"


def test_a_step_that_wants_one_has_a_log_of_its_own(make: Any, swift: FakeSwift) -> None:
    def script(worker: WorkerRun) -> None:
        assert (worker.log >= 0) is (number(worker) == 2)
        if worker.log >= 0:
            os.write(worker.log, b"of the second\n")
        upper(worker)

    own = StorletRequest("GET", "v1", ACCOUNT, "up.py", ObjectPath("c", "o"), None, {}, wants_log=True)
    answer = make(script).call("GET", replace(PLAN, further=(own,), explicit_last=True))
    (name, log), *others = swift.containers["storletlog"].objects.items()
    assert (name, others) == (f"up.py/{answer.headers['X-Storlet-Invocation']}.2.log", [])
    assert log.body.startswith(b"of the second\noutcome: ok\nusage: cpu=0.25")


@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize("method", ["GET", "COPY", "PUT"])
def test_a_step_that_fails_early_fails_the_whole_in_its_own_name(
    make: Any, swift: FakeSwift, step: int, method: str
) -> None:
    scripts: list[Script] = [upper, upper, upper]
    scripts[step - 1] = failing
    ruled = make(by_number(*scripts))
    answer = ruled.call(method, PLAN, THREE, body=b"hello" if method == "PUT" else None)
    assert (answer.status, answer.error) == (422, "storlet.failed")
    assert f"step {step} of 3 (up.py): ValueError: no".encode() in answer.data
    assert swift.requests("PUT") == [] if method != "GET" else True
    ruled.assert_idle()


@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize("method", ["GET", "COPY", "PUT"])
def test_a_step_that_fails_late_never_gives_a_whole_result(make: Any, swift: FakeSwift, step: int, method: str) -> None:
    go = threading.Event()

    def late(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(b"x" * 600_000)
        assert go.wait(5)
        worker.fail("ValueError: late")

    def on(worker: WorkerRun) -> None:
        worker.begin()
        while piece := os.read(worker.inputs[0], 65536):
            worker.write(piece)
            go.set()
        worker.succeed()

    scripts: list[Script] = [on, on, on]
    scripts[step - 1] = late
    if step == 3:
        go.set()
    ruled = make(by_number(*scripts))
    answer = ruled.call(method, PLAN, THREE, body=b"hello" if method == "PUT" else None)
    if method == "GET" and answer.status == 200:
        assert answer.broken is not None
    else:
        assert (answer.status, answer.error) == (422, "storlet.failed")
        assert f"step {step} of 3".encode() in answer.data
    assert "copy" not in swift.containers["c"].objects
    assert swift.containers["c"].objects["o"].body == b"hello"
    assert f"failed_step={step}" in ruled.logger.text
    ruled.assert_idle()


def test_a_step_that_wants_no_more_does_not_end_the_ones_before(make: Any) -> None:
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

    answer = make(by_number(first, head)).call("GET", PLAN, TWO)
    assert (answer.status, answer.data, answer.broken) == (200, b"xxx", None)
    assert wait_until(lambda: ended == [True])


def test_what_a_step_reads_no_more_of_has_to_end_well_all_the_same(make: Any) -> None:
    def first(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(b"x" * 3_000_000)
        worker.fail("ValueError: late")

    def head(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(b"h")
        worker.succeed()

    answer = make(by_number(first, head)).call("GET", PLAN, TWO)
    if answer.status == 200:
        assert (answer.data, answer.broken is None) == (b"h", False)
    else:
        assert (answer.status, answer.error) == (422, "storlet.failed")
        assert b"step 1 of 2 (up.py): ValueError: late" in answer.data


@pytest.mark.parametrize("source", ["client", "object"])
def test_a_source_that_breaks_off_fails_all_steps(make: Any, swift: FakeSwift, source: str) -> None:
    ruled = make(by_number(upper, upper))
    if source == "client":
        answer = ruled.call("PUT", PLAN, TWO, body=BrokenInput(b"he"), headers={"Content-Length": "5"})
        assert answer.status == 499
    else:
        swift.containers["c"].objects["o"].chunks = lambda: [b"hel"]
        answer = ruled.call("GET", PLAN, TWO)
        assert answer.status == 503
    assert b"step" not in answer.data
    ruled.assert_idle()


def test_a_client_that_leaves_ends_all_steps(make: Any) -> None:
    cancelled = []

    def endless(worker: WorkerRun) -> None:
        worker.begin()
        with contextlib.suppress(BrokenPipeError):
            while True:
                worker.write(b"x" * 65536)
        cancelled.append(worker.wait_for_cancel())

    def on(worker: WorkerRun) -> None:
        worker.begin()
        with contextlib.suppress(BrokenPipeError):
            while piece := os.read(worker.inputs[0], 65536):
                worker.write(piece)
        cancelled.append(worker.wait_for_cancel())

    ruled = make(by_number(endless, on, on))
    answer = ruled.start("GET", PLAN, THREE)
    next(iter(answer.app_iter))
    with eventlet.Timeout(0.9):
        answer.app_iter.close()
    assert wait_until(lambda: cancelled == [True, True, True])
    assert "code=client-gone" in ruled.logger.text
    ruled.assert_idle()


def test_the_first_step_runs_at_the_object_node_where_it_can(make: Any, swift: FakeSwift, node: Node) -> None:
    def framed(request: Any) -> Any:
        encoder = frames.Encoder(65536)
        start = {"metadata": {"color": "green"}, "size": 5, "ranges": [], "sandbox_seconds": 0}
        done = {"outcome": "ok", "usage": {"cpu_seconds": 1.0, "peak_memory_bytes": 1}, "bytes_in": 5, "has_run": True}
        body = [encoder.message(frames.START, start), encoder.data(b"there"), encoder.message(frames.DONE, done)]
        return Response(
            headers={names.BACKEND_RUN: frames.VERSION, "Content-Type": "a/b"}, app_iter=body, request=request
        )

    swift.hooks["GET", f"/v1/{ACCOUNT}/c/o"] = framed
    answer = make().call("GET", PLAN, TWO)
    assert (answer.status, answer.data, answer.headers["X-Storlet-Ran-On"]) == (200, b"THERE", "object,proxy")
    assert (len(node.workers.runs), answer.headers["X-Object-Meta-Color"]) == (1, "green")
    usage = make().call("COPY", PLAN, TWO).headers["X-Storlet-Usage"]
    assert usage == "cpu=1.250000;peak-memory=4097;in=5;out=5"


def test_a_second_step_that_cannot_start_cancels_the_first(make: Any, swift: FakeSwift, node: Node) -> None:
    cancelled = []

    def waiting(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(b"x")
        cancelled.append(worker.wait_for_cancel())

    swift.put_storlet("other.py")
    ruled = make(waiting)
    asked = node.answer

    def refuse(request: Any) -> Any:
        if isinstance(request, messages.Acquire) and len(node.workers.runs):
            return messages.NodeRefused("sandbox.unavailable", "no Docker")
        return asked(request)

    node.answer = refuse
    answer = ruled.call("GET", PLAN, ("up.py", "other.py"))
    assert (answer.status, answer.error) == (503, "sandbox.unavailable")
    assert b"step 2 of 2 (other.py)" in answer.data
    assert wait_until(lambda: cancelled == [True])
    ruled.assert_idle()


# --- places


def test_pipelines_wait_for_all_of_their_places_and_none_waits_for_ever(make: Any) -> None:
    """Twelve pipelines of two storlets, on a node where the account has two places."""
    running = []

    def counting(worker: WorkerRun) -> None:
        running.append(1)
        upper(worker)

    ruled = make(counting, admission__invocations="4", invocation__queue_seconds="5")
    pool = eventlet.GreenPool(12)
    answers = list(pool.imap(lambda _: ruled.call("GET", PLAN, TWO), range(12)))
    assert [answer.status for answer in answers] == [200] * 12
    assert len(running) == 24
    ruled.assert_idle()


def test_a_pipeline_that_no_node_has_room_for_is_refused_at_once(make: Any) -> None:
    ruled = make(admission__invocations="4", invocation__queue_seconds="30")
    with eventlet.Timeout(1):
        answer = ruled.call("GET", PLAN, THREE)
    assert (answer.status, answer.error) == (429, "tenant.busy")
    ruled.assert_idle()


def test_a_pipeline_waits_no_longer_than_others_and_holds_nothing_meanwhile(make: Any) -> None:
    def slow(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(b"x")
        worker.wait_for_cancel()

    ruled = make(slow, admission__invocations="4", invocation__queue_seconds="0.3")
    holder = ruled.start("GET", PLAN)
    with eventlet.Timeout(2):
        answer = ruled.call("GET", PLAN, TWO)
    assert (answer.status, answer.error) == (429, "tenant.busy")
    assert sum(group.running for group in ruled.proxy.launcher._admission._local.by_key.values()) == 1
    holder.app_iter.close()
    ruled.assert_idle()


def test_a_full_object_node_is_not_waited_for_while_places_are_held(make: Any, swift: FakeSwift) -> None:
    held = []

    def full_once(request: Any) -> Any:
        admission = ruled.proxy.launcher._admission
        held.append(sum(group.running for group in admission._local.by_key.values()))
        is_patient = names.BACKEND_OVERFLOW not in request.headers
        return None if is_patient else Response(status=409, request=request)

    swift.hooks["GET", f"/v1/{ACCOUNT}/c/o"] = full_once
    ruled = make()
    answer = ruled.call("GET", PLAN, TWO)
    assert (answer.status, answer.data, held) == (200, b"HELLO", [1, 2])
    assert answer.headers["X-Storlet-Ran-On"] == "proxy,proxy"
    ruled.assert_idle()


# --- from pipe to pipe


def pass_on(worker: WorkerRun) -> None:
    worker.begin()
    while piece := os.read(worker.inputs[0], 50_000):
        worker.write(piece)
    worker.succeed()


def test_bytes_between_steps_of_a_node_are_not_read_here(
    make: Any, swift: FakeSwift, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, moved = os.urandom(5_000_001), []
    splice = os.splice

    def counting(*args: Any, **more: Any) -> int:
        moved.append(splice(*args, **more))
        return moved[-1]

    monkeypatch.setattr(os, "splice", counting)
    swift.put("c", "o", data)
    ruled = make(pass_on)
    answer = ruled.call("GET", PLAN, THREE)
    assert (answer.data == data, answer.broken) == (True, None)
    # What the first look at each step's output took has been read already.
    assert sum(moved) > 2 * (len(data) - 300_000)
    ruled.assert_idle()


def test_many_small_pieces_arrive_whole(make: Any) -> None:
    def drip(worker: WorkerRun) -> None:
        worker.begin()
        for index in range(20_000):
            worker.write(b"%d\n" % index)
        worker.succeed()

    answer = make(by_number(drip, pass_on, pass_on)).call("GET", PLAN, THREE)
    assert answer.data == b"".join(b"%d\n" % index for index in range(20_000))


@pytest.mark.parametrize("step", [1, 2])
def test_the_limit_of_output_holds_for_each_step(make: Any, step: int) -> None:
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
    answer = make(by_number(*scripts), limits__output_bytes="1000").call("GET", PLAN, THREE)
    assert (answer.status, answer.error) == (422, "storlet.limit.output")
    assert f"step {step} of 3".encode() in answer.data


SHORT = {"invocation__first_byte_seconds": "0.4", "invocation__idle_seconds": "0.4"}
#: Shorter than what is slow takes in all, and much longer than it is silent.
LONGER = {"invocation__first_byte_seconds": "1.5", "invocation__idle_seconds": "1.5"}


def test_a_slow_reader_is_no_stall_of_the_step_before(make: Any) -> None:
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

    answer = make(by_number(much, slow), **LONGER).call("GET", PLAN, TWO)
    assert (answer.status, answer.data) == (200, b"y")


def test_a_slow_writer_is_no_stall_of_the_step_after(make: Any) -> None:
    def slow(worker: WorkerRun) -> None:
        worker.begin()
        for _ in range(12):
            worker.write(b"x")
            time.sleep(0.15)
        worker.succeed()

    answer = make(by_number(slow, upper), **LONGER).call("GET", PLAN, TWO)
    assert (answer.status, answer.data) == (200, b"X" * 12)


@pytest.mark.parametrize(("step", "code"), [(1, "storlet.timeout.idle"), (2, "storlet.timeout.first_byte")])
def test_a_step_that_stalls_is_named(make: Any, step: int, code: str) -> None:
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

    ruled = make(by_number(much, reads if step == 1 else stalls), **SHORT)
    answer = ruled.call("GET", PLAN, TWO)
    assert (answer.status, answer.error) == (422, code)
    assert f"step {step} of 2".encode() in answer.data
    ruled.assert_idle()
