"""Which rules are in force in an account: system metadata of the account, ``X-Account-Sysmeta-Storlet-Rules``.

::

    <SHA-256 of the rules> mandatory|ordinary <since when> <object of the rules' container that has them>
    - none <since when>

To set it is the one moment at which other rules come into force.  A proxy has the account's metadata at hand with every
request, so that who has no rules pays nothing for them; and Swift forgets what it remembers of an account when that changes,
in all proxies that share memcached.  Three things are left, against which :class:`Pointers` guards:

* A proxy that read the account right before the change may remember it right after: after a change we look a few times, for
  half a second, and let that be forgotten.  Proxies with a memcached of their own go on for as long as Swift remembers
  accounts (``recheck_account_existence``, 60 s).
* One of the account's replicas may have missed the change, until Swift mends it: a process that has seen newer rules of the
  account keeps to them for ten minutes.
* All of them may be out of reach: what this process has seen of the account holds, and without that nothing is known, not
  even that there are no rules.
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
from swift.common.utils import drain_and_close
from swift.common.wsgi import make_pre_authed_request
from swift.proxy.controllers.base import clear_info_cache, get_account_info

from storlet_middleware import names
from storlet_middleware.concurrency import monotonic, sleep
from storlet_middleware.errors import RulesUnavailable
from storlet_middleware.wsgi.strings import wsgi

#: With an account's name behind it, the key of ``swift.infocache`` where a request keeps the rules that it has begun with;
MEMO: Final = "storlets-rules/"
#: and the one where Swift keeps what it has looked up of the account (``get_cache_key``, which takes longer than all of this).
_INFO: Final = "account/"
VERSIONS: Final = "versions/"
_SUCCESS: Final = (200, 204)
_SYSMETA_KEY: Final = names.ACCOUNT_RULES.lower().removeprefix("x-account-sysmeta-")
_TIME: Final = "%Y%m%dT%H%M%S.%fZ"
_TEXT: Final = re.compile(
    rf"([0-9a-f]{{64}}) (mandatory|ordinary) ([0-9TZ.]{{23}}) ({VERSIONS}[0-9TZa-f.-]+\.yaml)|- none ([0-9TZ.]{{23}})"
)
#: Of so many accounts a process remembers what it has seen.
_REMEMBERED: Final = 10_000
#: For how long that counts more than something older that Swift says.
_TRUSTED_SECONDS: Final = 600.0
#: An account without rules is remembered anew no oftener: that costs more than to see that it has none.
_REMEMBER_SECONDS: Final = 10.0
_NEVER: Final = float("-inf")
#: When it is looked, after a change, whether an older state is remembered again.
_LOOKS_SECONDS: Final = (0.0, 0.1, 0.4)


@dataclass(frozen=True)
class Pointer:
    """What is in force; ``version`` and ``name`` are empty where rules were removed.

    :param version: SHA-256 of the rules, hexadecimal.
    :param name: of the object that has them.
    :param time: since when, in a form that sorts.
    """

    version: str
    is_mandatory: bool
    name: str
    time: str

    @classmethod
    def to(cls, version: str, *, is_mandatory: bool, after: Pointer | None) -> Self:
        """To rules that are about to be stored, in place of what is in force."""
        time = _later_than(after)
        return cls(version, is_mandatory, f"{VERSIONS}{time}-{version[:12]}.yaml", time)

    @classmethod
    def to_none(cls, after: Pointer | None) -> Self:
        """For rules that are removed."""
        return cls("", False, "", _later_than(after))

    @classmethod
    def read(cls, text: str) -> Self:
        """Raises ``ValueError`` for what this release does not know."""
        match = _TEXT.fullmatch(text)
        if not match:
            raise ValueError(f"{text!r} names no rules")
        if match[5]:
            return cls("", False, "", match[5])
        return cls(match[1], match[2] == "mandatory", match[4], match[3])

    @property
    def text(self) -> str:
        """What :meth:`read` reads."""
        if not self.version:
            return f"- none {self.time}"
        return f"{self.version} {'mandatory' if self.is_mandatory else 'ordinary'} {self.time} {self.name}"

    def again(self, after: Pointer) -> Self:
        """The same, in force once more."""
        return replace(self, time=_later_than(after))


def _later_than(after: Pointer | None) -> str:
    """Now, or a moment later than ``after``, whatever the clock of the proxy that wrote that."""
    now = datetime.now(UTC)
    if after is not None and after.time >= now.strftime(_TIME):
        now = datetime.strptime(after.time, _TIME).replace(tzinfo=UTC) + timedelta(microseconds=1)
    return now.strftime(_TIME)


class _Seen:
    """``text`` is the pointer's, ``at`` when it was seen last."""

    def __init__(self, pointer: Pointer) -> None:
        self.pointer: Final = pointer
        self.text: Final = pointer.text
        self.at = monotonic()


class Pointers:
    """The pointers of all accounts, as one proxy process knows them."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._seen: OrderedDict[str, _Seen] = OrderedDict()
        #: When accounts were seen that have no rules.
        self._without: OrderedDict[str, float] = OrderedDict()

    def has_none(self, infocache: Mapping[str, Any], account: str) -> bool:
        """Whether what Swift has looked up for this request already says that the account never had rules, as most.

        ``False`` also where that is not known.
        """
        known = infocache.get(_INFO + account)
        if account in self._seen or not known or known.get("status") not in _SUCCESS:
            return False
        if _SYSMETA_KEY in known.get("sysmeta", ()):
            return False
        if monotonic() - self._without.get(account, _NEVER) > _REMEMBER_SECONDS:
            self._remember_without(account)
        return True

    def of(self, environ: dict[str, Any], version: str, account: str) -> Pointer | None:
        """``None`` when the account never had rules; raises :class:`RulesUnavailable` when that is not known."""
        seen = self._seen.get(account)
        known = environ.get("swift.infocache", {}).get(_INFO + account) or {}
        text = (
            known.get("sysmeta", {}).get(_SYSMETA_KEY) if known.get("status") in _SUCCESS else None
        )
        # Most accounts that have rules have them for long.
        if seen is not None and text == seen.text:
            seen.at = monotonic()
            self._seen.move_to_end(account)
            return seen.pointer
        here = _environ_of(environ, version, account)
        info = get_account_info(here, self._app, swift_source=names.SWIFT_SOURCE)
        # While Swift was asked, another request may have changed them.
        seen = self._seen.get(account, seen)
        if info["status"] // 100 == 2 or info["status"] in (404, 410):
            return self._newer(here, account, info.get("sysmeta", {}).get(_SYSMETA_KEY), seen)
        if seen is not None:
            return seen.pointer
        since = self._without.get(account)
        if since is not None and monotonic() - since < _TRUSTED_SECONDS:
            return None  # objects can be had while no account server answers, as ever
        # Swift takes no such names, and says so itself.
        if (
            not info["status"]
            or not check_utf8(account)
            or len(account.encode()) > MAX_ACCOUNT_NAME_LENGTH
        ):
            return None
        raise RulesUnavailable("Swift cannot say now whether the account has rules")

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
        """Of what Swift says and what was seen here."""
        pointer = _read(text) if text else None
        is_older = seen is not None and (pointer is None or pointer.time < seen.pointer.time)
        if seen is not None and is_older and monotonic() - seen.at < _TRUSTED_SECONDS:
            # What memcached has comes from a replica that missed the change; another one may be asked next.
            clear_info_cache(environ, account)
            return seen.pointer
        if pointer is None:
            self._seen.pop(account, None)
            self._remember_without(account)
            return None
        self._remember(account, pointer)
        return pointer

    def fresh(self, environ: dict[str, Any], version: str, account: str) -> Pointer | None:
        """As :meth:`of`, whatever is remembered."""
        clear_info_cache(environ, account)
        forget(environ, account)
        return self.of(environ, version, account)

    def set(self, environ: dict[str, Any], version: str, account: str, pointer: Pointer) -> int:
        """Bring it into force; returns Swift's status.  Any but 2xx leaves open whether it is."""
        request = make_pre_authed_request(
            environ,
            method="POST",
            # The question mark: without a query of its own a sub-request inherits the client's.
            path=quote(f"/{version}/{account}") + "?",
            headers={names.ACCOUNT_RULES: pointer.text},
            swift_source=names.SWIFT_SOURCE,
        )
        answer = request.get_response(self._app)
        drain_and_close(answer)
        forget(environ, account)
        status = int(answer.status_int)
        if status // 100 == 2:
            self._settle(_environ_of(environ, version, account), account, pointer)
        return status

    def _settle(self, environ: dict[str, Any], account: str, pointer: Pointer) -> None:
        """Let no proxy that shares our memcached remember what was before."""
        self._remember(account, pointer)
        for pause in _LOOKS_SECONDS:
            sleep(pause)
            for _ in range(3):
                environ["swift.infocache"] = {}
                info = get_account_info(environ, self._app, swift_source=names.SWIFT_SOURCE)
                if info.get("sysmeta", {}).get(_SYSMETA_KEY) == pointer.text:
                    break
                clear_info_cache(environ, account)


def forget(environ: dict[str, Any], account: str) -> None:
    """The request has changed them."""
    environ.get("swift.infocache", {}).pop(MEMO + account, None)


def _environ_of(environ: dict[str, Any], version: str, account: str) -> dict[str, Any]:
    """For questions about an account, with what the request has learnt of it so far."""
    environ.setdefault("swift.infocache", {})
    return {**environ, "PATH_INFO": wsgi(f"/{version}/{account}")}


def _read(text: str) -> Pointer:
    try:
        return Pointer.read(text)
    except ValueError as error:
        # Written by another release, perhaps: what it means may be mandatory.
        raise RulesUnavailable(f"the account's rules cannot be read: {error}") from error
