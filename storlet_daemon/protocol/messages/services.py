"""Requests of a running storlet to the store: worker and filter (``PROTOCOL.rst``, section 2.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from storlet_daemon.protocol.values import dataclass

from .fields import (
    Kinds,
    Message,
    each,
    kinds_of,
    read_count,
    read_flag,
    read_name,
    read_text,
    read_texts_by_name,
    record,
    wire,
)

READ = "read"
LIST = "list"
WRITE = "write"
DELETE = "delete"
CALL = "call"
SERVICES = (READ, LIST, WRITE, DELETE, CALL)
"""The operations that a storlet can declare."""
PAGE_MAX = 1000
"""Entries of one page of a listing."""

SERVICE_UNDECLARED = "services.undeclared"
SERVICE_CHANGED = "services.changed"
SERVICE_SHORT = "services.short"
SERVICE_GONE = "services.gone"
SERVICE_NONE = "services.none"
SERVICE_CODES: Mapping[str, str] = {
    SERVICE_UNDECLARED: "the storlet does not declare the service of the operation",
    SERVICE_CHANGED: "the object was replaced or deleted since it was opened",
    SERVICE_SHORT: "a stream broke off: not all of its bytes arrived",
    SERVICE_GONE: "the store does not answer, or takes no more bytes: the run is being ended",
    SERVICE_NONE: "the run has no services, for example because the storlet declares none",
}
"""Error codes that only a running storlet sees, in addition to those of answers: code, meaning."""


@dataclass(frozen=True)
class ServiceRequest(Message):
    """Base of the requests. ``id`` is the worker's choice, and used once in an invocation."""

    SERVICE: ClassVar[str] = ""
    HAS_STREAM: ClassVar[bool] = False

    id: int = wire(read_count)


@dataclass(frozen=True)
class OpenObject(ServiceRequest):
    """Read an object. ``etag`` is the one that an earlier reply gave: no other is read."""

    TYPE = "open"
    SERVICE = READ
    HAS_STREAM = True

    path: str = wire(read_name)
    start: int | None = wire(read_count, default=None)
    end: int | None = wire(read_count, default=None)
    etag: str | None = wire(read_name, default=None)


@dataclass(frozen=True)
class StatObject(ServiceRequest):
    """Get the facts about an object, without its data."""

    TYPE = "stat"
    SERVICE = READ

    path: str = wire(read_name)


@dataclass(frozen=True)
class ListContainer(ServiceRequest):
    """Get one page of a container's listing, of at most ``PAGE_MAX`` entries."""

    TYPE = "list"
    SERVICE = LIST
    HAS_STREAM = True

    container: str = wire(read_name)
    prefix: str | None = wire(read_text, default=None)
    delimiter: str | None = wire(read_text, default=None)
    marker: str | None = wire(read_text, default=None)
    end_marker: str | None = wire(read_text, default=None)
    reverse: bool = wire(read_flag, default=False)
    limit: int = wire(read_count, default=PAGE_MAX)


@dataclass(frozen=True)
class SetMetadata(ServiceRequest):
    """Change items of an object's user metadata, and its ``Content-Type``.

    An empty value removes an item.  The others stay.
    """

    TYPE = "set_metadata"
    SERVICE = WRITE

    path: str = wire(read_name)
    changes: Mapping[str, str] = wire(read_texts_by_name)


@dataclass(frozen=True)
class CopyObject(ServiceRequest):
    """Copy an object with its metadata; an object at ``target`` is replaced."""

    TYPE = "copy"
    SERVICE = WRITE

    source: str = wire(read_name)
    target: str = wire(read_name)


@dataclass(frozen=True)
class DeleteObject(ServiceRequest):
    """Delete an object."""

    TYPE = "delete"
    SERVICE = DELETE

    path: str = wire(read_name)


@dataclass(frozen=True)
class Span:
    """A range of bytes; ``end`` is the last one."""

    start: int = wire(read_count, default=0)
    end: int | None = wire(read_count, default=None)


@dataclass(frozen=True)
class CallStorlet(ServiceRequest):
    """Run another storlet on an object; without ``path`` on data that the worker sends.

    With ``output`` its result is stored there.
    """

    TYPE = "call"
    SERVICE = CALL
    HAS_STREAM = True

    storlet: str = wire(read_name)
    path: str | None = wire(read_name, default=None)
    parameters: Mapping[str, str] = wire(read_texts_by_name, default_factory=dict)
    ranges: tuple[Span, ...] = wire(each(record(Span)), default=())
    output: str | None = wire(read_name, default=None)


@dataclass(frozen=True)
class CreateObject(ServiceRequest):
    """Create an object, which is stored when the run has succeeded.

    ``delete_after``: seconds until it is deleted.
    """

    TYPE = "create"
    SERVICE = WRITE
    HAS_STREAM = True

    path: str = wire(read_name)
    content_type: str | None = wire(read_text, default=None)
    metadata: Mapping[str, str] = wire(read_texts_by_name, default_factory=dict)
    delete_after: int | None = wire(read_count, default=None)


@dataclass(frozen=True)
class CloseFile(ServiceRequest):
    """The object that ``create`` with the id ``file`` began is complete with ``bytes`` bytes."""

    TYPE = "close"
    SERVICE = WRITE

    file: int = wire(read_count)
    bytes: int = wire(read_count)


@dataclass(frozen=True)
class DiscardFile(ServiceRequest):
    """Do not store the object that ``create`` with the id ``file`` began."""

    TYPE = "discard"
    SERVICE = WRITE

    file: int = wire(read_count)


@dataclass(frozen=True)
class Facts:
    """The facts about an object. One that a rule withholds is absent."""

    metadata: Mapping[str, str] = wire(read_texts_by_name, default_factory=dict)
    size: int | None = wire(read_count, default=None)
    etag: str | None = wire(read_text, default=None)
    content_type: str | None = wire(read_text, default=None)
    last_modified: str | None = wire(read_text, default=None)


@dataclass(frozen=True)
class Opened(Message):
    """The answer to ``open``, ``list`` and ``call``; its descriptor is the reading end of a stream.

    ``has_more``: of a page of a listing that is not the last one.
    """

    TYPE = "opened"
    DESCRIPTORS = 1

    id: int = wire(read_count)
    facts: Facts = wire(record(Facts), default=Facts())
    has_more: bool = wire(read_flag, default=False)


@dataclass(frozen=True)
class Feeding(Message):
    """The first answer to a ``call`` without a path; its descriptor is the writing end of a stream
    for the called storlet's input.
    """

    TYPE = "feeding"
    DESCRIPTORS = 1

    id: int = wire(read_count)


@dataclass(frozen=True)
class Created(Message):
    """The answer to ``create``; its descriptor is the writing end of a stream."""

    TYPE = "created"
    DESCRIPTORS = 1

    id: int = wire(read_count)


@dataclass(frozen=True)
class Described(Message):
    """The answer to ``stat``, and to a ``call`` with ``output``."""

    TYPE = "described"

    id: int = wire(read_count)
    facts: Facts = wire(record(Facts), default=Facts())


@dataclass(frozen=True)
class Performed(Message):
    """The store has done what was requested, or the filter has: ``close`` and ``discard``."""

    TYPE = "performed"

    id: int = wire(read_count)


@dataclass(frozen=True)
class StreamEnded(Message):
    """The stream of ``id`` is complete with this number of bytes."""

    TYPE = "ended"

    id: int = wire(read_count)
    bytes: int = wire(read_count)


@dataclass(frozen=True)
class ServiceFailed(Message):
    """The request, or the stream of an earlier answer to it, has failed.

    ``storlet``: of a call whose storlet has failed.
    """

    TYPE = "failed"

    id: int = wire(read_count)
    code: str = wire(read_name)
    status: int = wire(read_count)
    message: str = wire(read_text)
    storlet: str | None = wire(read_name, default=None)


SERVICE_REQUESTS: Kinds = kinds_of(
    OpenObject,
    StatObject,
    ListContainer,
    SetMetadata,
    CopyObject,
    DeleteObject,
    CallStorlet,
    CreateObject,
    CloseFile,
    DiscardFile,
)
SERVICE_REPLIES: Kinds = kinds_of(
    Opened, Feeding, Created, Described, Performed, StreamEnded, ServiceFailed
)
