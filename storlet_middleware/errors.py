"""All failures of requests: one table of error codes, and the exceptions made from it.

A row of :data:`TABLE` holds everything that is fixed for a code: HTTP status, blame, retry policy,
the statuses of OpenStack Storlets, and which parts of the text a caller may see.  The code is
stable and documented; ``str(error)`` is one line for people.  ``detail`` holds the storlet's
traceback: it is sent to the storlet's owner and never enters the operator's log.

::

    StorletError
    ├── BadRequest, RegistrationInvalid, BundleInvalid, RulesInvalid    all faults at once
    ├── RegistrationCheckFailed                              uploaded code that fails its check
    ├── AccessDenied                                         as Swift answered
    │   ├── StorletDenied                                    read access to the storlet is missing
    │   └── RuleRefused                                      a rule of the account refuses
    ├── StorletNotFound, MethodNotAllowed, PreconditionFailed, RangeUnsatisfiable
    ├── InputIncomplete                                      the client or the source stopped early
    ├── Unprocessable                                        the storlet's code or its limits
    ├── TenantBusy                                           the account's share of the node is used
    ├── RulesConflict
    ├── NodeBusy
    │   ├── RulesUnavailable
    │   ├── SandboxUnavailable
    │   │   └── CodeMissing
    │   └── BackendFailed
    │       └── CodeReplaced
    └── InternalError

4xx is the client's request, or the tenant's code and limits; 5xx is the operator's or ours.
Clients of Swift retry every 5xx, so a deterministic failure of a storlet must never be one.

To add an error code, add one row here.  A code without a class of its own is raised as
``StorletError(text, code=errors.THE_CODE)``; :mod:`storlet_middleware.reference` documents the row.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
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
    501: "Not Implemented",
    503: "Service Unavailable",
}


#: Characters of a value that a fault quotes.
_QUOTED: Final = 60


def fault(key: str, value: str, text: str) -> str:
    """The text of a wrong value: where it is, the value itself, and what is wanted.

    :param key: a header, a metadata key or a parameter.
    """
    shown = value if len(value) <= _QUOTED else value[: _QUOTED - 3] + "..."
    return f"{key}: {shown!r}: {text}"


class Blame(Enum):
    """The party whose part has to change."""

    CLIENT = "client"
    TENANT_CODE = "tenant_code"
    TENANT_LIMIT = "tenant_limit"
    OPERATOR = "operator"
    US = "us"


class Retry(Enum):
    """Whether the same request can succeed when it is repeated."""

    NO = "no"
    YES = "yes"
    LATER = "later"  # after the seconds in Retry-After


@dataclass(frozen=True)
class ErrorCode:
    """One row: a code and all that is fixed for it.

    ``retry_after``: default of Retry-After in seconds; ``None`` exactly where ``retry`` is not
    LATER. ``legacy_get``, ``legacy_put``: statuses of OpenStack Storlets, used with
    ``legacy_status``. ``has_tenant_text``: the text may quote what the storlet has read; only its
    owner may see it. ``has_source_text``: the text may describe the source, for example its length.
    ``is_of_step``: one storlet of a pipeline can be the cause; the answer then names it.
    ``is_of_node``: the cause can be the node that failed, so another node can run the invocation.
    ``statuses``: documentation of the status where it is Swift's and not fixed here."""

    code: str
    status: int
    blame: Blame
    retry: Retry
    help: str
    retry_after: int | None = None
    legacy_get: int | None = None
    legacy_put: int | None = None
    has_tenant_text: bool = False
    has_source_text: bool = False
    is_of_step: bool = False
    is_of_node: bool = False
    statuses: str = ""


#: Every error code, by its name.
TABLE: Final[dict[str, ErrorCode]] = {}


def _code(code: str, status: int, blame: Blame, retry: Retry, **more: Any) -> str:
    TABLE[code] = ErrorCode(code, status, blame, retry, **more)
    return code


def _later(code: str, status: int, blame: Blame, seconds: int, **more: Any) -> str:
    return _code(code, status, blame, Retry.LATER, retry_after=seconds, **more)


def _storlet(code: str, blame: Blame, **more: Any) -> str:
    """A failure of a storlet: always 422, with the legacy statuses of OpenStack Storlets."""
    return _code(
        code, 422, blame, Retry.NO, legacy_get=503, legacy_put=500, is_of_step=True, **more
    )


# fmt: off
BAD_REQUEST: Final = _code(
    "bad_request", 400, Blame.CLIENT, Retry.NO,
    help="malformed header, parameter or range; account not enabled for storlets")
REGISTRATION_INVALID: Final = _code(
    "registration.invalid", 400, Blame.CLIENT, Retry.NO,
    help="metadata or name of an uploaded storlet or dependency")
REGISTRATION_BUNDLE: Final = _code(
    "registration.bundle", 400, Blame.CLIENT, Retry.NO,
    help="an uploaded bundle has faults; the answer lists them, and the current version stays")
RULES_INVALID: Final = _code(
    "rules.invalid", 400, Blame.CLIENT, Retry.NO,
    help="an uploaded rules object has faults; the answer lists all of them, and the old rules"
         " stay in force")
ACCESS_DENIED: Final = _code(
    "access.denied", 403, Blame.CLIENT, Retry.NO, statuses="401, 403",
    help="access to the storlet, the object or an extra resource is denied, as Swift answered")
ACCESS_RULE: Final = _code(
    "access.rule", 403, Blame.CLIENT, Retry.NO,
    help="a rule of the account refuses the request; X-Storlet-Rule names it")
STORLET_NOT_FOUND: Final = _code(
    "storlet.not_found", 404, Blame.CLIENT, Retry.NO, legacy_get=401, legacy_put=401,
    is_of_step=True,
    help="no such storlet")
INPUT_NOT_FOUND: Final = _code(
    "input.not_found", 404, Blame.CLIENT, Retry.NO,
    help="the object, or an extra resource, does not exist")
TARGET_NOT_FOUND: Final = _code(
    "target.not_found", 404, Blame.CLIENT, Retry.NO,
    help="the container to write to does not exist")
SECRET_NOT_FOUND: Final = _code(
    "secret.not_found", 404, Blame.CLIENT, Retry.NO,
    help="a secret that is to be deleted does not exist")
RUN_NOT_FOUND: Final = _code(
    "run.not_found", 404, Blame.CLIENT, Retry.NO,
    help="no record of a run has this id, or it is another caller's")
METHOD_NOT_ALLOWED: Final = _code(
    "method.not_allowed", 405, Blame.CLIENT, Retry.NO,
    help="a storlet runs with GET, PUT and COPY only")
INPUT_TIMEOUT: Final = _code(
    "input.timeout", 408, Blame.CLIENT, Retry.YES,
    help="the client stopped sending")
REGISTRATION_CONFLICT: Final = _code(
    "registration.conflict", 409, Blame.CLIENT, Retry.YES,
    help="another request is changing the versions of this bundle")
RULES_CONFLICT: Final = _code(
    "rules.conflict", 409, Blame.CLIENT, Retry.YES,
    help="the rules are being changed by another request, or the ruleset version to be deleted is"
         " in force")
PRECONDITION_FAILED: Final = _code(
    "precondition.failed", 412, Blame.CLIENT, Retry.NO,
    help="a copy without a destination or with a malformed one, or a condition of the request does"
         " not hold")
RANGE_UNSATISFIABLE: Final = _code(
    "range.unsatisfiable", 416, Blame.CLIENT, Retry.NO,
    help="the input range is outside the object, or Range is outside the result")
INPUT_ETAG_MISMATCH: Final = _code(
    "input.etag_mismatch", 422, Blame.CLIENT, Retry.YES,
    help="the body of a PUT does not match its ETag")
SWIFT_REFUSED: Final = _code(
    "swift.refused", 400, Blame.CLIENT, Retry.NO, statuses="4xx",
    help="Swift refused the request for a reason of its own, such as a quota")
STORLET_LOAD: Final = _storlet(
    "storlet.load", Blame.TENANT_CODE, has_tenant_text=True,
    help="the code cannot be loaded: syntax, import, missing class, bad jar, missing dependency")
STORLET_FAILED: Final = _storlet(
    "storlet.failed", Blame.TENANT_CODE, has_tenant_text=True,
    help="the storlet raised an exception, exited or was killed")
REGISTRATION_CHECK: Final = _code(
    "registration.check", 422, Blame.TENANT_CODE, Retry.NO, has_tenant_text=True,
    help="the code of an uploaded storlet cannot be loaded, or fails a test case; nothing was"
         " stored, and the storlet stays as it was")
TIMEOUT_FIRST_BYTE: Final = _storlet(
    "storlet.timeout.first_byte", Blame.TENANT_LIMIT,
    help="the storlet made no progress for too long before its first output")
TIMEOUT_IDLE: Final = _storlet(
    "storlet.timeout.idle", Blame.TENANT_LIMIT,
    help="the storlet made no progress for too long after its first output")
TIMEOUT_TOTAL: Final = _storlet(
    "storlet.timeout.total", Blame.TENANT_LIMIT,
    help="the invocation took longer than its total deadline")
LIMIT_MEMORY: Final = _storlet(
    "storlet.limit.memory", Blame.TENANT_LIMIT,
    help="the storlet or its sandbox ran out of memory: stream the data, or declare more memory")
LIMIT_OUTPUT: Final = _storlet(
    "storlet.limit.output", Blame.TENANT_LIMIT,
    help="more output than the limit: request less, or declare more")
LIMIT_METADATA: Final = _storlet(
    "storlet.limit.metadata", Blame.TENANT_LIMIT,
    help="more metadata than the limit (4096 bytes as JSON by default), or than Swift stores")
LIMIT_PROCESSES: Final = _storlet(
    "storlet.limit.processes", Blame.TENANT_LIMIT,
    help="another process or thread could not be started: wait for those that run")
LIMIT_SCRATCH: Final = _storlet(
    "storlet.limit.scratch", Blame.TENANT_LIMIT,
    help="the scratch space (/tmp and the home) is full: remove files that are no longer needed,"
         " also those of earlier invocations")
LIMIT_SERVICES: Final = _storlet(
    "storlet.limit.services", Blame.TENANT_LIMIT,
    help="the storlet used more operations on the store, open files, created objects or bytes than"
         " its limits")
SERVICES_REFUSED: Final = _storlet(
    "storlet.services", Blame.TENANT_CODE,
    help="the storlet's sandbox sent an invalid request for a service; or a storlet whose services"
         " would run storlets again without end: the message names the cycle")
STORLET_SECRET: Final = _storlet(
    "storlet.secret", Blame.TENANT_LIMIT, has_tenant_text=True,
    help="a secret that the storlet declares is not set: the owner of the account sets it")
TENANT_BUSY: Final = _later(
    "tenant.busy", 429, Blame.TENANT_LIMIT, 1, legacy_get=503, legacy_put=503, is_of_step=True,
    help="the account uses its whole share of the node, and no slot was free in time")
INPUT_INCOMPLETE: Final = _code(
    "input.incomplete", 499, Blame.CLIENT, Retry.YES, has_source_text=True,
    help="the client's body, or the source, broke off")
CLIENT_GONE: Final = _code(
    "client.gone", 499, Blame.CLIENT, Retry.YES,
    help="the client closed its connection")
INTERNAL: Final = _code(
    "internal", 500, Blame.US, Retry.YES, is_of_node=True,
    help="a defect of this software")
SECRETS_OFF: Final = _code(
    "secrets.off", 501, Blame.OPERATOR, Retry.NO,
    help="the cluster has no key for secrets: neither a keymaster of Swift nor [secrets] key_file")
SECRETS_UNREADABLE: Final = _later(
    "secrets.unreadable", 503, Blame.OPERATOR, 60,
    help="a secret cannot be decrypted: the cluster lacks its key, or it was damaged")
NODE_BUSY: Final = _later(
    "node.busy", 503, Blame.OPERATOR, 5, is_of_step=True, is_of_node=True,
    help="the node has no capacity left, for another sandbox or another invocation, and none was"
         " freed in time")
RULES_UNAVAILABLE: Final = _later(
    "rules.unavailable", 503, Blame.OPERATOR, 5,
    help="the account's rules cannot be read, and some of them may be mandatory; nothing was done")
SANDBOX_UNAVAILABLE: Final = _later(
    "sandbox.unavailable", 503, Blame.OPERATOR, 5, is_of_step=True, is_of_node=True,
    help="no sandbox can be started, or the node stalled: sandboxd or Docker does not answer, or"
         " the image is missing")
CODE_MISSING: Final = _later(
    "code.missing", 503, Blame.OPERATOR, 5, is_of_step=True, is_of_node=True,
    help="the node's copy of the storlet's code was evicted twice while the request needed it")
BACKEND_FAILED: Final = _later(
    "backend.failed", 503, Blame.OPERATOR, 5, has_source_text=True, is_of_node=True,
    help="Swift could not deliver: storage nodes failed during the request")
OUTPUTS_PARTIAL: Final = _later(
    "outputs.partial", 503, Blame.OPERATOR, 5,
    help="Swift failed while it stored several outputs of a run that had succeeded: the answer"
         " names those that are stored and those that are not; the same request stores all again")
INPUT_CHANGED: Final = _later(
    "input.changed", 503, Blame.CLIENT, 1, has_source_text=True,
    help="the object of a seekable input was replaced or deleted while the storlet read it, or"
         " while a distribution read its parts")
CODE_REPLACED: Final = _later(
    "code.replaced", 503, Blame.CLIENT, 5, is_of_step=True,
    help="the storlet was uploaded again or removed while the request fetched its code")
# fmt: on

#: Only such a code becomes a header when :data:`TABLE` lacks it (a node of a newer release sent
#: it).
_UNKNOWN_STORLET_CODE: Final = re.compile(r"storlet(\.[a-z_]+)+")


def row_of(code: str) -> ErrorCode:
    """The row of ``code``; an unknown ``storlet.*`` code has that of ``storlet.failed``."""
    return TABLE.get(code) or TABLE[STORLET_FAILED if code.startswith("storlet.") else INTERNAL]


class StorletError(Exception):
    """Base of all; the row of ``code`` gives what the arguments do not.

    ``status`` is the HTTP status, ``retry_after`` whole seconds or ``None``.
    """

    code: str = INTERNAL
    status: int = TABLE[INTERNAL].status
    legacy_get: int | None = None
    legacy_put: int | None = None

    def __init_subclass__(cls, *, code: str = "") -> None:
        """``code``: the code of the class, unless an instance is given another."""
        super().__init_subclass__()
        if code:
            row = TABLE[code]
            cls.code, cls.status = code, row.status
            cls.legacy_get, cls.legacy_put = row.legacy_get, row.legacy_put

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
            row = row_of(code)
            self.status, self.legacy_get, self.legacy_put = (
                row.status,
                row.legacy_get,
                row.legacy_put,
            )
        if status is not None:
            self.status = status
        self.detail = detail
        self.retry_after = row_of(self.code).retry_after if retry_after is None else retry_after

    def without_tenant_text(self) -> StorletError:
        """The error without text of the storlet's code, for callers who do not own the storlet."""
        if not row_of(self.code).has_tenant_text:
            self.detail = ""
            return self
        text = "the storlet failed; its owner can see why"
        return type(self)(text, code=self.code, status=self.status, retry_after=self.retry_after)

    def to_message(self) -> dict[str, Any]:
        """The error as JSON-able data, for the frame that ends an answer."""
        return {
            "status": self.status,
            "code": self.code,
            "message": str(self),
            "detail": self.detail,
            "retry_after": self.retry_after,
        }


class BadRequest(StorletError, code=BAD_REQUEST):
    pass


class RegistrationInvalid(StorletError, code=REGISTRATION_INVALID):
    pass


class BundleInvalid(StorletError, code=REGISTRATION_BUNDLE):
    """An uploaded bundle is refused; the current version stays."""


class RegistrationCheckFailed(StorletError, code=REGISTRATION_CHECK):
    """Uploaded code cannot be loaded, or fails a test case; the storlet stays as it was."""


class RulesInvalid(StorletError, code=RULES_INVALID):
    """An uploaded rules object is refused; the old rules stay in force."""


class AccessDenied(StorletError, code=ACCESS_DENIED):
    pass


class StorletDenied(AccessDenied):
    """The caller may not read the storlet."""

    # Of all access.denied errors, OpenStack Storlets answers only this one with 401, independent of
    # Swift's status.
    legacy_get = legacy_put = 401


class RuleRefused(AccessDenied, code=ACCESS_RULE):
    """A rule of the account refuses the request; the answer carries ``rule``, its name."""

    def __init__(self, rule: str, message: str, **more: Any) -> None:
        super().__init__(f"rule {rule}: {message}", **more)
        self.rule = rule


class StorletNotFound(StorletError, code=STORLET_NOT_FOUND):
    pass


class MethodNotAllowed(StorletError, code=METHOD_NOT_ALLOWED):
    pass


class PreconditionFailed(StorletError, code=PRECONDITION_FAILED):
    pass


class RangeUnsatisfiable(StorletError, code=RANGE_UNSATISFIABLE):
    #: Bytes of the result that has no byte in the client's range; ``None``: of an input.
    size: int | None = None


class InputIncomplete(StorletError, code=INPUT_INCOMPLETE):
    pass


class Unprocessable(StorletError, code=STORLET_FAILED):
    pass


class RulesConflict(StorletError, code=RULES_CONFLICT):
    pass


class TenantBusy(StorletError, code=TENANT_BUSY):
    pass


class NodeBusy(StorletError, code=NODE_BUSY):
    pass


class RulesUnavailable(NodeBusy, code=RULES_UNAVAILABLE):
    """The rules in force are unknown, and some of them may be mandatory: nothing is done."""


class SandboxUnavailable(NodeBusy, code=SANDBOX_UNAVAILABLE):
    pass


class DaemonDown(SandboxUnavailable):
    """The node's sandboxd does not answer: no storlet of any account can be started there."""


class CodeMissing(SandboxUnavailable, code=CODE_MISSING):
    """The node's copy of the code is missing; the filter fetches it and repeats its request."""


class BackendFailed(NodeBusy, code=BACKEND_FAILED):
    pass


class CodeReplaced(BackendFailed, code=CODE_REPLACED):
    """The code of a storlet version was replaced or removed just now.  Nothing has run."""


class InternalError(StorletError, code=INTERNAL):
    pass


def _classes(cls: type[StorletError]) -> dict[str, type[StorletError]]:
    """The class of each code, below ``cls``; a subclass without a code of its own adds nothing."""
    found: dict[str, type[StorletError]] = {}
    for sub in cls.__subclasses__():
        found |= _classes(sub) | {sub.code: sub}
    return found


#: RuleRefused is made where the rule is known; from elsewhere its code is an AccessDenied.
_BY_CODE: Final = _classes(StorletError) | {ACCESS_RULE: AccessDenied}


def _class_of(row: ErrorCode) -> type[StorletError]:
    is_tenants = row.blame in (Blame.TENANT_CODE, Blame.TENANT_LIMIT)
    return _BY_CODE.get(row.code) or (Unprocessable if is_tenants else StorletError)


def from_code(
    code: str, message: str, *, detail: str = "", retry_after: int | None = None
) -> StorletError:
    """The error for a code that came from a sandbox, from sandboxd or in a frame.

    An unknown code that begins with ``storlet.`` counts as the tenant's (422).  Any other unknown
    code is our defect: it is never a success, and the tenant is never blamed for it."""
    row = TABLE.get(code)
    if row is not None:
        return _class_of(row)(message, code=code, detail=detail, retry_after=retry_after)
    if _UNKNOWN_STORLET_CODE.fullmatch(code):
        return Unprocessable(message, code=code, detail=detail)
    return InternalError(f"unknown error code {code!r}: {message}", detail=detail)


def from_message(message: dict[str, Any]) -> StorletError:
    """Reverse of :meth:`StorletError.to_message`; tolerates missing keys."""
    retry_after = message.get("retry_after")
    return from_code(
        str(message.get("code", INTERNAL)),
        str(message.get("message", "no reason given")),
        detail=str(message.get("detail", "")),
        retry_after=retry_after if isinstance(retry_after, int) else None,
    )
