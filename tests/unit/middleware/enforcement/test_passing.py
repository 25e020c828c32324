"""Answers of Swift, checked and reduced for callers that rules apply to."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from swift.common.swob import Request, Response

from storlet_middleware import names
from storlet_middleware.enforcement import passing
from storlet_middleware.enforcement.read_guard import ReadGuard
from storlet_middleware.errors import RuleRefused
from storlet_middleware.wsgi.operation import parse
from tests.unit.middleware.ruled_proxy import CONTENT, OBJECT, Ruled, assert_closed, rule
from tests.unit.middleware.rules_pipeline import Judge

PLAIN = [("X-Test", "plain")]

LARGE = [("X-Object-Manifest", "c/parts")]


class Body:
    """The body of an answer; ``start`` is called at the first read, as by late applications."""

    def __init__(self, start: Callable[[], Any] = lambda: None) -> None:
        self.start = start
        self.chunks = iter([b"bytes"])
        self.is_closed = False

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        chunk = next(self.chunks)
        self.start()
        return chunk

    def close(self) -> None:
        self.is_closed = True


class Forwarded:
    """The answer of ``app``, as the server gets it."""

    def __init__(self, app: Callable[..., Any]) -> None:
        self.app = app
        self.environ = Request.blank(OBJECT).environ
        operation = parse(self.environ)
        assert operation is not None
        self.guard = ReadGuard(
            operation, lambda _: Judge(), operation.subject, None, app, "storlet-rules"
        )
        self.started: list[tuple[str, Any]] = []

    def start(self, status: str, headers: Any, exc_info: Any = None) -> None:
        self.started.append((status, headers))

    def body(self) -> bytes:
        chunks: Any = passing.stream_checked(self.guard, self.app, self.environ, self.start)
        try:
            return b"".join(chunks)
        finally:
            chunks.close()


@pytest.mark.parametrize("headers", [PLAIN, LARGE])
@pytest.mark.parametrize("is_late", [False, True])
def test_an_answer_is_started_once_and_closed(headers: Any, *, is_late: bool) -> None:
    body = Body()

    def app(_: Any, start: Any) -> Body:
        body.start = lambda: start("200 OK", headers) if is_late else None
        if not is_late:
            start("200 OK", headers)
        return body

    forwarded = Forwarded(app)
    assert forwarded.body() == b"bytes"
    assert forwarded.started == [("200 OK", headers)]
    assert body.is_closed


@pytest.mark.parametrize("headers", [PLAIN, LARGE])
@pytest.mark.parametrize("is_late", [False, True])
def test_an_answer_that_a_rule_refuses_is_never_started(headers: Any, *, is_late: bool) -> None:
    body = Body()

    def app(_: Any, start: Any) -> Body:
        forwarded.guard.refused.append(RuleRefused("hide", "it is closed"))
        body.start = lambda: start("200 OK", headers) if is_late else None
        if not is_late:
            start("200 OK", headers)
        return body

    forwarded = Forwarded(app)
    with pytest.raises(RuleRefused):
        forwarded.body()
    assert forwarded.started == []
    assert body.is_closed


def test_a_refusal_after_the_answer_started_is_raised() -> None:
    body = Body()

    def app(_: Any, start: Any) -> Body:
        start("200 OK", PLAIN)
        forwarded.guard.refused.append(RuleRefused("hide", "it is closed"))
        return body

    forwarded = Forwarded(app)
    with pytest.raises(RuleRefused):
        forwarded.body()
    assert body.is_closed


def test_the_last_start_of_an_answer_counts() -> None:
    def app(_: Any, start: Any) -> Body:
        start("200 OK", LARGE)
        start("503 Service Unavailable", PLAIN, (None, None, None))
        return Body()

    forwarded = Forwarded(app)
    assert forwarded.body() == b"bytes"
    assert forwarded.started == [("503 Service Unavailable", PLAIN)]


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
