"""Requests of a flow in the caller's name."""

from __future__ import annotations

from typing import Any

import pytest
from swift.common.swob import Request

from storlet_middleware.errors import AccessDenied, BackendFailed
from storlet_middleware.flows.caller_requests import CallerRequests
from storlet_middleware.flows.sequence import read_object
from storlet_middleware.services.nesting import nesting_of
from storlet_middleware.wsgi.context import CONTEXT, AuthorizationChain
from storlet_middleware.wsgi.storlet_request import ObjectPath


def seen_of(headers: dict[str, str], **environ: Any) -> dict[str, Any]:
    """The environment of a request that a flow sends for a client's request."""
    seen: dict[str, Any] = {}

    def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        seen.update(environ)
        start_response("200 OK", [("A", "b")])
        return [b"body"]

    outer = Request.blank("/v1/AUTH_a", method="POST", headers=headers, environ=environ)
    requests = CallerRequests(app, outer.environ, ("v1", "AUTH_a"), "tx-1")
    answer = requests.send("GET", "c/ü", {"X-Run-Storlet": "up.py"}, {"a": "b c"})
    assert (answer.status, b"".join(answer.chunks)) == ("200 OK", b"body")
    return seen


def test_the_request_is_the_callers_and_nothing_of_the_outer_one() -> None:
    def authorize(request: Any) -> None:
        return None

    headers = {
        "X-Storlet-Parameter-1": "a:b",
        "X-Run-Storlet": "std:distributed",
        "If-None-Match": "*",
        "Range": "bytes=0-1",
        "X-Account-Meta-A": "b",
        "X-Backend-Storage-Policy-Index": "1",
        "X-Newest": "true",
        "User-Agent": "tests",
    }
    seen = seen_of(
        headers,
        **{
            "REMOTE_USER": "test:tester",
            "swift.authorize": AuthorizationChain(authorize),
            "swift_owner": True,
            "swift.infocache": {"account/AUTH_a": {"status": 200}},
            "swift.proxy_access_log_made": True,
            "s3api.auth_details": {},
            "eventlet.input": object(),
            CONTEXT: object(),
        },
    )
    assert (nesting_of(seen).parent, nesting_of(seen).depth) == ("tx-1", 0)
    assert (seen["REQUEST_METHOD"], seen["QUERY_STRING"]) == ("GET", "a=b%20c")
    assert seen["PATH_INFO"] == "/v1/AUTH_a/c/ü".encode().decode("latin-1")
    assert (seen["REMOTE_USER"], seen["HTTP_USER_AGENT"]) == ("test:tester", "tests")
    assert (seen["HTTP_X_RUN_STORLET"], seen["swift.source"]) == ("up.py", "ST")
    assert seen["swift.authorize"] is authorize
    gone = {
        "HTTP_X_STORLET_PARAMETER_1",
        "HTTP_IF_NONE_MATCH",
        "HTTP_RANGE",
        "HTTP_X_ACCOUNT_META_A",
        "swift_owner",
        "swift.infocache",
        # Each of them has a line in the access log, as the requests of Swift's own middlewares.
        "swift.proxy_access_log_made",
        "s3api.auth_details",
        "eventlet.input",
        "HTTP_X_BACKEND_STORAGE_POLICY_INDEX",
        "HTTP_X_NEWEST",
        CONTEXT,
    }
    assert gone.isdisjoint(seen)


def test_an_answer_that_is_short_is_no_answer() -> None:
    """Swift's check of lengths is to the left of the filter."""

    def short(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response("200 OK", [("Content-Length", "9")])
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [b"/c/a\n"]

    outer = Request.blank("/v1/AUTH_a", method="POST")
    requests = CallerRequests(short, outer.environ, ("v1", "AUTH_a"))
    with pytest.raises(BackendFailed, match="after 5 of 9 bytes"):
        read_object(requests, ObjectPath("c", "list"), 100)
    assert not b"".join(requests.send("HEAD", "c/list").chunks)


def test_without_authentication_there_is_none() -> None:
    assert "swift.authorize" not in seen_of({})


@pytest.mark.parametrize(
    "environ",
    [
        {"swift.authorize_override": True},
        {"REMOTE_USER": "test:tester", "swift.authorize_override": True},
        {"REMOTE_USER": ".wsgi.tempurl"},
        {"REMOTE_USER": ".wsgi.pre_authed"},
    ],
)
def test_a_request_without_rights_of_its_own_has_none(environ: dict[str, Any]) -> None:
    """Container sync, a signed URL, a middleware of Swift: their authorization is of one path."""
    with pytest.raises(AccessDenied, match="the request cannot read other objects"):
        seen_of({}, **environ)
