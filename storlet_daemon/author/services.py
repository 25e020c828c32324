"""The store, for a running storlet: ``from storlet import services``.

::

    with services.open("/photos/cat.jpg") as photo:
        head = photo.read(1024)
    for entry in services.list("photos", prefix="2026/"):
        print(entry.name, entry.size)
    services.set_metadata("/photos/cat.jpg", {"Checked": "yes"})
    with services.call("thumbnail.py", "/photos/cat.jpg", {"width": "100"}) as small:
        out_files[0].write(small.read())
    with services.create("/index/names", "text/plain") as index:
        index.write(b"cat.jpg")

A storlet declares the operations that it uses: ``X-Object-Meta-Storlet-Services: read, write``.
Paths are ``/container/object``, always of the account of the request.  Each operation is a request
of the caller, with the caller's rights and the account's rules.

=================== ============================================================================
exception           reason
=================== ============================================================================
``NotFound``        there is no such container or object
``Denied``          the caller, a rule, or the storlet's own declaration does not allow it
``Changed``         the object was replaced since it was opened
``CallFailed``      the called storlet failed: its error code is ``code``
``LimitExceeded``   a limit of the run; the message names it
``Unavailable``     the store cannot answer now
``ServiceError``    anything else; the base class of all, and an ``OSError``
=================== ============================================================================
"""
# ruff: noqa: A001, A002  the names that authors expect after ``services.``

from __future__ import annotations

import contextlib
import io
import json
import os
import socket
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from .calls import CallResult, InputWriter, Readable, fields_of

if TYPE_CHECKING:
    from typing import NoReturn, Protocol, Self

    class Channel(Protocol):
        """The way to the store of one run."""

        def ask(self, operation: str, fields: Mapping[str, Any]) -> Answer:
            """The answer to a request; raises :class:`ServiceError`."""

        def further_answer(self, answer: Answer) -> Answer:
            """The next answer to the same request; raises :class:`ServiceError`."""

        def end_of(self, answer: Answer) -> int:
            """How many bytes the stream of ``answer`` had; raises if it is not complete."""


READ_BYTES = 256 * 1024
"""Read-ahead of an object that is read from its start to its end."""
SEEK_BYTES = 64 * 1024
"""First read-ahead after a seek; it doubles with each further request, up to ``SEEK_BYTES_MAX``."""
SEEK_BYTES_MAX = 8 * 1024 * 1024
SKIP_BYTES = 256 * 1024
"""A seek forward by less reads on; a longer one is a new request."""
WRITE_BYTES = 64 * 1024
"""Smaller writes to a created object are gathered up to this size."""
FLUSH_SECONDS = 0.1
"""A write later than this after the last flush is flushed at once: it counts as progress."""


# Error codes. The protocol declares them; this folder, which the client uses too, imports none of
# it. A test compares them.
_CODE_LIMIT_SERVICES = "storlet.limit.services"
_CODE_CHANGED = "services.changed"
_CODE_SHORT = "services.short"
_CODE_GONE = "services.gone"
_CODE_NONE = "services.none"


class ServiceError(OSError):
    """An operation that failed; ``code`` and ``status`` are those of the error codes."""

    def __init__(self, message: str, code: str = "", status: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.status = status


class NotFound(ServiceError):
    """There is no such container or object."""


class Denied(ServiceError):
    """The caller, a rule, or the storlet's own declaration does not allow the operation."""


class Changed(ServiceError):
    """The object was replaced since it was opened."""


class CallFailed(ServiceError):
    """The called ``storlet`` failed; ``code`` and ``status`` are those of its error."""

    def __init__(self, message: str, code: str = "", status: int = 0, storlet: str = "") -> None:
        super().__init__(message, code, status)
        self.storlet = storlet


class LimitExceeded(ServiceError):
    """The operation exceeds a limit of the run."""


class Unavailable(ServiceError):
    """The store cannot answer now."""


def error_of(  # noqa: PLR0911  a table
    message: str, code: str, status: int, storlet: str = ""
) -> ServiceError:
    """The exception for a failure that the store reports.

    ``storlet`` is the called one that has failed.
    """
    if storlet:
        return CallFailed(message, code, status, storlet)
    if code == _CODE_LIMIT_SERVICES:
        return LimitExceeded(message, code, status)
    if code == _CODE_CHANGED:
        return Changed(message, code, status)
    if status in (401, 403):
        return Denied(message, code, status)
    if status == 404:
        return NotFound(message, code, status)
    if status >= 500 or status == 429:
        return Unavailable(message, code, status)
    return ServiceError(message, code, status)


class Answer(NamedTuple):
    """The store's answer: facts about an object, and the descriptor of a stream or -1."""

    id: int
    facts: Mapping[str, Any]
    fd: int = -1
    has_more: bool = False


class Stat(NamedTuple):
    """The facts about an object; one that a rule withholds is ``None``."""

    metadata: dict[str, str]
    size: int | None
    etag: str | None
    content_type: str | None
    last_modified: str | None


class Entry(NamedTuple):
    """An object of a listing, or with a delimiter a common prefix, which has a name only."""

    name: str
    size: int | None = None
    etag: str | None = None
    content_type: str | None = None
    last_modified: str | None = None
    is_prefix: bool = False


# --- the run --------------------------------------------------------------------------------------

NONE = (
    "this run has no services: the storlet does not declare X-Object-Meta-Storlet-Services, or the"
    " request is allowed by a signature only; a run without a cluster has none either"
)

_channel: Channel | None = None
_streams: weakref.WeakSet[io.RawIOBase] = weakref.WeakSet()
_writers: weakref.WeakSet[InputWriter] = weakref.WeakSet()


def begin(channel: Channel) -> None:
    """Begin a run that reaches the store through ``channel``."""
    global _channel  # noqa: PLW0603  one run at a time
    _channel = channel


def end() -> None:
    """End the run; close the files that it left open."""
    global _channel  # noqa: PLW0603
    _channel = None
    for stream in [*_streams]:
        stream.close()
    for writer in [*_writers]:
        writer.close()


def _current() -> Channel:
    if _channel is None:
        raise Denied(NONE, _CODE_NONE, 403)
    return _channel


# --- operations -----------------------------------------------------------------------------------


def open(path: str, range: tuple[int, int | None] | None = None) -> StoredFile:
    """Open an object for reading.

    ``range`` are the first and the last byte, both inclusive; without a last byte to the end.  The
    file consists of these bytes only.
    """
    first, last = (None, None) if range is None else range
    channel = _current()
    fields = {"path": path, "start": first, "end": last}
    answer = channel.ask("open", fields)
    return StoredFile(channel, path, answer, first or 0)


def stat(path: str) -> Stat:
    """The facts about an object."""
    return _stat_of(_current().ask("stat", {"path": path}).facts)


def list(  # noqa: PLR0913  the parameters of Swift's listings
    container: str,
    prefix: str = "",
    delimiter: str = "",
    marker: str = "",
    end_marker: str = "",
    *,
    reverse: bool = False,
    limit: int | None = None,
) -> Iterator[Entry]:
    """The objects of a container, at most ``limit``; reads further pages by itself."""
    query = {
        "container": container.strip("/"),
        "prefix": prefix,
        "delimiter": delimiter,
        "end_marker": end_marker,
        "reverse": reverse,
    }
    return _pages(_current(), {key: value for key, value in query.items() if value}, marker, limit)


def set_metadata(path: str, changes: Mapping[str, str | None]) -> None:
    """Change items of an object's user metadata; the other items stay.

    ``None`` or an empty text removes an item.  The key ``Content-Type`` is the content type.
    """
    texts = {key: value or "" for key, value in changes.items()}
    _current().ask("set_metadata", {"path": path, "changes": texts})


def create(
    path: str,
    content_type: str | None = None,
    metadata: Mapping[str, str] | None = None,
    delete_after: int | None = None,
) -> CreatedFile:
    """Create an object, or replace one: a binary file to write.

    It is stored when the run succeeds, together with the run's outputs; before, no reader finds it.
    ``content_type`` is guessed from the name if it is missing. ``delete_after``: seconds until
    Swift deletes it.

    Close the file when it is complete, or use it in a ``with`` block. A block that an exception
    leaves discards the object. A run that returns with a file neither closed nor discarded fails.
    """
    channel = _current()
    fields = {
        "path": path,
        "content_type": content_type,
        "metadata": dict(metadata) if metadata else None,
        "delete_after": delete_after,
    }
    return CreatedFile(channel, channel.ask("create", fields))


def copy(source: str, target: str) -> None:
    """Copy an object with its metadata; an object at ``target`` is replaced."""
    _current().ask("copy", {"source": source, "target": target})


def delete(path: str) -> None:
    """Delete an object."""
    _current().ask("delete", {"path": path})


def call(
    storlet: str,
    source: str | bytes | Readable,
    parameters: Mapping[str, str] | None = None,
    ranges: Iterable[tuple[int, int | None]] | None = None,
    output: str | None = None,
) -> CallResult | Stat:
    """Run another storlet, in any language, on an object or on data; its result is a file.

    ``storlet`` is one of the account, or of the system library (``std:grep``).  ``source`` is the
    path of an object, and then the storlet runs on the node that has it; or bytes, or a binary
    file, which is read in a thread.  ``ranges`` are the parts of the object that the storlet reads,
    each the first and the last byte.  With ``output`` the result is stored as that object, and the
    facts about the object are returned.
    """
    channel = _current()
    answer = channel.ask("call", fields_of(storlet, source, parameters, ranges, output))
    writer = None
    if not isinstance(source, str):
        writer = InputWriter(answer.fd, source)
        _writers.add(writer)
        try:
            answer = channel.further_answer(answer)
        except ServiceError:
            writer.close()
            writer.raise_error()
            raise
    if output is not None:
        return _stat_of(answer.facts)
    return CallResult(_Stream(channel, answer), answer.facts, writer)


def _pages(
    channel: Channel, query: Mapping[str, Any], marker: str, left: int | None
) -> Iterator[Entry]:
    has_more = left is None or left > 0
    while has_more:
        asked = {"marker": marker, "limit": left}
        answer = channel.ask("list", {**query, **{k: v for k, v in asked.items() if v}})
        with io.BufferedReader(_Stream(channel, answer)) as page:
            entries = json.loads(page.read())
        for entry in entries:
            found = _entry_of(entry)
            marker = found.name
            yield found
        if left is not None:
            left -= len(entries)
        has_more = answer.has_more and bool(entries) and left != 0


def _entry_of(entry: Mapping[str, Any]) -> Entry:
    if "subdir" in entry:
        return Entry(entry["subdir"], is_prefix=True)
    return Entry(
        entry["name"],
        entry.get("bytes"),
        entry.get("hash") or None,
        entry.get("content_type") or None,
        entry.get("last_modified"),
    )


def _stat_of(facts: Mapping[str, Any]) -> Stat:
    return Stat(
        dict(facts.get("metadata") or {}),
        facts.get("size"),
        facts.get("etag"),
        facts.get("content_type"),
        facts.get("last_modified"),
    )


# --- files ----------------------------------------------------------------------------------------


class _Stream(io.RawIOBase):
    """The bytes of one answer; its end is verified."""

    def __init__(self, channel: Channel, answer: Answer) -> None:
        super().__init__()
        self._channel = channel
        self._answer = answer
        self._file: io.FileIO | None = io.FileIO(answer.fd)
        self.taken = 0
        _streams.add(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        if self._file is None or self.closed:
            return 0
        count = self._file.readinto(buffer) or 0
        self.taken += count
        if not count and memoryview(buffer):
            self._finish()
        return count

    def _finish(self) -> None:
        sent = self._channel.end_of(self._answer)
        if sent != self.taken:
            raise ServiceError(f"{self.taken} of {sent} bytes arrived", _CODE_SHORT)
        self._close_file()

    def _close_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def close(self) -> None:
        self._close_file()
        super().close()


class _Object(io.RawIOBase):
    """An object, or a range of it, as a file that can seek if size and ETag are known.

    After a seek it reads with ranged requests for the version that was opened.
    """

    def __init__(self, channel: Channel, path: str, answer: Answer, first: int) -> None:
        super().__init__()
        self._channel = channel
        self._path = path
        self._first = first
        self._size: int | None = answer.facts.get("size")
        self._etag: str | None = answer.facts.get("etag")
        self._stream: _Stream | None = _Stream(channel, answer)
        #: Where the next read begins, and the position that the stream has reached.
        self._position = self._reached = 0
        #: Where the stream ends; None: with the object.
        self._end: int | None = None
        self._ahead = SEEK_BYTES

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._size is not None and bool(self._etag)

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        if not self.seekable():
            raise io.UnsupportedOperation("the result of a rule's storlet cannot seek")
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size or 0}[whence]
        if base + offset < 0:
            raise ValueError(f"negative position {base + offset}")
        self._position = base + offset
        return self._position

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")
        is_past_end = self._size is not None and self._position >= self._size
        if not view:
            return 0
        if is_past_end and (self._stream is None or self._position != self._reached):
            return 0
        self._move(len(view))
        count = self._stream.readinto(view) if self._stream is not None else 0
        self._position += count
        self._reached = self._position
        if not count and self._end is not None and self._size is not None:
            # The end of a bounded request only.
            self._drop()
            return self.readinto(view) if self._position < self._size else 0
        return count

    def _move(self, wanted: int) -> None:
        """Have a stream at the position."""
        distance = self._position - self._reached
        if self._stream is not None and distance:
            if 0 < distance <= SKIP_BYTES and (self._end is None or self._position < self._end):
                self._skip(distance)
            else:
                self._drop()
                self._ahead = SEEK_BYTES
        if self._stream is None and self._size is not None:
            length = max(wanted, self._ahead)
            self._ahead = min(2 * self._ahead, SEEK_BYTES_MAX)
            self._end = min(self._position + length, self._size)
            self._stream = _Stream(self._channel, self._ask(self._position, self._end - 1))
            self._reached = self._position

    def _ask(self, start: int, end: int) -> Answer:
        span = {"start": self._first + start, "end": self._first + end}
        return self._channel.ask("open", {"path": self._path, "etag": self._etag, **span})

    def _skip(self, distance: int) -> None:
        stream = self._stream
        while distance and stream is not None:
            count = stream.readinto(memoryview(bytearray(min(distance, SEEK_BYTES))))
            if not count:
                self._drop()
                return
            distance -= count
            self._reached += count

    def _drop(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()

    def close(self) -> None:
        self._drop()
        super().close()


class StoredFile(io.BufferedReader):
    """An object that was opened: a binary file.

    ``seek`` works where size and ETag are known: not with the result of a rule's storlet.
    """

    def __init__(self, channel: Channel, path: str, answer: Answer, first: int) -> None:
        self._file = _Object(channel, path, answer, first)
        super().__init__(self._file, READ_BYTES)
        self._stat = _stat_of(answer.facts)

    @property
    def metadata(self) -> dict[str, str]:
        """The object's user metadata."""
        return dict(self._stat.metadata)

    @property
    def size(self) -> int | None:
        """Bytes of this file; ``None`` if not known before the end."""
        return self._stat.size

    @property
    def etag(self) -> str | None:
        """The ETag of the object; ``None`` for the result of a rule's storlet."""
        return self._stat.etag

    @property
    def content_type(self) -> str | None:
        """The content type of the object."""
        return self._stat.content_type

    @property
    def last_modified(self) -> str | None:
        """The time of the last change, as HTTP writes it."""
        return self._stat.last_modified


class _Sent(io.RawIOBase):
    """The bytes of an object that is being created, on their way to the store."""

    def __init__(self, channel: Channel, answer: Answer) -> None:
        super().__init__()
        self._channel = channel
        self._id = answer.id
        # A socket, because its end reaches processes that have inherited it, too.
        self._socket = socket.socket(fileno=answer.fd)
        self._socket.setblocking(True)
        self._size = 0
        _streams.add(self)

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        try:
            count = self._socket.send(data)
        except OSError as error:
            # The reason is the answer to "close".
            self.finish()
            raise ServiceError(f"the store takes no more bytes: {error}", _CODE_GONE) from None
        self._size += count
        return count

    def finish(self) -> None:
        """All bytes were written; raises if the store does not have them."""
        with contextlib.suppress(OSError):  # the store has closed it, and says why
            self._socket.shutdown(socket.SHUT_WR)
        self._channel.ask("close", {"file": self._id, "bytes": self._size})

    def discard(self) -> None:
        self._channel.ask("discard", {"file": self._id})

    def close(self) -> None:
        """Close the stream, which is no end of the object."""
        self._socket.close()
        super().close()


class CreatedFile(io.BufferedWriter):
    """An object that is being created: a binary file, which is stored when the run succeeds."""

    def __init__(self, channel: Channel, answer: Answer) -> None:
        # Kept because ``raw`` is None once a storlet has detached it.
        self._sent = _Sent(channel, answer)
        super().__init__(self._sent, WRITE_BYTES)
        self._flush_at = 0.0

    def write(self, data: Any, /) -> int:
        """Write bytes.

        Raises :class:`ServiceError` if the store takes no more; then the run fails, unless the file
        is discarded.
        """
        count = super().write(data)
        now = time.monotonic()
        if now >= self._flush_at:
            self.flush()
            self._flush_at = now + FLUSH_SECONDS
        return count

    def close(self) -> None:
        """The object is complete.

        Raises :class:`ServiceError` if the store does not have all bytes; then the run fails,
        unless the file is discarded.
        """
        if self.closed:
            return
        try:
            self.flush()
            self._sent.finish()
        finally:
            self._sent.close()

    def discard(self) -> None:
        """Do not store the object; also after :meth:`close`, as long as the storlet runs."""
        self._sent.close()
        self._sent.discard()

    def __exit__(self, kind: object, *more: object) -> None:
        if kind is None:
            self.close()
            return
        with contextlib.suppress(ServiceError):  # the exception of the block says more
            self.discard()

    def __enter__(self) -> Self:
        return self

    def __del__(self) -> None:
        # A file that is only dropped may not be complete. Without "close" the run fails.
        self._sent.close()

    def fileno(self) -> NoReturn:
        """Not for an object: bytes that a child process writes would not be counted."""
        raise io.UnsupportedOperation("a created object has no descriptor: write to it instead")

    def seekable(self) -> bool:
        """Always False."""
        return False
