"""The runs of which records are kept: the account's setting, which a storlet can replace.

``X-Account-Meta-Storlet-Records`` of the account, or ``X-Object-Meta-Storlet-Records`` of the
storlet: ``all``, ``failures`` or ``none``.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Final

from storlet_middleware import names
from storlet_middleware.config import nearest
from storlet_middleware.errors import BadRequest, fault
from storlet_middleware.wsgi.account_info import account_metadata
from storlet_middleware.wsgi.operation import Operation

#: Key of the account's setting in Swift's account info.
_KEY: Final = names.ACCOUNT_RECORDS.lower().removeprefix("x-account-meta-")
_ENVIRON_KEY: Final = names.environ_key(names.ACCOUNT_RECORDS)


class Wish(IntEnum):
    """A higher value includes the runs of lower ones."""

    NONE = 0
    FAILURES = 1
    ALL = 2

    def includes(self, *, is_failure: bool) -> bool:
        """Whether a run is recorded."""
        return self >= (Wish.FAILURES if is_failure else Wish.ALL)


DEFAULT: Final = Wish.FAILURES
_VALUES: Final = {wish.name.lower(): wish for wish in sorted(Wish, reverse=True)}


def wish_fault(key: str, value: str) -> str:
    """Why ``value`` of the header ``key`` is no wish; empty if it is one, or empty itself."""
    if not value.strip() or value.strip().lower() in _VALUES:
        return ""
    wanted = f"want {', '.join(_VALUES)}{nearest(value.strip().lower(), list(_VALUES))}"
    return fault(key, value, wanted)


def require_valid(operation: Operation) -> None:
    """Refuse a POST of the account with a value that is no wish; an empty value removes it."""
    value = operation.environ.get(_ENVIRON_KEY)
    if value is None or operation.path.container is not None:
        return
    if operation.sent_method in ("PUT", "POST"):
        found = wish_fault(names.ACCOUNT_RECORDS, value)
        if found:
            raise BadRequest(found)


def wish_of_account(environ: dict[str, Any], app: Any, account: str) -> Wish:
    """The wish in the metadata of ``account``, which Swift caches.

    A value that is no wish counts as none: metadata may be older than the filter.
    """
    known = account_metadata(environ, app, account)
    return _VALUES.get(str(known.get(_KEY, "")).strip().lower(), DEFAULT)


def wish_of_run(of_account: Wish, of_storlets: Sequence[str]) -> Wish:
    """The wish for a run: the most that one of its storlets declares.

    :param of_storlets: of each storlet; empty where it has none of its own.
    """
    if not any(of_storlets):
        return of_account
    wishes = [_VALUES.get(own.strip().lower(), of_account) for own in of_storlets]
    return max(wishes, default=of_account)
