"""The mark of an account whose log lines are followed: system metadata of the account.

A stream of log lines sets ``X-Account-Sysmeta-Storlet-Followed-Until`` to a time some minutes
ahead, and renews it while the stream lasts.  It looks often, because another proxy can write an
older state to Swift's cache.

Every proxy has the account's metadata for each request, so an account without followers costs
nothing.  Swift invalidates its cache of an account whose metadata changes in all proxies that share
a memcached; others know a new mark after ``recheck_account_existence`` (60 s).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from storlet_middleware import names
from storlet_middleware.errors import BackendFailed
from storlet_middleware.wsgi import own_requests
from storlet_middleware.wsgi.account_info import account_sysmeta
from storlet_middleware.wsgi.swift_paths import AccountPath

_KEY: Final = names.ACCOUNT_FOLLOWED.lower().removeprefix("x-account-sysmeta-")
#: Proxies store lines for this time after the last renewal.
_AHEAD_SECONDS: Final = 180
_RENEWED_AT_SECONDS: Final = 120


def is_followed(environ: dict[str, Any], app: Any, account: str) -> bool:
    """Whether a client follows the log lines of ``account``, as Swift's cache knows it."""
    return _until(account_sysmeta(environ, app, account)) > time.time()


def mark(app: Any, environ: dict[str, Any], account_path: AccountPath) -> None:
    """Set or renew the mark, unless another stream has renewed it.

    :raises BackendFailed: Swift refuses it.
    """
    now = time.time()
    known = account_sysmeta(environ, app, account_path.account)
    if _until(known) >= now + _RENEWED_AT_SECONDS:
        return
    # The question mark: without a query, a sub-request inherits the client's.
    path = quote(f"/{account_path.version}/{account_path.account}") + "?"
    headers = {names.ACCOUNT_FOLLOWED: str(int(now + _AHEAD_SECONDS))}
    answer = own_requests.exchange(app, environ, "POST", path, headers)
    if answer.status_int // 100 != 2:
        raise BackendFailed(f"log lines cannot be followed: Swift answered {answer.status}")


def _until(sysmeta: Mapping[str, str]) -> float:
    text = sysmeta.get(_KEY, "")
    return float(text) if text.isascii() and text.isdigit() else 0.0
