"""Every way in which a request can fail, as data.

::

    StorletError
    ├── BadRequest               400  bad_request             the client's request: malformed, all faults at once
    ├── RegistrationInvalid      400  registration.invalid    metadata of an uploaded storlet or dependency
    ├── RulesInvalid             400  rules.invalid           an uploaded rules object: all findings at once
    ├── AccessDenied         401/403  access.denied           as Swift answered
    │   ├── StorletDenied    401/403  access.denied           the storlet itself may not be read
    │   └── RuleRefused          403  access.rule             a rule of the account says so
    ├── StorletNotFound          404  storlet.not_found
    ├── MethodNotAllowed         405  method.not_allowed
    ├── PreconditionFailed       412  precondition.failed
    ├── RangeUnsatisfiable       416  range.unsatisfiable
    ├── InputIncomplete          499  input.incomplete        the client stopped sending, or the source broke off
    ├── Unprocessable            422  storlet.load, storlet.failed, storlet.timeout.*, storlet.limit.*
    ├── TenantBusy               429  tenant.busy             + Retry-After
    ├── RulesConflict            409  rules.conflict          others change the rules now, or what is asked for is in force
    ├── NodeBusy                 503  node.busy               + Retry-After
    │   └── RulesUnavailable     503  rules.unavailable       + Retry-After: the account's rules cannot be known
    ├── SandboxUnavailable       503  sandbox.unavailable     + Retry-After
    │   └── CodeMissing          503  code.missing            + Retry-After: the node's copy went away; fetched once more before
    ├── BackendFailed            503  backend.failed          + Retry-After: every replica failed on the way
    │   └── CodeReplaced         503  code.replaced           + Retry-After: uploaded anew again and again meanwhile
    └── InternalError            500  internal                our defect

4xx is the client's request or the tenant's code and limits; 5xx is ours.  Clients of Swift retry every 5xx, so a
deterministic failure of tenant code must never be one.  ``code`` is stable and documented; ``str(error)`` is one line
for people.  ``detail`` is the tenant's own (its traceback): it goes to the tenant and never to the operator's log.
"""

from __future__ import annotations

import re
from typing import Any, Final

REASONS: Final = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    409: "Conflict",
    412: "Precondition Failed",
    416: "Requested Range Not Satisfiable",
    422: "Unprocessable Entity",
    429: "Too Many Requests",
    499: "Client Disconnect",
    500: "Internal Error",
    503: "Service Unavailable",
}


class StorletError(Exception):
    """Base of all; ``status`` is the HTTP status, ``retry_after`` whole seconds or ``None``."""

    status: int = 500
    code: str = "internal"
    legacy_get: int | None = None
    legacy_put: int | None = None

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        status: int | None = None,
        detail: str = "",
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code
        if status is not None:
            self.status = status
        self.detail = detail
        self.retry_after = retry_after

    def for_strangers(self) -> StorletError:
        """The error for a caller who does not own the storlet: an exception's text may quote what the storlet read."""
        if self.code not in _TENANTS_TEXT:
            self.detail = ""
            return self
        text = "the storlet failed; its owner can see why"
        return type(self)(text, code=self.code, status=self.status, retry_after=self.retry_after)

    def to_message(self) -> dict[str, Any]:
        """The error as JSON-able data, for the frame that ends an answer; :func:`from_message` reverses it."""
        return {
            "status": self.status,
            "code": self.code,
            "message": str(self),
            "detail": self.detail,
            "retry_after": self.retry_after,
        }


class BadRequest(StorletError):
    status, code = 400, "bad_request"


class RegistrationInvalid(StorletError):
    status, code = 400, "registration.invalid"


class RulesInvalid(StorletError):
    """An uploaded rules object is not taken; the old rules stay in force."""

    status, code = 400, "rules.invalid"


class AccessDenied(StorletError):
    status, code = 403, "access.denied"


class StorletDenied(AccessDenied):
    """The caller may not read the storlet."""

    legacy_get = legacy_put = 401


class RuleRefused(AccessDenied):
    """A rule of the account refuses the request; ``rule`` is its name, which the answer tells."""

    code = "access.rule"

    def __init__(self, rule: str, message: str, **more: Any) -> None:
        super().__init__(f"rule {rule}: {message}", **more)
        self.rule = rule


class StorletNotFound(StorletError):
    status, code = 404, "storlet.not_found"
    legacy_get = legacy_put = 401


class MethodNotAllowed(StorletError):
    status, code = 405, "method.not_allowed"


class PreconditionFailed(StorletError):
    status, code = 412, "precondition.failed"


class RangeUnsatisfiable(StorletError):
    status, code = 416, "range.unsatisfiable"


class InputIncomplete(StorletError):
    status, code = 499, "input.incomplete"


class Unprocessable(StorletError):
    status, code = 422, "storlet.failed"
    legacy_get, legacy_put = 503, 500


class RulesConflict(StorletError):
    status, code = 409, "rules.conflict"


class TenantBusy(StorletError):
    status, code = 429, "tenant.busy"
    legacy_get = legacy_put = 503

    def __init__(self, message: str, *, retry_after: int | None = 1, **more: Any) -> None:
        super().__init__(message, retry_after=retry_after, **more)


class NodeBusy(StorletError):
    status, code = 503, "node.busy"

    def __init__(self, message: str, *, retry_after: int | None = 5, **more: Any) -> None:
        super().__init__(message, retry_after=retry_after, **more)


class RulesUnavailable(NodeBusy):
    """Which rules hold cannot be known, and some of them may be mandatory: nothing is done."""

    code = "rules.unavailable"


class SandboxUnavailable(NodeBusy):
    status, code = 503, "sandbox.unavailable"


class CodeMissing(SandboxUnavailable):
    """The node's copy of the code is not there (any more); whoever asked fetches it and asks again."""

    code = "code.missing"


class BackendFailed(NodeBusy):
    status, code = 503, "backend.failed"


class CodeReplaced(BackendFailed):
    """The code of a version is gone: it was uploaded anew this very moment, or removed.  Nothing has run."""

    code = "code.replaced"


class InternalError(StorletError):
    status, code = 500, "internal"


#: Codes whose one-line text may come from the tenant's code.
_TENANTS_TEXT: Final = ("storlet.failed", "storlet.load")
#: Becomes a header, so its form is checked.
_TENANTS_CODE: Final = re.compile(r"storlet(\.[a-z_]+)+")

_BY_CODE: Final[dict[str, type[StorletError]]] = {
    cls.code: cls
    for cls in (
        BadRequest,
        RegistrationInvalid,
        RulesInvalid,
        AccessDenied,
        StorletNotFound,
        MethodNotAllowed,
        PreconditionFailed,
        RangeUnsatisfiable,
        InputIncomplete,
        TenantBusy,
        RulesConflict,
        NodeBusy,
        RulesUnavailable,
        SandboxUnavailable,
        CodeMissing,
        BackendFailed,
        CodeReplaced,
        InternalError,
    )
}


def from_code(code: str, message: str, *, detail: str = "", retry_after: int | None = None) -> StorletError:
    """The error for a code that came from a sandbox, from sandboxd or in a frame.

    Codes that begin with ``storlet.`` are the tenant's (422) unless they are known otherwise; a code that nobody
    defined is our defect, never a success and never blamed on the tenant.
    """
    cls = _BY_CODE.get(code)
    if cls is not None:
        if retry_after is None:
            return cls(message, detail=detail)  # of this class's own, where it has one
        return cls(message, detail=detail, retry_after=retry_after)
    if _TENANTS_CODE.fullmatch(code):
        return Unprocessable(message, code=code, detail=detail)
    return InternalError(f"unknown error code {code!r}: {message}", detail=detail)


def from_message(message: dict[str, Any]) -> StorletError:
    """Reverse of :meth:`StorletError.to_message`; tolerates missing keys, because it crossed the network."""
    retry_after = message.get("retry_after")
    return from_code(
        str(message.get("code", "internal")),
        str(message.get("message", "no reason given")),
        detail=str(message.get("detail", "")),
        retry_after=retry_after if isinstance(retry_after, int) else None,
    )
