"""Requests to Swift for the objects that hold records.

All are pre-authorized: the system writes records with every ACL of the container, and callers of
this module decide which records a client sees.

An object with records never changes, and clients search those of an account again and again: the
objects that were read last stay in memory.  One that was deleted is in no listing, and is not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from swift.common.utils import close_if_possible, config_true_value, drain_and_close

from storlet_middleware import names
from storlet_middleware.config import Config
from storlet_middleware.errors import BackendFailed
from storlet_middleware.lru_cache import LruCache
from storlet_middleware.records.batches import CONTENT_TYPE, LINES_PREFIX, PREFIX, key_of_name
from storlet_middleware.wsgi import own_requests
from storlet_middleware.wsgi.bodies import read_bounded
from storlet_middleware.wsgi.swift_paths import AccountPath, object_path

#: A day, for ``X-Delete-After``.
_DAY_SECONDS: Final = 86_400
#: Followers of log lines read them within seconds.
_LINES_SECONDS: Final = 600
#: A page of 1,000 entries; an object is smaller than the bound of a queue, and JSON escapes.
_MAX_LISTING_BYTES: Final = 4 << 20
#: Pages that are read because objects of others are on them.
_MAX_PAGES: Final = 8
_MAX_BATCH_BYTES: Final = 32 << 20
#: Bytes of objects in memory, of all accounts, and of one of them: most have a few KiB.
_RECENT_BYTES: Final = 4 << 20
_RECENT_OBJECT_BYTES: Final = 64 << 10


class RecordStore:
    """The log containers of all accounts.

    :param app: the rest of the proxy's pipeline.
    :param prefix: of the objects.
    """

    def __init__(self, app: Any, config: Config, prefix: str = PREFIX) -> None:
        self._app = app
        self._container = config.storlet.log_container
        self._prefix = prefix
        is_lines = prefix == LINES_PREFIX
        days = config.storlet.records_days
        self._kept_seconds = _LINES_SECONDS if is_lines else days * _DAY_SECONDS
        self._recent: LruCache[tuple[AccountPath, str], bytes] = LruCache(_RECENT_BYTES)

    def write(
        self, environ: dict[str, Any], account_path: AccountPath, name: str, body: bytes
    ) -> int:
        """Store an object, after its container if that is missing; Swift's last status."""
        status = self._put(environ, self._path(account_path, name), body)
        if status == 404:
            created = self._put(environ, self._path(account_path, ""), b"")
            status = (
                self._put(environ, self._path(account_path, name), body)
                if created < 300
                else created
            )
        return status

    def names(
        self,
        environ: dict[str, Any],
        account_path: AccountPath,
        bounds: Mapping[str, str],
        limit: int,
    ) -> list[str]:
        """The names of up to ``limit`` objects; fewer only if there are no more.

        The container may have others with the prefix, from before the filter.

        :param bounds: ``marker``, ``end_marker`` and ``reverse`` of Swift's listings.
        :raises BackendFailed: Swift cannot list them, or others are too many.
        """
        query = {"prefix": self._prefix, "limit": str(limit), **bounds}
        container = self._path(account_path, "")
        found: list[str] = []
        for _ in range(_MAX_PAGES):
            page = own_requests.listing(self._app, environ, container, query, _MAX_LISTING_BYTES)
            listed = [str(entry.get("name", "")) for entry in page or ()]
            found += [name for name in listed if key_of_name(name, self._prefix) is not None]
            if len(listed) < limit or len(found) >= limit:
                return found[:limit]
            query["marker"] = listed[-1]
        raise BackendFailed(f"{self._container}/{self._prefix} has too many other objects")

    def read(self, environ: dict[str, Any], account_path: AccountPath, name: str) -> bytes:
        """The content of an object that is listed; empty if it was deleted, or is not the system's.

        :raises BackendFailed: Swift cannot give it, or not all of it.
        """
        known = self._recent.get((account_path, name))
        if known is not None:
            return known
        answer = own_requests.send(self._app, environ, "GET", self._path(account_path, name))
        if answer.status_int == 404 or not _is_ours(answer):
            drain_and_close(answer)
            if answer.status_int in (200, 404):
                return b""
            raise BackendFailed(f"records cannot be read: Swift answered {answer.status}")
        length = answer.content_length
        body = read_bounded(answer.app_iter, _MAX_BATCH_BYTES, BackendFailed("a long object"))
        close_if_possible(answer.app_iter)
        if length is not None and len(body) != length:
            raise BackendFailed(f"Swift gave {len(body)} of {length} bytes of records")
        if len(body) <= _RECENT_OBJECT_BYTES:
            self._recent.put((account_path, name), body, len(body))
        return body

    def _path(self, account_path: AccountPath, name: str) -> str:
        return object_path(account_path.version, account_path.account, self._container, name)

    def _put(self, environ: dict[str, Any], path: str, body: bytes) -> int:
        headers = {"Content-Length": str(len(body))}
        if body:
            headers |= {"Content-Type": CONTENT_TYPE, names.RECORDS_SYSMETA: "true"}
            if self._kept_seconds:
                headers["X-Delete-After"] = str(self._kept_seconds)
        answer = own_requests.exchange(self._app, environ, "PUT", path, headers, body)
        return int(answer.status_int)


def _is_ours(answer: Any) -> bool:
    is_marked = config_true_value(answer.headers.get(names.RECORDS_SYSMETA, "false"))
    return bool(answer.status_int == 200 and is_marked)
