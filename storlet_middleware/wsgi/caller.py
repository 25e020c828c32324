"""The caller of a request, as identified by the authentication middlewares."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rules.facts import Caller
from storlet_middleware.wsgi import s3_request
from storlet_middleware.wsgi.context import swift_authorize
from storlet_middleware.wsgi.delegation import PRE_AUTHORISED, is_signed


def caller_of(environ: Mapping[str, Any]) -> Caller:
    """The caller as rules see it: Keystone's identity, or the groups of TempAuth."""
    if is_signed(environ):
        return Caller(is_signed=True, signer=_signer_of(environ))
    return _authenticated(environ)


def _signer_of(environ: Mapping[str, Any]) -> Caller | None:
    """The user whose own key has signed the request, as S3's users have one; ``None`` if the key is
    the account's.
    """
    if not s3_request.is_s3(environ) or not environ.get("REMOTE_USER"):
        return None
    return replace(_authenticated(environ), is_signed=True)


def _authenticated(environ: Mapping[str, Any]) -> Caller:
    """The caller that the authentication middlewares have found."""
    remote = str(environ.get("REMOTE_USER") or "")
    if not remote:
        return Caller(is_anonymous=True)
    if remote.startswith(".wsgi."):
        # Swift's own request: no rule applies to it.
        return Caller()
    identity = _keystone_identity(environ)
    if identity:
        return Caller(
            user=lenient_text(identity["user"][1] or identity["user"][0] or "") or None,
            project=lenient_text(identity["tenant"][1] or identity["tenant"][0] or "") or None,
            domain=lenient_text(_domain(environ, identity)) or None,
            roles=frozenset(lenient_text(role) for role in identity.get("roles") or () if role),
        )
    return _caller_of_groups(remote, user_of(environ))


def _keystone_identity(environ: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The identity that ``keystoneauth`` has found.

    A request that a middleware to the right of it makes for the client's (``staticweb``) has it
    only as the argument of ``swift.authorize``.
    """
    found: Mapping[str, Any] | None = environ.get("keystone.identity")
    if found or isinstance(environ.get("REMOTE_USER"), str):
        return found
    authorize = swift_authorize(environ)
    bound = authorize.args if isinstance(authorize, functools.partial) else ()
    return next((each for each in bound if isinstance(each, dict) and "roles" in each), None)


@functools.lru_cache(maxsize=4096)
def _caller_of_groups(groups: str, name: str) -> Caller:
    """The caller for the groups of TempAuth."""
    roles = frozenset(lenient_text(group.strip()) for group in groups.split(",") if group.strip())
    user = lenient_text(name)
    return Caller(user=user or None, project=user.partition(":")[0] or None, roles=roles)


def _domain(environ: Mapping[str, Any], identity: Mapping[str, Any]) -> str:
    _, name = identity.get("user_domain") or (None, None)
    # The headers are the token's: Keystone's middleware drops what a client sends under these
    # names.
    return str(name or environ.get("HTTP_X_USER_DOMAIN_NAME") or "")


def user_of(environ: Mapping[str, Any]) -> str:
    """The caller's name: from Keystone if it authenticated the caller, else TempAuth's group
    ``account:user``.
    """
    # X-User-Name without Keystone's identity was sent by the client.
    if _keystone_identity(environ):
        # Names are unique in a domain only.  As in Swift's own ACLs, the name identifies users of
        # the default domain, and the id all others.
        is_default = environ.get("HTTP_X_USER_DOMAIN_ID", "default") == "default"
        return str(environ.get("HTTP_X_USER_NAME" if is_default else "HTTP_X_USER_ID") or "")
    groups = str(environ.get("REMOTE_USER") or "").split(",")
    for group in groups:
        if ":" in group:
            return group
    return groups[0]


def identity_of(environ: Mapping[str, Any]) -> tuple[str, str]:
    """Name and Keystone id of the caller, as a record of a run has them.

    Empty for signed and anonymous requests; the id is empty without Keystone.
    """
    if is_signed(environ):
        return "", ""
    identity = _keystone_identity(environ)
    return user_of(environ), str(identity["user"][0] or "") if identity else ""


def is_from_swift(environ: Mapping[str, Any]) -> bool:
    """Whether one of Swift's middlewares made the request for itself, for example to look up a
    container's keys.
    """
    return environ.get("REMOTE_USER") == PRE_AUTHORISED and not is_signed(environ)


def lenient_text(value: Any) -> str:
    """A WSGI string as text.  Bytes that are not UTF-8 become surrogates, which match no operand of
    a rule.
    """
    string = str(value)
    return (
        string
        if string.isascii()
        else string.encode("latin-1", "replace").decode("utf-8", "surrogateescape")
    )
