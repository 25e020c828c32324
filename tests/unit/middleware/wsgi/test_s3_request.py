"""The S3 request behind a Swift request, and the operations of S3 that run a storlet."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from storlet_middleware.errors import AccessDenied, StorletError
from storlet_middleware.wsgi import s3_request
from storlet_middleware.wsgi.delegation import is_signed
from storlet_middleware.wsgi.operation import Operation, parse


def environ_of(
    controller: str, method: str, sent: str = "", path: str = "/v1/AUTH_a/c/o", **more: Any
) -> dict[str, Any]:
    """A Swift request (``sent``) that ``s3api`` makes of an S3 request (``method``)."""
    kind = type(f"{controller}Controller", (), {})
    request = SimpleNamespace(controller=kind, method=method, _is_query_auth=True)
    checker = SimpleNamespace(req=request)

    class Check:
        __self__ = checker

    return {
        "swift.source": "S3",
        "s3api.auth_details": {"check_signature": Check()},
        "REQUEST_METHOD": sent or method,
        "PATH_INFO": path,
        "HTTP_X_RUN_STORLET": "up.py",
        **more,
    }


def operation_of(environ: dict[str, Any]) -> Operation:
    operation = parse(environ)
    assert operation is not None
    return operation


@pytest.mark.parametrize(
    ("controller", "method", "sent", "more", "status"),
    [
        ("Object", "GET", "", {}, 0),
        ("Object", "PUT", "", {}, 0),
        ("Object", "HEAD", "", {}, 405),
        ("Object", "DELETE", "HEAD", {}, 405),
        ("Object", "PUT", "HEAD", {"HTTP_X_AMZ_COPY_SOURCE": "/c/p"}, 405),
        ("Object", "PUT", "PUT", {"HTTP_X_COPY_FROM": "/c/p"}, 405),
        ("Acl", "GET", "HEAD", {}, 405),
        ("Bucket", "GET", "GET", {}, 405),
        ("MultiObjectDelete", "POST", "HEAD", {}, 405),
        ("Uploads", "POST", "PUT", {}, 501),
        ("Upload", "POST", "GET", {}, 501),
        ("Part", "PUT", "PUT", {}, 501),
    ],
)
def test_only_get_object_and_put_object_run_a_storlet(
    controller: str, method: str, sent: str, more: dict[str, Any], status: int
) -> None:
    operation = operation_of(environ_of(controller, method, sent, **more))
    if not status:
        s3_request.check_operation(operation)
        return
    with pytest.raises(StorletError) as caught:
        s3_request.check_operation(operation)
    assert caught.value.status == status


def test_requests_without_a_storlet_and_of_swift_s_api_are_not_checked() -> None:
    plain = environ_of("Part", "PUT")
    del plain["HTTP_X_RUN_STORLET"]
    s3_request.check_operation(operation_of(plain))
    swift = environ_of("Part", "PUT") | {"swift.source": "ST"}
    s3_request.check_operation(operation_of(swift))


def test_with_s3_acl_the_request_is_remembered_but_no_storlet_can_be_requested() -> None:
    cache: dict[str, Any] = {}
    first = environ_of("Object", "GET", "TEST", "/v1/AUTH_a") | {"swift.infocache": cache}
    s3_request.remember(first)
    s3_request.check_operation(operation_of(first))
    second = environ_of("Object", "GET", "HEAD") | {"swift.infocache": cache}
    del second["s3api.auth_details"]
    assert s3_request.request_of(second) is s3_request.request_of(first)
    assert is_signed(second)
    with pytest.raises(AccessDenied):
        s3_request.check_operation(operation_of(second))
    assert s3_request.request_of({**second, "swift.source": "ST"}) is None
