"""The callers that may run the system library in an account: a setting of the account.

``X-Account-Meta-Storlet-Library``:

==========  ========================================================================================
``all``     every caller, also without a login: readers of a public container run storlets of the
            library at the expense of the account
``users``   callers with a login; the default
``owners``  callers that own the account
``none``    no caller
==========  ========================================================================================

The setting is for storlets that a request names, as steps of flows too, and for those that storlets
run by their services.  The rules of an account run the library in any case: they are the account's
own.  A value that this filter would refuse counts as ``none``.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

from storlet_middleware import names
from storlet_middleware.config import nearest
from storlet_middleware.errors import AccessDenied, BadRequest, fault
from storlet_middleware.wsgi.account_info import account_metadata
from storlet_middleware.wsgi.caller import user_of
from storlet_middleware.wsgi.context import swift_authorize
from storlet_middleware.wsgi.operation import Operation

_KEY: Final = names.ACCOUNT_LIBRARY.lower().removeprefix("x-account-meta-")
_ENVIRON_KEY: Final = names.environ_key(names.ACCOUNT_LIBRARY)


class LibraryCallers(Enum):
    """The values of the setting."""

    ALL = "all"
    USERS = "users"
    OWNERS = "owners"
    NONE = "none"


DEFAULT: Final = LibraryCallers.USERS
_VALUES: Final = {each.value: each for each in LibraryCallers}


def require_valid(operation: Operation) -> None:
    """Refuse a POST of the account with an unknown value; an empty value removes the setting."""
    given = operation.environ.get(_ENVIRON_KEY)
    if given is None or operation.path.container is not None:
        return
    value = given.strip().lower()
    if operation.sent_method in ("PUT", "POST") and value and value not in _VALUES:
        wanted = f"want {', '.join(_VALUES)}{nearest(value, list(_VALUES))}"
        raise BadRequest(fault(names.ACCOUNT_LIBRARY, given, wanted))


def setting_of(environ: dict[str, Any], app: Any, account: str) -> LibraryCallers:
    """The setting of ``account``, which ``environ`` is a request for; Swift caches it."""
    value = str(account_metadata(environ, app, account).get(_KEY, "")).strip().lower()
    return _VALUES.get(value, LibraryCallers.NONE) if value else DEFAULT


def require_allowed(
    environ: dict[str, Any], app: Any, account: str, storlet: str, *, is_owner: bool
) -> None:
    """Raise unless the caller may run ``storlet``, if it is one of the library.

    :raises AccessDenied: the account's setting does not allow it.
    """
    if not names.is_library(storlet) or swift_authorize(environ) is None:
        return
    setting = setting_of(environ, app, account)
    user = user_of(environ)
    is_allowed = {
        LibraryCallers.ALL: True,
        LibraryCallers.USERS: bool(user) or is_owner,
        LibraryCallers.OWNERS: is_owner,
        LibraryCallers.NONE: False,
    }[setting]
    if not is_allowed:
        raise AccessDenied(
            f"{storlet}: the account does not let this caller run storlets of the library"
            f" ({names.ACCOUNT_LIBRARY}: {setting.value})",
            status=403 if user else 401,
        )
