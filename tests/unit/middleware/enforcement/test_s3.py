"""Refusals by rules for clients of the S3 API."""

from __future__ import annotations

import pytest

from storlet_middleware import names
from tests.unit.middleware.ruled_proxy import Ruled, rule


def test_the_refusal_of_a_rule_is_raised_as_an_exception_of_s3api(ruled: Ruled) -> None:
    from swift.common.middleware.s3api.s3response import AccessDenied  # noqa: PLC0415

    ruled.rule(rule("hide", "method: GET", "deny: it is closed"))
    with pytest.raises(AccessDenied) as caught:
        ruled.get(environ={"swift.source": "S3"})
    assert caught.value._msg == "rule hide: it is closed"
    assert caught.value.headers[names.RULE] == "hide"
