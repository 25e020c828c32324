"""The pointer to the rules in force: account metadata ``X-Account-Sysmeta-Storlet-Rules``.

::

    <ruleset version> mandatory|ordinary <timestamp> <object of the rules' container>
    - none <timestamp>

Writing the pointer is the atomic step that brings other rules into force.  A proxy has the
account's metadata for every request, so accounts without rules have no overhead.  Swift invalidates
its cache of the account when the metadata changes, in all proxies that share a memcached.  Three
races and failures remain, which :class:`Pointers` handles:

* A proxy that read the account right before the change can write the old state to the cache right
  after it: after a change, the cache is checked several times for half a second, and a stale entry
  is invalidated.  Proxies with a separate memcached use the old state until Swift's cache entry
  expires (``recheck_account_existence``, 60 s).
* A replica of the account can have missed the change, until Swift repairs it: a process that has
  seen newer rules of the account keeps them for ten minutes.
* All replicas can be unreachable: the last known state of this process applies; without one, the
  state is unknown, and not even "no rules" may be assumed.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Self
from urllib.parse import quote

from swift.common.constraints import MAX_ACCOUNT_NAME_LENGTH, check_utf8
from swift.proxy.controllers.base import clear_info_cache, get_account_info

from storlet_middleware import names
from storlet_middleware.concurrency import monotonic, sleep
from storlet_middleware.errors import RulesUnavailable
from storlet_middleware.wsgi import own_requests
from storlet_middleware.wsgi.account_info import KEY_PREFIX
from storlet_middleware.wsgi.strings import wsgi

#: Prefix of the key in ``swift.infocache`` under which a request keeps its rules.
MEMO: Final = "storlets-rules/"
VERSIONS: Final = "versions/"
_SUCCESS: Final = (200, 204)
_SYSMETA_KEY: Final = names.ACCOUNT_RULES.lower().removeprefix("x-account-sysmeta-")
_TIME: Final = "%Y%m%dT%H%M%S.%fZ"
_TEXT: Final = re.compile(
    rf"([0-9a-f]{{64}}) (mandatory|ordinary) ([0-9TZ.]{{23}}) ({VERSIONS}[0-9TZa-f.-]+\.yaml)"
    r"|- none ([0-9TZ.]{23})"
)
#: The maximum number of accounts whose last known state is kept.
_REMEMBERED: Final = 10_000
#: How long a known state takes precedence over an older state from Swift.
_TRUSTED_SECONDS: Final = 600.0
#: Minimum interval between updates for an account without rules: an update is slower than a lookup.
_REMEMBER_SECONDS: Final = 10.0
_NEVER: Final = float("-inf")
#: Delays of the checks for a stale cache entry after a change.
_STALE_CHECKS_SECONDS: Final = (0.0, 0.1, 0.4)


@dataclass(frozen=True)
class Pointer:
    """The rules in force; ``version`` and ``name`` are empty after the rules were removed.

    :param version: the ruleset version (SHA-256, hexadecimal).
    :param name: of the object that holds it.
    :param time: start of validity; its string order is the order in time.
    """

    version: str
    is_mandatory: bool
    name: str
    time: str

    @classmethod
    def to(cls, version: str, *, is_mandatory: bool, after: Pointer | None) -> Self:
        """A pointer to rules that will be stored and replace ``after``."""
        time = _later_than(after)
        return cls(version, is_mandatory, f"{VERSIONS}{time}-{version[:12]}.yaml", time)

    @classmethod
    def to_none(cls, after: Pointer | None) -> Self:
        """A pointer for removed rules."""
        return cls("", False, "", _later_than(after))

    @classmethod
    def read(cls, text: str) -> Self:
        """Parse the metadata; raise ``ValueError`` for an unknown format."""
        match = _TEXT.fullmatch(text)
        if not match:
            raise ValueError(f"{text!r} is not a valid pointer to rules")
        if match[5]:
            return cls("", False, "", match[5])
        return cls(match[1], match[2] == "mandatory", match[4], match[3])

    @property
    def text(self) -> str:
        """The inverse of :meth:`read`."""
        if not self.version:
            return f"- none {self.time}"
        kind = "mandatory" if self.is_mandatory else "ordinary"
        return f"{self.version} {kind} {self.time} {self.name}"

    def renewed(self, after: Pointer) -> Self:
        """The same rules with a later timestamp."""
        return replace(self, time=_later_than(after))


def _later_than(after: Pointer | None) -> str:
    """Now, or later than ``after`` if the clock of another proxy is ahead."""
    now = datetime.now(UTC)
    if after is not None and after.time >= now.strftime(_TIME):
        now = datetime.strptime(after.time, _TIME).replace(tzinfo=UTC) + timedelta(microseconds=1)
    return now.strftime(_TIME)


class _Seen:
    """A pointer that Swift returned; ``at`` is when it was seen last."""

    def __init__(self, pointer: Pointer) -> None:
        self.pointer: Final = pointer
        self.text: Final = pointer.text
        self.at = monotonic()


class Pointers:
    """The last known pointers of all accounts in a proxy process."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._seen: OrderedDict[str, _Seen] = OrderedDict()
        #: Accounts without rules, with the time when they were seen last.
        self._without: OrderedDict[str, float] = OrderedDict()

    def has_none(self, infocache: Mapping[str, Any], account: str) -> bool:
        """Whether Swift's cached account information shows that the account never had rules.

        A fast path for most accounts; ``False`` also means unknown.
        """
        known = infocache.get(KEY_PREFIX + account)
        if account in self._seen or not known or known.get("status") not in _SUCCESS:
            return False
        if _SYSMETA_KEY in known.get("sysmeta", ()):
            return False
        if monotonic() - self._without.get(account, _NEVER) > _REMEMBER_SECONDS:
            self._remember_without(account)
        return True

    def of(self, environ: dict[str, Any], version: str, account: str) -> Pointer | None:
        """The pointer, or ``None`` if the account never had rules.

        Raises :class:`RulesUnavailable` if the state is unknown.
        """
        seen = self._seen.get(account)
        known = environ.get("swift.infocache", {}).get(KEY_PREFIX + account) or {}
        text = (
            known.get("sysmeta", {}).get(_SYSMETA_KEY) if known.get("status") in _SUCCESS else None
        )
        # Fast path: rules change rarely.
        if seen is not None and text == seen.text:
            seen.at = monotonic()
            self._seen.move_to_end(account)
            return seen.pointer
        here = _environ_of(environ, version, account)
        info = get_account_info(here, self._app, swift_source=names.SWIFT_SOURCE)
        # Another request can have changed the rules during the lookup.
        seen = self._seen.get(account, seen)
        if info["status"] // 100 == 2 or info["status"] in (404, 410):
            return self._newer(here, account, info.get("sysmeta", {}).get(_SYSMETA_KEY), seen)
        if seen is not None:
            return seen.pointer
        since = self._without.get(account)
        if since is not None and monotonic() - since < _TRUSTED_SECONDS:
            return None  # as in plain Swift, objects stay available without account servers
        # Swift refuses such names itself.
        if (
            not info["status"]
            or not check_utf8(account)
            or len(account.encode()) > MAX_ACCOUNT_NAME_LENGTH
        ):
            return None
        raise RulesUnavailable("the account's metadata is unavailable, so its rules are unknown")

    def _remember(self, account: str, pointer: Pointer) -> None:
        self._without.pop(account, None)
        self._seen[account] = _Seen(pointer)
        self._seen.move_to_end(account)
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)

    def _remember_without(self, account: str) -> None:
        self._without[account] = monotonic()
        self._without.move_to_end(account)
        if len(self._without) > _REMEMBERED:
            self._without.popitem(last=False)

    def _newer(
        self, environ: dict[str, Any], account: str, text: str | None, seen: _Seen | None
    ) -> Pointer | None:
        """The newer of Swift's state and the last known state."""
        pointer = _read(text) if text else None
        is_older = seen is not None and (pointer is None or pointer.time < seen.pointer.time)
        if seen is not None and is_older and monotonic() - seen.at < _TRUSTED_SECONDS:
            # memcached has the state of a replica that missed the change; force another lookup.
            clear_info_cache(environ, account)
            return seen.pointer
        if pointer is None:
            self._seen.pop(account, None)
            self._remember_without(account)
            return None
        self._remember(account, pointer)
        return pointer

    def fresh(self, environ: dict[str, Any], version: str, account: str) -> Pointer | None:
        """As :meth:`of`, but bypasses the caches."""
        clear_info_cache(environ, account)
        forget(environ, account)
        return self.of(environ, version, account)

    def set(self, environ: dict[str, Any], version: str, account: str, pointer: Pointer) -> int:
        # The question mark: without a query, a sub-request inherits the client's.
        path = quote(f"/{version}/{account}") + "?"
        headers = {names.ACCOUNT_RULES: pointer.text}
        answer = own_requests.exchange(self._app, environ, "POST", path, headers)
        forget(environ, account)
        status = int(answer.status_int)
        if status // 100 == 2:
            self._invalidate_stale(_environ_of(environ, version, account), account, pointer)
        return status

    def _invalidate_stale(self, environ: dict[str, Any], account: str, pointer: Pointer) -> None:
        """Invalidate stale entries in the memcached that this proxy shares with others."""
        self._remember(account, pointer)
        for pause in _STALE_CHECKS_SECONDS:
            sleep(pause)
            for _ in range(3):
                environ["swift.infocache"] = {}
                info = get_account_info(environ, self._app, swift_source=names.SWIFT_SOURCE)
                if info.get("sysmeta", {}).get(_SYSMETA_KEY) == pointer.text:
                    break
                clear_info_cache(environ, account)


def forget(environ: dict[str, Any], account: str) -> None:
    """Drop the rules that the request has cached, after it changed them."""
    environ.get("swift.infocache", {}).pop(MEMO + account, None)


def _environ_of(environ: dict[str, Any], version: str, account: str) -> dict[str, Any]:
    """An environment for lookups of the account, with the cache of the request."""
    environ.setdefault("swift.infocache", {})
    return {**environ, "PATH_INFO": wsgi(f"/{version}/{account}")}


def _read(text: str) -> Pointer:
    try:
        return Pointer.read(text)
    except ValueError as error:
        # Possibly written by another release; the rules can be mandatory, so fail closed.
        raise RulesUnavailable(f"the account's rules cannot be read: {error}") from error
