"""Who may read a container's objects only through a storlet.

A grant is a pair (user, storlet), kept in the container's system metadata, which no client can write or forge: unlike a
referrer, which is what a client says it is.  Each grant is an item of its own, so that giving one and taking another back at
the same moment cannot bring anything back.  The account's owner gives one with ``X-Storlet-Container-Read`` and
``X-Storlet-Name`` on a POST to the container, takes it back with ``X-Remove-Storlet-Container-Read`` and
``X-Storlet-Name``, and sees all of them in the answer to HEAD and GET of the container.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from swift.common.swob import Request
from swift.proxy.controllers.base import get_container_info

from storlet_middleware import names
from storlet_middleware.errors import BadRequest
from storlet_middleware.wsgi.storlet_request import refuse_unknown, storlet_headers, text

_KNOWN: Final = (names.GRANT_USER, names.GRANT_STORLET)
_BAD: Final = re.compile(r"[\x00-\x20\x7f,/]")
_SYSMETA_PREFIX: Final = names.CONTAINER_GRANT.lower().removeprefix("x-container-sysmeta-")
#: Swift's servers bound the headers of an answer; beyond this many a container of its own serves better.
MAX_GRANTS: Final = 32
_MAX_VALUE: Final = 1024

Grant = tuple[str, str]
Authorize = Callable[[Any], Any]


def _value(grant: Grant) -> str:
    return json.dumps(grant)


def _key(grant: Grant) -> str:
    return hashlib.sha256(_value(grant).encode()).hexdigest()[:24]


def stored(grant: Grant, *, is_given: bool) -> dict[str, str]:
    """The container header that gives or takes back ``grant``."""
    value = _value(grant)
    if len(value) > _MAX_VALUE:
        raise BadRequest("user and storlet are too long for a grant")
    return {names.CONTAINER_GRANT + _key(grant): value if is_given else ""}


def count(sysmeta: Mapping[str, str]) -> int:
    """How many grants a container has, by its system metadata (keys without prefix)."""
    return sum(key.startswith(_SYSMETA_PREFIX) and bool(value) for key, value in sysmeta.items())


def is_granted(sysmeta: Mapping[str, str], grant: Grant) -> bool:
    """Whether ``grant`` is among the container's system metadata."""
    return sysmeta.get(_SYSMETA_PREFIX + _key(grant)) == _value(grant)


def as_header(headers: Iterable[tuple[str, str]]) -> str:
    """The grants in a container's headers as their owner sees them: ``user=storlet, ...``, each part percent-encoded."""
    pairs = []
    for key, value in headers:
        if key.lower().startswith(names.CONTAINER_GRANT.lower()) and value:
            with contextlib.suppress(ValueError, TypeError):
                user, storlet = json.loads(value)
                pairs.append(f"{quote(user, safe=':')}={quote(storlet)}")
    return ", ".join(sorted(pairs))


def parse_change(environ: Mapping[str, Any]) -> tuple[Grant, bool]:
    """The grant that a POST names, and whether it is to be given (or taken back); raises with all faults."""
    faults = refuse_unknown(storlet_headers(environ), _KNOWN, "unknown header")
    given = environ.get("HTTP_X_STORLET_CONTAINER_READ")
    taken = environ.get("HTTP_X_REMOVE_STORLET_CONTAINER_READ")
    storlet = environ.get("HTTP_X_STORLET_NAME")
    user = given if given is not None else taken
    if not user or not storlet:
        faults.append("storlet ACL update request is missing a mandatory header")
    elif given is not None and taken is not None:
        faults.append("storlet ACL update request both gives and takes back")
    else:
        try:
            user, storlet = text(user).strip(), text(storlet).strip()
        except UnicodeDecodeError:
            faults.append("storlet ACL update request has invalid values: not UTF-8")
        else:
            if _BAD.search(user) or _BAD.search(storlet):
                faults.append("storlet ACL update request has mulformed storlet or user name")
    if faults:
        raise BadRequest("; ".join(faults))
    return (str(user), str(storlet)), given is not None


@dataclass(frozen=True)
class Reader:
    """Who reads, for which storlet of which account (all as text)."""

    user: str
    account: str
    storlet: str


def authorize_with_grants(original: Authorize, app: Any, reader: Reader, used: list[bool]) -> Authorize:
    """An ``authorize`` for reads that feed a storlet: what Swift refuses is allowed where a grant says so.

    A grant names a storlet of the container's own account: one of the same name in another account, from which a symlink
    may lead here, is somebody else's code.  It looks at the container of every request that it is asked about, so that a
    manifest in a granted container opens no other container.  ``used`` receives an item when a grant decided.
    """

    def authorize(request: Any) -> Any:
        refusal = original(request)
        if refusal is None or request.method not in ("GET", "HEAD"):
            return refusal
        try:
            version, account, container, _ = Request(request.environ).split_path(4, 4, True)
        except ValueError:
            return refusal
        if not reader.user or text(account) != reader.account:
            return refusal
        environ = {**request.environ, "PATH_INFO": f"/{version}/{account}/{container}", "REQUEST_METHOD": "HEAD"}
        info = get_container_info(environ, app, swift_source=names.SWIFT_SOURCE)
        # The proxy asks first without the container's ACL: what that allows needs no grant.
        request.acl = info["read_acl"]
        if original(request) is None:
            return None
        if not is_granted(info.get("sysmeta", {}), (reader.user, reader.storlet)):
            return refusal
        used.append(True)
        return None

    return authorize
