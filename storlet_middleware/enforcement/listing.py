"""A container's listing in which objects that a mandatory rule covers have a name and a date, and nothing of their bytes.

::

    listing_formats, s3api, staticweb  <--  filtered  <--  slo, versioned_writes, symlink  <--  proxy-server

Swift's proxy server lists in JSON whatever was asked for, and ``listing_formats`` left of us makes of it what the client wants;
should it stand right of us, XML is understood as well, and plain text has names only.  Of a covered entry what is in
:data:`_KEPT` stays, and the rest becomes what says nothing and is still valid to everybody on the left, who take an entry's
``hash``, ``bytes`` and ``content_type`` for granted.  A listing that cannot be understood is not passed on.

A page is in memory as a whole (10,000 entries at most, as Swift has it); ``listing_formats`` and others hold it so, too.
"""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol
from urllib.parse import unquote

from swift.common.middleware.versioned_writes.object_versioning import DELETE_MARKER_CONTENT_TYPE
from swift.common.swob import Request

from storlet_middleware.concurrency import monotonic, sleep
from storlet_middleware.errors import BackendFailed
from storlet_middleware.wsgi.answer import Answer
from storlet_middleware.wsgi.bodies import bounded

#: What stays of an entry that is hidden: which object there is, since when, and which version of it this is.
_KEPT: Final = ("name", "last_modified", "version_id", "is_latest")
#: What it gets instead of the rest.  To S3 clients an empty hash is the valid ETag ``""``.
_SAYS_NOTHING: Final = {"hash": "", "bytes": 0, "content_type": "application/octet-stream"}
#: What a hash or a length of the whole answer would still tell.
_OF_THE_BODY: Final = ("content-length", "etag", "content-md5", "digest", "repr-digest", "content-digest")
#: A page of 10,000 names of 1,024 bytes, each of which JSON writes as six, with all that an entry has beside its name.
_MOST_BYTES: Final = 96 << 20
#: How long rules are asked before other requests have their turn.
_TURN_SECONDS: Final = 0.01

_UNTOLD: Final = frozenset({"metadata"})
#: Nothing tells an empty object from a dynamic large one, which is as long as its segments are.
_UNTOLD_OF_EMPTY: Final = _UNTOLD | {"size"}
_UNTOLD_OF_LINK: Final = _UNTOLD_OF_EMPTY | {"content-type"}
_UNTOLD_OF_UNSEEN_LINK: Final = _UNTOLD_OF_LINK | {"object", "container"}

WSGIApp = Callable[..., Iterable[bytes]]


@dataclass(frozen=True, slots=True)
class Entry:
    """An object, or a version of one, as its container's listing tells of it.

    :param content_type: the entry's own, as is ``size_bytes``: those of a link, not of what it leads to.
    :param version_id: in a listing of versions (``?versions``); ``null`` for an object that has none.
    :param leads_to: account, container and name of a link's target.
    :param is_large: it is a static large object: its bytes are other objects'.
    :param unknown: facts (of :data:`rules.conditions.TABLE`) that a GET of the object may have otherwise than the entry.
    """

    name: str
    content_type: str
    size_bytes: int
    version_id: str | None = None
    leads_to: tuple[str, str, str] | None = None
    is_large: bool = False
    unknown: frozenset[str] = _UNTOLD


Hides = Callable[[Entry], bool]


def filtered(app: WSGIApp, environ: dict[str, Any], hides: Hides) -> Answer:
    """The answer of ``app`` to a container's GET or HEAD, without what ``hides`` says must not be seen.

    Raises :class:`BackendFailed` for a listing that cannot be understood, and whatever ``hides`` raises.
    """
    answer = Answer(*Request(environ).call_application(app))
    if environ["REQUEST_METHOD"] != "GET" or not answer.status.startswith("2"):
        return answer
    kind = answer.header("content-type").partition(";")[0].strip().lower()
    if kind == "text/plain":
        return answer  # names
    body = _read(answer)
    changed = _without(body, _understood(answer, kind, body), hides) if body else None
    if changed is None:
        return Answer(answer.status, answer.headers, [body])
    headers = [(key, value) for key, value in answer.headers if key.lower() not in _OF_THE_BODY]
    return Answer(answer.status, [*headers, ("Content-Length", str(len(changed)))], [changed])


def without_sums(app: WSGIApp, environ: dict[str, Any]) -> Answer:
    """The answer of ``app`` to a container's or an account's GET or HEAD, without how many bytes there are.

    The sum of a container with one object is that object's length, and two sums tell that of what was stored between them.
    """
    answer = Answer(*Request(environ).call_application(app))
    # Many clients take these headers for granted.
    headers = [(key, "0" if key.lower().endswith("-bytes-used") else value) for key, value in answer.headers]
    return Answer(answer.status, headers, answer.chunks)


def containers_without_sums(answer: Answer) -> Answer:
    """An account's list of containers in which each has 0 bytes; raises :class:`BackendFailed` when it is no such list."""
    kind = answer.header("content-type").partition(";")[0].strip().lower()
    if kind == "text/plain" or not answer.status.startswith("200"):
        return answer  # names
    body = _read(answer)
    try:
        entries = json.loads(body if kind == "application/json" else b"")
        changed = json.dumps([entry | {"bytes": 0} if "bytes" in entry else entry for entry in entries]).encode()
    except (TypeError, ValueError) as error:
        raise _unreadable(f"type {kind!r}") from error
    headers = [(key, value) for key, value in answer.headers if key.lower() not in _OF_THE_BODY]
    return Answer(answer.status, [*headers, ("Content-Length", str(len(changed)))], [changed])


def _understood(answer: Answer, kind: str, body: bytes) -> _Listing:
    form = _FORMS.get(kind)
    if form is None or not answer.status.startswith("200") or answer.header("content-encoding"):
        raise _unreadable(f"status {answer.status}, type {kind!r}")
    try:
        return form(body)
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError, ET.ParseError) as error:
        raise _unreadable(repr(error)) from error


def _without(body: bytes, listing: _Listing, hides: Hides) -> bytes | None:
    """The listing with entries hidden; ``None`` when none has to be."""
    covered = []
    end_of_turn = monotonic() + _TURN_SECONDS
    for number, entry in listing.entries:
        if entry is None or hides(entry):
            covered.append(number)
        # Rules are many and entries, too: other requests of this process shall not wait for all of them.
        if monotonic() > end_of_turn:
            sleep(0)
            end_of_turn = monotonic() + _TURN_SECONDS
    return listing.without(covered) if covered else None


def _unreadable(reason: str) -> BackendFailed:
    return BackendFailed(f"the container's listing cannot be understood, and rules hide parts of it: {reason}"[:300])


def _read(answer: Answer) -> bytes:
    return bounded(answer.chunks, _MOST_BYTES, _unreadable(f"it has more than {_MOST_BYTES} bytes"))


class _Listing(Protocol):
    """``entries``: objects by their place; ``None`` for one that is hidden whatever the rules say."""

    entries: list[tuple[int, Entry | None]]

    def without(self, covered: Iterable[int]) -> bytes:
        """The listing in which those at the places ``covered`` are hidden."""


class _Json:
    """As Swift's proxy server gives it; the constructor raises what the parser and missing values raise."""

    def __init__(self, body: bytes) -> None:
        self._items = json.loads(body)
        if not isinstance(self._items, list):
            raise TypeError("no list")
        self.entries = [
            (number, self._entry(item)) for number, item in enumerate(self._items) if item.keys() != {"subdir"}
        ]

    def without(self, covered: Iterable[int]) -> bytes:
        for number in covered:
            self._items[number] = self._hidden(self._items[number])
        return json.dumps(self._items).encode("ascii")

    def _entry(self, item: dict[str, Any]) -> Entry | None:
        name, content_type, size_bytes = item["name"], item["content_type"], int(item["bytes"])
        if not isinstance(name, str) or not isinstance(content_type, str):
            raise TypeError("a name or type that is no text")
        version_id, is_large = item.get("version_id"), "slo_etag" in item
        # With version_symlink it is Swift's own link to the object's current version, and the entry tells of that.
        if "symlink_path" not in item or item.get("version_symlink"):
            unknown = _UNTOLD if size_bytes else _UNTOLD_OF_EMPTY
            return Entry(name, content_type, size_bytes, version_id, None, is_large, unknown)
        target = _target(item["symlink_path"])
        return target and Entry(name, content_type, size_bytes, version_id, target, is_large, _UNTOLD_OF_LINK)

    def _hidden(self, item: dict[str, Any]) -> dict[str, Any]:
        hidden = {key: item[key] for key in _KEPT if key in item} | _SAYS_NOTHING
        # No object but the mark that there is none any more: it has no bytes of which its type could tell.
        if "version_id" in item and item["content_type"] == DELETE_MARKER_CONTENT_TYPE:
            hidden["content_type"] = DELETE_MARKER_CONTENT_TYPE
        return hidden


def _target(path: str) -> tuple[str, str, str] | None:
    """Account, container and name that a link leads to; ``None`` when they cannot be told."""
    try:
        empty, _, account, container, name = unquote(path, errors="strict").split("/", 4)
    except ValueError:
        return None
    return None if empty or not account or not container or not name else (account, container, name)


class _Xml:
    """As ``listing_formats`` makes it: five elements in each object, nothing of links, versions and large objects."""

    def __init__(self, body: bytes) -> None:
        if b"<!" in body:
            raise ValueError("a document type or a comment")  # Swift makes none, and entities are declared in one
        self._root = ET.fromstring(body)  # noqa: S314 - see above
        if self._root.tag != "container" or any(element.tag not in ("object", "subdir") for element in self._root):
            raise ValueError("no container's listing")
        self.entries: list[tuple[int, Entry | None]] = [
            (number, self._entry(element)) for number, element in enumerate(self._root) if element.tag == "object"
        ]

    def without(self, covered: Iterable[int]) -> bytes:
        for number in covered:
            self._hide(self._root[number])
        changed: bytes = ET.tostring(self._root, encoding="UTF-8", xml_declaration=True)
        return changed

    def _entry(self, element: ET.Element) -> Entry:
        values = {part.tag: part.text or "" for part in element}
        size_bytes = int(values["bytes"])
        # An empty one may be a link, nobody knows where to.
        unknown = _UNTOLD if size_bytes else _UNTOLD_OF_UNSEEN_LINK
        return Entry(values["name"], values["content_type"], size_bytes, unknown=unknown)

    def _hide(self, element: ET.Element) -> None:
        for part in list(element):
            if part.tag in _SAYS_NOTHING:
                part.text = str(_SAYS_NOTHING[part.tag])
            elif part.tag not in _KEPT:
                element.remove(part)


_FORMS: Final[dict[str, Callable[[bytes], _Listing]]] = {
    "application/json": _Json,
    "application/xml": _Xml,
    "text/xml": _Xml,
}
