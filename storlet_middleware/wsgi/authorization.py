"""Asks Swift's own authorisation, with a container's own ACL, before Swift itself would: no rights of our making."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from swift.common.swob import Request
from swift.common.wsgi import make_env
from swift.proxy.controllers.base import get_cache_key, get_container_info

from storlet_middleware import names
from storlet_middleware.wsgi.storlet_request import wsgi

_ACL: Final = {"GET": "read_acl", "PUT": "write_acl"}


@dataclass(frozen=True)
class Verdict:
    """``refusal`` is Swift's answer to a caller who may not, else ``None``; ``is_owner``: the caller owns the account;
    ``container_status``: what Swift says of the container itself (404: there is none)."""

    refusal: Any
    is_owner: bool
    container_status: int


def ask(environ: dict[str, Any], app: Any, method: str, path: str) -> Verdict:
    """Whether the caller may ``GET`` or ``PUT`` the object at ``path`` (quoted).  Without an auth middleware all may."""
    name = unquote(path.removesuffix("?"))
    asked = make_env(environ, method=method, path=wsgi(name), query_string="", swift_source=names.SWIFT_SOURCE)
    asked["wsgi.url_scheme"] = environ.get("wsgi.url_scheme", "http")
    info = _container(asked, app, name)
    authorize = environ.get("swift.authorize")
    # Whether Swift would let the caller is one question, what the rules say to the bytes another.
    authorize = getattr(authorize, "original", authorize)
    if authorize is None:
        return Verdict(None, is_owner=True, container_status=info["status"])
    request = Request(asked)
    request.acl = info[_ACL[method]]
    refusal = authorize(request)
    return Verdict(refusal, bool(request.environ.get("swift_owner")), info["status"])


def _container(environ: dict[str, Any], app: Any, name: str) -> Mapping[str, Any]:
    """What Swift knows of the container of the object ``name``; not to be changed."""
    _, _, account, container, *_ = name.split("/", 4)
    # What this request has seen already would be copied as a whole, for three values.
    known: Mapping[str, Any] | None = environ.get("swift.infocache", {}).get(get_cache_key(account, container))
    return known or get_container_info(environ, app, swift_source=names.SWIFT_SOURCE)
