"""``GET /v1/ACCOUNT?storlet-library``: the storlets of the library, with versions and parameters.

Swift's own authorization of a GET of the account decides.  ``/info`` has the same list.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from swift.common.swob import Request, Response

from storlet_middleware.catalog.library import Library
from storlet_middleware.wsgi import authorization
from storlet_middleware.wsgi.context import RequestContext
from storlet_middleware.wsgi.subrequest import SwiftRefusal


class LibraryList:
    """The list for all accounts.

    :param require_enabled: raises :class:`~storlet_middleware.errors.BadRequest` when an account is
        not enabled for storlets.
    """

    def __init__(self, library: Library, require_enabled: Callable[[dict[str, Any]], None]) -> None:
        self._library = library
        self._require_enabled = require_enabled

    def answer(self, context: RequestContext) -> Response:
        """The answer to one request; raises Swift's refusal of callers that may not read the
        account.
        """
        environ = context.environ
        refusal = authorization.authorize_account(environ).refusal
        if refusal is not None:
            raise SwiftRefusal(refusal)
        self._require_enabled(environ)
        # Swift's listing_formats would take the answer for a listing.
        environ["swift.format_listing"] = False
        rows = [{"name": name, **row} for name, row in self._library.published().items()]
        body = (json.dumps(rows, indent=1) + "\n").encode()
        response = Response(status=200, request=Request(environ), body=body)
        response.headers["Content-Type"] = "application/json; charset=utf-8"
        return response
