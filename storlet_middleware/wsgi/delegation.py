"""Requests that a signature allows, instead of a login or in addition, and the extent of the
signature.

No header of ours that a signature does not cover may have an effect: ``X-Run-Storlet`` names code,
further inputs and a target, others change grants or show rules.  A request with such a header is
refused (:func:`require_covered`).  So is a signed request with a parameter of ours in its query,
which most signatures do not cover: one makes an older version of a bundle current.  The storlets
of a rule run for every reader of an object, these requests included.  ``SECURITY.rst`` lists all
kinds of delegated access, also those that change nothing here, each with its test.

============================== ========== ================ ========================================
kind of delegated access       ``signed`` own storlet      recognised by
============================== ========== ================ ========================================
TempURL (prefix, IP range too) yes        refused          user ``.wsgi.tempurl``
form POST                      yes        refused          user ``.wsgi.formpost``, or
                                                           pre-authorised with source ``FP``
container sync                 yes        refused          no user, ``swift.authorize_override``
S3, query signature (V2, V4)   yes        refused          ``s3api``'s request
S3, header signature V4        no         if all headers   ``SignedHeaders``
                                          of ours are
                                          signed
S3, header signature V2        no         refused          V2 signs ``x-amz-*`` headers only
S3 with ``s3_acl = yes``       as above   refused          ``s3api`` removes its state
S3, SelectObjectContent        as above   its own query    the controller's key in the environment
============================== ========== ================ ========================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from storlet_middleware import names
from storlet_middleware.errors import AccessDenied
from storlet_middleware.wsgi import s3_request
from storlet_middleware.wsgi.operation import query_of

#: The user of requests that Swift's middlewares make for themselves, and that formpost makes to
#: upload.
PRE_AUTHORISED: Final = ".wsgi.pre_authed"
_FORMPOST: Final = "FP"
_SIGNED_URLS: Final = (".wsgi.tempurl", ".wsgi.formpost")
_OURS: Final = ("HTTP_X_RUN_STORLET", "HTTP_X_STORLET_", "HTTP_X_REMOVE_STORLET_")
#: The beginning of the parameters of ours in a query.
_QUERIES: Final = "storlet-"


def is_signed(environ: Mapping[str, Any]) -> bool:
    """Whether a transferable signature for this request replaces a login."""
    user = environ.get("REMOTE_USER")
    if user == PRE_AUTHORISED:
        return environ.get("swift.source") == _FORMPOST
    if s3_request.is_s3(environ) and _is_query_signed(s3_request.request_of(environ)):
        return True
    # With container sync the authentication middlewares set no user.
    return user in _SIGNED_URLS or (not user and bool(environ.get("swift.authorize_override")))


def covers_storlet(environ: Mapping[str, Any]) -> bool:
    """Whether the request may name a storlet: it is not signed, or its signature covers every
    header of ours.
    """
    if is_signed(environ):
        return False
    if not s3_request.is_s3(environ):
        return True
    # With s3_acl = yes, s3api has removed its state and replaced Swift's authorization.
    request = s3_request.request_of(environ) if "s3api.auth_details" in environ else None
    signed = getattr(request, "_signed_headers", None) or frozenset()
    return {name.lower() for name in given_headers(environ)} <= set(signed)


def require_covered(environ: Mapping[str, Any]) -> None:
    """Refuse a request with headers or parameters of ours that its signature does not cover.

    These name code and further inputs, add and revoke grants, show rules, and change the version of
    a bundle: all with the rights of the signature's owner.
    """
    if covers_storlet(environ) or s3_request.is_select(environ):
        return
    given = given_headers(environ)
    if is_signed(environ):
        given += [f"?{name}" for name in query_of(environ) if name.startswith(_QUERIES)]
    if given:
        raise AccessDenied(
            f"the request's signature does not cover {', '.join(given)}: leave these out, or send"
            " the request with a token",
            status=401,
        )


def given_headers(environ: Mapping[str, Any]) -> list[str]:
    """The names of the headers of ours in a request."""
    keys = sorted(key for key in environ if key.startswith(_OURS))
    return [names.header_of(key) for key in keys]


def _is_query_signed(request: Any) -> bool:
    return bool(getattr(request, "_is_query_auth", False))
