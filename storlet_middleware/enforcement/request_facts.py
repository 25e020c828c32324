"""What a request's rules may look at, taken from its environment: a :class:`rules.facts.Facts`.

What the request itself says costs nothing.  What the object and its container say is looked up when a decision depends on
it (:class:`Asker`), with our own right: a rule about the object's metadata holds for callers who may not read them, too.
"""

from __future__ import annotations

import dataclasses
import mimetypes
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl

from swift.common.header_key_dict import HeaderKeyDict
from swift.common.storage_policy import POLICIES
from swift.common.utils import config_true_value, drain_and_close
from swift.common.wsgi import make_pre_authed_request
from swift.proxy.controllers.base import get_container_info

from rules.conditions import Group
from rules.engine import Compiled, Decision, Needs
from rules.facts import UNKNOWN, ContainerFacts, Facts, ObjectFacts, Unknown
from storlet_middleware import names
from storlet_middleware.errors import BackendFailed
from storlet_middleware.wsgi.caller import caller_of, lenient
from storlet_middleware.wsgi.strings import wsgi

#: A rule's text is seen by more people than a token may be.
_SECRETS: Final = frozenset(
    (
        "HTTP_X_AUTH_TOKEN", "HTTP_X_STORAGE_TOKEN", "HTTP_X_SERVICE_TOKEN", "HTTP_X_AUTH_KEY", "HTTP_AUTHORIZATION",
        "HTTP_COOKIE", "HTTP_X_AMZ_SECURITY_TOKEN", "HTTP_X_CONTAINER_SYNC_AUTH",
    )
)  # fmt: skip
#: Headers that have no ``HTTP_`` before their names in an environment.
_BARE: Final = ("CONTENT_TYPE", "CONTENT_LENGTH")
_SIGNATURES: Final = frozenset(("temp_url_sig", "X-Amz-Signature", "X-Amz-Credential", "Signature", "signature"))
_MINUTES_OF_DAY: Final = 24 * 60


class _Headers(Mapping[str, str]):
    """A request's headers but for tokens, by name in lower case; read when a rule asks, as few do."""

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
        value = None if key in _SECRETS else self._environ.get(key)
        # Content-Type and -Length are there without a value where the client sent none.
        return default if value is None or (key in _BARE and not value) else lenient(value)

    def __contains__(self, name: object) -> bool:
        return self.get(str(name)) is not None

    def __iter__(self) -> Iterator[str]:
        names = (key.removeprefix("HTTP_").replace("_", "-").lower() for key in self._environ if _is_header(key))
        return (name for name in names if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _is_header(key: str) -> bool:
    return key.startswith("HTTP_") or key in _BARE


def _key_of(name: str) -> str:
    key = name.upper().replace("-", "_")
    return key if key in _BARE else f"HTTP_{key}"


def of_request(environ: Mapping[str, Any], method: str, container: str | None, name: str | None) -> Facts:
    """Facts of a request for an object, a container or (both ``None``) the account; what is stored is not known yet."""
    query = parse_qsl(lenient(environ["QUERY_STRING"]), keep_blank_values=True) if environ.get("QUERY_STRING") else ()
    now = time.gmtime()
    return Facts(
        method=method,
        container=container,
        object=name,
        caller=caller_of(environ),
        headers=_Headers(environ),
        query={key: value for key, value in query if key not in _SIGNATURES},
        # Not X-Forwarded-For: that is what a client says of itself.
        client_address=environ.get("REMOTE_ADDR") or None,
        minute_of_week=now.tm_wday * _MINUTES_OF_DAY + now.tm_hour * 60 + now.tm_min,
    )


# --- what is stored ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stored:
    """What a HEAD said of an object: its facts, and by what its state is told from a later one.

    :param stamp: ``X-Timestamp`` of the answer, which each PUT and POST changes; empty when there is no object.
    :param reverse: name of the rule that has to be undone on reading, or empty.
    :param etag: without quotes; empty when there is no object.
    :param is_plain: neither a manifest nor reached by a link, which are other objects when asked for by themselves.
    """

    facts: ObjectFacts
    stamp: str = ""
    reverse: str = ""
    etag: str = ""
    is_plain: bool = True


def head(app: Any, environ: dict[str, Any], path: str) -> Stored:
    """Look an object up with our own right; raises :class:`BackendFailed` unless it is known whether there is one.

    :param path: quoted, with its query (``?version-id=`` means that version).
    """
    # What has expired is there for us when it is for the client: else nothing of it would be known, and it would be given.
    headers = {"X-Open-Expired": environ["HTTP_X_OPEN_EXPIRED"]} if "HTTP_X_OPEN_EXPIRED" in environ else None
    request = make_pre_authed_request(
        environ, method="HEAD", path=path, headers=headers, swift_source=names.SWIFT_SOURCE
    )
    answer = request.get_response(app)
    drain_and_close(answer)
    if answer.status_int in (400, 404, 412):
        # No object, and no path or version of which Swift could have one: it answers the client alike.
        return Stored(ObjectFacts())
    if answer.status_int // 100 != 2:
        raise BackendFailed(f"the object cannot be looked up for its rules: Swift answered {answer.status_int}")
    headers = answer.headers
    return Stored(
        ObjectFacts(
            exists=True,
            content_type=lenient(headers.get("Content-Type") or "") or None,
            size_bytes=answer.content_length,
            metadata=_metadata(headers),
        ),
        str(headers.get("X-Timestamp") or ""),
        lenient(headers.get(names.REVERSE_SYSMETA) or ""),
        str(headers.get("Etag") or "").strip('"'),
        not config_true_value(headers.get("X-Static-Large-Object", "false")) and "Content-Location" not in headers,
    )


def listed(content_type: str, size_bytes: int) -> ObjectFacts:
    """What a container's listing says of an object; its metadata is not known."""
    return ObjectFacts(exists=True, content_type=content_type or None, size_bytes=size_bytes)


def incoming(environ: Mapping[str, Any]) -> ObjectFacts:
    """What is to be stored by a PUT, as Swift will store it when no storlet changes it."""
    length = str(environ.get("CONTENT_LENGTH") or "")
    return ObjectFacts(
        exists=True,
        content_type=_incoming_type(environ, lenient(environ["PATH_INFO"])),
        size_bytes=int(length) if length.isdecimal() else None,
        metadata=_incoming_metadata(environ),
    )


def copied(environ: Mapping[str, Any], source: ObjectFacts, name: str) -> ObjectFacts:
    """What is to be stored as ``name`` by a copy of ``source``: what the request says comes before what the source has."""
    metadata = {} if config_true_value(environ.get("HTTP_X_FRESH_METADATA", "false")) else dict(source.metadata)
    says = environ.get("CONTENT_TYPE") or config_true_value(environ.get("HTTP_X_DETECT_CONTENT_TYPE", "false"))
    return dataclasses.replace(
        source,
        content_type=_incoming_type(environ, f"/{name}") if says else source.content_type,
        metadata=metadata | _incoming_metadata(environ),
    )


def _incoming_type(environ: Mapping[str, Any], path: str) -> str:
    given = environ.get("CONTENT_TYPE")
    if given and not config_true_value(environ.get("HTTP_X_DETECT_CONTENT_TYPE", "false")):
        return lenient(given)
    return mimetypes.guess_type(path)[0] or "application/octet-stream"


def _incoming_metadata(environ: Mapping[str, Any]) -> dict[str, str]:
    prefix = "HTTP_" + names.OBJECT_META.upper().replace("-", "_")
    return {
        key[len(prefix) :].replace("_", "-").lower(): lenient(value)
        for key, value in environ.items()
        if key.startswith(prefix)
    }


def _metadata(headers: HeaderKeyDict) -> dict[str, str]:
    prefix = names.OBJECT_META.lower()
    return {
        key.lower()[len(prefix) :].replace("_", "-"): lenient(value)
        for key, value in headers.items()
        if key.lower().startswith(prefix)
    }


def container_facts(app: Any, environ: dict[str, Any], version: str, account: str, container: str) -> ContainerFacts:
    """Of a container that Swift cannot tell about, nothing is known and so nothing is allowed: raises :class:`BackendFailed`."""
    path = wsgi(f"/{version}/{account}/{container}")
    asked = {**environ, "PATH_INFO": path, "REQUEST_METHOD": "HEAD", "QUERY_STRING": ""}
    info = get_container_info(asked, app, swift_source=names.SWIFT_SOURCE)
    if info["status"] == 404:
        return ContainerFacts()
    if info["status"] // 100 != 2:
        raise BackendFailed(f"the container cannot be looked up for its rules: Swift answered {info['status']}")
    policy = POLICIES.get_by_index(info.get("storage_policy"))
    return ContainerFacts(
        metadata={key.lower().replace("_", "-"): lenient(value) for key, value in (info.get("meta") or {}).items()},
        policy=policy.name if policy else None,
    )


class Asker:
    """Asks an account's rules about one object, container or account, and looks up what they need.

    :param look_up: what is known of the stored object; called once at most.
    :param place: version, account and container (as text) whose metadata and policy count.
    """

    def __init__(
        self, app: Any, environ: dict[str, Any], compiled: Compiled, place: tuple[str, str, str | None],
        look_up: Callable[[], Stored],
    ) -> None:  # fmt: skip
        self._app = app
        self._environ = environ
        self._compiled = compiled
        self._place = place
        self._look_up = look_up
        self._stored: Stored | None = None

    @property
    def looked_at(self) -> Stored | None:
        """What was looked up of the object, if anything was."""
        return self._stored

    def stored(self) -> Stored:
        """What the object's HEAD said."""
        if self._stored is None:
            self._stored = self._look_up()
        return self._stored

    def decide(self, facts: Facts, *, explicit: bool = False) -> tuple[Decision, Facts]:
        """The decision, and the facts with what had to be known for it."""
        while True:
            answer = self._compiled.decide(facts, explicit=explicit)
            if isinstance(answer, Decision):
                return answer, facts
            facts = self.filled(facts, answer)

    def filled(self, facts: Facts, needs: Needs) -> Facts:
        """``facts`` with one more group of what is needed, the cheaper first."""
        if Group.HOLDER in needs.groups and isinstance(facts.holder, Unknown):
            return dataclasses.replace(facts, holder=self.holder())
        if Group.STORED in needs.groups and facts.stored is UNKNOWN:
            return dataclasses.replace(facts, stored=self.stored().facts)
        raise AssertionError(f"the rules need {needs.groups}, which are known")

    def holder(self) -> ContainerFacts:
        version, account, container = self._place
        if container is None:
            return ContainerFacts()
        return container_facts(self._app, self._environ, version, account, container)
