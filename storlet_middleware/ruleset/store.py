"""The compiled rules of an account: loaded once for each ruleset version, and cached.

::

    account's metadata -> Pointer -> cache of compiled rules, by ruleset version
                                  -> the version's object -> SHA-256 verified -> compiled, cached

The pointer (:mod:`storlet_middleware.ruleset.pointer`) determines the rules in force, not the
content of ``rules.yaml``: an interrupted upload leaves the old rules in force.  A cache hit costs
only a lookup in the account's metadata, which every request has anyway.  On a miss, one request
reads the version, pre-authorized; concurrent requests for the same version wait for it.

If the rules cannot be read, the account fails closed if they are mandatory (503, no data);
otherwise the request proceeds as without rules.  :mod:`storlet_middleware.ruleset.upload` changes
rules.
"""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import quote

from rules import engine, parse
from rules.engine import Compiled
from rules.model import Deny, RuleSet
from storlet_middleware import child, metrics
from storlet_middleware.concurrency import (
    GreenTask,
    Timeout,
    WaitExpired,
    in_native_thread,
    monotonic,
    spawn,
)
from storlet_middleware.config import Config
from storlet_middleware.errors import BackendFailed, RulesUnavailable, StorletError
from storlet_middleware.lru_cache import LruCache
from storlet_middleware.ruleset import parse_process
from storlet_middleware.ruleset.pointer import MEMO, Pointer, Pointers
from storlet_middleware.ruleset.upload import Handler, Uploads
from storlet_middleware.ruleset.versions import RULES, Versions
from storlet_middleware.wsgi.operation import Operation
from storlet_middleware.wsgi.swift_paths import AccountPath

__all__ = ["RULES", "Handler", "Loaded", "RuleStore"]

#: Back-off after a failed read, so that requests to a closed account do not overload Swift.
_FAILED_SECONDS: Final = 1.0
_FAILED: Final = 1000
#: A longer text is parsed in a process of its own: in this one it would delay other requests.  This
#: length takes some 60 ms.
_SHORT_BYTES: Final = 16 << 10
_PARSE_SECONDS: Final = 30


@dataclass(frozen=True)
class Loaded:
    """Compiled rules.

    :param version: the ruleset version (SHA-256, hexadecimal).
    """

    version: str
    compiled: Compiled
    has_mandatory: bool

    @property
    def has_denials(self) -> bool:
        """Whether a rule denies requests."""
        return any(isinstance(rule.action, Deny) for rule in self.compiled.rules.rules)


class RuleStore:
    """The rules of all accounts, in one proxy process.

    :param app: the rest of the proxy's pipeline.
    :param client_seconds: the idle deadline of a client that uploads rules.
    """

    def __init__(self, app: Any, config: Config, logger: Any, client_seconds: float) -> None:
        self._logger = logger
        self._pointers = Pointers(app)
        self._versions = Versions(app, config.rules.container)
        self._uploads = Uploads(app, config, logger, self._pointers, self._versions, client_seconds)
        #: By ruleset version; the bytes are those of the text.
        self._cache: LruCache[str, Loaded] = LruCache(config.rules.cache_bytes)
        self._reading: dict[str, GreenTask] = {}
        self._failed: OrderedDict[str, tuple[float, str]] = OrderedDict()

    def of(self, environ: dict[str, Any], version: str, account: str) -> Loaded | None:
        """The rules of ``account``, stable during the request; ``None`` if it has none.

        Raises :class:`RulesUnavailable` if they are unknown and can be mandatory.
        """
        known = environ.setdefault("swift.infocache", {})
        key = MEMO + account
        if key not in known:
            known[key] = (
                None
                if self._pointers.has_none(known, account)
                else self._load(environ, version, account)
            )
        loaded: Loaded | None = known[key]
        return loaded

    def handler(self, environ: dict[str, Any], operation: Operation) -> Handler | None:
        """The handler of a request that changes rules; ``None`` for other requests."""
        return self._uploads.handler(environ, operation)

    def _load(self, environ: dict[str, Any], version: str, account: str) -> Loaded | None:
        pointer = self._pointers.of(environ, version, account)
        if pointer is None or not pointer.version:
            return None
        cached = self._cache.get(pointer.version)
        if cached is not None:
            return cached
        try:
            return self._load_once(environ, AccountPath(version, account), pointer)
        except StorletError as error:
            if pointer.is_mandatory:
                raise RulesUnavailable(
                    f"the account's rules cannot be read: {error}", retry_after=1
                ) from error
            self._logger.warning(
                "rules of %s are not applied, because they cannot be read: %s",
                quote(account),
                error,
            )
            return None

    def _load_once(
        self, environ: dict[str, Any], account_path: AccountPath, pointer: Pointer
    ) -> Loaded:
        """Load a version; concurrent requests share one load."""
        key = f"{account_path.account}/{pointer.version}"
        since, why = self._failed.get(key, (0.0, ""))
        if why and monotonic() - since < _FAILED_SECONDS:
            raise BackendFailed(why)
        task = self._reading.get(key)
        if task is None:
            # A separate task, because the request that started it can end first.
            task = self._reading[key] = spawn(
                self._read_and_cache, environ, account_path, pointer, key
            )
        loaded = task.wait()
        if isinstance(loaded, StorletError):
            self._failed[key] = monotonic(), str(loaded)
            if len(self._failed) > _FAILED:
                self._failed.popitem(last=False)
            # A new exception for each request: a raised one keeps references to its frames.
            raise BackendFailed(str(loaded))
        self._failed.pop(key, None)
        return loaded  # type: ignore[no-any-return]

    def _read_and_cache(
        self, environ: dict[str, Any], account_path: AccountPath, pointer: Pointer, key: str
    ) -> Loaded | StorletError:
        """Returns errors, because several requests wait, and eventlet prints raised exceptions."""
        began = monotonic()
        try:
            text = self._versions.text_of(environ, account_path, pointer)
            loaded = _loaded(text, pointer.version)
            self._cache.put(loaded.version, loaded, len(text))
            metrics.rules_loaded(self._logger, monotonic() - began)
        except StorletError as error:
            return error
        except (Exception, Timeout) as error:
            self._logger.exception("ERROR storlets: rules of %s", quote(account_path.account))
            return BackendFailed(f"reading them failed: {type(error).__name__}")
        else:
            return loaded
        finally:
            self._reading.pop(key, None)


def _loaded(text: bytes, version: str) -> Loaded:
    if len(text) <= _SHORT_BYTES:
        return cast("Loaded", in_native_thread(_compiled, _parse, text, version))
    pickled = _parse_in_process(text)
    return cast("Loaded", in_native_thread(_compiled, _unpickle, pickled, version))


def _compiled(read: Callable[[bytes], RuleSet | None], source: bytes, version: str) -> Loaded:
    rules = read(source)
    if rules is None:
        # Possibly accepted by another release.
        raise BackendFailed("this release cannot parse them")
    return Loaded(version, engine.compile(rules), any(rule.is_mandatory for rule in rules.rules))


def _parse(text: bytes) -> RuleSet | None:
    return parse.parse(text)[0]


def _parse_in_process(text: bytes) -> bytes:
    try:
        status, pickled = child.run(parse_process.__name__, text, _PARSE_SECONDS)
    except WaitExpired:
        raise BackendFailed("parsing them exceeded its deadline") from None
    if status:
        raise BackendFailed(f"the process that parses them ended with {status}")
    return pickled


def _unpickle(pickled: bytes) -> RuleSet | None:
    """Read the output of our own child, :mod:`~storlet_middleware.ruleset.parse_process`."""
    return cast("RuleSet", pickle.loads(pickled)) if pickled else None  # noqa: S301
