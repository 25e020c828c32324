"""The headers of this package on successful answers to clients of the S3 API.

::

    [filter:storlets-s3]
    use = egg:swift-storlets#s3_headers

``s3api`` builds each answer from the few headers that S3 knows.  This filter, to its left, adds the
answer headers of :mod:`storlet_middleware.names` again: the storlet filter, to the right of
``s3api``, leaves them in the request's environment.  Without this filter the answers are the same
without these headers.

An S3 request may be several Swift requests: the last one of the object counts.  Requests without an
object, such as DeleteObjects, get no headers, because their answers concern several objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from storlet_middleware.names import TABLE, Scope
from storlet_middleware.wsgi import s3_request

#: Key of the headers in an environment; ``s3api`` copies the environment, not the value.
_KEY: Final = "storlets.s3_headers"
_OURS: Final = frozenset(row.name.lower() for row in TABLE if row.scope is Scope.ANSWER)

StartResponse = Callable[..., Any]
WSGIApp = Callable[[dict[str, Any], StartResponse], Iterable[bytes]]


class S3Headers:
    """The filter to the left of ``s3api``."""

    def __init__(self, app: WSGIApp) -> None:
        self._app = app

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """WSGI."""
        kept: dict[str, str] = {}
        environ[_KEY] = kept

        def start(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Any:
            if not kept:
                return start_response(status, headers, *exc_info)
            # s3api keeps the headers of errors.
            present = {key.lower() for key, _ in headers}
            added = [(key, value) for key, value in kept.items() if key.lower() not in present]
            return start_response(status, [*headers, *added], *exc_info)

        return self._app(environ, start)


def keeping(environ: dict[str, Any], start_response: StartResponse) -> StartResponse:
    """``start_response`` that also leaves the headers of this package to :class:`S3Headers`."""
    kept = environ.get(_KEY)
    if kept is None or not s3_request.is_s3(environ) or not s3_request.names_object(environ):
        return start_response

    def start(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Any:
        kept.clear()
        kept.update((key, value) for key, value in headers if key.lower() in _OURS)
        return start_response(status, headers, *exc_info)

    return start


def filter_factory(_global_conf: dict[str, str], **_local_conf: str) -> Callable[[WSGIApp], Any]:
    """Paste entry point; the filter has no options."""
    return S3Headers
