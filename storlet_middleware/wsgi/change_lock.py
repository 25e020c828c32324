"""A lock for changes that take several requests to Swift, among all proxies that share a memcached.

Without memcached there is no lock, and two changes at the same time may lose one of them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from swift.common.exceptions import MemcacheConnectionError
from swift.common.utils import cache_from_env

from storlet_middleware.errors import StorletError


@contextlib.contextmanager
def held(environ: dict[str, Any], key: str, seconds: int, conflict: StorletError) -> Iterator[None]:
    """Hold the lock ``key``; raise ``conflict`` if another request holds it.

    :param seconds: longer than a successful change takes; the lock ends by itself after that.
    """
    memcache = cache_from_env(environ)
    try:
        count = memcache.incr(key, time=seconds) if memcache else 1
    except MemcacheConnectionError:
        memcache, count = None, 1
    if count > 1:
        raise conflict
    try:
        yield
    finally:
        if memcache:
            memcache.delete(key)
