"""Protects the objects that hold records or log lines: no client changes them, only owners read
them.

=================== ================================================================================
PUT, POST, COPY to  refused for all clients: a record is the system's word
GET, HEAD, COPY of  for owners of the account; not by the container's ACL, a grant or a signed URL,
                    nor as part of a large object or through a link
DELETE              for owners: it is their container, which could not be deleted otherwise
listing             unchanged: names have times and random digits only
=================== ================================================================================

Reads are checked where Swift authorizes them: each read that a request causes passes the
authorization chain (:mod:`storlet_middleware.wsgi.context`).
"""

from __future__ import annotations

from typing import Any, Final

from swift.common.swob import HTTPForbidden, Request

from storlet_middleware.errors import AccessDenied
from storlet_middleware.records.batches import LINES_PREFIX, PREFIX
from storlet_middleware.wsgi.context import Authorize
from storlet_middleware.wsgi.operation import Operation
from storlet_middleware.wsgi.swift_paths import parse_path, versioned_object

#: In the path of each request that the protection is about; a hidden version has a NULL before the
#: name.
_PREFIXES: Final = (PREFIX, LINES_PREFIX)


class Protection:
    """The protection of the records of all accounts.

    :param container: the log container.
    """

    def __init__(self, container: str) -> None:
        self._container = container

    def require_no_write(self, operation: Operation) -> None:
        """Refuse a client's PUT, POST or COPY to an object that holds records."""
        target = operation.target
        if (
            target is None
            or operation.method == "DELETE"
            or target.container != self._container
            or not (target.name or "").startswith(_PREFIXES)
        ):
            return
        prefix = next(each for each in _PREFIXES if str(target.name).startswith(each))
        raise AccessDenied(
            f"{self._container}/{prefix}... holds records of runs, which only the system writes:"
            " choose another name"
        )

    def refusal(self, request: Any, swift: Authorize | None) -> Any:
        """The answer to a request that Swift allows and that only an owner may make; ``None`` for
        all others.

        :param swift: the authentication middleware's check; without one every caller is an owner.
        """
        path = request.environ["PATH_INFO"]
        # Runs for every request.
        if swift is None or not any(map(path.__contains__, _PREFIXES)):
            return None
        place = parse_path(path)
        if place is None:
            return None
        place = versioned_object(place) or place
        if place.container != self._container or not (place.name or "").startswith(_PREFIXES):
            return None
        return None if _is_owner(request, swift) else HTTPForbidden(request=request)


def _is_owner(request: Any, swift: Authorize) -> bool:
    # The mark in the request's environment may be of another path.
    environ = dict(request.environ)
    environ.pop("swift_owner", None)
    asked = Request(environ)
    asked.acl = getattr(request, "acl", None)
    return swift(asked) is None and bool(environ.get("swift_owner"))
