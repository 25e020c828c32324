"""Requests of a flow in the caller's name."""

from __future__ import annotations

from typing import Any

from swift.common.swob import Request

from storlet_middleware.flows.caller_requests import CallerRequests
from storlet_middleware.wsgi.context import CONTEXT, AuthorizationChain


def seen_of(headers: dict[str, str], **environ: Any) -> dict[str, Any]:
    """The environment of a request that a flow sends for a client's request."""
    seen: dict[str, Any] = {}

    def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        seen.update(environ)
        start_response("200 OK", [("A", "b")])
        return [b"body"]

    outer = Request.blank("/v1/AUTH_a", method="POST", headers=headers, environ=environ)
    requests = CallerRequests(app, outer.environ, ("v1", "AUTH_a"))
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
        "User-Agent": "tests",
    }
    seen = seen_of(
        headers,
        **{
            "REMOTE_USER": "test:tester",
            "swift.authorize": AuthorizationChain(authorize),
            "swift.authorize_override": True,
            "swift_owner": True,
            "eventlet.input": object(),
            CONTEXT: object(),
        },
    )
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
        "swift.authorize_override",
        "swift_owner",
        "eventlet.input",
        CONTEXT,
    }
    assert gone.isdisjoint(seen)


def test_without_authentication_there_is_none() -> None:
    assert "swift.authorize" not in seen_of({})
