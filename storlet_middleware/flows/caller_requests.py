"""Requests of a flow in the caller's name, through the whole filter.

Each is handled like a request that the caller sends: Swift's authorization, grants and rules apply
to its own path.  The caller's headers stay, because rules may read them.  Headers that belong to
the outer request (its body, conditions, ranges and those of this filter) do not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

from swift.common.swob import Request, WsgiBytesIO

from storlet_middleware import names
from storlet_middleware.wsgi.answer import Answer
from storlet_middleware.wsgi.context import CONTEXT, swift_authorize
from storlet_middleware.wsgi.strings import wsgi
from storlet_middleware.wsgi.subrequest import client_environ

#: Headers of the outer request only; the beginnings of their names.
_OUTER: Final = (
    "CONTENT_",
    "HTTP_ACCEPT",
    "HTTP_CONTENT_",
    "HTTP_ETAG",
    "HTTP_EXPECT",
    "HTTP_IF_",
    "HTTP_RANGE",
    "HTTP_TRANSFER_ENCODING",
    "HTTP_X_ACCOUNT_",
    "HTTP_X_OBJECT_",
    "HTTP_X_REMOVE_",
)
#: Entries of the outer environment that belong to its connection, or to its authorization.
_STATE: Final = (
    CONTEXT,
    "RAW_PATH_INFO",
    # A failed sub-request must not break the client's connection.
    "eventlet.input",
    "eventlet.posthooks",
    "swift.authorize_override",
    "swift.format_listing",
    "swift_owner",
)

WSGIApp = Callable[..., Any]


class CallerRequests:
    """The requests of one flow.

    :param app: the filter itself.
    :param environ: the client's request.
    :param place: API version and account.
    """

    def __init__(self, app: WSGIApp, environ: Mapping[str, Any], place: tuple[str, str]) -> None:
        self._app = app
        self._place = place
        kept = client_environ(environ)
        self._environ = {
            key: value
            for key, value in kept.items()
            if key not in _STATE and not key.startswith(_OUTER)
        }
        self._environ["swift.authorize"] = swift_authorize(environ)
        if self._environ["swift.authorize"] is None:
            del self._environ["swift.authorize"]
        self._environ["swift.source"] = names.SWIFT_SOURCE
        self._infocache = dict(environ.get("swift.infocache", {}))

    def send(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> Answer:
        """The filter's answer, whose body the caller of this method closes.

        :param path: a container, or container/object, as text.
        :param headers: values as text.
        """
        environ = dict(self._environ)
        environ["REQUEST_METHOD"] = method
        environ["PATH_INFO"] = wsgi("/".join(("", *self._place, path)))
        environ["QUERY_STRING"] = urlencode(query or {}, quote_via=quote)
        environ["wsgi.input"] = WsgiBytesIO()
        environ["swift.infocache"] = dict(self._infocache)
        for name, value in (headers or {}).items():
            environ["HTTP_" + name.upper().replace("-", "_")] = wsgi(value)
        status, answered, chunks = Request(environ).call_application(self._app)
        return Answer(status, answered, chunks)
