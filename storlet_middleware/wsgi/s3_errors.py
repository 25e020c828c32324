"""Errors for clients of the S3 API: XML with a code and a message.

``s3api`` is to the left of the storlet filter.  It translates Swift's statuses by tables of its
own, which lose the text; a status that they do not have, such as 422, becomes 500 InternalError,
which S3's SDKs repeat.  ``s3api`` keeps exceptions of its own classes as they are, so every error
of ours is raised as one of these:

* the status is that of the error's row, never that of ``legacy_status``, so a failure of a storlet
  is a 4xx and no SDK repeats it;
* the code is S3's own where S3 has one for the case (:data:`_CODES`), otherwise the error code in
  S3's spelling: ``storlet.limit.memory`` is ``StorletLimitMemory``.  ``input.not_found`` of an
  extra resource is ``InputNotFound``: clients take ``NoSuchKey`` for the object of the request,
  whose absence is Swift's own answer;
* the ``X-Storlet-*`` headers stay.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from storlet_middleware import errors
from storlet_middleware.errors import REASONS, StorletError
from storlet_middleware.wsgi import s3_request

#: S3's own codes.
_CODES: Final = {
    errors.BAD_REQUEST: "InvalidRequest",
    errors.REGISTRATION_INVALID: "InvalidRequest",
    errors.RULES_INVALID: "InvalidRequest",
    errors.ACCESS_DENIED: "AccessDenied",
    errors.ACCESS_RULE: "AccessDenied",
    errors.TARGET_NOT_FOUND: "NoSuchBucket",
    errors.METHOD_NOT_ALLOWED: "MethodNotAllowed",
    errors.INPUT_TIMEOUT: "RequestTimeout",
    errors.RULES_CONFLICT: "OperationAborted",
    errors.PRECONDITION_FAILED: "PreconditionFailed",
    errors.RANGE_UNSATISFIABLE: "InvalidRange",
    errors.INPUT_ETAG_MISMATCH: "BadDigest",
    errors.TENANT_BUSY: "SlowDown",
    errors.INPUT_INCOMPLETE: "IncompleteBody",
    errors.CLIENT_GONE: "IncompleteBody",
    errors.INTERNAL: "InternalError",
    errors.NODE_BUSY: "ServiceUnavailable",
    errors.RULES_UNAVAILABLE: "ServiceUnavailable",
    errors.SANDBOX_UNAVAILABLE: "ServiceUnavailable",
    errors.CODE_MISSING: "ServiceUnavailable",
    errors.BACKEND_FAILED: "ServiceUnavailable",
    errors.CODE_REPLACED: "ServiceUnavailable",
    errors.INPUT_CHANGED: "ServiceUnavailable",
}
#: Statuses that S3 does not use for these cases.
_STATUSES: Final = {401: 403, 408: 400, 499: 400}
_NOT_IMPLEMENTED: Final = 501
#: Characters that XML 1.0 cannot contain.
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def raise_for_s3(
    environ: Mapping[str, Any], error: StorletError, headers: Mapping[str, str]
) -> None:
    """Raise ``error`` as an exception of ``s3api`` if the request came through ``s3api``; return
    without effect otherwise.

    :param headers: those of the answer.
    """
    if not s3_request.is_s3(environ):
        return
    # Imported only when s3api is in use: it needs an XML parser.
    from swift.common.middleware.s3api.exception import S3InputError  # noqa: PLC0415
    from swift.common.middleware.s3api.s3response import ErrorResponse  # noqa: PLC0415

    # The client's body did not match its checksum: s3api has answers of its own for its exceptions.
    for cause in _causes(error):
        if isinstance(cause, S3InputError):
            raise cause
    status, code = status_and_code(error)
    kind = type(code, (ErrorResponse,), {"_code": code, "_status": f"{status} {_reason(status)}"})
    detail = {"detail": xml_text(error.detail)} if error.detail else {}
    raise kind(xml_text(str(error)), error.code, headers=dict(headers), **detail) from error


def _causes(error: BaseException) -> list[BaseException]:
    """``error`` and what it was raised from.  An error that is raised again may be its own cause,
    so the chain may be a cycle.
    """
    chain: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and all(cause is not known for known in chain):
        chain.append(cause)
        cause = cause.__cause__
    return chain


def status_and_code(error: StorletError) -> tuple[int, str]:
    """Status and code of ``error`` for clients of S3."""
    if error.status == _NOT_IMPLEMENTED:
        return error.status, "NotImplemented"
    status = 400 if error.code == errors.INPUT_ETAG_MISMATCH else error.status
    words = re.split(r"[._]", error.code)
    return (
        _STATUSES.get(status, status),
        _CODES.get(error.code) or "".join(word.capitalize() for word in words),
    )


def _reason(status: int) -> str:
    return REASONS.get(status, "Error")


def xml_text(text: str) -> str:
    """``text`` without characters that XML cannot contain."""
    return _NOT_XML.sub("\ufffd", text)
