"""The object that a path in Swift denotes: its own, an old version, or an archived one.

======================================  ==========================================================
path                                    denotes
======================================  ==========================================================
``c/o``                                 the object
``\\0versions\\0c/\\0o\\0<inverted time>``  a version of ``o`` in ``c`` (``object_versioning``)
``archive/003abc/1640995200.00000``     itself, and the object ``abc`` of an unknown container
                                        (``versioned_writes``)
``c`` (a listing)                       any object of ``c``
======================================  ==========================================================
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol
from urllib.parse import quote, unquote

from swift.common import constraints
from swift.common.constraints import check_utf8
from swift.common.request_helpers import get_reserved_name, split_reserved_name
from swift.common.utils import Timestamp

from storlet_middleware.wsgi.strings import text

RESERVED: Final = "\0"
#: With this header Swift answers requests for hidden versions.
ALLOWS_RESERVED: Final = "X-Backend-Allow-Reserved-Names"
#: Digits in which ``versioned_writes`` writes the length of a name in bytes; only clusters with a
#: raised limit of names need four.
_LENGTH_DIGITS: Final = (3, 4)
_HEXADECIMAL: Final = frozenset(b"0123456789abcdef")
_TIME: Final = re.compile(rb"[0-9]{10}\.[0-9]{5}(_[0-9a-f]{16})?")
_TIME_CHARACTERS: Final = _HEXADECIMAL | frozenset(b"._")


class AccountPath(NamedTuple):
    """An account: the API version, and the name as text."""

    version: str
    account: str


class ContainerPath(NamedTuple):
    """A container: the API version, and the names as text."""

    version: str
    account: str
    container: str


def object_path(version: str, account: str, container: str, name: str = "") -> str:
    """A quoted path with an empty query, for Swift's ``make_subrequest`` and
    ``make_pre_authed_request``.
    """
    path = f"/{version}/{account}/{container}" + (f"/{name}" if name else "")
    # The question mark: without a query of its own a sub-request inherits the client's, whose
    # parameters are the storlet's.
    return quote(path) + "?"


def name_fault(container: str, name: str | None = None) -> str:
    """Why Swift has no such container or object, as the part of a message after the given text;
    empty if it can have it.

    Swift's servers answer a path that is longer than their limit as if they were out of order.  So
    no request of ours names such a path: each module that takes a name from a storlet, a header or
    a document calls this function.

    :param name: of the object; ``None`` if only the container was given.
    """
    if not container or "/" in container or not check_utf8(container):
        return "want the name of a container" if name is None else "want /container/object"
    if name is not None and not (name and check_utf8(name)):
        return "want /container/object"
    for part, most, kind in (
        (container, constraints.MAX_CONTAINER_NAME_LENGTH, "container"),
        (name or "", constraints.MAX_OBJECT_NAME_LENGTH, "object"),
    ):
        # Most names are short in any encoding.
        if len(part) > most // 4 and len(part.encode()) > most:
            return f"the name of the {kind} has more than {most} bytes"
    return ""


class SwiftPath(NamedTuple):
    """An account, container or object that is read or written, as text.

    In checks by rules, ``name`` ``None`` means any object of the container, and ``container``
    ``None`` any container.
    """

    version: str
    account: str
    container: str | None = None
    name: str | None = None

    @property
    def path(self) -> str:
        """Quoted, with an empty query."""
        return object_path(self.version, self.account, self.container or "", self.name or "")

    @property
    def is_hidden(self) -> bool:
        """Whether only Swift itself may read it."""
        return RESERVED in f"{self.container}{self.name}"

    def sibling(self, container: str | None, name: str | None) -> SwiftPath:
        """Another container or object of the same account."""
        return SwiftPath(self.version, self.account, container, name)


class PathRules(Protocol):
    """The rules of all accounts, evaluated as of one client's request.

    All methods raise ``StorletError`` when the rules are unavailable.
    """

    def denial(self, method: str, place: SwiftPath) -> tuple[str, str] | None:
        """The name and the message of the rule that denies the caller ``method`` on the object at
        ``place``, or ``None``.
        """

    def covers(self, account: str, container: str, name: str) -> str | None:
        """The name of the mandatory rule that covers reading the object for the caller, or
        ``None``.
        """

    def may_cover(self, account: str, container: str | None, name: str | None) -> str | None:
        """The same for any object if ``name`` is ``None``, in any container if ``container`` is."""


def covering_rule(path_rules: PathRules, read: SwiftPath) -> str | None:
    """The name of the mandatory rule that covers, or may cover, ``read``; ``None`` if there is
    none.
    """
    if read.container is None or read.name is None:
        return path_rules.may_cover(read.account, read.container, read.name)
    return path_rules.covers(read.account, read.container, read.name)


def parse_path(path: str) -> SwiftPath | None:
    """Parse ``PATH_INFO``; ``None`` for paths without stored data (``/info``, ``/healthcheck``, an
    object without a container).
    """
    try:
        return _parse(text(path))
    except UnicodeDecodeError:
        return None  # Swift refuses it


def parse_url(url: str) -> SwiftPath | None:
    """Parse a quoted path, with or without a query."""
    try:
        return _parse(unquote(url.partition("?")[0], errors="strict"))
    except UnicodeDecodeError:
        return None


def _parse(path: str) -> SwiftPath | None:
    parts = path.split("/", 4)
    parts += [""] * (5 - len(parts))
    root, version, account, container, name = parts
    if root or not version.startswith("v1") or not account or (name and not container):
        return None
    return SwiftPath(version, account, container or None, name or None)


def origins(read: SwiftPath) -> Iterable[SwiftPath]:
    """The paths whose rules must be evaluated before the bytes of ``read`` may be sent."""
    container, name = read.container, read.name
    if read.is_hidden:
        # The metadata of this version may differ from the object's, so the rules are evaluated for
        # any object of the container.
        return (read.sibling(_versioned_container(container), None),)
    archived = archived_name(name or "")
    if archived is not None:
        return read, read.sibling(None, archived)
    return (read,)


def origins_of_listing(read: SwiftPath, prefix: str) -> Iterable[SwiftPath]:
    """The paths whose rules must be evaluated before a listing of names with ``prefix`` may be
    sent.
    """
    if read.is_hidden:
        return (read.sibling(_versioned_container(read.container), None),)
    if may_be_archived(prefix):
        return read, read.sibling(None, None)
    return (read,)


def versioned_object(read: SwiftPath) -> SwiftPath | None:
    """The object that a hidden version belongs to; ``None`` for a path that is not hidden, or no
    version.
    """
    container = _versioned_container(read.container)
    parts = split_reserved_name(read.name) if read.name and read.name.startswith(RESERVED) else []
    return read.sibling(container, parts[0]) if container and len(parts) == 2 else None


def _versioned_container(container: str | None) -> str | None:
    """The container that a hidden container keeps the versions of; ``None`` if unknown."""
    parts = split_reserved_name(container) if container and container.startswith(RESERVED) else []
    return parts[1] if len(parts) == 2 and parts[0] == "versions" else None


def hidden_version(container: str, name: str, version_id: str) -> tuple[str, str]:
    """Container and name of a version; raises ``ValueError`` for an invalid version id."""
    return get_reserved_name("versions", container), get_reserved_name(
        name, (~Timestamp(version_id)).internal
    )


def version_of(place: SwiftPath, version_id: str) -> SwiftPath:
    """The hidden path of a version of the object; the object itself for an id of none, as ``null``
    or an empty one.
    """
    if not version_id or place.container is None or place.name is None:
        return place
    try:
        return place.sibling(*hidden_version(place.container, place.name, version_id))
    except ValueError:
        return place


def archived_name(name: str) -> str | None:
    """The name of the object whose archived version has this name, if it is one
    (``X-Versions-Location``).

    The container is not part of the name: any container of the account may keep its versions there.
    """
    data = name.encode("utf-8", "surrogateescape")
    for digits in _LENGTH_DIGITS:
        length = _length(data[:digits], digits)
        end = digits + (length or 0)
        if length and data[end : end + 1] == b"/" and _TIME.fullmatch(data, end + 1):
            return data[digits:end].decode("utf-8", "surrogateescape")
    return None


def end_of_archived_names() -> str:
    """A name behind those of all archived versions, in the order of a listing."""
    end = f"{constraints.MAX_OBJECT_NAME_LENGTH + 1:03x}"
    return end if len(end) == min(_LENGTH_DIGITS) else "g"


def may_be_archived(prefix: str) -> bool:
    """Whether names with this prefix can belong to archived versions."""
    data = prefix.encode("utf-8", "surrogateescape")
    return any(_may_be_archived(data, digits) for digits in _LENGTH_DIGITS)


def _may_be_archived(data: bytes, digits: int) -> bool:
    if len(data) < digits:
        return _HEXADECIMAL.issuperset(data)
    length = _length(data[:digits], digits)
    if not length:
        return False
    rest = data[digits + length :]
    return not rest or (rest.startswith(b"/") and _TIME_CHARACTERS.issuperset(rest[1:]))


def _length(data: bytes, digits: int) -> int | None:
    if len(data) < digits or not _HEXADECIMAL.issuperset(data):
        return None
    length = int(data, 16)
    # Swift writes at least three digits, and no leading zeros beyond those.
    return length if f"{length:03x}".encode() == data else None
