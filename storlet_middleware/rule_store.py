"""The rules of an account, ready to be asked: read once for each version, and kept.

::

    account's metadata -> Pointer -> compiled rules kept by their SHA-256
                                  -> the version's object -> SHA-256 compared -> parsed, compiled, kept

What is in force is what :mod:`storlet_middleware.rule_pointer` says, not what ``rules.yaml`` happens to hold: an upload that
ended half way leaves the old rules in force.  Reading costs no more than a look at the account's metadata, which every request
has anyway; a version that this process does not have is read with our own right by one request, while others that need it wait.

Rules that cannot be read close an account that has mandatory ones (503, no data) and are as if there were none otherwise.
Changing them is the work of :mod:`storlet_middleware.rule_upload`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from swift.common.utils import close_if_possible
from swift.common.wsgi import make_pre_authed_request

from rules import engine, parse
from rules.engine import Compiled
from rules.text import MAX_BYTES
from storlet_middleware import names
from storlet_middleware.catalog import object_path
from storlet_middleware.concurrency import GreenTask, Timeout, off_hub, spawn
from storlet_middleware.config import Config
from storlet_middleware.errors import BackendFailed, RulesUnavailable, StorletError
from storlet_middleware.rule_pointer import Pointer, Pointers
from storlet_middleware.sources import ObjectBody

RULES: Final = "rules.yaml"
#: version, account, container, name; as text, ``None`` where the path has none.
Parts = tuple[str, str, str | None, str | None]
Handler = Callable[[dict[str, Any]], Any]


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
    """

    def __init__(self, app: Any, config: Config, logger: Any) -> None:
        self._app = app
        self._logger = logger
        self._container = config.rules.container
        self._kept = _Kept(config.rules.cache_bytes)
        self._reading: dict[str, GreenTask] = {}
        self.pointers = Pointers(app, logger)

    def of(self, environ: dict[str, Any], version: str, account: str) -> Loaded | None:
        """The rules of ``account`` for this request, and the same whenever it asks; ``None`` when there are none.

        Raises :class:`RulesUnavailable` when they cannot be known and may be mandatory.
        """
        known = environ.setdefault("swift.infocache", {})
        key = f"storlets-rules/{account}"
        if key not in known:
            known[key] = self._load(environ, version, account)
        loaded: Loaded | None = known[key]
        return loaded

    def forget(self, environ: dict[str, Any], account: str) -> None:
        """This request has changed them."""
        environ.get("swift.infocache", {}).pop(f"storlets-rules/{account}", None)

    def handler(self, environ: dict[str, Any], parts: Parts) -> Handler | None:
        """Who answers a request that would write rules; ``None`` for every other."""
        return None

    def _load(self, environ: dict[str, Any], version: str, account: str) -> Loaded | None:
        pointer = self.pointers.of(environ, version, account)
        if pointer is None or not pointer.version:
            return None
        kept = self._kept.get(pointer.version)
        if kept is not None:
            return kept
        try:
            return self._read_once(environ, (version, account), pointer)
        except StorletError as error:
            if pointer.is_mandatory:
                raise RulesUnavailable(f"the account's rules cannot be read: {error}", retry_after=1) from error
            self._logger.warning("rules of %s are not applied, because they cannot be read: %s", account, error)
            return None

    def _read_once(self, environ: dict[str, Any], place: tuple[str, str], pointer: Pointer) -> Loaded:
        """Many requests may find out at the same moment that a version is not there."""
        key = f"{place[1]}/{pointer.version}"
        task = self._reading.get(key)
        if task is None:
            # A task of its own: the request that began it may end before.
            task = self._reading[key] = spawn(self._read_and_keep, environ, place, pointer, key)
        loaded = task.wait()
        if isinstance(loaded, StorletError):
            raise loaded
        return loaded  # type: ignore[no-any-return]

    def _read_and_keep(
        self, environ: dict[str, Any], place: tuple[str, str], pointer: Pointer, key: str
    ) -> Loaded | StorletError:
        """The error is handed over, too: several requests may want it, and eventlet would print one that is raised."""
        try:
            text = self.text_of(environ, place, pointer)
            loaded = off_hub(_compiled, text, pointer.version)
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

    def text_of(self, environ: dict[str, Any], place: tuple[str, str], pointer: Pointer) -> bytes:
        """The rules as they were uploaded; raises :class:`BackendFailed` when Swift does not have exactly them.

        They are kept twice, and either copy will do.
        """
        problems = []
        for name in (pointer.name, RULES):
            try:
                text = self._bytes(environ, object_path(*place, self._container, name))
            except BackendFailed as error:
                problems.append(f"{name}: {error}")
                continue
            if parse.version_of(text) == pointer.version:
                return text
            problems.append(f"{name}: has other rules than those in force")
        raise BackendFailed("; ".join(problems))

    def _bytes(self, environ: dict[str, Any], path: str) -> bytes:
        request = make_pre_authed_request(
            environ, method="GET", path=path, headers={"X-Newest": "true"}, swift_source=names.SWIFT_SOURCE
        )
        answer = request.get_response(self._app)
        try:
            if answer.status_int != 200:
                raise BackendFailed(f"Swift answered {answer.status_int}")
            if (answer.content_length or 0) > MAX_BYTES:
                raise BackendFailed(f"there are {answer.content_length} bytes")
            return b"".join(ObjectBody(answer))
        finally:
            close_if_possible(answer.app_iter)


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
