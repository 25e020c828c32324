"""One request to Swift as Swift understands it, parsed once at the edge into a frozen value.

Every module that must know what a request does reads this value: the filter's routing, the rules,
the guard of further reads, uploads of rules and requests for storlets.  Enforcement fails closed
only as long as all of them agree with Swift, so the parser uses Swift's own functions for what
Swift's ``copy`` middleware parses, and an operation that Swift will refuse is marked
(:attr:`Operation.fault`).

============================================  ========  ============  ===================
request                                       method    source        target
============================================  ========  ============  ===================
``GET``, ``HEAD``                             as sent   the path      none
``PUT``                                       ``PUT``   none          the path
``PUT`` with a non-empty ``X-Copy-From``      ``COPY``  the header    the path
``COPY``                                      ``COPY``  the path      ``Destination``
``POST``, ``DELETE``                          as sent   none          the path
============================================  ========  ============  ===================
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl

from swift.common.swob import wsgi_unquote
from swift.common.utils import config_true_value, split_path

from storlet_middleware import names
from storlet_middleware.wsgi.strings import text
from storlet_middleware.wsgi.swift_paths import SwiftPath, parse_path

READS: Final = frozenset(("GET", "HEAD"))
COPY: Final = "COPY"
_DESTINATION: Final = "Destination"
_COPY_FROM: Final = "X-Copy-From"


@dataclass(frozen=True)
class Operation:
    """See the module's table.

    :param sent_method: the method in the request line.
    :param method: the method as Swift means it.
    :param path: the account, container or object in the request's path.
    :param source: the object (or container, or account) that is read; ``None`` where nothing is, or
        where Swift refuses the copy.
    :param target: the object, container or account that is written; ``None`` likewise.
    :param copy_header: the header that names the other object of a copy; empty for everything else.
    :param fault: why Swift refuses the copy (412); empty when it does not.
    :param environ: the WSGI environment as the client sent it; Swift changes its own copy while it
        handles the request.
    """

    sent_method: str
    method: str
    path: SwiftPath
    source: SwiftPath | None
    target: SwiftPath | None
    copy_header: str
    fault: str
    environ: Mapping[str, Any]

    @property
    def is_copy(self) -> bool:
        return bool(self.copy_header)

    @property
    def subject(self) -> SwiftPath:
        """The first path that the account's rules are evaluated for: the one that is read, else the
        one that is written.
        """
        return self.source or self.target or self.path

    @property
    def runs_storlet(self) -> bool:
        """Whether the client requests a storlet."""
        return "HTTP_X_RUN_STORLET" in self.environ

    @property
    def wants_explanation(self) -> bool:
        """Whether the client requests an explanation of the rules instead of the operation."""
        value = self.environ.get(names.EXPLAIN_KEY)
        return value is not None and bool(config_true_value(value))

    @property
    def query(self) -> Mapping[str, str]:
        """The last value of each parameter of the query, as Swift's middlewares read it."""
        # Most requests have none, and a cached property takes a lock.
        return self._query if self.environ.get("QUERY_STRING") else {}

    @functools.cached_property
    def _query(self) -> Mapping[str, str]:
        return query_of(self.environ)

    @functools.cached_property
    def version_id(self) -> str:
        """The version of the object that the query names; empty for the current one."""
        value = self.query.get("version-id", "")
        return "" if value == "null" else value

    @functools.cached_property
    def conditions(self) -> tuple[str, ...]:
        """The ``If-*`` headers of the request, as keys of a WSGI environment."""
        return tuple(key for key in self.environ if key.startswith("HTTP_IF_"))

    def header(self, name: str) -> str | None:
        """The value of a request header; ``None`` where the client sent none."""
        value = self.environ.get(names.environ_key(name))
        return None if value is None else str(value)


def query_of(environ: Mapping[str, Any]) -> dict[str, str]:
    """The last value of each parameter of the query string; see :func:`parameters_of`."""
    return dict(parameters_of(environ))


def parameters_of(environ: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The parameters of the query string in order, as text; bytes that are not UTF-8 become
    surrogates.

    All modules use this parser: with another one, a rule could test another parameter than the one
    that Swift obeys.
    """
    query = environ.get("QUERY_STRING")
    if not query:
        return []
    decoded = (
        query if query.isascii() else query.encode("latin-1").decode("utf-8", "surrogateescape")
    )
    return parse_qsl(decoded, keep_blank_values=True, errors="surrogateescape")


def parse(environ: dict[str, Any]) -> Operation | None:
    """The operation in ``environ``; ``None`` when the path names no account, container or object of
    Swift.
    """
    path = parse_path(environ["PATH_INFO"])
    if path is None:
        return None
    # Sub-requests share this cache of the request.
    environ.setdefault("swift.infocache", {})
    method, snapshot = environ["REQUEST_METHOD"], dict(environ)
    if method in READS:
        return Operation(method, method, path, path, None, "", "", snapshot)
    header = _copy_header(method, environ) if path.name is not None else ""
    if not header:
        return Operation(method, method, path, None, path, "", "", snapshot)
    other, fault = _other_object(environ, path, header)
    if other is None:
        return Operation(method, COPY, path, None, None, header, fault, snapshot)
    source, target = (path, other) if header == _DESTINATION else (other, path)
    return Operation(method, COPY, path, source, target, header, "", snapshot)


def _copy_header(method: str, environ: Mapping[str, Any]) -> str:
    if method == COPY:
        return _DESTINATION
    # Swift's copy middleware takes an empty header for none.
    return _COPY_FROM if method == "PUT" and environ.get("HTTP_X_COPY_FROM") else ""


def _other_object(
    environ: Mapping[str, Any], path: SwiftPath, header: str
) -> tuple[SwiftPath | None, str]:
    """The object that a copy's header names, or why Swift refuses the copy."""
    key = names.environ_key(header)
    account_key = (
        "HTTP_DESTINATION_ACCOUNT" if header == _DESTINATION else "HTTP_X_COPY_FROM_ACCOUNT"
    )
    value = environ.get(key)
    if not value:
        return None, f"{header} header required"
    malformed = f"{header} header must be of the form <container name>/<object name>"
    try:
        unquoted = wsgi_unquote(value)
        parts = split_path(
            unquoted if unquoted.startswith("/") else f"/{unquoted}", 2, 2, rest_with_last=True
        )
        container, name = (text(part) for part in parts)
        account = _other_account(environ, path, account_key)
    except (TypeError, ValueError):
        return None, malformed
    if "\0" in container + name + account or "/" in account:
        return None, malformed
    return SwiftPath(path.version, account, container, name), ""


def _other_account(environ: Mapping[str, Any], path: SwiftPath, key: str) -> str:
    """The account of a copy's other object; an empty ``X-Copy-From-Account`` means this account, as
    for Swift.
    """
    value = environ.get(key)
    if value:
        return text(wsgi_unquote(value))
    if value is not None and key == "HTTP_DESTINATION_ACCOUNT":
        raise ValueError("Destination-Account is empty")
    return path.account
