"""How a run has ended."""

from __future__ import annotations

import pytest
from swift.common.swob import HTTPForbidden, Response

from storlet_middleware import errors
from storlet_middleware.errors import StorletError
from storlet_middleware.proxy.ending import Ending
from storlet_middleware.wsgi.subrequest import SwiftRefusal


@pytest.mark.parametrize(
    ("error", "code", "is_failure"),
    [
        (StorletError("no", code=errors.TENANT_BUSY), errors.TENANT_BUSY, True),
        (SwiftRefusal(Response(status=404)), "refused", True),
        (SwiftRefusal(Response(status=304)), "refused", False),
        (HTTPForbidden(), "refused", True),
        (ValueError("secret"), errors.INTERNAL, True),
        (GeneratorExit(), errors.CLIENT_GONE, True),
    ],
)
def test_an_error_is_an_ending(error: BaseException, code: str, is_failure: bool) -> None:
    ending = Ending.of_error(error)
    assert (ending.code, ending.is_failure) == (code, is_failure)
    assert "secret" not in ending.message
