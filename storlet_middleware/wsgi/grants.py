"""Access to a container's objects through one storlet only.

A grant is a pair of user and storlet in the container's system metadata, which no client can write
or forge; a referrer, in contrast, is a value that the client sends.  Each grant is a separate item,
so that a concurrent addition and revocation cannot restore a revoked grant.  The account's owner
adds a grant with ``X-Storlet-Container-Read`` and ``X-Storlet-Name`` on a POST to the container,
revokes it with ``X-Remove-Storlet-Container-Read`` and ``X-Storlet-Name``, and sees all grants in
the answer to HEAD and GET of the container.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from swift.common.swob import Request
from swift.proxy.controllers.base import get_container_info

from storlet_middleware import names
from storlet_middleware.errors import BadRequest, fault
from storlet_middleware.wsgi.context import Authorize
from storlet_middleware.wsgi.storlet_request import storlet_headers, unknown_header_faults
from storlet_middleware.wsgi.strings import text

_KNOWN: Final = (names.GRANT_USER, names.GRANT_STORLET)
_BAD: Final = re.compile(r"[\x00-\x20\x7f,/]")
_SYSMETA_PREFIX: Final = names.CONTAINER_GRANT.lower().removeprefix("x-container-sysmeta-")
#: Swift's servers limit the headers of an answer; for more grants, use another container.
MAX_GRANTS: Final = 32
_MAX_VALUE: Final = 1024

Grant = tuple[str, str]


def _value(grant: Grant) -> str:
    return json.dumps(grant)


def _key(grant: Grant) -> str:
    return hashlib.sha256(_value(grant).encode()).hexdigest()[:24]


def change_headers(grant: Grant, *, is_given: bool) -> dict[str, str]:
    """The container header that adds or revokes ``grant``."""
    value = _value(grant)
    if len(value) > _MAX_VALUE:
        wanted = f"too long for a grant: user and storlet have at most {_MAX_VALUE} bytes"
        keys = (names.GRANT_USER, names.GRANT_STORLET)
        faults = [fault(key, given, wanted) for key, given in zip(keys, grant, strict=True)]
        raise BadRequest("; ".join(faults))
    return {names.CONTAINER_GRANT + _key(grant): value if is_given else ""}


def count(sysmeta: Mapping[str, str]) -> int:
    """How many grants a container has, by its system metadata (keys without prefix)."""
    return sum(key.startswith(_SYSMETA_PREFIX) and bool(value) for key, value in sysmeta.items())


def is_granted(sysmeta: Mapping[str, str], grant: Grant) -> bool:
    """Whether ``grant`` is among the container's system metadata."""
    return sysmeta.get(_SYSMETA_PREFIX + _key(grant)) == _value(grant)


def as_header(headers: Iterable[tuple[str, str]]) -> str:
    """The grants in a container's headers as their owner sees them: ``user=storlet, ...``, each
    part percent-encoded.
    """
    pairs = []
    for key, value in headers:
        if key.lower().startswith(names.CONTAINER_GRANT.lower()) and value:
            with contextlib.suppress(ValueError, TypeError):
                user, storlet = json.loads(value)
                pairs.append(f"{quote(user, safe=':')}={quote(storlet)}")
    return ", ".join(sorted(pairs))


def parse_change(environ: Mapping[str, Any]) -> tuple[Grant, bool]:
    """The grant that a POST names; True if it is added, False if it is revoked.

    :raises BadRequest: with all faults.
    """
    faults = unknown_header_faults(storlet_headers(environ), _KNOWN, "unknown header")
    given = environ.get("HTTP_X_STORLET_CONTAINER_READ")
    taken = environ.get("HTTP_X_REMOVE_STORLET_CONTAINER_READ")
    storlet = environ.get("HTTP_X_STORLET_NAME")
    user = given if given is not None else taken
    if given is not None and taken is not None:
        faults.append(
            f"storlet ACL update request both gives and takes back: send {names.GRANT_USER} or"
            f" {names.REVOKE_USER}"
        )
    header = names.GRANT_USER if given is not None else names.REVOKE_USER
    if storlet in names.FLOWS and given is not None:
        wanted = "a flow has no grants: name the storlet of its first step"
        faults.append(fault(names.GRANT_STORLET, storlet, wanted))
    values = [
        _value_of(header if user else f"{names.GRANT_USER} or {names.REVOKE_USER}", user, faults),
        _value_of(names.GRANT_STORLET, storlet, faults),
    ]
    if faults:
        raise BadRequest("; ".join(faults))
    return (values[0], values[1]), given is not None


def _value_of(header: str, given: str | None, faults: list[str]) -> str:
    """The value as text; adds a fault if it is missing or cannot be stored."""
    if not given:
        faults.append(f"storlet ACL update request is missing a mandatory header: {header}")
        return ""
    # The texts of the OpenStack Storlets project, by which its clients know the errors.
    try:
        value = text(given).strip()
    except UnicodeDecodeError:
        wanted = "storlet ACL update request has invalid values: not UTF-8"
        faults.append(fault(header, given, wanted))
        return ""
    if _BAD.search(value):
        wanted = (
            # Misspelt in that project.
            "storlet ACL update request has mulformed storlet or user name: want no spaces, no"
            " control characters, no ',' and no '/'"
        )
        faults.append(fault(header, value, wanted))
    return value


@dataclass(frozen=True)
class Reader:
    """The user who reads, and the storlet of ``account`` that consumes the bytes; all as text."""

    user: str
    account: str
    storlet: str


class GrantedReads:
    """The link of the authorization chain that allows reads through a storlet; a
    :class:`~.context.Grant`.

    A grant names a storlet of the container's own account: a storlet of the same name in another
    account, from which a symlink may lead here, is different code.  The container of each request
    is looked at, so a manifest in a granted container opens no other container.

    :param app: the rest of the pipeline, for the container's metadata.
    :param used: receives the storlet's name each time that a grant allowed a read.
    """

    def __init__(self, reader: Reader, app: Any, used: list[str]) -> None:
        self._reader = reader
        self._app = app
        self._used = used

    def allows(self, request: Any, swift: Authorize) -> bool:
        """Whether Swift allows ``request`` by the container's ACL, or a grant does."""
        if request.method not in ("GET", "HEAD") or not self._reader.user:
            return False
        try:
            version, account, container, _ = Request(request.environ).split_path(4, 4, True)
        except ValueError:
            return False
        if text(account) != self._reader.account:
            return False
        environ = {
            **request.environ,
            "PATH_INFO": f"/{version}/{account}/{container}",
            "REQUEST_METHOD": "HEAD",
        }
        info = get_container_info(environ, self._app, swift_source=names.SWIFT_SOURCE)
        # Swift's proxy first authorizes without the container's ACL; if the ACL allows the request,
        # no grant is needed.
        request.acl = info["read_acl"]
        if swift(request) is None:
            return True
        if not is_granted(info.get("sysmeta", {}), (self._reader.user, self._reader.storlet)):
            return False
        self._used.append(self._reader.storlet)
        return True
