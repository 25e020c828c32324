"""Sub-requests: environments, paths, and the codes of Swift's refusals."""

from __future__ import annotations

from typing import Any

import pytest
from swift.common.swob import Request, Response

from storlet_middleware import errors, names
from storlet_middleware.wsgi.storlet_request import ObjectPath, StorletRequest
from storlet_middleware.wsgi.subrequest import SwiftRefusal, client_environ, path_info


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (401, "access.denied"),
        (403, "access.denied"),
        (404, "input.not_found"),
        (412, "precondition.failed"),
        (413, "swift.refused"),
        (422, "swift.refused"),
        (500, "backend.failed"),
        (503, "backend.failed"),
    ],
)
def test_the_code_follows_from_swifts_status(status: int, code: str) -> None:
    refusal = SwiftRefusal(Response(status=status))
    assert (refusal.code, refusal.answer.status_int) == (code, status)
    assert refusal.code in errors.TABLE
    assert str(status) in str(refusal)


def test_the_filters_own_headers_are_not_sent_to_swift() -> None:
    own = [row.name for row in names.TABLE if row.scope in (names.Scope.RUN, names.Scope.REQUEST)]
    removals = [names.REVOKE_USER]  # a POST of a container, which is not a run
    given = {name + ("1" if name.endswith("-") else ""): "x" for name in own}
    environ: dict[str, Any] = Request.blank(
        "/v1/a/c/o", headers={**given, "Destination": "c/x", "X-Copy-From": "c/y", "X-Auth": "t"}
    ).environ
    before = dict(environ)
    sent = client_environ(environ)
    headers = set(Request(sent).headers)
    assert {name for name in headers if name.startswith(("X-Run", "X-Storlet"))} == set()
    assert {"Destination", "X-Copy-From"}.isdisjoint(headers)
    assert headers >= {"X-Auth", *removals}
    assert environ == before
    sent["added"] = True
    assert "added" not in environ


def test_a_header_without_a_value_is_absent() -> None:
    """``authtoken`` of Keystone sets the domain's headers of a project's token to None."""
    environ = {"HTTP_X_DOMAIN_ID": None, "HTTP_X_PROJECT_ID": "p", "swift.none": None}
    assert client_environ(environ) == {"HTTP_X_PROJECT_ID": "p", "swift.none": None}


def test_a_path_is_a_wsgi_string_in_the_account_of_the_request() -> None:
    request = StorletRequest("GET", "v1", "AUTH_ü", "up.py", None, None, {})
    path = path_info(request, ObjectPath("c%2F", "größe/a b"))
    assert path == "/v1/AUTH_ü/c%2F/größe/a b".encode().decode("latin-1")
