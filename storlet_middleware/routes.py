"""The filter's own part in an operation, decided by the request alone, without input or output."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, Final

from storlet_middleware import names
from storlet_middleware.account_secrets.answers import METHODS as SECRET_METHODS
from storlet_middleware.records.query import RUNS
from storlet_middleware.wsgi.operation import Operation
from storlet_middleware.wsgi.storlet_request import ON_DATA, storlet_headers

_GRANT_KEYS: Final = frozenset(
    names.environ_key(name) for name in (names.GRANT_USER, names.GRANT_STORLET, names.REVOKE_USER)
)


class Route(enum.Enum):
    """The routes; all but ``PASS`` are this filter's own."""

    #: The rest of the pipeline.
    PASS = enum.auto()
    #: The client requests a storlet.
    RUN = enum.auto()
    #: A referrer in the form of Swift's ACLs, which would look like a grant of OpenStack Storlets.
    REFUSE_REFERER = enum.auto()
    #: ``X-Storlet-*`` headers without ``X-Run-Storlet``.
    REFUSE_HEADERS = enum.auto()
    #: A write into the storlet or dependency container.
    WRITE_CODE = enum.auto()
    #: A GET of the list of a bundle's versions.
    LIST_VERSIONS = enum.auto()
    #: A POST that adds or revokes a grant.
    CHANGE_GRANTS = enum.auto()
    #: HEAD or GET of a container or account: its owner sees the grants.
    SHOW_GRANTS = enum.auto()
    #: GET of an account with ``?storlet-runs``: records of its runs.
    SHOW_RUNS = enum.auto()
    #: GET of an account with ``?storlet-library``: the storlets that every account has.
    SHOW_LIBRARY = enum.auto()
    #: A request of an account with ``?storlet-secrets``: its owner sets, lists or deletes secrets.
    SECRETS = enum.auto()
    #: A storlet runs another one on data: no object is read or written.
    RUN_ON_DATA = enum.auto()
    #: POST of an account for ``std:distributed``: a storlet on many objects.
    DISTRIBUTE = enum.auto()


def route_of(
    environ: Mapping[str, Any], operation: Operation | None, code_containers: tuple[str, ...]
) -> Route:
    """The route of a request.

    :param operation: ``None`` for a path without stored data.
    :param code_containers: the storlet and dependency containers.
    """
    # Swift compares the host of a referrer without regard to case.
    if "storlets" in environ.get("HTTP_REFERER", "").lower():
        return Route.REFUSE_REFERER
    if operation is None:
        return Route.PASS
    if operation.path.container is None:
        return _route_of_account(operation)
    if operation.path.name is not None:
        return _route_of_object(operation, code_containers)
    if operation.sent_method == "POST" and not _GRANT_KEYS.isdisjoint(environ):
        return Route.CHANGE_GRANTS
    return Route.SHOW_GRANTS if operation.sent_method in ("GET", "HEAD") else Route.PASS


def _route_of_account(operation: Operation) -> Route:
    if ON_DATA in operation.environ:
        return Route.RUN_ON_DATA
    storlet = (operation.header(names.RUN_STORLET) or "").strip()
    if operation.sent_method == "POST" and storlet == names.DISTRIBUTED:
        return Route.DISTRIBUTE
    if operation.sent_method in SECRET_METHODS and names.SECRETS_QUERY in operation.query:
        return Route.SECRETS
    if operation.sent_method != "GET":
        return Route.PASS
    if RUNS in operation.query:
        return Route.SHOW_RUNS
    return Route.SHOW_LIBRARY if names.LIBRARY_QUERY in operation.query else Route.PASS


def _route_of_object(operation: Operation, code_containers: tuple[str, ...]) -> Route:
    if operation.runs_storlet:
        return Route.RUN
    if storlet_headers(operation.environ) and not _uploads_storlet(operation, code_containers):
        return Route.REFUSE_HEADERS
    if operation.sent_method == "COPY" and operation.target is None:
        return Route.PASS  # Swift refuses it
    if operation.sent_method == "GET":
        is_listing = bool(operation.environ.get("QUERY_STRING")) and _lists_versions(
            operation, code_containers
        )
        return Route.LIST_VERSIONS if is_listing else Route.PASS
    written = operation.target or operation.path
    writes = operation.sent_method in ("PUT", "POST", "DELETE", "COPY")
    return Route.WRITE_CODE if writes and written.container in code_containers else Route.PASS


def _uploads_storlet(operation: Operation, code_containers: tuple[str, ...]) -> bool:
    """Whether a request with the header of a check is one of a storlet's code."""
    is_here = operation.path.container == code_containers[0]
    is_write = operation.sent_method in ("PUT", "POST")
    return is_here and is_write and operation.header(names.CHECK) is not None


def _lists_versions(operation: Operation, code_containers: tuple[str, ...]) -> bool:
    path = operation.path
    is_bundle = (path.name or "").endswith(names.BUNDLE_SUFFIX)
    is_here = is_bundle and path.container == code_containers[0]
    return is_here and names.VERSIONS_QUERY in operation.query
