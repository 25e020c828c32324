"""Answers of Swift, pinned and reduced for callers that rules apply to."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from swift.common.swob import Response

from storlet_middleware import names
from tests.unit.middleware.ruled_proxy import CONTENT, OBJECT, Ruled, assert_closed, rule

ABOUT_METADATA = rule("hide", "method: GET, metadata: {closed: 'yes'}", "deny: it is closed")


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_an_object_that_changes_during_the_decision_is_refused(ruled: Ruled, method: str) -> None:
    ruled.rule(ABOUT_METADATA)
    stored = ruled.swift.containers["c"].objects["o"]

    def replaced(request: Any) -> Any:
        answer = ruled.swift.serve(request, stored)
        if request.environ.get("swift.source") == names.SWIFT_SOURCE:
            stored.headers |= {"X-Timestamp": "1640995201.00000", "X-Object-Meta-Closed": "yes"}
        return answer

    ruled.swift.hooks["HEAD", OBJECT] = replaced
    answer = ruled.proxy.call(method, "c/o")
    assert (answer.status, answer.headers["Retry-After"]) == (503, "1"), answer.data
    assert b"secret" not in answer.data
    assert "X-Object-Meta-Closed" not in answer.headers
    assert ruled.swift.unclosed() == 0
    assert_closed(ruled.get())


# --- copies and heads of evaluated objects --------------------------------------------------------


def test_a_copy_is_restricted_to_the_object_that_was_evaluated(ruled: Ruled) -> None:
    ruled.rule(rule("hide", "method: COPY, metadata: {closed: 'yes'}", "deny: it is closed"))
    etag = hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()
    assert ruled.proxy.call("COPY", "c/o", {"Destination": "c/x"}).status == 204
    (copy,) = ruled.swift.requests("COPY")
    assert copy.headers["If-Match"] == f'"{etag}"'


@pytest.mark.parametrize(
    ("headers", "status"),
    [({}, 503), ({"If-Match": '"other"'}, 412), ({"If-None-Match": '"x"'}, 412)],
)
def test_a_copy_of_an_object_that_changed_is_to_be_repeated(
    ruled: Ruled, headers: dict[str, str], status: int
) -> None:
    """Conditions of the client's own keep Swift's answer."""
    ruled.rule(rule("hide", "method: COPY, metadata: {closed: 'yes'}", "deny: it is closed"))
    ruled.swift.hooks["COPY", OBJECT] = lambda request: Response(status=412, request=request)
    answer = ruled.proxy.call("COPY", "c/o", {"Destination": "c/x", **headers})
    assert answer.status == status
    assert answer.headers.get("Retry-After") == ("1" if status == 503 else None)


def test_a_head_of_a_covered_object_has_the_headers_of_pass_only(ruled: Ruled) -> None:
    ruled.rule(
        rule("hide", "method: GET", "run: up.py")
        + "  pass: {metadata: [study], headers: [last-modified]}\n"
    )
    answer = ruled.proxy.call("HEAD", "c/o")
    assert answer.status == 200
    assert set(answer.headers) - {"Content-Type", "Content-Length"} == {
        names.RULE,
        "X-Object-Meta-Study",
        "Last-Modified",
    }
    assert answer.headers.get("Content-Length") in {None, "0"}
    missing = ruled.proxy.call("HEAD", "c/none")
    assert missing.status == 404
    assert ruled.proxy.call("HEAD", "c/o", user="test:carl").status == 403
