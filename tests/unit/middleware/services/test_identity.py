"""The caller of a run, for the requests of its storlets."""

from __future__ import annotations

from typing import Any

import pytest

from storlet_middleware.services import identity
from storlet_middleware.wsgi.context import AuthorizationChain


def check(request: Any) -> None: ...


CLIENT: dict[str, Any] = {
    "REQUEST_METHOD": "COPY", "PATH_INFO": "/v1/A/c/o", "QUERY_STRING": "version-id=1", "CONTENT_LENGTH": "5",
    "CONTENT_TYPE": "text/x", "REMOTE_USER": "test:tester,test", "REMOTE_ADDR": "127.0.0.1",
    "HTTP_X_AUTH_TOKEN": "tk", "HTTP_USER_AGENT": "curl", "HTTP_X_ROLES": "reader", "HTTP_X_PURPOSE": "study",
    "HTTP_REFERER": "https://x", "HTTP_RANGE": "bytes=0-1", "HTTP_IF_MATCH": "e", "HTTP_DESTINATION": "c/p",
    "HTTP_X_RUN_STORLET": "up.py", "HTTP_X_STORLET_PARAMETER_1": "a:b", "HTTP_X_OBJECT_META_A": "1",
    "HTTP_X_COPY_FROM": "c/o", "HTTP_TRANSFER_ENCODING": "chunked", "HTTP_ETAG": "x",
    "HTTP_X_BACKEND_ALLOW_RESERVED_NAMES": "1", "HTTP_X_OBJECT_SYSMETA_A": "1", "HTTP_X_DELETE_AFTER": "1",
    "HTTP_CACHE_CONTROL": "no-cache", "HTTP_EXPIRES": "0", "HTTP_X_ROBOTS_TAG": "x", "HTTP_X_IF_DELETE_AT": "1",
    "swift.authorize": AuthorizationChain(check, grants=("grant",)),  # type: ignore[arg-type]
    "swift.trans_id": "tx1", "swift.infocache": {"a": 1}, "swift.backend_path": "/x", "eventlet.input": object(),
    "storlets.context": object(), "s3api.auth_details": {}, "keystone.identity": {"user": ("1", "u")},
    "reseller_request": True, "wsgi.url_scheme": "https", "HTTP_X_DOMAIN_ID": None,
}  # fmt: skip


def test_it_identifies_the_caller_and_has_nothing_of_the_operation() -> None:
    made = identity.environ_of(CLIENT)
    assert made.pop("wsgi.input").read() == b""
    assert made == {
        "REMOTE_USER": "test:tester,test", "REMOTE_ADDR": "127.0.0.1", "HTTP_X_AUTH_TOKEN": "tk",
        "HTTP_USER_AGENT": "curl", "HTTP_X_ROLES": "reader", "HTTP_X_PURPOSE": "study",
        "HTTP_REFERER": "https://x", "keystone.identity": {"user": ("1", "u")}, "reseller_request": True,
        "swift.trans_id": "tx1", "wsgi.url_scheme": "https", "swift.authorize": check, "swift.source": "ST",
        "HTTP_ACCEPT": "application/json", "QUERY_STRING": "",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"REMOTE_USER": ".wsgi.tempurl"}, "signature"),
        ({"REMOTE_USER": None, "swift.authorize_override": True}, "signature"),
        ({"swift.authorize_override": True}, "beforehand"),
        ({"REMOTE_USER": ".wsgi.pre_authed"}, "middlewares"),
        ({"REMOTE_USER": ".wsgi.other"}, "middlewares"),
        ({"swift.source": "S3", "s3api.auth_details": None}, "s3_acl"),
    ],
)
def test_requests_that_are_not_authorized_again_have_no_services(
    changes: dict[str, Any], why: str
) -> None:
    environ = {key: value for key, value in (CLIENT | changes).items() if value is not None}
    assert why in identity.refusal(environ)


@pytest.mark.parametrize("user", ["test:tester,test", "", None])
def test_a_login_and_an_anonymous_caller_have_services(user: str | None) -> None:
    assert identity.refusal({**CLIENT, "REMOTE_USER": user}) == ""
