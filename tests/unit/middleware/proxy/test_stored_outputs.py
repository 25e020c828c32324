"""Further outputs: stored together after the run has succeeded, or not at all."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest
from swift.common.swob import Request, Response

from storlet_daemon.protocol import messages
from storlet_middleware import errors
from storlet_middleware.concurrency import sleep
from storlet_middleware.errors import StorletError
from storlet_middleware.proxy import stored_outputs
from storlet_middleware.proxy.withheld_put import Reserve
from storlet_middleware.wsgi.deferred_put import DeferredPut
from storlet_middleware.wsgi.strings import wsgi
from tests.unit.middleware.support import (
    ACCOUNT,
    OWNER,
    RUN,
    FakeSwift,
    Proxy,
    WorkerRun,
    assert_idle,
    wait_until,
)

pytestmark = pytest.mark.usefixtures("nothing_is_left_open")
Make = Callable[..., Proxy]

TWO = {**RUN, "X-Storlet-Output": "/c/one, /other/two%20x"}
#: More than the reserve of a PUT: it begins while the storlet runs.
LARGE = b"x" * (2 << 20)
METHODS = ["GET", "PUT", "COPY"]


def splitting(
    last: Callable[[WorkerRun], None] = WorkerRun.succeed,
    data: bytes = b"",
    metadata: dict[str, str] | None = None,
) -> Callable[[WorkerRun], None]:
    """A storlet that writes into all outputs, the last one first, and ends with ``last``."""

    def script(worker: WorkerRun) -> None:
        worker.read()
        worker.send(messages.Started())
        for number in reversed(range(len(worker.outs))):
            found = {"number": str(number), **(metadata or {})}
            worker.send(messages.Metadata(found, number or None))
            worker.write(b"%d:" % number + data, number)
        last(worker)

    return script


def call(proxy: Proxy, method: str, headers: dict[str, str] | None = None, **more: Any) -> Any:
    given = {**(headers or TWO), "Destination": "c/copy"}
    path = "c/new" if method == "PUT" else "c/o"
    body = {"body": b"hello"} if method == "PUT" else {}
    return proxy.call(method, path, given, **body, **more)


@pytest.fixture(autouse=True)
def other(swift: FakeSwift) -> None:
    """A second container."""
    swift.put("other", "present", b"old")


def stored(swift: FakeSwift) -> dict[str, bytes]:
    """The objects that a run of this module may have stored."""
    known = {"c/o", "other/present"}
    return {
        f"{container}/{name}": each.body
        for container in ("c", "other")
        for name, each in swift.containers[container].objects.items()
        if f"{container}/{name}" not in known
    }


MAIN = {"GET": {}, "PUT": {"c/new": b"0:"}, "COPY": {"c/copy": b"0:"}}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("data", [b"", LARGE])
def test_outputs_are_stored_with_metadata_of_their_own(
    make_proxy: Make, swift: FakeSwift, method: str, data: bytes
) -> None:
    proxy = make_proxy(splitting(data=data, metadata={"Content-Type": "text/x"}))
    answer = call(proxy, method, {**TWO, "X-Object-Meta-Mine": "1", "X-Delete-After": "100"})
    assert answer.status == (200 if method == "GET" else 201)
    assert answer.broken is None
    wanted = {name: body + data for name, body in MAIN[method].items()}
    assert stored(swift) == {**wanted, "c/one": b"1:" + data, "other/two x": b"2:" + data}
    assert swift.containers["c"].objects["one"].headers == {
        "Content-Type": "text/x",
        "X-Object-Meta-Number": "1",
    }
    if method == "GET":
        assert answer.data == b"0:" + data
        assert answer.headers["X-Object-Meta-Number"] == "0"
    assert f"out={3 * (2 + len(data))}" in proxy.logger.text
    assert "outputs=2" in proxy.logger.text
    assert f"why={'incoming-body' if method == 'PUT' else 'several-outputs'}" in proxy.logger.text
    assert_idle(proxy)


def test_a_small_result_has_a_length_and_usage_of_all_outputs(make_proxy: Make) -> None:
    answer = call(make_proxy(splitting(data=b"ab")), "GET")
    assert (answer.data, answer.headers["Content-Length"]) == (b"0:ab", "4")
    assert "out=12" in answer.headers["X-Storlet-Usage"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("data", [b"", LARGE])
@pytest.mark.parametrize("end", [WorkerRun.fail, lambda worker: worker.connection.close()])
def test_nothing_is_stored_by_a_storlet_that_fails(
    make_proxy: Make, swift: FakeSwift, method: str, data: bytes, end: Any
) -> None:
    proxy = make_proxy(splitting(end, data))
    answer = call(proxy, method)
    is_begun = method == "GET" and answer.status == 200
    assert answer.broken is not None if is_begun else answer.error
    assert stored(swift) == {}
    assert_idle(proxy)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("status", "wanted", "code"),
    [
        (413, 413, errors.SWIFT_REFUSED),
        (403, 403, errors.ACCESS_DENIED),
        (404, 404, errors.TARGET_NOT_FOUND),
        (503, 503, errors.BACKEND_FAILED),
    ],
)
def test_nothing_is_stored_where_swift_refuses_one_output(
    make_proxy: Make, swift: FakeSwift, method: str, status: int, wanted: int, code: str
) -> None:
    path = f"/v1/{ACCOUNT}/other/two x"
    swift.hooks["PUT", path] = lambda request: Response(status=status, request=request)
    answer = call(make_proxy(splitting()), method)
    assert (answer.status, answer.error) == (wanted, code)
    assert b"/other/two%20x" in answer.data
    assert stored(swift) == {}


@pytest.mark.parametrize("method", METHODS)
def test_a_refusal_ends_a_run_that_still_writes(
    make_proxy: Make, swift: FakeSwift, method: str
) -> None:
    def last(worker: WorkerRun) -> None:
        assert worker.wait_for_cancel()

    path = f"/v1/{ACCOUNT}/other/two x"
    swift.hooks["PUT", path] = lambda request: Response(status=413, request=request)
    answer = call(make_proxy(splitting(last, LARGE)), method)
    assert answer.status == 413 or answer.broken is not None
    assert stored(swift) == {}


def failing_commit(swift: FakeSwift, path: str, status: int = 503) -> None:
    """Swift takes the whole body of this PUT, and then fails."""

    def put(request: Any) -> Response:
        while request.environ["wsgi.input"].read(65536):
            pass
        return Response(status=status, request=request)

    swift.hooks["PUT", f"/v1/{ACCOUNT}/{path}"] = put


@pytest.mark.parametrize("method", METHODS)
def test_a_commit_that_fails_after_another_is_reported_with_names(
    make_proxy: Make, swift: FakeSwift, method: str
) -> None:
    failing_commit(swift, "other/two x")
    proxy = make_proxy(splitting())
    answer = call(proxy, method)
    assert (answer.status, answer.error) == (503, errors.OUTPUTS_PARTIAL)
    assert answer.headers["Retry-After"]
    text = answer.data.decode()
    lost, _, kept = text.partition("; stored: ")
    assert "/other/two%20x (503 Service Unavailable)" in lost
    assert re.findall(r"/c/\w+", kept) == ["/" + name for name in MAIN[method]] + ["/c/one"]
    assert "code=outputs.partial" in proxy.logger.text
    assert stored(swift) == {**MAIN[method], "c/one": b"1:"}


def test_a_result_that_is_lost_beside_stored_outputs_is_partial(
    make_proxy: Make, swift: FakeSwift
) -> None:
    failing_commit(swift, "c/new")
    answer = call(make_proxy(splitting()), "PUT")
    assert (answer.status, answer.error) == (503, errors.OUTPUTS_PARTIAL)
    assert b"not stored: /c/new (503" in answer.data


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_commits_that_all_fail_store_nothing(
    make_proxy: Make, swift: FakeSwift, method: str
) -> None:
    for path in ("c/one", "other/two x", "c/new"):
        failing_commit(swift, path)
    answer = call(make_proxy(splitting()), method)
    assert (answer.status, answer.error) == (503, errors.BACKEND_FAILED)
    assert stored(swift) == {}


def test_a_commit_that_fails_after_the_first_byte_breaks_the_answer(
    make_proxy: Make, swift: FakeSwift
) -> None:
    failing_commit(swift, "other/two x")
    proxy = make_proxy(splitting(data=LARGE))
    answer = call(proxy, "GET")
    assert (answer.status, answer.data) == (200, b"0:" + LARGE)
    assert answer.broken is not None
    assert "Content-Length" not in answer.headers
    assert "code=outputs.partial" in proxy.logger.text


def test_a_client_that_disconnects_stores_nothing(make_proxy: Make, swift: FakeSwift) -> None:
    proxy = make_proxy(splitting(data=LARGE))
    answer = proxy.start("GET", "c/o", TWO)
    next(iter(answer.app_iter))
    answer.app_iter.close()
    sleep(0)
    assert stored(swift) == {}
    assert "code=client.gone" in proxy.logger.text
    assert_idle(proxy)


def test_a_slow_client_does_not_hold_the_puts_of_further_outputs(
    make_proxy: Make, swift: FakeSwift, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve = Reserve(1000, 4000, 0.02)
    monkeypatch.setattr(stored_outputs, "reserve_for", lambda *_: reserve)
    statuses: list[int] = []

    def put(request: Any) -> Response:
        answer = swift.respond(request)
        statuses.append(answer.status_int)
        return answer

    swift.hooks["PUT", f"/v1/{ACCOUNT}/c/one"] = put
    proxy = make_proxy(splitting(data=LARGE))
    answer = proxy.start("GET", "c/o", TWO)
    body = iter(answer.app_iter)
    next(body)
    assert wait_until(lambda: statuses == [499])
    with pytest.raises(StorletError, match="paused for too long"):
        list(body)
    assert stored(swift) == {}
    assert "code=storlet.timeout.idle" in proxy.logger.text
    assert_idle(proxy)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("key", ["Content-Type", "x"])
def test_metadata_that_swift_would_refuse_fails_the_run_before_its_put(
    make_proxy: Make, swift: FakeSwift, method: str, key: str
) -> None:
    def script(worker: WorkerRun) -> None:
        worker.begin()
        value = "text/x; swift_bytes=1" if key == "Content-Type" else "x" * 300
        worker.begin_further(1)
        worker.begin_further(2, **{key: value})
        worker.succeed()

    answer = call(make_proxy(script), method)
    assert answer.status == 422
    assert b"output /other/two%20x: the storlet's metadata cannot be stored" in answer.data
    assert [seen.path for seen in swift.requests("PUT")] == []


@pytest.mark.parametrize("method", METHODS)
def test_the_callers_right_to_write_is_checked_before_the_run(
    make_proxy: Make, swift: FakeSwift, method: str
) -> None:
    swift.containers["c"].read = swift.containers["c"].write = "test:bob"
    swift.containers["storlet"].read = "test:bob"
    proxy = make_proxy(splitting())
    answer = call(proxy, method, user="test:bob")
    assert (answer.status, stored(swift)) == (403, {})
    assert "invocation done" not in proxy.logger.text
    swift.containers["other"].write = "test:bob"
    assert call(proxy, method, user="test:bob").status // 100 == 2
    assert len(stored(swift)) == 2 + len(MAIN[method])


def test_a_missing_container_is_found_before_the_run(make_proxy: Make, swift: FakeSwift) -> None:
    proxy = make_proxy(splitting())
    answer = call(proxy, "GET", {**RUN, "X-Storlet-Output": "/missing/o"})
    assert (answer.status, answer.error) == (404, errors.TARGET_NOT_FOUND)
    assert "invocation done" not in proxy.logger.text


@pytest.mark.parametrize(
    ("method", "value", "text"),
    [
        ("GET", "c/one", "want /container/object"),
        ("GET", "", "want /container/object"),
        ("GET", "/c/one,", "want /container/object"),
        ("GET", "/c/one, /c/%6fne", "named twice"),
        ("GET", "/c/o", "the object that the storlet reads"),
        ("COPY", "/c/o", "the object that the storlet reads"),
        ("COPY", "/c/copy", "the object that the request writes"),
        ("PUT", "/c/new", "the object that the request writes"),
        ("GET", "/other/present", "an extra resource"),
        ("GET", "/storlet/up.py", "a storlet cannot write into storlet"),
        ("PUT", "/dependency/x", "a storlet cannot write into dependency"),
        ("COPY", "/storletlog/x", "a storlet cannot write into"),
        ("GET", "/storlet_rules/rules", "a storlet cannot write into storlet_rules"),
        ("GET", "/c/" + "x" * 1025, "has more than 1024 bytes"),
        ("GET", ", ".join(f"/c/{number}" for number in range(9)), "at most 8 are allowed"),
    ],
)
def test_a_wrong_target_is_refused_by_name(
    make_proxy: Make, swift: FakeSwift, method: str, value: str, text: str
) -> None:
    headers = {**RUN, "X-Storlet-Output": value}
    if method == "GET":
        headers["X-Storlet-Extra-Resources"] = "/other/present"
    answer = call(make_proxy(splitting()), method, headers)
    assert (answer.status, answer.error) == (400, errors.BAD_REQUEST)
    assert "X-Storlet-Output" in answer.data.decode()
    assert text in answer.data.decode()
    assert stored(swift) == {}


def test_further_outputs_can_be_switched_off(make_proxy: Make) -> None:
    answer = call(make_proxy(splitting(), limits__outputs="0"), "GET")
    assert answer.status == 400
    assert b"further outputs are not allowed here" in answer.data


def test_inputs_and_outputs_fit_into_one_message(make_proxy: Make) -> None:
    proxy = make_proxy(splitting(), limits__outputs="20", limits__inputs="30")
    outputs = ", ".join(f"/c/out{number}" for number in range(20))
    extra = ", ".join(["/other/present"] * 10)
    headers = {**RUN, "X-Storlet-Output": outputs, "X-Storlet-Extra-Resources": extra}
    answer = call(proxy, "GET", headers)
    assert answer.status == 400
    assert b"20 outputs and 11 inputs: together at most 30" in answer.data


def test_the_socket_for_services_is_one_descriptor_less(make_proxy: Make, swift: FakeSwift) -> None:
    swift.containers["storlet"].objects["up.py"].headers["X-Object-Meta-Storlet-Services"] = "read"
    proxy = make_proxy(splitting(), limits__inputs="30")
    for inputs, wanted in ((28, 200), (29, 400)):
        extra = ", ".join(["/other/present"] * (inputs - 1))
        headers = {**TWO, "X-Storlet-Extra-Resources": extra}
        headers["X-Storlet-Output"] = "/c/one"
        headers["X-Storlet-Generate-Log"] = "true"
        answer = call(proxy, "GET", headers)
        assert answer.status == wanted
    assert b"has services: 29 inputs and 1 further outputs: together at most 29" in answer.data


def test_a_put_whose_end_fails_leaves_no_run_behind(
    make_proxy: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def close(outputs: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(stored_outputs.StoredOutputs, "close", close)
    cancelled: list[bool] = []
    proxy = make_proxy(splitting(lambda worker: cancelled.append(worker.wait_for_cancel())))
    answer = proxy.start("GET", "c/o", RUN)
    next(iter(answer.app_iter))
    with pytest.raises(ZeroDivisionError):
        answer.app_iter.close()
    assert wait_until(lambda: bool(cancelled))
    assert cancelled == [True]
    assert_idle(proxy)


def test_the_header_means_nothing_without_a_storlet(proxy: Proxy) -> None:
    answer = proxy.call("GET", "c/o", {"X-Storlet-Output": "/c/one"})
    assert answer.status == 400
    assert b"X-Storlet-Output: means nothing without X-Run-Storlet" in answer.data


def test_names_are_quoted_like_the_header(make_proxy: Make, swift: FakeSwift) -> None:
    name = "grün, 1/2"
    headers = {**RUN, "X-Storlet-Output": "/c/" + quote(name, safe="")}
    assert call(make_proxy(splitting()), "GET", headers, user=OWNER).status == 200
    assert stored(swift) == {f"c/{wsgi(name)}": b"1:"}


# --- objects that a storlet creates ---------------------------------------------------------------


def creating(
    *paths: str,
    data: bytes = b"",
    last: Callable[[WorkerRun], None] = WorkerRun.succeed,
    is_late: bool = False,
) -> Callable[[WorkerRun], None]:
    """A storlet that creates objects, before its output or after it, and ends with ``last``."""

    def create(worker: WorkerRun) -> None:
        for path in paths:
            reply = worker.create(path, path.encode() + data, "text/x", {"made": "yes"})
            assert isinstance(reply, messages.Performed), reply

    def script(worker: WorkerRun) -> None:
        worker.read()
        worker.send(messages.Started())
        if not is_late:
            create(worker)
        for number in range(len(worker.outs)):
            worker.send(messages.Metadata({}, number or None))
            worker.write(b"%d:" % number, number)
        if is_late:
            create(worker)
        last(worker)

    return script


@pytest.fixture
def make_creator(make_proxy: Make, swift: FakeSwift) -> Make:
    """A proxy of an account whose storlet may write."""
    swift.put_storlet(X_Object_Meta_Storlet_Services="write")
    return make_proxy


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("data", [b"", LARGE])
@pytest.mark.parametrize("is_late", [True, False])
def test_created_objects_are_stored_with_the_other_outputs(
    make_creator: Make, swift: FakeSwift, method: str, data: bytes, *, is_late: bool
) -> None:
    proxy = make_creator(creating("/c/made", "/other/m\u00e4de", data=data, is_late=is_late))
    answer = call(proxy, method)
    assert (answer.status, answer.broken) == (200 if method == "GET" else 201, None), answer.data
    assert stored(swift) == {
        **MAIN[method],
        "c/one": b"1:",
        "other/two x": b"2:",
        "c/made": b"/c/made" + data,
        wsgi("other/m\u00e4de"): "/other/m\u00e4de".encode() + data,
    }
    made = swift.containers["c"].objects["made"]
    assert made.headers == {"Content-Type": "text/x", "X-Object-Meta-Made": "yes"}
    size = len("/c/made/other/m\u00e4de".encode()) + 2 * len(data)
    assert f"service-operations=4 service-in=0 service-out={size}" in proxy.logger.text
    assert "out=6 " in proxy.logger.text
    assert_idle(proxy)


@pytest.mark.parametrize("method", METHODS)
def test_created_objects_need_no_further_outputs(
    make_creator: Make, swift: FakeSwift, method: str
) -> None:
    answer = call(make_creator(creating("/c/made")), method, RUN)
    assert answer.status == (200 if method == "GET" else 201)
    assert stored(swift) == {**MAIN[method], "c/made": b"/c/made"}
    if method == "GET":
        assert (answer.data, answer.headers["Content-Length"]) == (b"0:", "2")
        assert "service-out=7" in answer.headers["X-Storlet-Usage"]


def test_a_storlet_that_creates_nothing_answers_as_before(make_creator: Make) -> None:
    answer = call(make_creator(creating()), "GET", RUN)
    assert (answer.status, answer.data, answer.broken) == (200, b"0:", None)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("data", [b"", LARGE])
@pytest.mark.parametrize("end", [WorkerRun.fail, lambda worker: worker.connection.close()])
def test_nothing_is_created_by_a_storlet_that_fails(
    make_creator: Make, swift: FakeSwift, method: str, data: bytes, end: Any
) -> None:
    proxy = make_creator(creating("/c/made", data=data, last=end))
    answer = call(proxy, method)
    is_begun = method == "GET" and answer.status == 200
    assert answer.broken is not None if is_begun else answer.error
    assert stored(swift) == {}
    assert_idle(proxy)


@pytest.mark.parametrize("data", [b"", LARGE])
def test_nothing_is_created_when_the_client_disconnects(
    make_creator: Make, swift: FakeSwift, data: bytes
) -> None:
    waits: list[bool] = []
    proxy = make_creator(
        creating("/c/made", data=data, last=lambda worker: waits.append(worker.wait_for_cancel()))
    )
    answer = proxy.start("GET", "c/o", RUN)
    next(iter(answer.app_iter))
    answer.app_iter.close()
    assert wait_until(lambda: waits == [True])
    assert stored(swift) == {}
    assert_idle(proxy)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/c/copy", "the object that the request writes"),
        ("/other/two x", "a further output"),
        ("/c/made", "created already"),
    ],
)
def test_an_object_is_made_by_one_output_only(
    make_creator: Make, swift: FakeSwift, path: str, why: str
) -> None:
    replies: list[Any] = []

    def script(worker: WorkerRun) -> None:
        def last(worker: WorkerRun) -> None:
            replies.append(worker.create(path, b"again"))
            worker.succeed()

        creating("/c/made", last=last)(worker)

    assert call(make_creator(script), "COPY").status == 201
    [failed] = replies
    assert (failed.code, failed.status) == ("bad_request", 400)
    assert failed.message == f"{path}: it is {why}: name another object"
    assert stored(swift)["c/made"] == b"/c/made"


@pytest.mark.parametrize("is_discarded", [True, False])
def test_a_refusal_by_swift_fails_the_run_unless_the_object_is_discarded(
    make_creator: Make, swift: FakeSwift, *, is_discarded: bool
) -> None:
    replies: list[Any] = []

    def script(worker: WorkerRun) -> None:
        worker.read()
        worker.begin()
        replies.append(worker.create("/c/made", LARGE))
        if is_discarded:
            replies.append(worker.ask(messages.DiscardFile, 1)[0])
        worker.write(b"0:")
        worker.succeed()

    refuse = Response(status=413)
    swift.hooks["PUT", f"/v1/{ACCOUNT}/c/made"] = lambda _: refuse
    answer = call(make_creator(script), "GET", RUN)
    assert (replies[0].code, replies[0].status) == ("swift.refused", 413)
    assert "object /c/made: Swift answered 413" in replies[0].message
    if is_discarded:
        assert (answer.status, answer.data, answer.broken) == (200, b"0:", None)
    else:
        assert answer.broken is not None or (answer.status, answer.error) == (413, "swift.refused")


@pytest.mark.parametrize(
    ("path", "code", "status"),
    [("/none/o", "target.not_found", 404), ("/other/o", "access.denied", 403)],
)
def test_an_object_that_may_not_be_stored_is_refused_before_its_bytes(
    make_creator: Make, swift: FakeSwift, path: str, code: str, status: int
) -> None:
    replies: list[Any] = []

    def script(worker: WorkerRun) -> None:
        worker.read()
        worker.begin()
        replies.append(worker.ask(messages.CreateObject, path)[0])
        worker.succeed()

    reader = "test:reader"
    for name in ("c", "storlet"):
        swift.containers[name].read = reader
    user = OWNER if status == 404 else reader
    assert call(make_creator(script), "GET", RUN, user=user).status == 200
    assert [(each.code, each.status) for each in replies] == [(code, status)]
    assert not swift.requests("PUT")


def test_a_failed_commit_names_the_created_objects_that_are_stored(
    make_creator: Make, swift: FakeSwift
) -> None:
    def fail(request: Any) -> Response:
        while request.environ["wsgi.input"].read(65536):
            pass
        return Response(status=503)

    swift.hooks["PUT", f"/v1/{ACCOUNT}/c/lost"] = fail
    answer = call(make_creator(creating("/c/made", "/c/lost")), "GET", RUN)
    assert (answer.status, answer.error) == (503, "outputs.partial")
    assert b"not stored: /c/lost (503" in answer.data
    assert b"stored: /c/made" in answer.data
    assert stored(swift) == {"c/made": b"/c/made"}


def test_an_object_is_not_added_once_the_outputs_are_committed(
    make_creator: Make, swift: FakeSwift
) -> None:
    made = make_creator(creating())
    request = SimpleNamespace(outputs=())
    outputs = stored_outputs.StoredOutputs(made.filter._proxy, {}, request, None)  # type: ignore[arg-type]
    assert outputs.commit() is None
    asked = Request.blank(f"/v1/{ACCOUNT}/c/late", method="PUT")
    with pytest.raises(StorletError, match="the run has ended"):
        outputs.add("/c/late", DeferredPut(asked.environ))
    assert outputs.targets() == []


@pytest.mark.parametrize(
    ("may_grow", "has_ended", "pauses", "has_commit"),
    [(False, True, 0, False), (True, True, 0, False), (True, False, 0, True)],
)
def test_a_get_without_outputs_at_its_end_commits_nothing(
    make_creator: Make, may_grow: bool, has_ended: bool, pauses: int, has_commit: bool
) -> None:
    """A storlet that can create objects may create one until its end."""
    made = make_creator(creating())
    request = SimpleNamespace(outputs=())
    outputs = stored_outputs.StoredOutputs(made.filter._proxy, {}, request, None)  # type: ignore[arg-type]
    outputs.may_grow = may_grow
    result: Any = SimpleNamespace(has_ended=lambda: has_ended)
    paused: list[None] = []
    commit = outputs.commit_of(result, lambda: paused.append(None))
    assert (commit is not None, len(paused)) == (has_commit, pauses)
