"""The caller of a run, for the requests of its storlets: the same identity, and nothing else of it.

=========================== ========================================================================
of the client's request     in a request of the storlet
=========================== ========================================================================
identity, address, token    kept: authorization and the conditions of rules see the same caller
other headers               kept: a rule may test them
headers of the operation    dropped: conditions, ranges, metadata, copies, our own; those that Swift
                            stores with an object
state of Swift's filters    dropped, but for what identifies the caller
=========================== ========================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from swift.common.swob import WsgiBytesIO

from storlet_middleware import names
from storlet_middleware.wsgi import delegation, s3_request
from storlet_middleware.wsgi.context import swift_authorize

#: Keys of the environment that are no headers, and that identify the caller or the request.
_KEPT: Final = (
    "REMOTE_ADDR",
    "REMOTE_USER",
    "SCRIPT_NAME",
    "SERVER_NAME",
    "SERVER_PORT",
    "SERVER_PROTOCOL",
    "keystone.identity",
    "keystone.token_auth",
    "keystone.token_info",
    "reseller_request",
    "swift.cache",
    "swift.trans_id",
    "wsgi.errors",
    "wsgi.multiprocess",
    "wsgi.multithread",
    "wsgi.run_once",
    "wsgi.url_scheme",
    "wsgi.version",
)
#: Beginnings of headers that belong to the client's operation, and not to the caller.
_OF_THE_OPERATION: Final = (
    "HTTP_ACCEPT",
    "HTTP_AUTHORIZATION",
    "HTTP_CACHE_CONTROL",
    "HTTP_CONTENT_",
    "HTTP_DESTINATION",
    "HTTP_ETAG",
    "HTTP_EXPECT",
    "HTTP_EXPIRES",
    "HTTP_IF_",
    "HTTP_RANGE",
    "HTTP_TRANSFER_ENCODING",
    "HTTP_X_ACCOUNT_",
    "HTTP_X_AMZ_",
    "HTTP_X_BACKEND_",
    "HTTP_X_CONTAINER_",
    "HTTP_X_COPY_FROM",
    "HTTP_X_DELETE_",
    "HTTP_X_DETECT_CONTENT_TYPE",
    "HTTP_X_FRESH_METADATA",
    "HTTP_X_IF_DELETE_AT",
    "HTTP_X_NEWEST",
    "HTTP_X_OBJECT_",
    "HTTP_X_OPEN_EXPIRED",
    "HTTP_X_REMOVE_",
    "HTTP_X_ROBOTS_TAG",
    "HTTP_X_RUN_STORLET",
    "HTTP_X_STATIC_LARGE_OBJECT",
    "HTTP_X_STORLET_",
    "HTTP_X_SYMLINK_",
    "HTTP_X_TIMESTAMP",
    "HTTP_X_VERSIONS_",
)


def refusal(environ: Mapping[str, Any]) -> str:
    """Why a run of this request has no services; empty if it may have them.

    A storlet acts for its caller in the whole account.  A signature covers one object, and requests
    of Swift's own middlewares, and of ``s3api`` with ACLs of its own, are not authorized again.
    """
    if delegation.is_signed(environ):
        return "a signature allows the request, and covers one object only"
    if str(environ.get("REMOTE_USER") or "").startswith(".wsgi."):
        return "one of Swift's middlewares made the request"
    if environ.get("swift.authorize_override"):
        return "the request is authorized beforehand"
    if s3_request.is_s3(environ) and "s3api.auth_details" not in environ:
        return "s3_acl = yes replaces Swift's authorization"
    return ""


def environ_of(environ: Mapping[str, Any]) -> dict[str, Any]:
    """The environment of a request in the name of the caller of ``environ``, without an operation.

    It has the authentication middleware's own check, without the grants of the run.
    """
    made = {key: environ[key] for key in _KEPT if key in environ}
    made.update(
        (key, value)
        for key, value in environ.items()
        # Keystone sets headers of what a token does not have to None.
        if value is not None and key.startswith("HTTP_") and not key.startswith(_OF_THE_OPERATION)
    )
    authorize = swift_authorize(environ)
    if authorize is not None:
        made["swift.authorize"] = authorize
    # Errors of this filter come with their code and message as JSON.
    made["HTTP_ACCEPT"] = "application/json"
    made["QUERY_STRING"] = ""
    made["wsgi.input"] = WsgiBytesIO()
    made["swift.source"] = names.SWIFT_SOURCE
    return made
