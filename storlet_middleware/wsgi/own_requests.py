"""Requests of the filter itself to the rest of the pipeline, pre-authorised.

The callers of this module authorise the client before they send a request whose answer, or a part
of it, the client gets.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol
from urllib.parse import urlencode

from swift.common import constraints
from swift.common.utils import drain_and_close
from swift.common.wsgi import make_pre_authed_request

from storlet_middleware import names
from storlet_middleware.errors import BackendFailed
from storlet_middleware.wsgi.bodies import read_bounded
from storlet_middleware.wsgi.sent_headers import require_sendable

#: A page of 10,000 names of 1,024 bytes.
_LISTING_BYTES: Final = 16 << 20
#: Entries of a page where all pages are read.
PAGE_ENTRIES: Final = 2000
NEWEST: Final = {"X-Newest": "true"}
NO_CONTENT: Final = 204


class Readable(Protocol):
    """A body that is read as ``wsgi.input``."""

    def read(self, size: int = -1, /) -> bytes:
        """Up to ``size`` bytes; empty at the end only."""


def send(
    app: Any,
    environ: dict[str, Any],
    method: str,
    path: str,
    headers: Mapping[str, str] | None = None,
    body: bytes | Readable | None = None,
) -> Any:
    """Swift's answer (:class:`swift.common.swob.Response`), whose body the caller closes.

    :param environ: of the client's request.
    :param path: quoted, with a query, which may be empty.
    :param headers: with ``Content-Length`` or ``Transfer-Encoding`` if ``body`` is a file.
    :raises BadRequest: HTTP cannot carry ``headers``.
    """
    require_sendable(headers or {})
    is_file = body is not None and not isinstance(body, bytes)
    request = make_pre_authed_request(
        environ,
        method=method,
        path=path,
        body=None if is_file else body,
        headers=dict(headers or {}),
        swift_source=names.SWIFT_SOURCE,
    )
    if is_file:
        request.environ["wsgi.input"] = body
    return request.get_response(app)


def exchange(
    app: Any,
    environ: dict[str, Any],
    method: str,
    path: str,
    headers: Mapping[str, str] | None = None,
    body: bytes | Readable | None = None,
) -> Any:
    """As :func:`send`, but the answer's body is read and closed."""
    answer = send(app, environ, method, path, headers, body)
    drain_and_close(answer)
    return answer


def listing(
    app: Any,
    environ: dict[str, Any],
    container: str,
    query: Mapping[str, str],
    most_bytes: int = _LISTING_BYTES,
    headers: Mapping[str, str] | None = None,
) -> list[dict[str, Any]] | None:
    """A page of a container's listing; ``None`` if there is no such container.

    :param container: its path, quoted, with an empty query.
    :param most_bytes: limit of the page.
    :raises BackendFailed: Swift cannot give it, or it is longer.
    """
    path = container + urlencode({"format": "json", **query})
    answer = send(app, environ, "GET", path, headers)
    body = read_bounded(answer.app_iter, most_bytes, BackendFailed("a long listing"))
    if answer.status_int == 404:
        return None
    if answer.status_int // 100 != 2:
        raise BackendFailed(f"a container cannot be listed: Swift answered {answer.status_int}")
    require_whole(answer.content_length, len(body))
    return entries_of(answer.status_int, body)


def require_whole(length: int | None, size: int) -> None:
    """Raise :class:`BackendFailed` for a listing of ``size`` bytes whose length is another one.

    :param length: of the answer, if it has one.
    """
    if length is not None and length != size:
        raise BackendFailed(f"Swift gave {size} of {length} bytes of a listing")


def entries_of(status: int, body: bytes) -> list[dict[str, Any]]:
    """The entries in the body of a listing in JSON, of a successful answer.

    :raises BackendFailed: it is no list.  A body that has broken off must not look like its end.
    """
    if status == NO_CONTENT and not body:
        return []
    try:
        entries = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BackendFailed(f"Swift gave a listing that is no JSON: {error}") from error
    if not isinstance(entries, list):
        raise BackendFailed("Swift gave a listing that is no list")
    return entries


def all_listed(
    app: Any, environ: dict[str, Any], container: str, prefix: str
) -> Iterator[dict[str, Any]]:
    """The objects with a prefix, of all pages; none if there is no such container."""
    # Swift refuses a limit above its own.
    page = min(PAGE_ENTRIES, constraints.CONTAINER_LISTING_LIMIT)
    query, is_full = {"prefix": prefix, "limit": str(page)}, True
    while is_full:
        entries = listing(app, environ, container, query) or []
        yield from entries
        is_full = len(entries) >= page
        if is_full:
            query["marker"] = str(entries[-1]["name"])
