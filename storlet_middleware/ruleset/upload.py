"""Requests that change an account's rules: authorized and checked, then brought into force.

::

    PUT rules.yaml --> authorize --> check --> store version --> rules.yaml --> pointer --> 201
                           |           |       '-- a failure from here on keeps the old rules
                          403         400 rules.invalid: errors, or warnings that are not accepted

* ``COPY`` of a version to ``rules.yaml`` (or ``PUT`` with ``X-Copy-From``) uploads that version.
* ``DELETE`` of ``rules.yaml`` removes the rules.  Their versions stay; each of them can be deleted,
  except the one in force.
* Clients cannot write into ``versions/``; storlets cannot write into the container at all.

Swift's write ACL of the container and ``[rules] role`` authorize a change; a signed URL is never
sufficient.  :mod:`~storlet_middleware.ruleset.activation` performs the change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from swift.common.swob import Request, Response
from swift.common.utils import config_true_value, drain_and_close

from rules.model import Finding, Place, Severity
from rules.text import MAX_BYTES
from storlet_middleware import names
from storlet_middleware.config import Config
from storlet_middleware.errors import (
    AccessDenied,
    BadRequest,
    PreconditionFailed,
    RulesConflict,
    RulesInvalid,
)
from storlet_middleware.ruleset import upload_report
from storlet_middleware.ruleset.activation import Activation
from storlet_middleware.ruleset.pointer import VERSIONS, Pointers
from storlet_middleware.ruleset.validation import Checked, Checker
from storlet_middleware.ruleset.versions import RULES, Versions, is_ours
from storlet_middleware.wsgi import authorization, caller, delegation
from storlet_middleware.wsgi.bodies import ClientBody
from storlet_middleware.wsgi.operation import Operation
from storlet_middleware.wsgi.storlet_request import storlet_headers, unknown_header_faults
from storlet_middleware.wsgi.subrequest import SwiftRefusal
from storlet_middleware.wsgi.swift_paths import AccountPath

Handler = Callable[[dict[str, Any]], Any]

#: Headers that make rules.yaml a link or a manifest, or expire it while the rules stay in force.
_REFUSED: Final = ("X-Object-Manifest", "X-Symlink-Target", "X-Delete-At", "X-Delete-After")


class Uploads:
    """Handles requests that change the rules of any account.

    :param app: the rest of the proxy's pipeline.
    :param client_seconds: the idle deadline of a client.
    """

    def __init__(
        self,
        app: Any,
        config: Config,
        logger: Any,
        pointers: Pointers,
        versions: Versions,
        client_seconds: float,
    ) -> None:
        self.app = app
        self.container = config.rules.container
        self.role = config.rules.role.lower()
        self.logger = logger
        self.pointers = pointers
        self.versions = versions
        self.client_seconds = client_seconds
        self.checker = Checker(app, config)

    def handler(self, environ: dict[str, Any], operation: Operation) -> Handler | None:
        """The handler of a request that changes rules; ``None`` for other requests.

        Performs no input or output.
        """
        written = self._written(operation)
        if written is None or operation.wants_explanation:
            return None
        if operation.runs_storlet and operation.sent_method in ("PUT", "COPY"):
            return self._refuse_storlet
        if not is_ours(written):
            return None
        change = _Change(self, environ, operation, written)
        return {
            "PUT": change.upload,
            "COPY": change.upload,
            "POST": change.post,
            "DELETE": change.delete,
        }[operation.sent_method]

    def _written(self, operation: Operation) -> str | None:
        """The name of the object in the rules' container that the request changes, if it does."""
        if operation.sent_method not in ("PUT", "COPY", "POST", "DELETE"):
            return None
        place = operation.target
        if place is None and operation.sent_method == "PUT":
            place = operation.path  # a copy that cannot be parsed, which the handler refuses
        return place.name if place is not None and place.container == self.container else None

    def _refuse_storlet(self, environ: dict[str, Any]) -> Response:
        raise BadRequest(f"a storlet cannot write into the rules' container {self.container}")


_TOO_LONG: Final = Checked(
    findings=(
        Finding(
            Severity.ERROR,
            "size.bytes",
            Place(1, 1),
            f"the rules are longer than {MAX_BYTES:,} bytes",
            "use globs, prefixes and lists instead of one rule for each name",
        ),
    ),
    is_mandatory=False,
)


class _Change:
    """A request that changes rules.

    :param name: of the object that it changes.
    """

    def __init__(
        self, uploads: Uploads, environ: dict[str, Any], operation: Operation, name: str
    ) -> None:
        self._uploads = uploads
        self._environ = environ
        self._operation = operation
        path = operation.path
        self._account_path = AccountPath(path.version, path.account)
        self._name = name
        self._activation = Activation(
            uploads.pointers, uploads.versions, uploads.logger, environ, self._account_path
        )

    # --- the three kinds of changes ---------------------------------------------------------------

    def upload(self, environ: dict[str, Any]) -> Response:
        """PUT and COPY."""
        if not self._authorize():
            raise self._refusal(404)
        self._refuse_options()
        if self._name != RULES:
            raise AccessDenied(f"only an upload of {RULES} creates a version of the rules")
        source = self._source()
        rules = self._body() if source is None else self._version(source)
        checked = _TOO_LONG if rules is None else self._check(rules)
        if rules is None or checked.errors:
            message = f"{_count(checked)}: the rules in force are unchanged"
            return upload_report.refusal(environ, RulesInvalid(message), checked.findings)
        accepts_warnings = config_true_value(
            self._operation.header(names.RULES_ACCEPT_WARNINGS) or "false"
        )
        if checked.warnings and not accepts_warnings:
            message = (
                f"{_count(checked)}: the rules in force are unchanged; accept warnings with"
                f" {names.RULES_ACCEPT_WARNINGS}: true"
            )
            return upload_report.refusal(environ, RulesInvalid(message), checked.findings)
        pointer, headers = self._activation.activate(
            rules, self._stored_headers(), is_mandatory=checked.is_mandatory
        )
        message = "; ".join(filter(None, ("the rules are in force", _count(checked))))
        answer = upload_report.acceptance(environ, message, checked.findings)
        answer.headers.update(headers)
        answer.headers[names.RULES_VERSION] = pointer.name
        if source is not None:
            answer.headers["X-Copied-From"] = f"{self._uploads.container}/{source}"
        return answer

    def post(self, environ: dict[str, Any]) -> Any:
        """User metadata of ``rules.yaml`` has no effect on rules, so Swift handles the request."""
        self._authorize()
        self._refuse_options()
        if self._name != RULES:
            raise AccessDenied("versions of the rules are immutable")
        return self._uploads.app

    def delete(self, environ: dict[str, Any]) -> Any:
        """Delete ``rules.yaml``, and so the rules, or delete a version."""
        self._authorize()
        self._refuse_options()
        with self._activation.locked():
            before = self._activation.in_force()
            if self._name != RULES:
                if before is not None and before.name == self._name:
                    raise RulesConflict(
                        "this version of the rules is in force: upload other rules or delete the"
                        " rules first"
                    )
                return Request(environ).get_response(self._uploads.app)
            # An old version of Swift's object versioning does not affect the rules in force.
            is_old = "version-id" in self._operation.query
            replaced = before if before is not None and before.version and not is_old else None
            if replaced is not None:
                self._activation.deactivate(replaced)
            answer = Request(environ).get_response(self._uploads.app)
            if replaced is not None and answer.status_int == 404:
                # The object was missing already; the rules are removed, as requested.
                drain_and_close(answer)
                return Response(status=204, request=Request(environ))
            return answer

    # --- authorization and options ----------------------------------------------------------------

    def _authorize(self) -> bool:
        """Raise unless the client may change rules; return whether the rules' container exists."""
        path = self._uploads.versions.path(self._account_path, self._name)
        verdict = authorization.authorize(self._environ, self._uploads.app, "PUT", path)
        if verdict.refusal is not None:
            raise SwiftRefusal(verdict.refusal)
        if delegation.is_signed(self._environ):
            raise AccessDenied("a signed URL cannot change rules")
        role = self._uploads.role
        roles = {each.lower() for each in caller.caller_of(self._environ).roles}
        if role and not verdict.is_owner and role not in roles:
            raise AccessDenied(
                f"callers other than the owner need the role {role} to change the rules"
            )
        return verdict.container_status != 404

    def _refuse_options(self) -> None:
        """Raise for headers and parameters that are not allowed in a change of rules."""
        environ = self._environ
        faults = unknown_header_faults(
            storlet_headers(environ), (names.RULES_ACCEPT_WARNINGS,), "unknown header"
        )
        if self._operation.sent_method != "DELETE":
            faults += [
                f"{name}: rules must be a plain object that does not expire"
                for name in _REFUSED
                if self._operation.header(name)
            ]
        if "multipart-manifest" in self._operation.query:
            faults.append("multipart-manifest: rules must be a plain object, not a manifest")
        if "version-id" in self._operation.query and self._operation.sent_method != "DELETE":
            faults.append(f"version-id: copy one of {VERSIONS}... to {RULES} to restore it")
        if faults:
            raise BadRequest("; ".join(faults))

    def _refusal(self, status: int) -> SwiftRefusal:
        """Swift's status for a sub-request, as a response to the client."""
        return SwiftRefusal(Response(status=status, request=Request(self._environ)))

    # --- the uploaded rules -----------------------------------------------------------------------

    def _check(self, rules: bytes) -> Checked:
        return self._uploads.checker.check(self._environ, self._account_path, rules)

    def _source(self) -> str | None:
        """The name of the copied version; ``None`` if the client sends rules."""
        operation = self._operation
        if not operation.is_copy:
            return None
        source = operation.source
        if source is None:
            raise PreconditionFailed(operation.fault)
        has_length = operation.environ.get("CONTENT_LENGTH") not in (None, "", "0")
        has_body = has_length or operation.header("Transfer-Encoding") is not None
        if operation.sent_method == "PUT" and has_body:
            raise BadRequest("Copy requests require a zero byte body")
        is_here = operation.target is not None and operation.target.account == source.account
        name = source.name or ""
        is_version = source.container == self._uploads.container and name.startswith(VERSIONS)
        if not is_here or not is_version:
            # Findings quote the text, which the client may lack permission to read elsewhere.
            raise BadRequest(
                f"only a version of the same account, {self._uploads.container}/{VERSIONS}...,"
                f" can be copied to {RULES}"
            )
        return name

    def _version(self, name: str) -> bytes:
        verdict = authorization.authorize(
            self._environ,
            self._uploads.app,
            "GET",
            self._uploads.versions.path(self._account_path, name),
        )
        if verdict.refusal is not None:
            raise SwiftRefusal(verdict.refusal)
        rules, status = self._uploads.versions.read(self._environ, self._account_path, name)
        if rules is None:
            raise self._refusal(status)
        return rules

    def _body(self) -> bytes | None:
        """The request's body; ``None`` if it is too long."""
        body = ClientBody(self._environ, self._uploads.client_seconds)
        length = self._environ.get("CONTENT_LENGTH") or "0"
        chunks, size = [], 0
        if length.isdecimal() and int(length) > MAX_BYTES:
            body.abandon()
            return None
        for chunk in body:
            chunks.append(chunk)
            size += len(chunk)
            if size > MAX_BYTES:
                body.abandon()
                return None
        return b"".join(chunks)

    def _stored_headers(self) -> dict[str, str]:
        environ = self._environ
        headers = {
            names.header_of(key): str(value)
            for key, value in environ.items()
            if key.startswith("HTTP_X_OBJECT_META_") or key == "HTTP_IF_NONE_MATCH"
        }
        if environ.get("CONTENT_TYPE"):
            headers["Content-Type"] = environ["CONTENT_TYPE"]
        return headers


def _count(checked: Checked) -> str:
    counts = ((checked.errors, "error"), (checked.warnings, "warning"), (checked.notes, "note"))
    return " and ".join(
        f"{count} {what}{'s' if count > 1 else ''}" for count, what in counts if count
    )
