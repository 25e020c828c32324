"""Requests of a storlet to the store: they enter at the filter as the caller's own."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from swift.common.bufferedhttp import BufferedHTTPConnection
from swift.common.swob import Request, Response

from storlet_daemon.protocol import messages
from storlet_middleware.errors import BackendFailed, BadRequest, InternalError, Unprocessable
from storlet_middleware.services.creations import Creations
from storlet_middleware.services.nesting import Nesting, nesting_of
from storlet_middleware.services.operations import Operations
from storlet_middleware.services.requests import StoreRefusal, StoreRequests
from storlet_middleware.wsgi import deferred_put
from storlet_middleware.wsgi.storlet_request import ON_DATA
from storlet_middleware.wsgi.swift_paths import AccountPath
from tests.unit.middleware import support
from tests.unit.middleware.services.asking import NewObjects, NoMemory
from tests.unit.middleware.support import FakeSwift

CLIENT = {
    "REMOTE_USER": "test:tester",
    "HTTP_X_RUN_STORLET": "up.py",
    "SERVER_NAME": "localhost",
    "SERVER_PORT": "80",
    "swift.trans_id": "tx1",
    "wsgi.url_scheme": "http",
}
INSIDE = Nesting().inside(["up.py"])


def made(answer: Callable[[dict[str, Any]], Any]) -> StoreRequests:
    def front(environ: dict[str, Any], start_response: Any) -> Any:
        return answer(environ)(environ, start_response)

    return StoreRequests(front, None, CLIENT, AccountPath("v1", "AUTH_ä"), INSIDE)


def test_a_request_names_the_account_of_the_run_and_its_caller() -> None:
    seen: list[dict[str, Any]] = []

    def answer(environ: dict[str, Any]) -> Any:
        seen.append(environ)
        return Response(body=b"hello")

    got = made(answer).send("GET", "/c/ö", {"If-Match": "e"}, {"a": "b c"})
    assert b"".join(got.app_iter) == b"hello"
    (environ,) = seen
    assert environ["PATH_INFO"] == "/v1/AUTH_ä/c/ö".encode().decode("latin-1")
    assert (environ["REMOTE_USER"], environ["REQUEST_METHOD"]) == ("test:tester", "GET")
    assert (environ["HTTP_IF_MATCH"], environ["QUERY_STRING"]) == ("e", "a=b+c")
    assert "HTTP_X_RUN_STORLET" not in environ
    assert nesting_of(environ) == INSIDE


@pytest.mark.parametrize("path", ["", "/c/o"])
def test_data_is_the_body_of_a_put_of_the_account_or_of_an_object(path: str) -> None:
    seen: list[dict[str, Any]] = []

    def answer(environ: dict[str, Any]) -> Any:
        seen.append(environ)
        return Response(body=b"hello")

    data = object()
    made(answer).send_data(path, {"X-Run-Storlet": "up.py"}, data).close()
    (environ,) = seen
    assert environ["PATH_INFO"] == f"/v1/AUTH_ä{path}".encode().decode("latin-1")
    assert (environ["REQUEST_METHOD"], environ["wsgi.input"]) == ("PUT", data)
    assert environ["HTTP_TRANSFER_ENCODING"] == "chunked"
    assert (ON_DATA in environ) == (not path)
    assert nesting_of(environ) == INSIDE


def test_a_refusal_of_the_filter_has_its_code_and_text_and_the_rule() -> None:
    body = json.dumps({"code": "access.rule", "message": "not for you"}).encode()
    headers = {"X-Storlet-Error": "access.rule", "X-Storlet-Rule": "hide"}
    with pytest.raises(StoreRefusal) as caught:
        made(lambda _: Response(status=403, body=body, headers=headers)).send("GET", "/c/o")
    refusal = caught.value
    assert (refusal.code, refusal.status) == ("access.rule", 403)
    assert str(refusal) == "/c/o: not for you (rule hide)"


def test_a_status_of_openstack_storlets_is_not_believed() -> None:
    headers = {"X-Storlet-Error": "storlet.failed"}
    with pytest.raises(StoreRefusal) as caught:
        made(lambda _: Response(status=503, headers=headers)).send("GET", "/c/o")
    assert (caught.value.code, caught.value.status) == ("storlet.failed", 422)


@pytest.mark.parametrize(
    ("status", "code"),
    [(404, "input.not_found"), (403, "access.denied"), (413, "swift.refused"), (503, "backend.failed"),
     (304, "swift.refused")],
)  # fmt: skip
def test_an_answer_of_swift_has_the_code_of_its_status(status: int, code: str) -> None:
    with pytest.raises(StoreRefusal) as caught:
        made(lambda _: Response(status=status, body=b"<html>")).send("GET", "/c/o")
    assert (caught.value.code, caught.value.status) == (code, status)
    assert "html" not in str(caught.value)


def test_a_body_that_is_short_is_a_failure() -> None:
    def answer(environ: dict[str, Any]) -> Any:
        return Response(headers={"Content-Length": "10"}, app_iter=[b"hello"])

    requests = made(answer)
    body = requests.body(requests.send("GET", "/c/o"))
    with pytest.raises(BackendFailed, match="5 of 10 bytes"):
        list(body)
    body.close()


def test_the_error_of_a_storlet_that_fails_late_is_that_of_its_result() -> None:
    def failing() -> Iterator[bytes]:
        yield b"hel"
        raise Unprocessable("raised", code="storlet.failed")

    requests = made(lambda _: Response(headers={"X-Storlet-Ran-On": "proxy"}, app_iter=failing()))
    with pytest.raises(Unprocessable, match="raised"):
        list(requests.body(requests.send("GET", "/c/o")))


def test_the_end_of_a_rules_result_is_that_of_its_iteration() -> None:
    headers = {"X-Storlet-Ran-On": "proxy"}
    requests = made(lambda _: Response(headers=headers, app_iter=[b"hel", b"lo"]))
    assert list(requests.body(requests.send("GET", "/c/o"))) == [b"hel", b"lo"]


# --- PUTs that are sent later ---------------------------------------------------------------------


def deferring(swift: FakeSwift, keeps: Any) -> StoreRequests:
    """Requests whose front passes a deferred PUT to ``keeps``."""

    def front(environ: dict[str, Any], start_response: Any) -> Any:
        deferred = deferred_put.taken_from(environ)
        assert deferred is not None
        return keeps(deferred, environ, start_response)

    client = {**CLIENT, "swift.authorize": support.authorize, "REMOTE_USER": support.OWNER}
    return StoreRequests(front, swift, client, AccountPath("v1", support.ACCOUNT), INSIDE)


def kept(deferred: Any, environ: dict[str, Any], start_response: Any) -> Any:
    return deferred.keep(Response(status=201), start_response)


def test_a_put_is_decided_before_it_is_sent(swift: FakeSwift) -> None:
    deferred = deferring(swift, kept).defer_put("/c/\u00f6", {"X-Delete-After": "5"}, {})
    environ = deferred.environ
    assert environ["PATH_INFO"] == f"/v1/{support.ACCOUNT}/c/\u00f6".encode().decode("latin-1")
    assert (environ["REQUEST_METHOD"], environ["HTTP_X_DELETE_AFTER"]) == ("PUT", "5")
    # Its length is not known, for rules and quotas.
    assert environ["HTTP_TRANSFER_ENCODING"] == "chunked"
    assert "CONTENT_LENGTH" not in environ
    assert not swift.requests("PUT")


def test_a_put_that_swift_or_a_rule_refuses_is_not_deferred(swift: FakeSwift) -> None:
    with pytest.raises(StoreRefusal, match="/none/o: there is no container none") as caught:
        deferring(swift, kept).defer_put("/none/o", {}, {})
    assert (caught.value.code, caught.value.status) == ("target.not_found", 404)

    def refused(deferred: Any, environ: dict[str, Any], start_response: Any) -> Any:
        return Response(status=403)(environ, start_response)

    with pytest.raises(StoreRefusal) as caught:
        deferring(swift, refused).defer_put("/c/o", {}, {})
    assert (caught.value.code, caught.value.status) == ("access.denied", 403)


def test_a_put_that_was_answered_is_a_defect(swift: FakeSwift) -> None:
    def stored(deferred: Any, environ: dict[str, Any], start_response: Any) -> Any:
        return Response(status=201)(environ, start_response)

    with pytest.raises(InternalError, match="/c/o"):
        deferring(swift, stored).defer_put("/c/o", {}, {})


def test_a_put_with_more_of_the_clients_headers_than_a_node_takes_is_refused(
    swift: FakeSwift,
) -> None:
    """Swift's proxy sends them on, and the node would answer before the body has come."""
    client = {**CLIENT, **{f"HTTP_X_UNUSED_{number}": "x" for number in range(180)}}
    sent: list[str] = []

    def front(environ: dict[str, Any], start_response: Any) -> Any:
        sent.append(environ["REQUEST_METHOD"])
        return Response(status=201)(environ, start_response)

    requests = StoreRequests(front, swift, client, AccountPath("v1", support.ACCOUNT), INSIDE)
    with pytest.raises(StoreRefusal, match=r"/c/o: .*too many headers") as caught:
        requests.defer_put("/c/o", {}, {})
    assert (caught.value.code, caught.value.status) == ("bad_request", 400)
    with pytest.raises(StoreRefusal, match=r"/c/o: .*too many headers"):
        requests.send("COPY", "/c/o", {"Destination": "/c/copy"})
    assert not sent


# --- what a hostile worker may send ---------------------------------------------------------------


@pytest.mark.parametrize(
    "request_",
    [
        messages.ListContainer(1, "c", prefix="\x01" * 50_000),
        messages.ListContainer(1, "c", marker="m" * 4000, end_marker="n" * 4000),
        messages.OpenObject(1, "/c/o", etag="e" * 50_000),
    ],
    ids=["prefix", "markers", "etag"],
)
def test_swift_gets_no_line_that_its_servers_refuse(request_: messages.ServiceRequest) -> None:
    """They close the connection, and the proxy server may blame them for it."""

    def front(_environ: dict[str, Any], _start: Any) -> Any:
        raise AssertionError("nothing is sent")

    requests = StoreRequests(front, None, CLIENT, AccountPath("v1", "AUTH_a"), INSIDE)
    creations = Creations(requests, frozenset(), NewObjects(), 9)
    with pytest.raises(BadRequest):
        Operations(requests, frozenset(), creations, NoMemory()).perform(request_)


#: Characters near special cases of HTTP, Swift and UTF-8.
ODD = st.text(st.sampled_from('aZ0/\r\n \t:;,"%\x01\x7f\x85\xa0\u00e9\u6f22\u2028'), max_size=8)
SOME = ODD.filter(bool)
PATHS = SOME.map("/c/".__add__)
TEXTS = st.dictionaries(SOME, ODD, max_size=3)
RECORDS = st.one_of(
    st.fixed_dictionaries({"type": st.just("open"), "path": PATHS, "etag": SOME}),
    st.fixed_dictionaries({"type": st.just("stat"), "path": PATHS}),
    st.fixed_dictionaries({"type": st.just("list"), "container": SOME, "prefix": ODD, "marker": ODD}),
    st.fixed_dictionaries({"type": st.just("set_metadata"), "path": PATHS, "changes": TEXTS}),
    st.fixed_dictionaries({"type": st.just("copy"), "source": PATHS, "target": PATHS}),
    st.fixed_dictionaries({"type": st.just("delete"), "path": PATHS}),
    st.fixed_dictionaries(
        {"type": st.just("call"), "storlet": SOME, "path": PATHS, "parameters": TEXTS, "output": PATHS}
    ),
    st.fixed_dictionaries(
        {"type": st.just("create"), "path": PATHS, "content_type": ODD, "metadata": TEXTS}
    ),
)  # fmt: skip


def require_sendable(environ: dict[str, Any]) -> None:
    """Swift's HTTP client raises if it cannot send a header; the proxy blames the node for it."""
    connection = BufferedHTTPConnection("localhost")
    connection.putrequest("GET", "/")
    for name, value in Request(environ).headers.items():
        connection.putheader(name, value)


@given(record=RECORDS)
@example(record={"type": "open", "path": "/c/o", "etag": "a\nb"})
@example(record={"type": "open", "path": "/c/o", "etag": "\u6f22"})
@example(record={"type": "create", "path": "/c/o", "metadata": {"a": "b\r\nc"}})
@example(record={"type": "create", "path": "/c/o", "metadata": {"a\r": "b"}})
def test_swift_can_send_the_headers_of_all_that_a_storlet_requests(record: dict[str, Any]) -> None:
    sent: list[str] = []

    def front(environ: dict[str, Any], start_response: Any) -> Any:
        require_sendable(environ)
        sent.append(environ["REQUEST_METHOD"])
        is_found = environ["REQUEST_METHOD"] == "HEAD"
        return Response(status=200 if is_found else 404)(environ, start_response)

    requests = StoreRequests(front, None, CLIENT, AccountPath("v1", "AUTH_a"), INSIDE)
    creations = Creations(requests, frozenset(), NewObjects(), 9)
    request = messages.parse({"id": 1, **record}, messages.SERVICE_REQUESTS)
    with contextlib.suppress(StoreRefusal, BadRequest):
        Operations(requests, frozenset(), creations, NoMemory()).perform(request)
