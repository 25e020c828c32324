"""Runs Swift's own authorization with the container's ACL, earlier than Swift does.

The filter grants no rights of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from swift.common.swob import Request
from swift.common.wsgi import make_env
from swift.proxy.controllers.base import get_container_info

from storlet_middleware import names
from storlet_middleware.wsgi.account_info import CONTAINER_KEY_PREFIX
from storlet_middleware.wsgi.context import swift_authorize
from storlet_middleware.wsgi.strings import wsgi

_ACL: Final = {"GET": "read_acl", "PUT": "write_acl"}


@dataclass(frozen=True)
class Verdict:
    """Swift's decision about a caller.

    :param refusal: Swift's answer to a caller without access, else ``None``.
    :param is_owner: the caller owns the account.
    :param container_status: status of the container itself (404: it does not exist); 0 for an
        account.
    """

    refusal: Any
    is_owner: bool
    container_status: int


def authorize(environ: dict[str, Any], app: Any, method: str, path: str) -> Verdict:
    """Authorize the caller's ``GET`` or ``PUT`` of the object at ``path`` (quoted).

    Without an authentication middleware every caller is allowed.
    """
    asked, name = _request_environ(environ, method, path)
    info = _container(asked, app, name)
    # Only Swift's own check: the rules are evaluated elsewhere.
    authorize = swift_authorize(environ)
    if authorize is None:
        return Verdict(None, is_owner=True, container_status=info["status"])
    request = Request(asked)
    request.acl = info[_ACL[method]]
    refusal = authorize(request)
    return Verdict(refusal, bool(request.environ.get("swift_owner")), info["status"])


def is_owner(environ: dict[str, Any], path: str) -> bool:
    """Whether the caller of a ``GET`` of the object at ``path`` (quoted) owns its account.

    No ACL makes a caller the owner, so the container's info is not read.
    """
    authorize = swift_authorize(environ)
    if authorize is None:
        return True
    request = Request(_request_environ(environ, "GET", path)[0])
    request.environ.pop("swift_owner", None)
    request.acl = None
    return authorize(request) is None and bool(request.environ.get("swift_owner"))


def authorize_account(environ: dict[str, Any], method: str | None = None) -> Verdict:
    """Authorize the caller's request of the account at its path, without its query.

    :param method: another method than that of the request.
    """
    authorize = swift_authorize(environ)
    if authorize is None:
        return Verdict(None, is_owner=True, container_status=0)
    request = Request(
        make_env(environ, method=method, query_string="", swift_source=names.SWIFT_SOURCE)
    )
    request.environ.pop("swift_owner", None)
    request.acl = None
    refusal = authorize(request)
    return Verdict(refusal, bool(request.environ.get("swift_owner")), 0)


def _request_environ(environ: dict[str, Any], method: str, path: str) -> tuple[dict[str, Any], str]:
    """The environ of a request for the object at ``path`` (quoted), and the path without quotes."""
    name = unquote(path.removesuffix("?"))
    asked = make_env(
        environ, method=method, path=wsgi(name), query_string="", swift_source=names.SWIFT_SOURCE
    )
    asked["wsgi.url_scheme"] = environ.get("wsgi.url_scheme", "http")
    return asked, name


def _container(environ: dict[str, Any], app: Any, name: str) -> Mapping[str, Any]:
    """Swift's cached info of the container of the object ``name``; read-only."""
    _, _, account, container, *_ = name.split("/", 4)
    # get_container_info would copy the whole cache of the request for three values.
    known: Mapping[str, Any] | None = environ.get("swift.infocache", {}).get(
        f"{CONTAINER_KEY_PREFIX}{account}/{container}"
    )
    return known or get_container_info(environ, app, swift_source=names.SWIFT_SOURCE)
