"""Answers of failed requests."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from swift.common.swob import Request, Response

from storlet_middleware import errors
from storlet_middleware.error_answers import ErrorAnswers
from storlet_middleware.errors import RuleRefused
from storlet_middleware.wsgi.subrequest import SwiftRefusal
from tests.unit.middleware.storlets import failing
from tests.unit.middleware.support import RUN, Body, Proxy, upper

Make = Callable[..., Proxy]


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


def test_an_error_is_json_if_the_client_accepts_json(make_proxy: Make) -> None:
    answer = make_proxy(failing()).call("GET", "c/o", {**RUN, "Accept": "application/json"})
    body = json.loads(answer.data)
    assert (body["code"], body["message"]) == ("storlet.failed", "ValueError: no")
    assert "secret" in body["detail"]
    assert answer.headers["Content-Type"].startswith("application/json")


# --- without a request ----------------------------------------------------------------------------


def test_a_result_without_a_byte_in_the_range_has_its_size_in_the_answer() -> None:
    error = errors.RangeUnsatisfiable("no byte")
    request = Request.blank("/v1/a/c/o", headers={"Range": "bytes=9-"})
    answers = ErrorAnswers(is_legacy=False)
    assert "Content-Range" not in answers.of(request.environ, error).headers
    error.size = 5
    answer = request.get_response(answers.of(request.environ, error))
    assert (answer.status_int, answer.headers["Content-Range"]) == (416, "bytes */5")


class Headers:
    """A run whose answers carry headers of their own."""

    def headers(self) -> dict[str, str]:
        return {"X-Storlet-Invocation": "tx-1"}


def environ_of(method: str = "GET", **headers: str) -> dict[str, Any]:
    environ: dict[str, Any] = Request.blank("/v1/a/c/o", method=method, headers=headers).environ
    return environ


@pytest.mark.parametrize(("method", "field"), [("GET", "legacy_get"), ("PUT", "legacy_put")])
@pytest.mark.parametrize("is_legacy", [False, True])
def test_each_error_code_has_the_status_of_its_row(
    method: str, field: str, *, is_legacy: bool
) -> None:
    for code, row in errors.TABLE.items():
        error = errors.StorletError("why", code=code)
        answer = ErrorAnswers(is_legacy=is_legacy).of(environ_of(method), error)
        legacy = getattr(row, field) if is_legacy else None
        assert answer.status_int == (legacy or row.status)
        assert answer.headers["X-Storlet-Error"] == code
        retry_after = answer.headers.get("Retry-After")
        assert retry_after == (None if row.retry_after is None else str(row.retry_after))
        assert answer.body == b"why\n"


def test_an_error_has_the_headers_of_its_run_and_its_rule() -> None:
    answer = ErrorAnswers(is_legacy=False).of(environ_of(), RuleRefused("hide", "no"), Headers())
    assert (answer.headers["X-Storlet-Invocation"], answer.headers["X-Storlet-Rule"]) == (
        "tx-1",
        "hide",
    )
    assert answer.body == b"rule hide: no\n"


def test_the_detail_is_text_or_json() -> None:
    error = errors.Unprocessable("no", detail="Traceback\n  ü\n\n")
    answers = ErrorAnswers(is_legacy=False)
    assert answers.of(environ_of(), error).body.decode() == "no\n\nTraceback\n  ü\n"
    answer = answers.of(environ_of(Accept="text/html, application/json"), error)
    assert json.loads(answer.body) == {
        "code": "storlet.failed",
        "message": "no",
        "detail": "Traceback\n  ü\n\n",
    }


@pytest.mark.parametrize(("status", "code"), [(404, "input.not_found"), (304, None)])
def test_swifts_answer_is_sent_with_a_code_if_it_is_an_error(status: int, code: str | None) -> None:
    refusal = SwiftRefusal(Response(status=status, headers={"X-Own": "1"}, body=b"swift's"))
    answer = ErrorAnswers(is_legacy=True).of_swift(environ_of(), refusal, None, Headers())
    assert answer is refusal.answer
    assert (answer.headers["X-Own"], answer.headers["X-Storlet-Invocation"]) == ("1", "tx-1")
    assert answer.headers.get("X-Storlet-Error") == code


def test_a_refusal_by_the_rules_precedes_swifts_answer() -> None:
    refusal = SwiftRefusal(Response(status=404, body=b"swift's"))
    answer = ErrorAnswers(is_legacy=False).of_swift(
        environ_of(), refusal, RuleRefused("hide", "no")
    )
    assert (answer.status_int, answer.headers["X-Storlet-Error"]) == (403, "access.rule")


def test_swifts_answer_to_a_get_becomes_one_to_a_head() -> None:
    body = Body([b"swift's"])
    refusal = SwiftRefusal(Response(status=404, headers={"X-Own": "1"}, app_iter=body))
    answer = ErrorAnswers(is_legacy=False).of_swift(environ_of("HEAD"), refusal, None)
    assert (answer.status_int, answer.headers["X-Own"]) == (404, "1")
    assert body.is_closed
    _, headers, chunks = Request(environ_of("HEAD")).call_application(answer)
    assert b"".join(chunks) == b""
    assert "7" not in [value for key, value in headers if key == "Content-Length"]
