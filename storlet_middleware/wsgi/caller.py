"""The caller of a request: what the authentication middlewares say of it."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from rules.facts import Caller
from storlet_middleware.wsgi.delegation import PRE_AUTHORISED, is_signed


def caller_of(environ: Mapping[str, Any]) -> Caller:
    """The caller as rules see it: Keystone's identity, or the groups of TempAuth."""
    remote = str(environ.get("REMOTE_USER") or "")
    if is_signed(environ):
        return Caller(is_signed=True)
    if not remote:
        return Caller(is_anonymous=True)
    if remote.startswith(".wsgi."):
        # Swift's own request: no rule can be about it.
        return Caller()
    identity = environ.get("keystone.identity")
    if identity:
        return Caller(
            user=lenient_text(identity["user"][1] or identity["user"][0] or "") or None,
            project=lenient_text(identity["tenant"][1] or identity["tenant"][0] or "") or None,
            domain=lenient_text(_domain(environ, identity)) or None,
            roles=frozenset(lenient_text(role) for role in identity.get("roles") or () if role),
        )
    return _caller_of_groups(remote, user_of(environ))


@functools.lru_cache(maxsize=4096)
def _caller_of_groups(groups: str, name: str) -> Caller:
    """Of TempAuth."""
    roles = frozenset(lenient_text(group.strip()) for group in groups.split(",") if group.strip())
    user = lenient_text(name)
    return Caller(user=user or None, project=user.partition(":")[0] or None, roles=roles)


def _domain(environ: Mapping[str, Any], identity: Mapping[str, Any]) -> str:
    _, name = identity.get("user_domain") or (None, None)
    # The headers are the token's: Keystone's middleware drops what a client sends under these names.
    return str(name or environ.get("HTTP_X_USER_DOMAIN_NAME") or "")


def user_of(environ: Mapping[str, Any]) -> str:
    """The caller's name: Keystone's when Keystone said it, else the group that is TempAuth's ``account:user``."""
    # X-User-Name without Keystone's mark is a header that the client sent.
    if environ.get("keystone.identity"):
        # Names are unique in a domain only; as in Swift's own ACLs they count in the default one, elsewhere the id does.
        is_default = environ.get("HTTP_X_USER_DOMAIN_ID", "default") == "default"
        return str(environ.get("HTTP_X_USER_NAME" if is_default else "HTTP_X_USER_ID") or "")
    groups = str(environ.get("REMOTE_USER") or "").split(",")
    return next((group for group in groups if ":" in group), groups[0])


def is_from_swift(environ: Mapping[str, Any]) -> bool:
    """Whether one of Swift's middlewares looks something up for itself, such as a container's keys."""
    return environ.get("REMOTE_USER") == PRE_AUTHORISED and not is_signed(environ)


def lenient_text(value: Any) -> str:
    """A WSGI string as text.  Bytes that are not UTF-8 become surrogates, which no operand of a rule can equal."""
    string = str(value)
    return (
        string
        if string.isascii()
        else string.encode("latin-1", "replace").decode("utf-8", "surrogateescape")
    )
