"""Swift's refusal of a PUT, known before any of its bytes: rights, container and quotas.

Swift refuses such a PUT by itself when it is sent, which is late if its body has to be made first.
Its own middlewares for quotas check it, with an end of the pipeline that stores nothing.  A quota
that the size of the body exceeds is not known here: Swift decides about that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from swift.common.middleware.account_quotas import AccountQuotaMiddleware
from swift.common.middleware.container_quotas import ContainerQuotaMiddleware
from swift.common.registry import get_swift_info
from swift.common.swob import HTTPNotFound, HTTPServiceUnavailable, Request, Response
from swift.proxy.controllers.base import get_container_info

from storlet_middleware import names

#: By the name in ``/info``: only those that are in the pipeline are used.
_QUOTAS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "account_quotas": AccountQuotaMiddleware,
    "container_quotas": ContainerQuotaMiddleware,
}


def refusal_of(app: Any, environ: Mapping[str, Any]) -> Response | None:
    """The answer with which Swift would refuse the PUT in ``environ``; ``None`` if it would not.

    404: there is no such container.

    :param app: the rest of the pipeline, for look-ups.
    """

    def end(asked: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        is_put = asked["REQUEST_METHOD"] == "PUT"
        answer: Iterable[bytes]
        answer = (_authorized(app, asked) if is_put else app)(asked, start_response)
        return answer

    asking, known = end, get_swift_info()
    for name, quotas in _QUOTAS.items():
        if name in known:
            asking = quotas(asking)
    answer = Request(dict(environ)).get_response(asking)
    return None if answer.status_int // 100 == 2 else answer


def _authorized(app: Any, environ: dict[str, Any]) -> Response:
    info = get_container_info(environ, app, swift_source=names.SWIFT_SOURCE)
    request = Request(environ)
    authorize = environ.get("swift.authorize")
    if authorize is not None:
        request.acl = info["write_acl"]
        refusal = authorize(request)
        if refusal is not None:
            return refusal
    if info["status"] == 404:
        return HTTPNotFound(request=request)
    if info["status"] // 100 != 2:
        return HTTPServiceUnavailable(request=request)
    return Response(status=204, request=request)
