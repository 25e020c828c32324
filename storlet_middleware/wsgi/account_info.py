"""The metadata of a request's account, as Swift has cached it.

Every request has it: the authentication middlewares or the rules have looked it up before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from swift.proxy.controllers.base import get_account_info

from storlet_middleware import names

#: Prefixes of Swift's keys in ``swift.infocache``, for the information of an account and of a
#: container, which is named by account and container (calling ``get_cache_key`` is slower).
KEY_PREFIX: Final = "account/"
CONTAINER_KEY_PREFIX: Final = "container/"


def account_metadata(environ: dict[str, Any], app: Any, account: str) -> Mapping[str, str]:
    """The user metadata of ``account``, which ``environ`` is a request for; read-only.

    The keys are in lower case and without ``x-account-meta-``; an account that does not exist has
    none.
    """
    return _information(environ, app, account).get("meta") or {}


def account_sysmeta(environ: dict[str, Any], app: Any, account: str) -> Mapping[str, str]:
    """The system metadata of ``account``, with keys without ``x-account-sysmeta-``; read-only."""
    return _information(environ, app, account).get("sysmeta") or {}


def _information(environ: dict[str, Any], app: Any, account: str) -> Mapping[str, Any]:
    # get_account_info would look for it in four places, count that, and copy what it finds.
    known = environ.get("swift.infocache", {}).get(KEY_PREFIX + account)
    if not known:
        known = get_account_info(environ, app, swift_source=names.SWIFT_SOURCE)
    found: Mapping[str, Any] = known
    return found
