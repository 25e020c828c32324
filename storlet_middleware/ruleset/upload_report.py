"""The response to an upload of rules: all findings, as text or (``Accept: application/json``) JSON.

::

    rules.yaml:7:5: error [rule.never-matches]: rule b can never match: rule a before it decides ...
        help: move b before a, restrict a, or remove b
        example: method=GET container=c object=o
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from swift.common.swob import Request, Response

from rules.model import Finding
from storlet_middleware import names
from storlet_middleware.errors import REASONS, StorletError
from storlet_middleware.ruleset.check_process import as_data
from storlet_middleware.ruleset.versions import RULES


def as_text(findings: Iterable[Finding]) -> str:
    """One paragraph for each finding; non-printable characters are escaped for terminals."""
    return "".join(_paragraph(finding) for finding in findings)


def _paragraph(finding: Finding) -> str:
    place = f"{RULES}:{finding.place.line}:{finding.place.column}"
    lines = [f"{place}: {finding.severity.value} [{finding.code}]: {finding.text}"]
    details = (("help", finding.help), ("example", finding.example))
    lines += [f"    {label}: {text}" for label, text in details if text]
    return "".join(_escaped(line) + "\n" for line in lines)


def _escaped(line: str) -> str:
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in line
    )


def refusal(
    environ: Mapping[str, Any], error: StorletError, findings: Iterable[Finding]
) -> Response:
    """The response for ``error`` with its findings."""
    response = _response(
        environ, f"{error.status} {REASONS[error.status]}", str(error), error.code, findings
    )
    response.headers[names.ERROR] = error.code
    return response


def acceptance(environ: Mapping[str, Any], message: str, warnings: Iterable[Finding]) -> Response:
    """201 with the warnings that the client accepted."""
    return _response(environ, "201 Created", message, None, warnings)


def _response(
    environ: Mapping[str, Any],
    status: str,
    message: str,
    code: str | None,
    findings: Iterable[Finding],
) -> Response:
    if "application/json" in environ.get("HTTP_ACCEPT", ""):
        data: dict[str, Any] = {"code": code} if code else {}
        data |= {"message": message, "findings": [*map(as_data, findings)]}
        body, kind = json.dumps(data) + "\n", "application/json"
    else:
        body, kind = f"{message}\n{as_text(findings)}", "text/plain"
    response = Response(
        status=status, body=body.encode("utf-8", "replace"), request=Request(dict(environ))
    )
    response.headers["Content-Type"] = f"{kind}; charset=utf-8"
    return response
