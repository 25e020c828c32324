"""Turns errors into answers; no other module does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol

from swift.common.swob import Request, Response
from swift.common.utils import drain_and_close

from storlet_middleware import names
from storlet_middleware.errors import REASONS, RangeUnsatisfiable, RuleRefused, StorletError
from storlet_middleware.wsgi import delegation, s3_errors
from storlet_middleware.wsgi.subrequest import SwiftRefusal
from storlet_middleware.wsgi.swift_paths import parse_path


class HasHeaders(Protocol):
    """A run, whose answers carry headers of their own."""

    def headers(self) -> dict[str, str]: ...


class ErrorAnswers:
    """Makes the answers of failed requests.

    :param is_legacy: use the status codes of OpenStack Storlets.
    """

    def __init__(self, *, is_legacy: bool) -> None:
        self._is_legacy = is_legacy

    def of_swift(
        self,
        environ: dict[str, Any],
        refusal: SwiftRefusal,
        refused: StorletError | None,
        *run: HasHeaders,
    ) -> Any:
        """Swift's own answer, unless the rules caused it.

        :param refused: the first refusal by the rules, or ``None``.
        """
        if refused is not None:
            return self.of(environ, refused, *run)
        answer = _for_method_of(environ, refusal.answer)
        is_denied = answer.status_int in (401, 403)
        if is_denied and not _asks_us(environ):
            return answer
        for each in run:
            headers = each.headers()
            known = (names.INVOCATION,) if is_denied else headers
            answer.headers.update({name: headers[name] for name in known if name in headers})
        if answer.status_int >= 400:
            answer.headers[names.ERROR] = refusal.code
        return answer

    def of(self, environ: Mapping[str, Any], error: StorletError, *run: HasHeaders) -> Response:
        """The answer for ``error``: its code in ``X-Storlet-Error``, its text as JSON or as plain
        text.
        """
        headers = _headers(error, *run)
        s3_errors.raise_for_s3(environ, error, headers)
        body, kind = _body(environ, error)
        # swob does not know every status.
        line = (
            f"{self._status(environ, error)} {REASONS.get(self._status(environ, error), 'Error')}"
        )
        response = Response(status=line, body=body.encode(), request=Request(dict(environ)))
        response.headers.update(headers)
        response.headers["Content-Type"] = f"{kind}; charset=utf-8"
        return response

    def _status(self, environ: Mapping[str, Any], error: StorletError) -> int:
        if not self._is_legacy:
            return error.status
        return (
            error.legacy_get if environ["REQUEST_METHOD"] == "GET" else error.legacy_put
        ) or error.status


def _asks_us(environ: Mapping[str, Any]) -> bool:
    """Whether the request has a header of ours, or is one of this filter's requests of an account.

    Any other is ours by a rule only.  A caller without access learns nothing of the rules, which
    may depend on facts of the object.
    """
    path = parse_path(environ["PATH_INFO"])
    is_of_account = path is None or path.container is None
    return is_of_account or bool(delegation.given_headers(environ))


def _headers(error: StorletError, *run: HasHeaders) -> dict[str, str]:
    headers: dict[str, str] = {}
    for each in run:
        headers.update(each.headers())
    headers[names.ERROR] = error.code
    if isinstance(error, RuleRefused):
        headers[names.RULE] = error.rule
    if isinstance(error, RangeUnsatisfiable) and error.size is not None:
        headers["Content-Range"] = f"bytes */{error.size}"
    if error.retry_after is not None:
        headers["Retry-After"] = str(error.retry_after)
    return headers


def _for_method_of(environ: dict[str, Any], answer: Any) -> Any:
    """``answer`` adapted to the client's method: Swift may have answered a sub-request with another
    method, such as GET for the client's HEAD.
    """
    if environ["REQUEST_METHOD"] != "HEAD":
        return answer
    drain_and_close(answer)
    headers = {
        key: value for key, value in answer.headers.items() if key.lower() != "content-length"
    }
    return Response(status=answer.status, headers=headers, request=Request(environ))


def _body(environ: Mapping[str, Any], error: StorletError) -> tuple[str, str]:
    """Text and media type."""
    if "application/json" not in environ.get("HTTP_ACCEPT", ""):
        return f"{error}\n" + (f"\n{error.detail.rstrip()}\n" if error.detail else ""), "text/plain"
    message = {"code": error.code, "message": str(error)}
    if error.detail:
        message["detail"] = error.detail
    return json.dumps(message) + "\n", "application/json"
