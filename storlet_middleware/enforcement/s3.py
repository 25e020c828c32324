"""Translates the refusal of a rule for clients of the S3 API, which get XML and no Swift headers.

``s3api`` is to the left of the storlet filter and replaces every 403 by a plain "Access Denied.",
which does not say that a rule refused the request.  It keeps the text of exceptions of its own
classes, so the refusal is raised as one of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from storlet_middleware import names
from storlet_middleware.errors import RuleRefused, StorletError

#: ``swift.source`` of the Swift requests that ``s3api`` makes out of S3 requests.
_S3API_SOURCE: Final = "S3"


def raise_for_s3(environ: Mapping[str, Any], error: StorletError) -> None:
    """Raise the refusal of a rule as an ``s3api`` exception if the request came through ``s3api``.

    Return without effect for any other error or request.
    """
    if not isinstance(error, RuleRefused) or environ.get("swift.source") != _S3API_SOURCE:
        return
    # Imported only when s3api is in use: it needs an XML parser.
    from swift.common.middleware.s3api.s3response import AccessDenied  # noqa: PLC0415

    headers = {names.ERROR: error.code, names.RULE: error.rule}
    raise AccessDenied(str(error), "rule", headers=headers) from error
