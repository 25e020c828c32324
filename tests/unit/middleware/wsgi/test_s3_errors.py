"""Errors for clients of the S3 API."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as ET

import pytest
from swift.common.middleware.s3api.exception import S3InputError, S3InputSHA256Mismatch
from swift.common.middleware.s3api.s3response import ErrorResponse
from swift.common.swob import Request

from storlet_middleware import errors, names
from storlet_middleware.errors import Blame, InputIncomplete, RuleRefused, StorletError
from storlet_middleware.wsgi.s3_errors import raise_for_s3, status_and_code

S3 = {"swift.source": "S3"}


def test_the_refusal_of_a_rule_is_raised_as_an_exception_of_s3api() -> None:
    with pytest.raises(ErrorResponse) as caught:
        raise_for_s3(S3, RuleRefused("hide", "it is closed"), {names.RULE: "hide"})
    assert (caught.value._code, caught.value._msg) == ("AccessDenied", "rule hide: it is closed")
    assert caught.value.headers[names.RULE] == "hide"


@pytest.mark.parametrize("source", [None, "ST"])
def test_errors_of_other_requests_are_not_translated(source: str | None) -> None:
    raise_for_s3({"swift.source": source} if source else {}, RuleRefused("hide", "no"), {})


@pytest.mark.parametrize("code", list(errors.TABLE))
def test_every_error_has_a_code_of_s3_and_only_the_operator_s_are_repeated(code: str) -> None:
    status, shown = status_and_code(StorletError("x", code=code))
    assert shown.isalnum()
    assert shown[0].isupper()
    is_repeated = status >= 500
    assert is_repeated <= (errors.TABLE[code].blame in (Blame.OPERATOR, Blame.US)) or (
        code in (errors.CODE_REPLACED, errors.INPUT_CHANGED)
    )
    assert status in (400, 403, 404, 405, 409, 412, 416, 422, 429, 500, 501, 503)


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (StorletError("x", code=errors.ACCESS_DENIED, status=401), 403, "AccessDenied"),
        (StorletError("x", code=errors.METHOD_NOT_ALLOWED, status=501), 501, "NotImplemented"),
        (StorletError("x", code=errors.INPUT_NOT_FOUND), 404, "InputNotFound"),
        (StorletError("x", code=errors.LIMIT_MEMORY), 422, "StorletLimitMemory"),
        (StorletError("x", code=errors.INPUT_ETAG_MISMATCH), 400, "BadDigest"),
    ],
)
def test_codes_of_s3(error: StorletError, status: int, code: str) -> None:
    assert status_and_code(error) == (status, code)


@pytest.mark.parametrize("text", ["it is <closed>", "\x00 \x1b \ud800 \uffff"])
def test_the_answer_is_xml_with_any_text(text: str) -> None:
    error = StorletError(text, code=errors.STORLET_FAILED, detail=text)
    with pytest.raises(ErrorResponse) as caught:
        raise_for_s3(S3, error, {names.ERROR: error.code})
    answer: Any = caught.value
    answer.request = Request.blank("/bucket/o")
    status, headers, chunks = answer.request.call_application(answer)
    assert status.startswith("422")
    root = ET.fromstring(b"".join(chunks))  # noqa: S314 - made here
    assert root.findtext("Code") == "StorletFailed"
    assert root.find("Status") is None
    assert root.findtext("Message") == root.findtext("Detail")
    if text.isprintable():
        assert root.findtext("Message") == text
    assert dict(headers)[names.ERROR] == error.code


def test_s3api_answers_for_its_own_exceptions_of_the_body() -> None:
    error = InputIncomplete("broke off")
    error.__cause__ = S3InputSHA256Mismatch("a", "b")
    with pytest.raises(S3InputError):
        raise_for_s3(S3, error, {})


def test_an_error_that_is_its_own_cause_is_translated() -> None:
    error = StorletError("x", code=errors.STORLET_FAILED)
    error.__cause__ = error
    with pytest.raises(ErrorResponse):
        raise_for_s3(S3, error, {})
