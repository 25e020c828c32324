"""Sub-requests to Swift: their environments and paths, and the exception for Swift's refusal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from storlet_middleware import errors
from storlet_middleware.wsgi.storlet_request import ObjectPath, StorletRequest
from storlet_middleware.wsgi.strings import wsgi

#: ``X-Storlet-Error`` of an answer that is Swift's own.
_SWIFT_CODES: Final = {
    401: errors.ACCESS_DENIED,
    403: errors.ACCESS_DENIED,
    404: errors.INPUT_NOT_FOUND,
    412: errors.PRECONDITION_FAILED,
}


def swift_code(status: int) -> str:
    """The error code of an answer of Swift's own."""
    default = errors.SWIFT_REFUSED if status < 500 else errors.BACKEND_FAILED
    return _SWIFT_CODES.get(status, default)


class SwiftRefusal(Exception):
    """Swift's answer for the source or target has no data; the client gets it unchanged (404, 304,
    412, ...).
    """

    def __init__(self, answer: Any) -> None:
        super().__init__(answer.status)
        self.answer = answer
        self.code = swift_code(answer.status_int)


#: Headers of the client's request for the run; they are not sent to the rest of the pipeline.
_OURS: Final = ("HTTP_X_RUN_STORLET", "HTTP_X_STORLET_", "HTTP_X_COPY_FROM", "HTTP_DESTINATION")


def client_environ(environ: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of the client's environment without the headers for this filter, for a sub-request in
    the caller's name.

    It has no headers without a value: ``authtoken`` of Keystone sets the headers of what a token
    does not have to None, such as the domain of a project's token.  HTTP has no such header.
    """
    return {
        key: value
        for key, value in environ.items()
        if not key.startswith("HTTP_") or (value is not None and not key.startswith(_OURS))
    }


def path_info(request: StorletRequest, path: ObjectPath) -> str:
    """``PATH_INFO`` of an object in the account of ``request``."""
    return wsgi(f"/{request.version}/{request.account}/{path.container}/{path.name}")
