"""The gate between Swift and a caller."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from swift.common.swob import Request

from storlet_middleware.enforcement.covered_reads import CoveredReads
from storlet_middleware.enforcement.read_guard import ReadGuard
from storlet_middleware.errors import RuleRefused
from storlet_middleware.wsgi import gate
from storlet_middleware.wsgi.answer import Answer
from storlet_middleware.wsgi.operation import parse
from tests.unit.middleware.ruled_proxy import OBJECT
from tests.unit.middleware.rules_pipeline import OnePathRule

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
        reads = CoveredReads(operation, lambda _: OnePathRule(), operation.subject, app)
        self.guard = ReadGuard(reads, None, "storlet-rules")
        self.started: list[tuple[str, Any]] = []

    def start(self, status: str, headers: Any, exc_info: Any = None) -> None:
        self.started.append((status, headers))

    def body(self) -> bytes:
        chunks: Any = gate.stream(self.app, self.environ, self.start, self.guard)
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


@pytest.mark.parametrize("is_streamed", [False, True])
def test_an_answer_without_rules_is_unchanged(is_streamed: bool) -> None:
    body = Body()

    def app(_: Any, start: Any) -> Body:
        start("200 OK", LARGE)
        return body

    forwarded = Forwarded(app)
    if is_streamed:
        assert gate.stream(app, forwarded.environ, forwarded.start, None) is body
        assert forwarded.started == [("200 OK", LARGE)]
    else:
        assert gate.ask(app, forwarded.environ, None) == Answer("200 OK", LARGE, body)


@pytest.mark.parametrize("headers", [PLAIN, LARGE])
def test_an_answer_that_a_rule_refuses_is_not_given(headers: Any) -> None:
    body = Body()

    def app(_: Any, start: Any) -> Body:
        forwarded.guard.refused.append(RuleRefused("hide", "it is closed"))
        start("200 OK", headers)
        return body

    forwarded = Forwarded(app)
    with pytest.raises(RuleRefused):
        gate.ask(app, forwarded.environ, forwarded.guard)
    assert body.is_closed


def test_a_reduced_answer_has_allowed_headers_only() -> None:
    answer = Answer("206 Partial", [("Etag", "e"), ("X-A", "1"), ("X-New", "2")], [b"x"])
    reduced = gate.reduced(answer, lambda key: key == "x-a")
    assert reduced == Answer("206 Partial", [("X-A", "1")], [b"x"])
