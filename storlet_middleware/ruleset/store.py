"""The rules of an account, ready to be asked: read once for each version, and kept.

::

    account's metadata -> Pointer -> compiled rules kept by their SHA-256
                                  -> the version's object -> SHA-256 compared -> parsed, compiled, kept

What is in force is what :mod:`storlet_middleware.ruleset.pointer` says, not what ``rules.yaml`` happens to hold: an upload that
ended half way leaves the old rules in force.  Reading costs no more than a look at the account's metadata, which every request
has anyway; a version that this process does not have is read with our own right by one request, while others that need it wait.

Rules that cannot be read close an account that has mandatory ones (503, no data) and are as if there were none otherwise.
Changing them is the work of :mod:`storlet_middleware.ruleset.upload`.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final

from rules import engine, parse
from rules.engine import Compiled
from storlet_middleware.concurrency import GreenTask, Timeout, monotonic, off_hub, spawn
from storlet_middleware.config import Config
from storlet_middleware.errors import BackendFailed, RulesUnavailable, StorletError
from storlet_middleware.ruleset.pointer import MEMO, Pointer, Pointers
from storlet_middleware.ruleset.upload import Handler, Parts, Uploads
from storlet_middleware.ruleset.versions import RULES, Versions

__all__ = ["RULES", "Handler", "Loaded", "Parts", "RuleStore"]

#: What could not be read is not asked for again so soon: requests of a closed account must not keep Swift busy.
_FAILED_SECONDS: Final = 1.0
_FAILED: Final = 1000


@dataclass(frozen=True)
class Loaded:
    """Rules that are in force.

    :param version: their SHA-256, hexadecimal.
    """

    version: str
    compiled: Compiled
    has_mandatory: bool


class RuleStore:
    """The rules of all accounts, as one proxy process knows them.

    :param app: the rest of the proxy's pipeline.
    :param client_seconds: how long a client that uploads rules may send nothing.
    """

    def __init__(self, app: Any, config: Config, logger: Any, client_seconds: float) -> None:
        self._logger = logger
        self._pointers = Pointers(app)
        self._versions = Versions(app, config.rules.container)
        self._uploads = Uploads(app, config, logger, self._pointers, self._versions, client_seconds)
        self._kept = _Kept(config.rules.cache_bytes)
        self._reading: dict[str, GreenTask] = {}
        self._failed: OrderedDict[str, tuple[float, str]] = OrderedDict()

    def of(self, environ: dict[str, Any], version: str, account: str) -> Loaded | None:
        """The rules of ``account`` for this request, and the same whenever it asks; ``None`` when there are none.

        Raises :class:`RulesUnavailable` when they cannot be known and may be mandatory.
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

    def handler(self, environ: dict[str, Any], parts: Parts) -> Handler | None:
        """Who answers a request that would write rules; ``None`` for every other."""
        return self._uploads.handler(environ, parts)

    def _load(self, environ: dict[str, Any], version: str, account: str) -> Loaded | None:
        pointer = self._pointers.of(environ, version, account)
        if pointer is None or not pointer.version:
            return None
        kept = self._kept.get(pointer.version)
        if kept is not None:
            return kept
        try:
            return self._read_once(environ, (version, account), pointer)
        except StorletError as error:
            if pointer.is_mandatory:
                raise RulesUnavailable(
                    f"the account's rules cannot be read: {error}", retry_after=1
                ) from error
            self._logger.warning(
                "rules of %s are not applied, because they cannot be read: %s", account, error
            )
            return None

    def _read_once(
        self, environ: dict[str, Any], place: tuple[str, str], pointer: Pointer
    ) -> Loaded:
        """Many requests may find out at the same moment that a version is not there."""
        key = f"{place[1]}/{pointer.version}"
        since, why = self._failed.get(key, (0.0, ""))
        if why and monotonic() - since < _FAILED_SECONDS:
            raise BackendFailed(why)
        task = self._reading.get(key)
        if task is None:
            # A task of its own: the request that began it may end before.
            task = self._reading[key] = spawn(self._read_and_keep, environ, place, pointer, key)
        loaded = task.wait()
        if isinstance(loaded, StorletError):
            self._failed[key] = monotonic(), str(loaded)
            if len(self._failed) > _FAILED:
                self._failed.popitem(last=False)
            # Each request has an error of its own: one that is raised keeps hold of where it was.
            raise BackendFailed(str(loaded))
        self._failed.pop(key, None)
        return loaded  # type: ignore[no-any-return]

    def _read_and_keep(
        self, environ: dict[str, Any], place: tuple[str, str], pointer: Pointer, key: str
    ) -> Loaded | StorletError:
        """The error is handed over, too: several requests may want it, and eventlet would print one that is raised."""
        try:
            text = self._versions.text_of(environ, place, pointer)
            loaded: Loaded = off_hub(_compiled, text, pointer.version)
            self._kept.put(loaded, len(text))
        except StorletError as error:
            return error
        except (Exception, Timeout) as error:
            self._logger.exception("ERROR storlets: rules of %s", place[1])
            return BackendFailed(f"reading them failed: {type(error).__name__}")
        else:
            return loaded
        finally:
            self._reading.pop(key, None)


def _compiled(text: bytes, version: str) -> Loaded:
    rules, _ = parse.parse(text)
    if rules is None:
        # What was taken by another release, perhaps.
        raise BackendFailed("this proxy does not understand them")
    return Loaded(version, engine.compile(rules), any(rule.is_mandatory for rule in rules.rules))


class _Kept:
    """Compiled rules by version, up to so many bytes of text; the least recently used go first."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._items: OrderedDict[str, tuple[Loaded, int]] = OrderedDict()

    def get(self, version: str) -> Loaded | None:
        item = self._items.get(version)
        if item is None:
            return None
        self._items.move_to_end(version)
        return item[0]

    def put(self, loaded: Loaded, size: int) -> None:
        if loaded.version in self._items:
            return
        self._items[loaded.version] = loaded, size
        self._bytes += size
        while self._bytes > self._most_bytes and len(self._items) > 1:
            _, (_, gone) = self._items.popitem(last=False)
            self._bytes -= gone
