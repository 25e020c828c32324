"""Refusals by rules for clients of the S3 API."""

from __future__ import annotations

from typing import Any

import pytest
from swift.common.middleware.s3api.s3response import AccessDenied as S3AccessDenied
from swift.common.swob import Request

from storlet_middleware import names
from storlet_middleware.enforcement.s3 import raise_for_s3
from storlet_middleware.errors import AccessDenied, BadRequest, RuleRefused, StorletError
from tests.unit.middleware.ruled_proxy import Ruled, rule


def test_the_refusal_of_a_rule_is_raised_as_an_exception_of_s3api(ruled: Ruled) -> None:
    ruled.rule(rule("hide", "method: GET", "deny: it is closed"))
    with pytest.raises(S3AccessDenied) as caught:
        ruled.get(environ={"swift.source": "S3"})
    assert caught.value._msg == "rule hide: it is closed"
    assert caught.value.headers[names.RULE] == "hide"


@pytest.mark.parametrize(
    ("error", "source"),
    [
        (BadRequest("no"), "S3"),
        (AccessDenied("no"), "S3"),
        (RuleRefused("hide", "no"), None),
        (RuleRefused("hide", "no"), "ST"),
    ],
)
def test_other_errors_and_other_requests_are_not_translated(
    error: StorletError, source: str | None
) -> None:
    raise_for_s3({"swift.source": source} if source else {}, error)


def test_the_answer_to_an_s3_client_has_the_text_and_the_rule() -> None:
    with pytest.raises(S3AccessDenied) as caught:
        raise_for_s3({"swift.source": "S3"}, RuleRefused("hide", "it is <closed>"))
    answer: Any = caught.value
    answer.request = Request.blank("/bucket/o")
    status, headers, chunks = answer.request.call_application(answer)
    assert status.startswith("403")
    assert b"<Message>rule hide: it is &lt;closed&gt;</Message>" in b"".join(chunks)
    assert dict(headers)[names.RULE] == "hide"
