"""Requests of an account's owner for its secrets.

::

    POST   /v1/ACCOUNT?storlet-secrets=NAME     set; the body is the value: 201, or 204 if replaced
    DELETE /v1/ACCOUNT?storlet-secrets=NAME     204, or 404
    GET    /v1/ACCOUNT?storlet-secrets          the names as JSON; there is no request for a value

Swift's own authorization of a POST of the account decides, and its mark of an owner.  A signature
in place of a login, and the S3 API, are refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from swift.common.swob import Request, Response

from storlet_middleware import errors, names
from storlet_middleware.account_secrets.store import LEAST_BYTES, MOST_BYTES, SecretStore
from storlet_middleware.errors import AccessDenied, BadRequest, StorletError, fault
from storlet_middleware.wsgi import authorization, delegation, s3_request
from storlet_middleware.wsgi.bodies import ClientBody
from storlet_middleware.wsgi.context import RequestContext
from storlet_middleware.wsgi.subrequest import SwiftRefusal

#: The methods of requests for secrets; others are Swift's.  Without this filter Swift refuses a
#: DELETE of an account with a query, and a POST changes nothing.
METHODS: Final = ("GET", "POST", "PUT", "DELETE")


class SecretAnswers:
    """The answers for all accounts.

    :param require_enabled: raises :class:`~storlet_middleware.errors.BadRequest` when an account is
        not enabled for storlets.
    :param client_seconds: idle deadline of a client that sends a value.
    """

    def __init__(
        self,
        store: SecretStore,
        require_enabled: Callable[[dict[str, Any]], None],
        client_seconds: float,
    ) -> None:
        self._store = store
        self._require_enabled = require_enabled
        self._client_seconds = client_seconds

    def answer(self, context: RequestContext) -> Response:
        """The answer to one request; raises Swift's refusal of callers without rights on the
        account.
        """
        operation, environ = context.require_operation(), context.environ
        _require_owner(environ)
        self._require_enabled(environ)
        name = _name_of(operation.query, operation.sent_method)
        account = operation.path
        if operation.sent_method == "GET":
            return _listing(environ, self._store.names(environ, account))
        if operation.sent_method == "DELETE":
            if not self._store.delete(environ, account, name):
                raise StorletError(f"there is no secret {name}", code=errors.SECRET_NOT_FOUND)
            return _response(environ, 204)
        is_new = self._store.set(environ, account, name, self._value(environ))
        return _response(environ, 201 if is_new else 204)

    def _value(self, environ: dict[str, Any]) -> bytes:
        body = ClientBody(environ, self._client_seconds)
        pieces, size = [], 0
        for piece in body:
            size += len(piece)
            if size > MOST_BYTES:
                body.abandon()
                raise BadRequest(f"the value has more than {MOST_BYTES} bytes")
            pieces.append(piece)
        value = b"".join(pieces)
        # A storlet may remove the space, and the rest must be long enough for the redaction.
        own = len(value.strip())
        if own < LEAST_BYTES:
            raise BadRequest(
                f"the value has {own} bytes: want {LEAST_BYTES} to {MOST_BYTES}, without space at"
                " its start and end, in the body of the request"
            )
        return value


def _require_owner(environ: dict[str, Any]) -> None:
    if delegation.is_signed(environ):
        raise AccessDenied("a signed request cannot use secrets: send it with a token")
    if s3_request.is_s3(environ):
        raise BadRequest(f"{names.SECRETS_QUERY}: not with the S3 API")
    # A GET is a right that X-Account-Access-Control gives to readers.
    verdict = authorization.authorize_account(environ, "POST")
    if verdict.refusal is not None:
        raise SwiftRefusal(verdict.refusal)
    if not verdict.is_owner:
        raise AccessDenied("only owners of the account set, list and delete its secrets")


def _name_of(query: Mapping[str, str], method: str) -> str:
    """The name in a query; empty for a list.

    :raises BadRequest: with all faults.
    """
    name = query[names.SECRETS_QUERY]
    known = (names.SECRETS_QUERY, *(("format",) if method == "GET" else ()))
    faults = [f"unknown parameter {each!r}" for each in query if each not in known]
    if method == "GET" and name:
        faults.append(
            f"{names.SECRETS_QUERY}: {name[:60]!r}: a value cannot be read: leave the name out for"
            " a list"
        )
    elif method != "GET" and (wrong := names.secret_name_fault(name)):
        faults.append(fault(names.SECRETS_QUERY, name, wrong))
    if faults:
        raise BadRequest("; ".join(faults))
    return name


def _listing(environ: dict[str, Any], found: Mapping[str, str]) -> Response:
    rows = [{"name": name, "set": time} for name, time in sorted(found.items())]
    response = _response(environ, 200, (json.dumps(rows) + "\n").encode())
    response.headers["Content-Type"] = "application/json; charset=utf-8"
    return response


def _response(environ: dict[str, Any], status: int, body: bytes = b"") -> Response:
    # Swift's listing_formats would take the answer for a listing.
    environ["swift.format_listing"] = False
    response = Response(status=status, request=Request(environ), body=body)
    response.headers["Cache-Control"] = "no-store"
    return response
