"""The S3 request behind a Swift request of Swift's ``s3api``.

``s3api`` makes one or more Swift requests of each S3 request and copies the client's headers into
all of them.  So ``X-Run-Storlet`` on ``CreateMultipartUpload`` also reaches requests for segments
and for the bucket, where it does not mean what the client meant.  Only two operations of S3 have
one Swift request whose input or output is the object: GetObject and PutObject.  All others are
refused by name, before anything is read or stored.  SelectObjectContent is a GET of a controller of
ours, with headers that the client has not sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from storlet_middleware import errors, names
from storlet_middleware.errors import AccessDenied, MethodNotAllowed, StorletError
from storlet_middleware.wsgi.operation import Operation

#: ``swift.source`` of the requests that ``s3api`` makes of its clients' ones.
_SOURCE: Final = "S3"
_REQUEST: Final = "storlets.s3_request"
#: Key of an environment: the GET of SelectObjectContent, to which its controller has added the
#: headers of this package.
SELECT: Final = "storlets.s3_select"
#: The controller of ``s3api`` for requests of one object.
OBJECT: Final = "ObjectController"
#: Its controllers that handle the parts of a multipart upload.
_MULTIPART: Final = frozenset({"PartController", "UploadController", "UploadsController"})


def is_s3(environ: Mapping[str, Any]) -> bool:
    """Whether ``s3api`` made the request of a client's S3 request."""
    return environ.get("swift.source") == _SOURCE


def remember(environ: dict[str, Any]) -> None:
    """Keep ``s3api``'s own request for the further Swift requests of the same S3 request.

    With ``s3_acl = yes``, ``s3api`` removes its state after the first one, which authenticates the
    caller.  All of them share ``swift.infocache``.
    """
    if is_s3(environ):
        request = _given(environ)
        if request is not None:
            environ.setdefault("swift.infocache", {})[_REQUEST] = request


def request_of(environ: Mapping[str, Any]) -> Any:
    """``s3api``'s own request; ``None`` where there is none.

    No other field shows how a request was signed: an ``Authorization`` header may be sent beside a
    signed query, which wins.
    """
    if not is_s3(environ):
        return None
    return _given(environ) or (environ.get("swift.infocache") or {}).get(_REQUEST)


def names_object(environ: Mapping[str, Any]) -> bool:
    """Whether the S3 request names one object; DeleteObjects and requests of buckets do not."""
    request = request_of(environ)
    return request is not None and bool(request.object_name)


def _given(environ: Mapping[str, Any]) -> Any:
    details = environ.get("s3api.auth_details") or {}
    checker = getattr(details.get("check_signature"), "__self__", None)
    return getattr(checker, "req", None)


def is_of_s3(environ: Mapping[str, Any]) -> bool:
    """Whether an S3 request is behind the request, also where ``staticweb`` has made it its own."""
    return "s3api.auth_details" in environ


def is_select(environ: Mapping[str, Any]) -> bool:
    """Whether the request is the GET of SelectObjectContent."""
    return is_s3(environ) and SELECT in environ


def controller_of(request: Any) -> str:
    """The name of the controller of ``s3api``'s own request, such as :data:`OBJECT`.

    Its class is not compared: a proxy without ``s3api`` does not import that.  Swift has no
    ``controller_name`` from 2.38.1 on.
    """
    name: str = request.controller.__name__
    return name


def check_operation(operation: Operation) -> None:
    """Raise if the client requests a storlet with an operation of S3 that cannot run one."""
    environ = operation.environ
    if not operation.runs_storlet or not is_s3(environ) or operation.path.container is None:
        return
    request = request_of(environ)
    if request is None or "s3api.auth_details" not in environ:
        # s3api has replaced Swift's authorization: further inputs would not be authorized.
        raise AccessDenied(
            f"{names.RUN_STORLET} needs Swift's authorization, which s3_acl = yes replaces: use"
            " Swift's API, or a rule that runs the storlet"
        )
    controller = controller_of(request)
    if controller in _MULTIPART:
        raise StorletError(
            f"a multipart upload cannot run a storlet: upload without {names.RUN_STORLET} and run"
            " the storlet with GetObject, or upload with one PutObject",
            code=errors.METHOD_NOT_ALLOWED,
            status=501,
        )
    if is_select(environ) and operation.method == "GET":
        return
    is_copy = "HTTP_X_AMZ_COPY_SOURCE" in environ or "HTTP_X_COPY_FROM" in environ
    if controller != OBJECT or request.method not in ("GET", "PUT") or is_copy:
        raise MethodNotAllowed(
            f"this S3 operation cannot run a storlet: send {names.RUN_STORLET} with GetObject or"
            " PutObject"
        )
