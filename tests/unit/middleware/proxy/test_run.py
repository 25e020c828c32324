"""filter.py and proxy.py: GET, PUT and COPY over a small Swift and real sockets to a worker."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import eventlet
import pytest
from swift.common.swob import Response

from storlet_middleware.backend import frames
from storlet_middleware.config import parse
from storlet_middleware.errors import CodeReplaced, NodeBusy, StorletError, Unprocessable
from storlet_middleware.filter import filter_factory
from storlet_middleware.proxy.result import LocalResult
from storlet_middleware.proxy.shared import Proxy as SharedProxy
from storlet_middleware.routes import Route, route_of
from storlet_middleware.wsgi.operation import parse as parse_operation
from tests.unit.middleware.support import (
    ACCOUNT,
    BrokenInput,
    FakeSwift,
    Logger,
    Node,
    Proxy,
    WorkerRun,
    open_descriptors,
    upper,
    wait_until,
)

Make = Callable[..., Proxy]
RUN = {"X-Run-Storlet": "up.py"}


def failing(after: bytes = b"", message: str = "ValueError: no") -> Callable[[WorkerRun], None]:
    def script(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(after)
        worker.fail(message, traceback="Traceback: secret")

    return script


@pytest.fixture(autouse=True)
def nothing_is_left_open(swift: FakeSwift, node: Node) -> Iterator[None]:
    eventlet.sleep()  # the hub has a descriptor of its own
    before = open_descriptors()
    yield
    node.workers.settle()
    assert swift.unclosed() == 0
    # The code that the first run copied leaves no descriptor; sockets of the fixtures were open before.
    assert wait_until(lambda: open_descriptors() <= before)


def assert_idle(proxy: Proxy) -> None:
    assert proxy.filter._proxy._inflight == {}


# --- what is not ours


def test_a_request_that_is_not_ours_reaches_swift_as_it_is(proxy: Proxy, swift: FakeSwift) -> None:
    assert proxy.call("GET", "c/o").data == b"hello"
    # The HEAD is of the account, which may have rules; where there is memcached, Swift remembers it.
    assert [seen.method for seen in swift.seen] == ["HEAD", "GET"]


@pytest.mark.parametrize("path", ["/v1//c/o", "/v1/AUTH_test//o", "/v1", "/", "/info", "/v2/a/c/o"])
def test_a_path_that_is_no_object_is_left_to_swift(
    proxy: Proxy, swift: FakeSwift, path: str
) -> None:
    environ = {"PATH_INFO": path, "REQUEST_METHOD": "GET", "HTTP_X_RUN_STORLET": "up.py"}
    assert route_of(environ, parse_operation(environ), ("storlet", "dependency")) is Route.PASS
    assert swift.seen == []


@pytest.mark.parametrize("method", ["GET", "PUT", "COPY"])
@pytest.mark.parametrize("path", ["c/%ff", "%ff/o"])
def test_a_path_that_is_not_utf8_is_refused_as_swift_does(
    proxy: Proxy, swift: FakeSwift, path: str, method: str
) -> None:
    assert proxy.call(method, path, {**RUN, "Destination": "c/x"}).status == 412
    assert swift.seen == []


@pytest.mark.parametrize("referer", ["//storlets.bob_up.py", "HTTP://STORLETS.x/"])
def test_a_referer_cannot_pretend_to_be_a_storlet(proxy: Proxy, referer: str) -> None:
    answer = proxy.call("GET", "c/o", {"Referer": referer})
    assert (answer.status, answer.error) == (403, "access.denied")


# --- GET


def test_get_runs_the_storlet_on_plain_data(proxy: Proxy, swift: FakeSwift) -> None:
    answer = proxy.call("GET", "c/o", RUN)
    assert (answer.status, answer.data) == (200, b"HELLO")
    assert answer.headers["X-Storlet-Ran-On"] == "proxy"
    assert answer.headers["X-Storlet-Invocation"].startswith("txtest-")
    assert "auth;dur=" in answer.headers["Server-Timing"]
    assert_idle(proxy)
    assert "storlet.GET.ok.timing" in proxy.logger.stats
    assert "code=ok" in proxy.logger.text


def test_a_derived_answer_carries_nothing_that_describes_the_source(
    proxy: Proxy, swift: FakeSwift
) -> None:
    swift.put("c", "o", b"hello", X_Object_Meta_Color="red", X_Static_Large_Object="True", X_Object_Manifest="c/x",
              Content_Md5="abc", X_Object_Sysmeta_X="1", X_Object_Meta_Storlet_Main="x")  # fmt: skip
    answer = proxy.call("GET", "c/o", RUN)
    assert answer.data == b"HELLO"
    assert set(answer.headers) - {"X-Storlet-Usage", "Content-Length"} == {
        "Content-Type", "X-Object-Meta-Color", "X-Storlet-Invocation", "X-Storlet-Ran-On", "Server-Timing",
    }  # fmt: skip
    assert answer.headers["Content-Type"] == "text/plain"


@pytest.mark.parametrize("log", ["true", "false"])
def test_a_result_that_is_whole_before_its_answer_begins_has_its_length(
    make_proxy: Make, monkeypatch: pytest.MonkeyPatch, log: str
) -> None:
    """Not with a log, which is there when the answer has ended."""

    def has_ended(result: LocalResult) -> bool:
        while not original(result):
            eventlet.sleep(0.001)
        return True

    original = LocalResult.has_ended
    monkeypatch.setattr(LocalResult, "has_ended", has_ended)
    answer = make_proxy().call("GET", "c/o", {**RUN, "X-Storlet-Generate-Log": log})
    assert (answer.data, answer.headers.get("Content-Length")) == (
        b"HELLO",
        None if log == "true" else "5",
    )


def test_a_result_that_goes_on_has_no_length(make_proxy: Make) -> None:
    has_begun = threading.Event()

    def script(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(b"first")
        assert has_begun.wait(20)
        worker.write(b"second")
        worker.succeed()

    answer = make_proxy(script).start("GET", "c/o", RUN)
    assert "Content-Length" not in answer.headers
    has_begun.set()
    assert b"".join(answer.app_iter) == b"firstsecond"


def test_the_storlets_metadata_is_in_the_answer_and_wins(
    make_proxy: Make, swift: FakeSwift
) -> None:
    def script(worker: WorkerRun) -> None:
        assert worker.invoke.inputs[0].metadata == {"Color": "grün"}
        worker.begin(**{"content-type": "text/csv", "color": "blau ü"})
        worker.succeed()

    swift.put("c", "o", b"hello", X_Object_Meta_Color="grün".encode().decode("latin-1"))
    answer = make_proxy(script).call("GET", "c/o", RUN)
    assert answer.headers["Content-Type"] == "text/csv"
    assert answer.headers["X-Object-Meta-Color"] == "blau ü".encode().decode("latin-1")


def test_parameters_come_from_query_and_headers(make_proxy: Make) -> None:
    def script(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(json.dumps(dict(worker.invoke.parameters), sort_keys=True).encode())
        worker.succeed()

    answer = make_proxy(script).call(
        "GET", "c/o?a=1&b=%C3%BC", {**RUN, "X-Storlet-Parameter-1": "c:x%3Ay:z"}
    )
    assert json.loads(answer.data) == {"a": "1", "b": "ü", "c": "x:y:z"}


@pytest.mark.parametrize(
    ("asked", "data", "span"),
    [
        ("1-3", b"ELL", "1-3/5"),
        ("2-", b"LLO", "2-4/5"),
        ("-2", b"LO", "3-4/5"),
        ("0-99", b"HELLO", "0-4/5"),
    ],
)
def test_a_range_of_the_input(proxy: Proxy, asked: str, data: bytes, span: str) -> None:
    answer = proxy.call("GET", "c/o", {**RUN, "X-Storlet-Range": f"bytes={asked}"})
    assert (answer.status, answer.data, answer.headers["Storlet-Input-Range"]) == (
        200,
        data,
        f"bytes {span}",
    )
    assert "Content-Range" not in answer.headers


@pytest.mark.parametrize("asked", ["5-", "9-10", "-0", "0-1,7-8"])
def test_a_range_outside_the_object_is_416(proxy: Proxy, asked: str) -> None:
    answer = proxy.call("GET", "c/o", {**RUN, "X-Storlet-Range": f"bytes={asked}"})
    assert (answer.status, answer.error) == (416, "range.unsatisfiable")


def test_several_inputs_are_opened_together_and_all_given_to_the_storlet(
    make_proxy: Make, swift: FakeSwift
) -> None:
    def script(worker: WorkerRun) -> None:
        worker.begin()
        import os  # noqa: PLC0415

        worker.write(b"|".join(os.read(fd, 100) for fd in worker.inputs))
        worker.succeed()

    swift.put("d", "a b", b"extra")
    proxy = make_proxy(script)
    answer = proxy.call("GET", "c/o", {**RUN, "X-Storlet-Extra-Resources": "/d/a%20b"})
    assert answer.data == b"hello|extra"
    assert "why=several-inputs" in proxy.logger.text


@pytest.mark.parametrize(("user", "status", "code"), [("test:tester", 404, "input.not_found")])
def test_a_missing_extra_resource_is_an_error_before_anything_runs(
    proxy: Proxy, node: Node, user: str, status: int, code: str
) -> None:
    answer = proxy.call("GET", "c/o", {**RUN, "X-Storlet-Extra-Resources": "/c/none"}, user=user)
    assert (answer.status, answer.error) == (status, code)
    assert node.workers.runs == []


def test_what_swift_says_of_the_source_reaches_the_client(proxy: Proxy, swift: FakeSwift) -> None:
    assert proxy.call("GET", "c/none", RUN).status == 404
    etag = hashlib.md5(b"hello", usedforsecurity=False).hexdigest()
    assert proxy.call("GET", "c/o", {**RUN, "If-None-Match": etag}).status == 304
    assert proxy.call("GET", "c/o", {**RUN, "If-Match": '"x"'}).status == 412
    assert_idle(proxy)


# --- GET that fails


def test_a_storlet_that_fails_before_output_is_422_and_plain_data_never_leaves(
    make_proxy: Make, node: Node
) -> None:
    proxy = make_proxy(failing())
    answer = proxy.call("GET", "c/o", RUN)
    assert (answer.status, answer.error) == (422, "storlet.failed")
    assert b"hello" not in answer.data
    assert b"Traceback: secret" in answer.data
    assert len(node.workers.runs) == 1
    assert "secret" not in proxy.logger.text
    assert_idle(proxy)


def test_a_stranger_gets_no_traceback(make_proxy: Make, swift: FakeSwift) -> None:
    swift.containers["c"].read = swift.containers["storlet"].read = "test:bob"
    answer = make_proxy(failing()).call(
        "GET", "c/o", {**RUN, "Accept": "application/json"}, user="test:bob"
    )
    assert (answer.status, answer.error) == (422, "storlet.failed")
    assert b"secret" not in answer.data
    assert "detail" not in json.loads(answer.data)


def test_a_storlet_that_fails_after_output_breaks_the_body(make_proxy: Make) -> None:
    # More than the pipe holds: when the answer begins, the storlet has not failed yet.
    proxy = make_proxy(failing(b"x" * (1 << 20)))
    answer = proxy.call("GET", "c/o", RUN)
    assert (answer.status, set(answer.data)) == (200, set(b"x"))
    assert answer.broken is not None
    assert "X-Storlet-Usage" not in answer.headers
    assert "Content-Length" not in answer.headers
    assert_idle(proxy)
    assert "code=storlet.failed" in proxy.logger.text


@pytest.mark.parametrize(
    "error", [OSError("lost"), eventlet.Timeout(None)], ids=["exception", "timeout"]
)
def test_a_source_that_breaks_off_never_gives_a_whole_answer(
    proxy: Proxy, swift: FakeSwift, error: Any
) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"hel"
        raise error

    swift.put("c", "o", b"hello").chunks = chunks
    answer = proxy.call("GET", "c/o", RUN)
    assert (answer.status, answer.error) == (503, "backend.failed")


def test_a_source_that_ends_early_without_an_error_never_gives_a_whole_answer(
    proxy: Proxy, swift: FakeSwift
) -> None:
    swift.put("c", "o", b"hello").chunks = lambda: iter([b"hel"])
    assert proxy.call("GET", "c/o", RUN).status == 503


def test_a_client_that_leaves_cancels_the_storlet_and_releases_everything(
    make_proxy: Make, swift: FakeSwift
) -> None:
    cancelled: list[bool] = []

    def script(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(b"first")
        cancelled.append(worker.wait_for_cancel())

    proxy = make_proxy(script)
    answer = proxy.start("GET", "c/o", RUN)
    assert next(iter(answer.app_iter)) == b"first"
    answer.app_iter.close()
    assert wait_until(lambda: cancelled == [True])
    assert_idle(proxy)
    assert "code=client.gone" in proxy.logger.text


def test_an_answer_that_nobody_begins_to_read_is_released_too(proxy: Proxy) -> None:
    answer = proxy.start("GET", "c/o", RUN)
    answer.app_iter.close()
    assert_idle(proxy)


@pytest.mark.parametrize(
    ("legacy", "headers", "script", "status"),
    [
        ("false", RUN, failing(), 422),
        ("true", RUN, failing(), 503),
        ("true", {"X-Run-Storlet": "none.py"}, upper, 401),
        ("false", {"X-Run-Storlet": "none.py"}, upper, 404),
    ],
)
def test_legacy_status_gives_the_old_codes_and_the_same_error(
    make_proxy: Make, legacy: str, headers: dict[str, str], script: Any, status: int
) -> None:
    answer = make_proxy(script, legacy_status=legacy).call("GET", "c/o", headers)
    assert answer.status == status
    assert answer.error in ("storlet.failed", "storlet.not_found")


def test_legacy_status_of_a_put_is_500(make_proxy: Make) -> None:
    assert (
        make_proxy(failing(), legacy_status="true").call("PUT", "c/new", RUN, body=b"x").status
        == 500
    )


def test_too_many_at_once_is_429_with_retry_after_and_gives_its_place_back(
    make_proxy: Make,
) -> None:
    proxy = make_proxy(invocation__max_inflight_per_tenant="1")
    first = proxy.start("GET", "c/o", RUN)
    second = proxy.call("GET", "c/o", RUN)
    assert (second.status, second.error, second.headers["Retry-After"]) == (429, "tenant.busy", "1")
    assert second.line == "429 Too Many Requests"
    first.app_iter.close()
    assert proxy.call("GET", "c/o", RUN).status == 200


def test_an_answer_that_fails_to_be_closed_keeps_no_place(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def close(self: Any) -> None:
        original(self)
        raise OSError("not now")

    original = LocalResult.close
    monkeypatch.setattr(LocalResult, "close", close)
    answer = proxy.start("GET", "c/o", RUN)
    with pytest.raises(OSError, match="not now"):
        answer.app_iter.close()
    assert not proxy.filter._proxy._inflight


def test_a_process_keeps_room_for_plain_requests_and_a_little_for_other_accounts(
    swift: FakeSwift,
) -> None:
    proxy = SharedProxy(swift, parse(""), Logger(), 60, max_runs=16)
    for _ in range(14):
        proxy.acquire("a")
    with pytest.raises(NodeBusy):
        proxy.acquire("a")
    proxy.acquire("b")
    proxy.acquire("c")
    with pytest.raises(NodeBusy):
        proxy.acquire("d")
    proxy.release("a")
    proxy.acquire("d")
    with pytest.raises(NodeBusy):
        proxy.acquire("b")


@pytest.mark.parametrize(
    ("options", "room"), [({}, 512), ({"max_clients": "100"}, 50), ({"max_clients": "1"}, 1)]
)
def test_the_room_is_half_of_what_the_server_takes(
    swift: FakeSwift,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, str],
    room: int,
) -> None:
    monkeypatch.setattr("storlet_middleware.filter.get_logger", lambda *_, **__: Logger())
    (tmp_path / "storlet.conf").write_text("")
    for role in ("proxy", "object"):
        app: Any = filter_factory(
            options, role=role, storlet_conf_path=str(tmp_path / "storlet.conf")
        )(swift)
        launcher = app._proxy.launcher if role == "proxy" else app._launcher
        assert launcher._admission._room == room


def test_a_node_that_cannot_start_sandboxes_is_503_with_retry_after(
    proxy: Proxy, node: Node
) -> None:
    from storlet_daemon.protocol import messages  # noqa: PLC0415

    node.answer = lambda _: messages.NodeRefused("node.busy", "full", 7)
    answer = proxy.call("GET", "c/o", RUN)
    assert (answer.status, answer.error, answer.headers["Retry-After"]) == (503, "node.busy", "7")


def test_an_error_is_json_for_who_asks_for_it(make_proxy: Make) -> None:
    answer = make_proxy(failing()).call("GET", "c/o", {**RUN, "Accept": "application/json"})
    said = json.loads(answer.data)
    assert (said["code"], said["message"]) == ("storlet.failed", "ValueError: no")
    assert "secret" in said["detail"]
    assert answer.headers["Content-Type"].startswith("application/json")


def test_our_own_defect_is_500_and_says_nothing_of_itself_to_the_client(
    proxy: Proxy, swift: FakeSwift
) -> None:
    def boom(request: Any) -> Any:
        raise RuntimeError("inner secret")

    swift.hooks["HEAD", f"/v1/{ACCOUNT}/storlet/up.py"] = boom
    answer = proxy.call("GET", "c/o", RUN)
    assert (answer.status, answer.error) == (500, "internal")
    assert b"secret" not in answer.data
    assert "inner secret" in proxy.logger.text


# --- requests that are refused


@pytest.mark.parametrize(
    ("headers", "part"),
    [
        ({"X-Storlet-Rang": "bytes=0-1"}, "did you mean X-Storlet-Range?"),
        ({"X-Storlet-Dependency": "x"}, "X-Storlet-Dependency: unknown header"),
        ({"Range": "bytes=0-1"}, "range header is not supported"),
        ({"X-Storlet-Run-On-Proxy": "yes"}, "should be empty"),
        ({"X-Storlet-Parameter-1": "novalue"}, "want key:value"),
        ({"X-Storlet-Range": "bytes=3-1"}, "ends before it begins"),
        ({"X-Storlet-Extra-Resources": "c/o"}, "must be a csv"),
        ({"X-Storlet-Generate-Log": "maybe"}, "want true or false"),
    ],
)
def test_a_malformed_request_is_400_and_names_the_fault(
    proxy: Proxy, headers: dict[str, str], part: str
) -> None:
    answer = proxy.call("GET", "c/o", {**RUN, **headers})
    assert (answer.status, answer.error) == (400, "bad_request")
    assert part in answer.data.decode()


@pytest.mark.parametrize("query", ["multipart-manifest=put", "version-id=1"])
def test_a_put_that_asks_to_store_something_else_than_the_body_is_refused_by_name(
    proxy: Proxy, swift: FakeSwift, query: str
) -> None:
    answer = proxy.call("PUT", f"c/new?{query}", RUN, body=b"x")
    assert (answer.status, answer.error) == (400, "bad_request")
    assert query.partition("=")[0] in answer.data.decode()
    assert "new" not in swift.containers["c"].objects


def test_all_faults_of_a_request_come_in_one_answer(proxy: Proxy) -> None:
    headers = {
        **RUN,
        "X-Storlet-Rang": "1",
        "Range": "x",
        "X-Storlet-Parameter-2": "x",
        "X-Run-Storlet": "a/b",
    }
    said = proxy.call("GET", "c/o", headers).data.decode()
    for part in ("X-Storlet-Rang:", "range header", "X-Storlet-Parameter-2", "X-Run-Storlet"):
        assert part in said


def test_storlet_headers_without_a_storlet_are_refused_by_name(proxy: Proxy) -> None:
    answer = proxy.call("GET", "c/o", {"X-Storlet-Range": "bytes=0-1", "X-Storlet-Foo": "1"})
    assert answer.status == 400
    assert "X-Storlet-Range: means nothing without X-Run-Storlet" in answer.data.decode()


def test_headers_that_only_look_like_those_of_storlets_are_not_ours(proxy: Proxy) -> None:
    assert proxy.call("GET", "c/o", {"X-Http-X-Storlet-Range": "bytes=0-1"}).status == 200


@pytest.mark.parametrize(
    ("method", "status"), [("HEAD", 405), ("DELETE", 405), ("POST", 401), ("OPTIONS", 405)]
)
def test_other_methods_cannot_run_a_storlet(proxy: Proxy, method: str, status: int) -> None:
    assert proxy.call(method, "c/o", RUN).status == status


def test_an_account_that_is_not_enabled_is_400(proxy: Proxy, swift: FakeSwift) -> None:
    swift.is_enabled = False
    answer = proxy.call("GET", "c/o", RUN)
    assert (answer.status, answer.data) == (400, b"Account disabled for storlets\n")


@pytest.mark.parametrize(("user", "status"), [("", 401), ("test:bob", 403)])
def test_who_may_not_read_the_storlet_cannot_run_it(
    proxy: Proxy, swift: FakeSwift, node: Node, user: str, status: int
) -> None:
    swift.containers["c"].read = "test:bob"
    answer = proxy.call("GET", "c/o", RUN, user=user)
    assert (answer.status, answer.error) == (status, "access.denied")
    assert node.workers.runs == []


def test_who_may_not_read_the_object_cannot_run_a_storlet_on_it(
    proxy: Proxy, swift: FakeSwift, node: Node
) -> None:
    swift.containers["storlet"].read = "test:bob"
    answer = proxy.call("GET", "c/o", RUN, user="test:bob")
    assert (answer.status, answer.error) == (403, "access.denied")
    assert node.workers.runs == []


# --- what an object node answers


def framed(swift: FakeSwift, *answers: list[bytes]) -> list[Any]:
    """The source's GET gives these framed bodies, one after the other, then plain data."""
    left, given = list(answers), []

    def node(request: Any) -> Any:
        if "X-Backend-Storlet-Invocation" not in request.headers or not left:
            return None
        given.append(request)
        headers = {
            "X-Backend-Storlet-Run": "1",
            "Content-Type": "text/plain",
            "X-Object-Meta-A": "b",
        }
        return Response(status=200, request=request, headers=headers, app_iter=iter(left.pop(0)))

    swift.hooks["GET", f"/v1/{ACCOUNT}/c/o"] = node
    return given


def frame(*data: bytes, done: dict[str, Any] | None = None) -> bytes:
    encoder = frames.Encoder(65536)
    start = {"metadata": {"m": "1"}, "size": 5, "ranges": [], "sandbox_seconds": 0.0}
    body = (
        encoder.pad()
        + encoder.message(frames.START, start)
        + b"".join(encoder.data(piece) for piece in data)
    )
    return body + (encoder.message(frames.DONE, done) if done else b"")


OK = {"outcome": "ok", "bytes_in": 5}


@pytest.mark.parametrize(
    "code", ["sandbox.unavailable", "code.missing", "node.busy", "backend.failed", "internal"]
)
@pytest.mark.parametrize("method", ["GET", "COPY"])
def test_a_node_that_cannot_run_anything_is_replaced_by_the_proxy(
    proxy: Proxy, swift: FakeSwift, code: str, method: str
) -> None:
    encoder = frames.Encoder(65536)
    failed = encoder.message(
        frames.DONE, {"outcome": "error", "code": code, "message": "down", "has_run": False}
    )
    given = framed(swift, [failed])
    answer = proxy.call(
        method, "c/o", {**RUN, **({"Destination": "c/copy"} if method == "COPY" else {})}
    )
    assert (answer.status, answer.headers["X-Storlet-Ran-On"]) == (
        200 if method == "GET" else 201,
        "proxy",
    )
    assert (
        answer.data if method == "GET" else swift.containers["c"].objects["copy"].body
    ) == b"HELLO"
    assert len(given) == 1
    assert "why=node-unable" in proxy.logger.text
    assert_idle(proxy)


@pytest.mark.parametrize(
    ("done", "status", "error"),
    [
        ({"code": "sandbox.unavailable", "has_run": True}, 503, "sandbox.unavailable"),
        ({"code": "tenant.busy", "has_run": False}, 429, "tenant.busy"),
        ({"code": "storlet.load", "has_run": False}, 422, "storlet.load"),
        ({"code": "storlet.failed", "has_run": True}, 422, "storlet.failed"),
    ],
)
def test_what_has_run_or_is_the_tenants_fault_is_not_repeated(
    proxy: Proxy, swift: FakeSwift, done: dict[str, Any], status: int, error: str
) -> None:
    encoder = frames.Encoder(65536)
    framed(swift, [encoder.message(frames.DONE, {"outcome": "error", "message": "no", **done})])
    answer = proxy.call("GET", "c/o", RUN)
    assert (answer.status, answer.error) == (status, error)
    assert_idle(proxy)


def test_frames_of_a_version_that_this_proxy_cannot_decode_are_not_read(
    proxy: Proxy, swift: FakeSwift
) -> None:
    def node(request: Any) -> Any:
        if "X-Backend-Storlet-Invocation" not in request.headers:
            return None
        return Response(
            status=200,
            request=request,
            headers={"X-Backend-Storlet-Run": "2"},
            body=b"of version 2",
        )

    swift.hooks["GET", f"/v1/{ACCOUNT}/c/o"] = node
    answer = proxy.call("GET", "c/o", RUN)
    assert (answer.status, answer.data, answer.headers["X-Storlet-Ran-On"]) == (
        200,
        b"HELLO",
        "proxy",
    )
    assert "why=node-version" in proxy.logger.text


def test_a_framed_answer_is_unpacked(proxy: Proxy, swift: FakeSwift, node: Node) -> None:
    framed(swift, [frame(b"HEL", b"LO", done=OK)])
    answer = proxy.call("GET", "c/o", RUN)
    assert (answer.status, answer.data, answer.headers["X-Storlet-Ran-On"]) == (
        200,
        b"HELLO",
        "object",
    )
    assert answer.headers["X-Object-Meta-M"] == "1"
    assert "X-Backend-Storlet-Run" not in answer.headers
    assert node.workers.runs == []


def test_an_end_that_came_with_the_first_bytes_tells_what_was_used(
    proxy: Proxy, swift: FakeSwift
) -> None:
    done = {**OK, "usage": {"cpu_seconds": 0.5, "peak_memory_bytes": 7}, "has_run": True}
    framed(swift, [frame(b"HEL", b"LO", done=done)], [frame(b"HELLO"), done_frame(done)])
    answer = proxy.call("GET", "c/o", RUN)
    assert answer.headers["X-Storlet-Usage"] == "cpu=0.500000;peak-memory=7;in=5;out=5"
    answer = proxy.call("GET", "c/o", RUN)
    assert (answer.data, answer.broken, "X-Storlet-Usage" in answer.headers) == (
        b"HELLO",
        None,
        False,
    )
    assert proxy.logger.text.count("in=5 out=5 cpu=0.500000 peak-memory=7") == 2


def test_a_failure_that_came_with_the_first_bytes_is_an_error_status(
    proxy: Proxy, swift: FakeSwift
) -> None:
    done = {"outcome": "error", **Unprocessable("no").to_message(), "bytes_in": 5, "has_run": True}
    framed(
        swift,
        [frame(b"HEL", done=done)],
        [frame(b"HEL"), frames.Encoder(9).data(b"LO") + done_frame(done)],
    )
    answer = proxy.call("GET", "c/o", RUN)
    assert (answer.status, answer.error, answer.headers["X-Storlet-Usage"]) == (
        422,
        "storlet.failed",
        "in=5;out=3",
    )
    answer = proxy.call("GET", "c/o", RUN)
    assert (answer.status, answer.data, answer.broken is not None) == (200, b"HELLO", True)


def done_frame(message: dict[str, Any]) -> bytes:
    return frames.Encoder(65536).message(frames.DONE, message)


def test_an_answer_that_breaks_before_the_first_byte_is_run_again(
    proxy: Proxy, swift: FakeSwift
) -> None:
    given = framed(swift, [frame()], [b"\x09garbage"], [frame(b"HELLO", done=OK)])
    assert proxy.call("GET", "c/o", RUN).data == b"HELLO"
    assert len(given) == 3


def test_it_is_run_again_at_most_twice(proxy: Proxy, swift: FakeSwift) -> None:
    given = framed(swift, *[[frame()]] * 5)
    answer = proxy.call("GET", "c/o", RUN)
    assert (answer.status, answer.error, len(given)) == (503, "backend.failed", 3)


def test_an_answer_that_breaks_after_the_first_byte_is_never_run_again(
    proxy: Proxy, swift: FakeSwift
) -> None:
    given = framed(swift, [frame(b"HEL")], [frame(b"HELLO", done=OK)])
    answer = proxy.call("GET", "c/o", RUN)
    assert (answer.data, answer.broken is not None, len(given)) == (b"HEL", True, 1)


def failed(error: StorletError) -> bytes:
    return frames.Encoder(65536).message(frames.DONE, {"outcome": "error", **error.to_message()})


def test_a_storlet_that_failed_at_the_object_node_is_never_run_again(
    proxy: Proxy, swift: FakeSwift
) -> None:
    given = framed(swift, [failed(Unprocessable("no"))], [frame(b"x", done=OK)])
    assert (proxy.call("GET", "c/o", RUN).status, len(given)) == (422, 1)


def test_a_storlet_whose_code_was_replaced_meanwhile_is_resolved_again(
    proxy: Proxy, swift: FakeSwift
) -> None:
    given = framed(swift, [failed(CodeReplaced("gone"))], [frame(b"HELLO", done=OK)])
    assert proxy.call("GET", "c/o", RUN).data == b"HELLO"
    assert len(given) == 2


def test_code_that_is_replaced_again_and_again_is_503(proxy: Proxy, swift: FakeSwift) -> None:
    given = framed(swift, *[[failed(CodeReplaced("gone"))]] * 20)
    answer = proxy.call("GET", "c/o", RUN)
    assert (answer.status, answer.error, answer.headers["Retry-After"]) == (
        503,
        "code.replaced",
        "5",
    )
    assert len(given) < 10


@pytest.mark.parametrize("headers", [{}, {"X-Storlet-Range": "bytes=0-1"}])
def test_a_rerun_that_gets_plain_data_runs_on_that_and_on_nothing_of_the_first_try(
    proxy: Proxy, swift: FakeSwift, headers: dict[str, str]
) -> None:
    framed(swift, [frame()])
    answer = proxy.call("GET", "c/o", {**RUN, **headers})
    assert answer.data == (b"HE" if headers else b"HELLO")
    assert answer.headers["X-Storlet-Ran-On"] == "proxy"


def test_run_on_proxy_sends_no_description_to_object_nodes(proxy: Proxy, swift: FakeSwift) -> None:
    given = framed(swift, [frame(b"x", done=OK)])
    answer = proxy.call("GET", "c/o", {**RUN, "X-Storlet-Run-On-Proxy": ""})
    assert (answer.data, given) == (b"HELLO", [])


# --- PUT and COPY


def test_put_stores_the_result_under_what_the_client_and_the_storlet_said(
    make_proxy: Make, swift: FakeSwift
) -> None:
    def script(worker: WorkerRun) -> None:
        worker.begin(**{"Content-Type": "text/csv", "rows": "2"})
        worker.write(worker.read().upper())
        worker.succeed()

    body = b"some text"
    headers = {
        **RUN,
        "X-Object-Meta-Color": "red",
        "X-Object-Meta-Storlet-Main": "x",
        "Etag": hashlib.md5(body, usedforsecurity=False).hexdigest(),
        "Content-Type": "text/plain",
    }
    answer = make_proxy(script).call("PUT", "c/new", headers, body=body)
    assert answer.status == 201
    stored = swift.containers["c"].objects["new"]
    assert stored.body == b"SOME TEXT"
    assert stored.headers == {
        "Content-Type": "text/csv",
        "X-Object-Meta-Color": "red",
        "X-Object-Meta-Rows": "2",
    }
    sent = swift.requests("PUT", "c/new")[0]
    assert not [
        key for key in sent.headers if key.startswith("X-Storlet") or key == "X-Run-Storlet"
    ]


@pytest.mark.parametrize("after", [b"", b"half"])
def test_a_put_whose_storlet_fails_stores_nothing(
    make_proxy: Make, swift: FakeSwift, after: bytes
) -> None:
    proxy = make_proxy(failing(after))
    answer = proxy.call("PUT", "c/o", RUN, body=b"new")
    assert (answer.status, answer.error) == (422, "storlet.failed")
    assert swift.containers["c"].objects["o"].body == b"hello"
    assert_idle(proxy)


def test_a_put_whose_worker_ends_without_done_stores_nothing(
    make_proxy: Make, swift: FakeSwift
) -> None:
    def script(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(worker.read())

    assert make_proxy(script).call("PUT", "c/o", RUN, body=b"new").status == 503
    assert swift.containers["c"].objects["o"].body == b"hello"


@pytest.mark.parametrize(
    ("headers", "body", "code"),
    [
        ({"Content-Length": "9"}, b"short", "input.incomplete"),
        ({"Etag": "0" * 32}, b"body", "input.etag_mismatch"),
        ({}, BrokenInput(b"half"), "input.incomplete"),
    ],
)
def test_a_body_that_is_not_what_the_client_announced_stores_nothing(
    proxy: Proxy, swift: FakeSwift, headers: dict[str, str], body: Any, code: str
) -> None:
    environ = (
        {"CONTENT_LENGTH": "9"}
        if "Content-Length" in headers
        else {"HTTP_TRANSFER_ENCODING": "chunked"}
    )
    import io  # noqa: PLC0415

    source = io.BytesIO(body) if isinstance(body, bytes) else body
    answer = proxy.call("PUT", "c/o", {**RUN, **headers}, body=source, environ=environ)
    assert answer.error == code
    assert answer.status in (422, 499)
    assert swift.containers["c"].objects["o"].body == b"hello"


@pytest.mark.parametrize("encoding", ["gzip", "gzip, chunked"])
def test_a_body_whose_end_nobody_knows_is_refused_as_swift_does(
    proxy: Proxy, swift: FakeSwift, encoding: str
) -> None:
    answer = proxy.call("PUT", "c/new", {**RUN, "Transfer-Encoding": encoding})
    assert (answer.status, answer.error) == (400, "bad_request")
    assert proxy.call("PUT", "c/new", RUN).status == 411
    assert not swift.requests("PUT", "c/new")


def test_swifts_answer_to_the_put_reaches_the_client(proxy: Proxy, swift: FakeSwift) -> None:
    swift.hooks["PUT", f"/v1/{ACCOUNT}/c/o"] = lambda request: Response(status=413, request=request)
    assert proxy.call("PUT", "c/o", RUN, body=b"x").status == 413
    assert "code=refused" in proxy.logger.text


def test_a_stall_that_swift_ends_is_the_storlets_and_stores_nothing(
    make_proxy: Make, swift: FakeSwift
) -> None:
    from swift.common.exceptions import ChunkReadTimeout  # noqa: PLC0415

    def script(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(b"x")
        worker.wait_for_cancel()

    def put(request: Any) -> Any:
        try:
            with ChunkReadTimeout(0.2):
                while request.environ["wsgi.input"].read(100):
                    pass
        except ChunkReadTimeout:
            return Response(status=408, request=request)
        return Response(status=201, request=request)

    swift.hooks["PUT", f"/v1/{ACCOUNT}/c/o"] = put
    answer = make_proxy(script).call("PUT", "c/o", RUN, body=b"x")
    assert (answer.status, answer.error) == (422, "storlet.timeout.idle")


@pytest.mark.parametrize(
    ("container", "user", "status"), [("none", "test:tester", 404), ("c", "test:bob", 403)]
)
def test_a_target_that_cannot_be_written_is_refused_before_the_storlet_runs(
    proxy: Proxy, swift: FakeSwift, node: Node, container: str, user: str, status: int
) -> None:
    swift.containers["storlet"].read = "test:bob"
    assert proxy.call("PUT", f"{container}/new", RUN, body=b"x", user=user).status == status
    assert node.workers.runs == []


def test_a_storlet_cannot_write_storlets(proxy: Proxy) -> None:
    for container in ("storlet", "dependency"):
        assert proxy.call("PUT", f"{container}/x.py", RUN, body=b"x").status == 400


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("COPY", "c/o", {"Destination": "/c/new%20x"}),
        ("PUT", "c/new%20x", {"X-Copy-From": "c/o", "Content-Length": "0"}),
    ],
)
def test_a_copy_stores_the_result_and_says_where_it_is_from(
    proxy: Proxy, swift: FakeSwift, method: str, path: str, headers: dict[str, str]
) -> None:
    swift.put("c", "o", b"hello", X_Object_Meta_Color="red", Content_Type="text/x")
    answer = proxy.call(method, path, {**RUN, **headers})
    assert answer.status == 201
    stored = swift.containers["c"].objects["new x"]
    assert (stored.body, stored.headers["X-Object-Meta-Color"]) == (b"HELLO", "red")
    assert stored.headers["Content-Type"] == "text/x"
    assert answer.headers["X-Storlet-Generated-From"] == "c/o"
    assert answer.headers["X-Storlet-Generated-From-Account"] == ACCOUNT
    assert answer.headers["X-Storlet-Generated-From-Last-Modified"].startswith("Sat, 01 Jan 2022")


def test_conditions_of_a_copy_are_the_sources_and_not_the_targets(
    proxy: Proxy, swift: FakeSwift
) -> None:
    headers = {**RUN, "Destination": "c/new", "If-None-Match": '"other"'}
    assert proxy.call("COPY", "c/o", headers).status == 201
    assert "If-None-Match" not in swift.requests("PUT", "c/new")[0].headers


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 412),
        ({"Destination": "nocontainer"}, 412),
        ({"Destination": "/c/x", "Destination-Account": "AUTH_b"}, 400),
        ({"Destination": "/c/x", "X-Fresh-Metadata": "true"}, 400),
    ],
)
def test_copies_that_are_not_supported_are_refused(
    proxy: Proxy, headers: dict[str, str], status: int
) -> None:
    assert proxy.call("COPY", "c/o", {**RUN, **headers}).status == status


# --- the log


@pytest.mark.parametrize("fails", [False, True])
def test_the_log_becomes_an_object_whether_the_storlet_succeeds_or_not(
    make_proxy: Make, swift: FakeSwift, fails: bool
) -> None:
    import os  # noqa: PLC0415

    def script(worker: WorkerRun) -> None:
        os.write(worker.log, b"line 1\n")
        worker.begin()
        worker.read()
        worker.fail() if fails else worker.succeed()

    proxy = make_proxy(script)
    answer = proxy.call("GET", "c/o", {**RUN, "X-Storlet-Generate-Log": "True"})
    name = f"up.py/{answer.headers['X-Storlet-Invocation']}.log"
    log = swift.containers["storletlog"].objects[name].body
    assert log.startswith(b"line 1\n")
    used = "in=5;out=0" if fails else "cpu=0.250000;peak-memory=4096;in=5;out=0"
    assert log.decode().endswith(f"outcome: {'storlet.failed' if fails else 'ok'}\nusage: {used}\n")


def test_a_client_cannot_make_folders_of_its_logs_name(proxy: Proxy, swift: FakeSwift) -> None:
    environ = {"swift.trans_id": "tx1-../../x"}
    answer = proxy.call("GET", "c/o", {**RUN, "X-Storlet-Generate-Log": "true"}, environ=environ)
    assert answer.headers["X-Storlet-Invocation"].startswith("tx1-.._.._x-")


def test_a_log_that_cannot_be_kept_fails_nothing(proxy: Proxy, swift: FakeSwift) -> None:
    def boom(request: Any) -> Any:
        raise RuntimeError("no")

    swift.hooks["PUT", f"/v1/{ACCOUNT}/storletlog"] = boom
    answer = proxy.call("GET", "c/o", {**RUN, "X-Storlet-Generate-Log": "True"})
    assert (answer.status, answer.data, answer.broken) == (200, b"HELLO", None)


def test_names_that_need_quoting_arrive_as_they_are(proxy: Proxy, swift: FakeSwift) -> None:
    path = "größe c/a b%?ü".encode().decode("latin-1")
    container, name = path.split("/")
    swift.put(container, name, b"hello")
    from swift.common.swob import wsgi_quote  # noqa: PLC0415

    assert proxy.call("GET", wsgi_quote(path), RUN).data == b"HELLO"
    target = f"/{container}/" + "neu ü".encode().decode("latin-1")
    assert (
        proxy.call("COPY", wsgi_quote(path), {**RUN, "Destination": wsgi_quote(target)}).status
        == 201
    )
    assert swift.containers[container].objects["neu ü".encode().decode("latin-1")].body == b"HELLO"
