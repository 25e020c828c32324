"""How a rule's refusal reaches a client of the S3 API, which gets answers in XML and none of Swift's headers.

``s3api`` stands left of us and makes of every 403 an "Access Denied.", which does not say that it was a rule.  What its own
parts raise it passes on with its text, so the refusal is raised as one of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from storlet_middleware import names
from storlet_middleware.errors import RuleRefused, StorletError

#: ``swift.source`` of the requests that ``s3api`` makes of its clients' ones.
_SOURCE: Final = "S3"


def tell(environ: Mapping[str, Any], error: StorletError) -> None:
    """Raise what ``s3api`` understands, when the request is one of its own and a rule refuses it."""
    if not isinstance(error, RuleRefused) or environ.get("swift.source") != _SOURCE:
        return
    # Only where it is in use: it wants a parser of XML.
    from swift.common.middleware.s3api.s3response import AccessDenied  # noqa: PLC0415

    raise AccessDenied(str(error), "rule", headers={names.ERROR: error.code, names.RULE: error.rule}) from error
