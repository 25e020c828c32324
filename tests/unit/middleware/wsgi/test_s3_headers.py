"""Headers of this package on answers to clients of the S3 API."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

from swift.common.swob import Request

from storlet_middleware import names
from storlet_middleware.wsgi.s3_headers import filter_factory, keeping

Headers = list[tuple[str, str]]
#: The S3 request's name and the headers of its Swift requests' answers, in their order.
Answers = list[tuple[str | None, Headers]]


def s3api(answers: Answers, own: Headers) -> Callable[..., Iterable[bytes]]:
    """An application that makes Swift requests through the storlet filter, as ``s3api`` does, and
    answers with ``own`` headers only.
    """

    def app(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        for name, headers in answers:
            checker = SimpleNamespace(req=SimpleNamespace(object_name=name))
            swift = environ.copy() | {
                "swift.source": "S3",
                "s3api.auth_details": {"check_signature": _Check(checker)},
            }
            keeping(swift, lambda *_: None)("200 OK", headers)
        start_response("200 OK", own)
        return [b"body"]

    return app


class _Check:
    def __init__(self, checker: Any) -> None:
        self.__self__ = checker


def headers_after(answers: Answers, own: Headers | None = None) -> dict[str, str]:
    app = filter_factory({})(s3api(answers, own or []))
    _, headers, chunks = Request.blank("/bucket/key").call_application(app)
    assert list(chunks) == [b"body"]
    assert len(headers) == len(dict(headers)), "no header twice"
    return dict(headers)


def test_answer_headers_are_added_again_and_no_others() -> None:
    given = [(names.INVOCATION, "tx-1"), (names.INPUT_RANGE, "bytes 0-1/2"), ("X-Timestamp", "1"),
             ("X-Storlet-Container", "c"), (names.BACKEND_RUN, "1")]  # fmt: skip
    assert headers_after([("key", given)]) == dict(given[:2])


def test_the_last_request_of_the_object_counts() -> None:
    first, last = [(names.INVOCATION, "1"), (names.RULE, "hide")], [(names.INVOCATION, "2")]
    assert headers_after([("key", first), ("key", last)]) == dict(last)
    assert headers_after([("key", first), ("key", [])]) == {}


def test_requests_without_an_object_get_none() -> None:
    assert headers_after([(None, [(names.RULE, "hide")])]) == {}


def test_headers_that_s3api_kept_are_not_repeated() -> None:
    own = [(names.INVOCATION.lower(), "mine")]
    assert headers_after([("key", [(names.INVOCATION, "other")])], own) == dict(own)


def test_requests_that_are_not_of_s3_and_pipelines_without_the_filter_are_unchanged() -> None:
    def start(*_: Any) -> None: ...

    assert keeping({"storlets.s3_headers": {}}, start) is start
    check = _Check(SimpleNamespace(req=SimpleNamespace(object_name="key")))
    s3 = {"swift.source": "S3", "s3api.auth_details": {"check_signature": check}}
    assert keeping(s3, start) is start
