"""Container listings in which a covered object shows its name and date, and no facts of its bytes.

::

    listing_formats, s3api, staticweb    to the left: converts and shows the listing
              ^
          filtered                       is_covered covered entries
              ^
    slo, versioned_writes, symlink       to the right: adds facts of large objects and links
              ^
         proxy-server

Swift's proxy server always lists in JSON, and ``listing_formats`` to the left of the storlet filter
converts it to the format of the client.  If it is to the right instead, XML is parsed as well;
plain text consists of names only.  The keys in :data:`_KEPT_KEYS` of a covered entry stay.  The
rest is replaced by neutral values, because the middlewares to the left require an entry's ``hash``,
``bytes`` and ``content_type``.  A listing that cannot be parsed is refused.

A page is held in memory (at most 10,000 entries, Swift's limit); ``listing_formats`` and other
middlewares do so, too.
"""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol
from urllib.parse import unquote

from swift.common.middleware.versioned_writes.object_versioning import DELETE_MARKER_CONTENT_TYPE

from storlet_middleware.concurrency import Pace
from storlet_middleware.errors import BackendFailed
from storlet_middleware.wsgi.answer import Answer
from storlet_middleware.wsgi.bodies import read_bounded

#: Keys that a covered entry keeps: they identify the object, its date and its version.
_KEPT_KEYS: Final = ("name", "last_modified", "version_id", "is_latest")
#: Replacements for the other required keys.  To S3 clients an empty hash is the valid ETag ``""``.
_NEUTRAL_VALUES: Final = {"hash": "", "bytes": 0, "content_type": "application/octet-stream"}
#: Headers with a hash or length of the original body.
_BODY_HEADERS: Final = (
    "content-length", "etag", "content-md5", "digest", "repr-digest", "content-digest",
)  # fmt: skip
#: Headers that describe the container or account, or any answer.
_HEADERS: Final = frozenset((
    "accept-ranges", "allow", "content-length", "content-type", "date", "last-modified",
    "retry-after", "vary", "www-authenticate", "x-history-location", "x-openstack-request-id",
    "x-put-timestamp", "x-storage-policy", "x-timestamp", "x-trans-id", "x-versions-enabled",
    "x-versions-location",
))  # fmt: skip
_HEADER_PREFIXES: Final = (
    "access-control-", "x-account-", "x-backend-", "x-container-", "x-storlet-",
)  # fmt: skip
#: A page of 10,000 names of 1,024 bytes, six JSON bytes for each, plus the other keys of an entry.
_MAX_BODY_BYTES: Final = 96 << 20

_UNKNOWN: Final = frozenset({"metadata"})
#: An empty entry may be a dynamic large object, whose length is the sum of its segments.
_UNKNOWN_OF_EMPTY: Final = _UNKNOWN | {"size"}
_UNKNOWN_OF_LINK: Final = _UNKNOWN_OF_EMPTY | {"content-type"}
_UNKNOWN_OF_UNSEEN_LINK: Final = _UNKNOWN_OF_LINK | {"object", "container"}


@dataclass(frozen=True, slots=True)
class Entry:
    """An object, or one version of it, as its container listing describes it.

    :param content_type: the entry's own; of a link, not of its target.  So is ``size_bytes``.
    :param version_id: set in a listing of versions (``?versions``); ``null`` for an object from
        before versioning.
    :param link_target: account, container and name of a link's target.
    :param is_large: whether it is a static large object, which consists of other objects.
    :param unknown: facts (keys of :data:`rules.conditions.TABLE`) that may differ from the entry
        when the object is read by GET.
    """

    name: str
    content_type: str
    size_bytes: int
    version_id: str | None = None
    link_target: tuple[str, str, str] | None = None
    is_large: bool = False
    unknown: frozenset[str] = _UNKNOWN


IsCovered = Callable[[Entry], bool]


def hide_covered(answer: Answer, is_covered: IsCovered) -> Answer:
    """Return Swift's answer to a GET of a container, with covered entries hidden.

    :param is_covered: returns whether an entry is covered; its exceptions are passed on.

    Raises :class:`BackendFailed` if the listing cannot be parsed.
    """
    if not answer.status.startswith("2"):
        return answer
    media_type = _media_type(answer)
    if media_type == "text/plain":
        return answer  # consists of names only
    body = _read_body(answer)
    changed = _hide_entries(_parse(answer, media_type, body), is_covered) if body else None
    if changed is None:
        return Answer(answer.status, answer.headers, [body])
    return _with_body(answer, changed)


def is_of_listing(key: str) -> bool:
    """Whether the answer for a container with covered objects has the header ``key``, in lower
    case.
    """
    return key in _HEADERS or key.startswith(_HEADER_PREFIXES)


def zero_byte_sums(answer: Answer) -> Answer:
    """Return Swift's answer to a GET or HEAD of a container or account, with zero byte sums: those
    of storage policies, too.
    """
    # Many clients require these headers, so they are set to 0 and not removed.
    headers = [
        (key, "0" if key.lower().endswith("-bytes-used") else value)
        for key, value in answer.headers
    ]
    return Answer(answer.status, headers, answer.chunks)


def zero_container_bytes(answer: Answer) -> Answer:
    """Return the container list of an account with 0 bytes for each container.

    Raises :class:`BackendFailed` if the list cannot be parsed.
    """
    media_type = _media_type(answer)
    if media_type == "text/plain" or not answer.status.startswith("200"):
        return answer  # consists of names only
    body = _read_body(answer)
    try:
        entries = json.loads(body if media_type == "application/json" else b"")
        changed = [entry | {"bytes": 0} if "bytes" in entry else entry for entry in entries]
        changed_body = json.dumps(changed).encode()
    except (TypeError, ValueError) as error:
        raise _unreadable(f"type {media_type!r}") from error
    return _with_body(answer, changed_body)


def _media_type(answer: Answer) -> str:
    return answer.header("content-type").partition(";")[0].strip().lower()


def _with_body(answer: Answer, body: bytes) -> Answer:
    headers = [(key, value) for key, value in answer.headers if key.lower() not in _BODY_HEADERS]
    return Answer(answer.status, [*headers, ("Content-Length", str(len(body)))], [body])


def _parse(answer: Answer, media_type: str, body: bytes) -> _Listing:
    parser = _PARSERS.get(media_type)
    if parser is None or not answer.status.startswith("200") or answer.header("content-encoding"):
        raise _unreadable(f"status {answer.status}, type {media_type!r}")
    try:
        return parser(body)
    except (
        AttributeError, LookupError, RecursionError, TypeError, ValueError, ET.ParseError,
    ) as error:  # fmt: skip
        raise _unreadable(repr(error)) from error


def _hide_entries(listing: _Listing, is_covered: IsCovered) -> bytes | None:
    """Return the listing with covered entries hidden; ``None`` if none is covered."""
    covered = []
    pace = Pace()
    for index, entry in listing.entries:
        if entry is None or is_covered(entry):
            covered.append(index)
        # Many rules times many entries take long.
        pace.pause()
    return listing.without(covered) if covered else None


def _unreadable(reason: str) -> BackendFailed:
    return BackendFailed(f"cannot parse the listing to hide what rules cover: {reason}"[:300])


def _read_body(answer: Answer) -> bytes:
    too_large = _unreadable(f"it has more than {_MAX_BODY_BYTES} bytes")
    return read_bounded(answer.chunks, _MAX_BODY_BYTES, too_large)


class _Listing(Protocol):
    """A parsed listing.

    ``entries`` has the index and the entry of each object; ``None`` as an entry means that the
    object is hidden without consulting the rules.
    """

    entries: list[tuple[int, Entry | None]]

    def without(self, covered: Iterable[int]) -> bytes:
        """Return the serialised listing with the entries at the indexes ``covered`` hidden."""


class _JsonListing:
    """The format of Swift's proxy server.

    The constructor lets the exceptions of the parser and of missing keys through.
    """

    def __init__(self, body: bytes) -> None:
        self._items = json.loads(body)
        if not isinstance(self._items, list):
            raise TypeError("the listing is not a list")
        self.entries = [
            (index, self._entry(item))
            for index, item in enumerate(self._items)
            if item.keys() != {"subdir"}
        ]

    def without(self, covered: Iterable[int]) -> bytes:
        for index in covered:
            self._items[index] = self._hidden(self._items[index])
        return json.dumps(self._items).encode("ascii")

    def _entry(self, item: dict[str, Any]) -> Entry | None:
        name, content_type, size_bytes = item["name"], item["content_type"], int(item["bytes"])
        if not isinstance(name, str) or not isinstance(content_type, str):
            raise TypeError("the name or content type is not a string")
        version_id, is_large = item.get("version_id"), "slo_etag" in item
        # version_symlink marks Swift's own link to the object's current version, and the entry
        # describes that version.
        if "symlink_path" not in item or item.get("version_symlink"):
            unknown = _UNKNOWN if size_bytes else _UNKNOWN_OF_EMPTY
            return Entry(name, content_type, size_bytes, version_id, None, is_large, unknown)
        target = _parse_target(item["symlink_path"])
        if target is None:
            return None
        return Entry(name, content_type, size_bytes, version_id, target, is_large, _UNKNOWN_OF_LINK)

    def _hidden(self, item: dict[str, Any]) -> dict[str, Any]:
        hidden = {key: item[key] for key in _KEPT_KEYS if key in item} | _NEUTRAL_VALUES
        # A delete marker has no bytes that its content type could reveal.
        if "version_id" in item and item["content_type"] == DELETE_MARKER_CONTENT_TYPE:
            hidden["content_type"] = DELETE_MARKER_CONTENT_TYPE
        return hidden


def _parse_target(path: str) -> tuple[str, str, str] | None:
    """Return account, container and name of a link's target; ``None`` if the path is invalid."""
    try:
        empty, _, account, container, name = unquote(path, errors="strict").split("/", 4)
    except ValueError:
        return None
    is_valid = not empty and account and container and name
    return (account, container, name) if is_valid else None


class _XmlListing:
    """The format of ``listing_formats``.

    Each object has five elements, and none for links, versions and large objects.
    """

    def __init__(self, body: bytes) -> None:
        # Swift writes neither document types nor comments, and only a document type can declare
        # entities.
        if b"<!" in body:
            raise ValueError("the listing has a document type or a comment")
        self._root = ET.fromstring(body)  # noqa: S314 - see above
        if self._root.tag != "container" or any(
            element.tag not in ("object", "subdir") for element in self._root
        ):
            raise ValueError("the document is not a container listing")
        self.entries: list[tuple[int, Entry | None]] = [
            (index, self._entry(element))
            for index, element in enumerate(self._root)
            if element.tag == "object"
        ]

    def without(self, covered: Iterable[int]) -> bytes:
        for index in covered:
            self._hide(self._root[index])
        changed: bytes = ET.tostring(self._root, encoding="UTF-8", xml_declaration=True)
        return changed

    def _entry(self, element: ET.Element) -> Entry:
        values = {part.tag: part.text or "" for part in element}
        size_bytes = int(values["bytes"])
        # An empty object may be a link to an unknown target.
        unknown = _UNKNOWN if size_bytes else _UNKNOWN_OF_UNSEEN_LINK
        return Entry(values["name"], values["content_type"], size_bytes, unknown=unknown)

    def _hide(self, element: ET.Element) -> None:
        for part in list(element):
            if part.tag in _NEUTRAL_VALUES:
                part.text = str(_NEUTRAL_VALUES[part.tag])
            elif part.tag not in _KEPT_KEYS:
                element.remove(part)


_PARSERS: Final[dict[str, Callable[[bytes], _Listing]]] = {
    "application/json": _JsonListing,
    "application/xml": _XmlListing,
    "text/xml": _XmlListing,
}
