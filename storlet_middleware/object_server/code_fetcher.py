"""Fetches storlet code at an object node, which has no proxy pipeline of its own, with Swift's
internal client."""

from __future__ import annotations

from collections.abc import Iterator

from swift.common.internal_client import InternalClient
from swift.common.utils import close_if_possible

from storlet_middleware.catalog.storlets import code_unavailable
from storlet_middleware.engine.storlet_version import CodeFile
from storlet_middleware.wsgi.bodies import read_backend


class CodeFetcher:
    """See :class:`~storlet_middleware.engine.code_cache.Fetcher`.

    The client and its pipeline are made at the first use, because most nodes never need them.

    :param conf_path: the internal client's configuration file.
    """

    def __init__(self, conf_path: str) -> None:
        self._conf_path = conf_path
        self._client: InternalClient | None = None

    def fetch(self, account: str, file: CodeFile) -> Iterator[bytes]:
        """The bytes of ``file``; raises if Swift does not have exactly this version of it."""
        if self._client is None:
            self._client = InternalClient(self._conf_path, "swift-storlets", 3)
        headers = {"X-Newest": "true", "If-Match": file.etag}
        status, _, chunks = self._client.get_object(
            account, file.container, file.name, headers, acceptable_statuses=(2, 3, 4, 5)
        )
        try:
            if status != 200:
                raise code_unavailable(file, status)
            yield from read_backend(chunks)
        finally:
            close_if_possible(chunks)
