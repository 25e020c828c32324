"""Builds the facts of a request that rules may test: a :class:`rules.facts.Facts`.

The facts of the request itself come from its environment and cost nothing.  Those of the object and
its container are looked up when a decision depends on them (:class:`Evaluator`), with
pre-authorised requests: a rule about the object's metadata also applies to callers without
permission to read it.
"""

from __future__ import annotations

import dataclasses
import mimetypes
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeAlias

from swift.common.header_key_dict import HeaderKeyDict
from swift.common.storage_policy import POLICIES
from swift.common.utils import config_true_value
from swift.proxy.controllers.base import get_container_info

from rules.conditions import LOST, Group
from rules.engine import Compiled, Decision, Needs
from rules.facts import HIDDEN_HEADERS, UNKNOWN, ContainerFacts, Facts, ObjectFacts, Unknown
from storlet_middleware import names
from storlet_middleware.enforcement.link_ends import LinkEnd, link_end
from storlet_middleware.errors import BackendFailed
from storlet_middleware.wsgi import own_requests
from storlet_middleware.wsgi.caller import caller_of, is_from_swift, lenient_text
from storlet_middleware.wsgi.operation import query_of
from storlet_middleware.wsgi.strings import wsgi
from storlet_middleware.wsgi.swift_paths import SwiftPath, parse_url

#: Headers whose WSGI keys have no ``HTTP_`` prefix.
_UNPREFIXED_KEYS: Final = ("CONTENT_TYPE", "CONTENT_LENGTH")
_SIGNATURE_PARAMETERS: Final = frozenset(
    ("temp_url_sig", "X-Amz-Signature", "X-Amz-Credential", "Signature", "signature")
)
#: The mark of a request that one of Swift's middlewares has made for a client's.
_SOURCE: Final = "swift.source"
_ADDRESS: Final = "REMOTE_ADDR"
_MINUTES_PER_DAY: Final = 24 * 60
_NOTHING: Final = frozenset[str]()
_OTHER_LENGTHS: Final = (
    "HTTP_TRANSFER_ENCODING", "HTTP_X_OBJECT_MANIFEST", "HTTP_X_SYMLINK_TARGET",
)  # fmt: skip


class _Headers(Mapping[str, str]):
    """A request's headers by name in lower case, without tokens.

    Headers are read on access, because few rules test them.
    """

    __slots__ = ("_environ",)

    def __init__(self, environ: Mapping[str, Any]) -> None:
        self._environ = environ

    def __getitem__(self, name: str) -> str:
        value = self.get(name)
        if value is None:
            raise KeyError(name)
        return str(value)

    def get(self, name: str, default: Any = None) -> Any:
        key = _key_of(name)
        is_hidden = name.lower().replace("_", "-") in HIDDEN_HEADERS
        value = None if is_hidden else self._environ.get(key)
        # WSGI servers set Content-Type and Content-Length to "" if the client sent none.
        is_missing = value is None or (key in _UNPREFIXED_KEYS and not value)
        return default if is_missing else lenient_text(value)

    def __contains__(self, name: object) -> bool:
        return self.get(str(name)) is not None

    def __iter__(self) -> Iterator[str]:
        keys = (key.removeprefix("HTTP_") for key in self._environ if _is_header(key))
        lower_names = (key.replace("_", "-").lower() for key in keys)
        return (name for name in lower_names if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _is_header(key: str) -> bool:
    return key.startswith("HTTP_") or key in _UNPREFIXED_KEYS


def _key_of(name: str) -> str:
    key = name.upper().replace("-", "_")
    return key if key in _UNPREFIXED_KEYS else f"HTTP_{key}"


def of_request(
    environ: Mapping[str, Any], method: str, container: str | None, name: str | None
) -> Facts:
    """Return the facts of a request for an object, a container or (both ``None``) the account.

    The facts of the stored object and of its container are left unknown.
    """
    now = time.gmtime()
    return Facts(
        method=method,
        container=container,
        object=name,
        caller=caller_of(environ),
        headers=_Headers(environ),
        query={
            key: value
            for key, value in query_of(environ).items()
            if key not in _SIGNATURE_PARAMETERS
        },
        # X-Forwarded-For is not used: clients can forge it.
        client_address=environ.get(_ADDRESS) or None,
        minute_of_week=now.tm_wday * _MINUTES_PER_DAY + now.tm_hour * 60 + now.tm_min,
        lost=LOST if _has_lost_facts(environ) else _NOTHING,
    )


def _has_lost_facts(environ: Mapping[str, Any]) -> bool:
    """Whether one of Swift's middlewares has made the request for a client's: its ``make_env``
    copies neither the address, which each client has, nor most headers.
    """
    return _SOURCE in environ and _ADDRESS not in environ and not is_from_swift(environ)


# --- stored objects and containers ---------------------------------------------------------------


class Parts(Enum):
    """Where the segments of a large object are."""

    #: It is none.
    NONE = "none"
    #: Its manifest names them: a static large object.
    NAMED = "named"
    #: A listing finds them: a dynamic large object.
    LISTED = "listed"


@dataclass(frozen=True)
class ObjectState:
    """The result of a HEAD of an object: its facts, and what identifies its state.

    :param timestamp: ``X-Timestamp`` of the answer, which each PUT and POST changes; empty if there
        is no object.
    :param reverse: name of the rule whose storlet must be reversed on reading; empty if none.
    :param etag: without quotes; empty if there is no object.
    :param is_plain: whether the object is neither a manifest nor reached through a link; a manifest
        or link read as such is a different object.
    :param parts: of a large object, whose length is that of its segments.
    :param expires: whether it has a time of expiry, which Swift's copy keeps.
    :param end: the object at the end of the links; ``None`` if the path is no link.
    """

    facts: ObjectFacts
    timestamp: str = ""
    reverse: str = ""
    etag: str = ""
    is_plain: bool = True
    parts: Parts = Parts.NONE
    expires: bool = False
    end: SwiftPath | None = None


#: Whether the caller may see the facts of an object.
Shows: TypeAlias = Callable[[SwiftPath, Parts], bool]


def look_up_object(
    app: Any,
    environ: dict[str, Any],
    path: str,
    shows: Shows = lambda _, __: False,
) -> ObjectState:
    """Look an object up with a pre-authorised HEAD.

    An object of another account, at the end of links, is no object for the rules unless the caller
    may see it: every tenant can make links to all paths, and rules that compare the facts.

    Raises :class:`BackendFailed` if Swift's answer does not say whether the object exists.

    :param path: quoted, with its query (``?version-id=`` selects a version).
    :param shows: for an object of another account.
    """
    # Open expired objects if the client's request does.  Otherwise the rules would see no object,
    # and Swift would give the client its bytes.
    opens_expired = environ.get("HTTP_X_OPEN_EXPIRED")
    headers = {"X-Open-Expired": opens_expired} if opens_expired is not None else None
    answer = own_requests.exchange(app, environ, "HEAD", path, headers)
    if answer.status_int in (400, 404, 409, 412):
        # There is no object, or Swift cannot have one with this path or version, or links lead to
        # none (409: a loop, or a static link whose target was replaced).  The client gets the same
        # answer.
        return ObjectState(ObjectFacts())
    if answer.status_int // 100 != 2:
        raise BackendFailed(
            f"cannot look up the object for the rules: Swift answered {answer.status_int}"
        )
    headers = answer.headers
    end, parts = link_end(parse_url(path), headers), _parts_of(headers)
    if end is not None and not _is_shown(end, parts, shows):
        return ObjectState(ObjectFacts())
    return ObjectState(
        ObjectFacts(
            exists=True,
            content_type=lenient_text(headers.get("Content-Type") or "") or None,
            size_bytes=answer.content_length,
            metadata=_metadata(headers),
        ),
        str(headers.get("X-Timestamp") or ""),
        lenient_text(headers.get(names.REVERSE_SYSMETA) or ""),
        str(headers.get("Etag") or "").strip('"'),
        parts is not Parts.NAMED and end is None,
        parts,
        "X-Delete-At" in headers,
        None if end is None else end.path,
    )


def _parts_of(headers: HeaderKeyDict) -> Parts:
    if config_true_value(headers.get("X-Static-Large-Object", "false")):
        return Parts.NAMED
    return Parts.LISTED if "X-Object-Manifest" in headers else Parts.NONE


def _is_shown(end: LinkEnd, parts: Parts, shows: Shows) -> bool:
    """Whether the caller may see facts of the object at the ``end`` of links."""
    return not end.is_elsewhere or (end.path is not None and shows(end.path, parts))


def listed_facts(content_type: str, size_bytes: int) -> ObjectFacts:
    """Return the facts that a container listing has of an object; they lack its metadata."""
    return ObjectFacts(exists=True, content_type=content_type or None, size_bytes=size_bytes)


def incoming_facts(environ: Mapping[str, Any]) -> ObjectFacts:
    """Return the facts of the object that Swift stores for a PUT if no storlet changes it."""
    length = str(environ.get("CONTENT_LENGTH") or "")
    is_known = length.isdecimal() and not _is_length_other(environ)
    return ObjectFacts(
        exists=True,
        content_type=_incoming_type(environ, lenient_text(environ["PATH_INFO"])),
        size_bytes=int(length) if is_known else None,
        metadata=_incoming_metadata(environ),
    )


def _is_length_other(environ: Mapping[str, Any]) -> bool:
    """Whether the stored object may have another length than ``Content-Length``: a chunked body, of
    which Swift ignores the header; a manifest; a link.
    """
    is_other = any(environ.get(key) for key in _OTHER_LENGTHS)
    return is_other or "multipart-manifest" in query_of(environ)


def changed_facts(environ: Mapping[str, Any], state: ObjectState) -> ObjectFacts:
    """Return the facts of an object after a POST, which replaces all user metadata."""
    given = environ.get("CONTENT_TYPE")
    # A POST turns a dynamic large object into an empty object if it names no segments.
    is_emptied = state.parts is Parts.LISTED and not environ.get("HTTP_X_OBJECT_MANIFEST")
    return dataclasses.replace(
        state.facts,
        content_type=lenient_text(given) if given else state.facts.content_type,
        size_bytes=0 if is_emptied else state.facts.size_bytes,
        metadata=_incoming_metadata(environ),
    )


def copied_facts(environ: Mapping[str, Any], source: ObjectFacts, name: str) -> ObjectFacts:
    """Return the facts of the object that a copy of ``source`` stores as ``name``.

    Headers of the request take precedence over the source.
    """
    is_fresh = config_true_value(environ.get("HTTP_X_FRESH_METADATA", "false"))
    metadata = {} if is_fresh else dict(source.metadata)
    sets_type = environ.get("CONTENT_TYPE") or _detects_type(environ)
    return dataclasses.replace(
        source,
        content_type=_incoming_type(environ, f"/{name}") if sets_type else source.content_type,
        metadata=metadata | _incoming_metadata(environ),
    )


def _incoming_type(environ: Mapping[str, Any], path: str) -> str:
    given = environ.get("CONTENT_TYPE")
    if given and not _detects_type(environ):
        return lenient_text(given)
    return mimetypes.guess_type(path)[0] or "application/octet-stream"


def _detects_type(environ: Mapping[str, Any]) -> Any:
    return config_true_value(environ.get("HTTP_X_DETECT_CONTENT_TYPE", "false"))


def _incoming_metadata(environ: Mapping[str, Any]) -> dict[str, str]:
    prefix = names.environ_key(names.OBJECT_META)
    return {
        key[len(prefix) :].replace("_", "-").lower(): lenient_text(value)
        for key, value in environ.items()
        if key.startswith(prefix)
    }


def _metadata(headers: HeaderKeyDict) -> dict[str, str]:
    prefix = names.OBJECT_META.lower()
    return {
        key.lower()[len(prefix) :].replace("_", "-"): lenient_text(value)
        for key, value in headers.items()
        if key.lower().startswith(prefix)
    }


def container_facts(
    app: Any, environ: dict[str, Any], version: str, account: str, container: str
) -> ContainerFacts:
    """Return the facts of a container; empty ones if it does not exist.

    Raises :class:`BackendFailed` if Swift cannot look it up: without the facts, nothing is allowed.
    """
    info = _container_info(app, environ, version, account, container)
    if info is None:
        return ContainerFacts()
    policy = POLICIES.get_by_index(info.get("storage_policy"))
    metadata = info.get("meta") or {}
    return ContainerFacts(
        metadata={
            key.lower().replace("_", "-"): lenient_text(value) for key, value in metadata.items()
        },
        policy=policy.name if policy else None,
    )


def archive_of(
    app: Any, environ: dict[str, Any], version: str, account: str, container: str
) -> str | None:
    """Return the container from which Swift restores an object's last version on DELETE, if any."""
    info = _container_info(app, environ, version, account, container)
    settings = (info or {}).get("sysmeta") or {}
    archive = settings.get("versions-location")
    # The other mode, X-History-Location, restores nothing.
    return archive if archive and settings.get("versions-mode", "stack") == "stack" else None


def _container_info(
    app: Any, environ: dict[str, Any], version: str, account: str, container: str
) -> dict[str, Any] | None:
    """Return Swift's cached facts of a container; ``None`` if it does not exist."""
    path = wsgi(f"/{version}/{account}/{container}")
    head_environ = {**environ, "PATH_INFO": path, "REQUEST_METHOD": "HEAD", "QUERY_STRING": ""}
    info: dict[str, Any] = get_container_info(head_environ, app, swift_source=names.SWIFT_SOURCE)
    if info["status"] == 404:
        return None
    if info["status"] // 100 != 2:
        raise BackendFailed(
            f"cannot look up the container for the rules: Swift answered {info['status']}"
        )
    return info


class Evaluator:
    """Evaluates an account's rules for one object, container or account.

    It looks up the facts that an evaluation needs.

    :param look_up: looks up the stored object; called at most once.
    :param place: API version, account and container (as text) whose metadata and policy are tested.
    """

    def __init__(
        self,
        app: Any,
        environ: dict[str, Any],
        compiled: Compiled,
        place: tuple[str, str, str | None],
        look_up: Callable[[], ObjectState],
    ) -> None:
        self._app = app
        self._environ = environ
        self._compiled = compiled
        self._place = place
        self._look_up = look_up
        self._state: ObjectState | None = None

    @property
    def known_state(self) -> ObjectState | None:
        """The stored object if it was looked up, else ``None``."""
        return self._state

    def object_state(self) -> ObjectState:
        """Return the stored object; look it up on the first call."""
        if self._state is None:
            self._state = self._look_up()
        return self._state

    def decide(self, facts: Facts, *, explicit: bool = False) -> tuple[Decision, Facts]:
        """Return the decision, and the facts completed by those it needed."""
        while True:
            answer = self._compiled.decide(facts, explicit=explicit)
            if isinstance(answer, Decision):
                return answer, facts
            facts = self.completed(facts, answer)

    def completed(self, facts: Facts, needs: Needs) -> Facts:
        """Return ``facts`` completed by one more group that is needed, the cheapest first."""
        if Group.HOLDER in needs.groups and isinstance(facts.holder, Unknown):
            return dataclasses.replace(facts, holder=self.holder())
        if Group.STORED in needs.groups and facts.stored is UNKNOWN:
            return dataclasses.replace(facts, stored=self.object_state().facts)
        raise AssertionError(f"the rules need {needs.groups}, which are known already")

    def holder(self) -> ContainerFacts:
        """Look up the facts of the container; empty ones for an account."""
        version, account, container = self._place
        if container is None:
            return ContainerFacts()
        return container_facts(self._app, self._environ, version, account, container)
