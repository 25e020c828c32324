"""refusals.py: the reasons of an object node, as the proxy reads them."""

from __future__ import annotations

import pytest
from swift.common.header_key_dict import HeaderKeyDict

from storlet_middleware.backend.refusals import Refusal, refusal_of


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({"X-Backend-Storlet-Refusal": "full"}, Refusal.FULL),
        ({"x-backend-storlet-refusal": "resume"}, Refusal.RESUME),
        ({"X-Backend-Storlet-Refusal": "version"}, Refusal.VERSION),
        # Of a later version: the proxy runs the storlet.
        ({"X-Backend-Storlet-Refusal": "tired"}, None),
        ({"X-Backend-Storlet-Refusal": ""}, None),
        ({"X-Backend-Storlet-Refusal": "FULL"}, None),
        # Swift's own 409, and the header of the first release.
        ({"Content-Location": "/v1/AUTH_test/c/o"}, None),
        ({"X-Backend-Storlet-Full": "1"}, None),
        ({}, None),
    ],
)
def test_the_header_is_the_reason(headers: dict[str, str], reason: Refusal | None) -> None:
    assert refusal_of(HeaderKeyDict(headers)) is reason
