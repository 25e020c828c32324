"""The request to the store, and the reply, for each kind of message of a storlet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from swift.common import constraints

from storlet_daemon.protocol import messages
from storlet_daemon.protocol.messages import (
    CallStorlet,
    CloseFile,
    CopyObject,
    CreateObject,
    DeleteObject,
    Described,
    DiscardFile,
    Facts,
    ListContainer,
    Message,
    OpenObject,
    ServiceRequest,
    SetMetadata,
    StatObject,
)
from storlet_middleware import errors
from storlet_middleware.errors import BackendFailed
from storlet_middleware.services.call_input import CallInput
from storlet_middleware.services.calls import CalledResult, Calls
from storlet_middleware.services.changes import Changes
from storlet_middleware.services.creations import Creations, Donation
from storlet_middleware.services.facts import etag_of, facts_of
from storlet_middleware.services.requests import (
    StoreAnswer,
    StoreRefusal,
    StoreRequests,
    container_path,
    object_path,
)
from storlet_middleware.wsgi.bodies import read_backend
from storlet_middleware.wsgi.own_requests import NO_CONTENT, require_whole

#: A page has at most ``messages.PAGE_MAX`` names of 1,024 bytes.
_PAGE_BYTES: Final = 4 << 20


class Body(Protocol):
    """The bytes of a stream for the storlet; iteration raises if they are incomplete."""

    def __iter__(self) -> Iterator[bytes]: ...

    def abandon(self) -> None: ...

    def close(self) -> None: ...


class Memory(Protocol):
    """Bytes that a process keeps for an account."""

    def add(self, count: int) -> None:
        """Count ``count`` more bytes; raises :class:`StorletError` above a limit."""

    def remove(self, count: int) -> None:
        """Reverse of :meth:`add`."""


_NO_FACTS: Final = Facts()


@dataclass(frozen=True)
class Stream:
    """A reply with a stream: ``facts`` of an object, or a page that ``has_more`` after it."""

    body: Body
    facts: Facts = _NO_FACTS
    has_more: bool = False


class Operations:
    """Performs the requests of one run.

    :param reserved: the containers that no storlet may write.
    :param creations: of the run.
    :param memory: of the account.
    """

    def __init__(
        self,
        requests: StoreRequests,
        reserved: frozenset[str],
        creations: Creations,
        memory: Memory,
    ) -> None:
        self._requests = requests
        self._memory = memory
        self.creations = creations
        changes = Changes(requests, reserved)
        self._calls = Calls(requests, reserved)
        self._table: Mapping[type[ServiceRequest], Callable[[Any], Message | Stream | Donation]] = {
            OpenObject: self._open,
            StatObject: self._stat,
            ListContainer: self._list,
            SetMetadata: changes.set_metadata,
            CopyObject: changes.copy,
            DeleteObject: changes.delete,
            CallStorlet: self._call,
            CreateObject: creations.create,
            CloseFile: creations.close_file,
            DiscardFile: creations.discard,
        }

    def perform(self, request: ServiceRequest) -> Message | Stream | Donation:
        """The reply.

        :raises StoreRefusal: the store refuses.
        """
        return self._table[type(request)](request)

    def call_on(self, request: CallStorlet, data: CallInput) -> Described | Stream:
        """The reply to a call on ``data``, which it owns.

        :raises StoreRefusal: the store refuses, or the storlet has failed.
        """
        try:
            if request.output is not None:
                facts = self._calls.store(request, request.output, data)
                data.close()
                return Described(request.id, facts)
            answer = self._calls.run(request, data)
            return Stream(CalledResult(answer, request.storlet, data), facts_of(answer))
        except BaseException:
            data.close()
            raise

    def _open(self, request: OpenObject) -> Stream:
        path, span = object_path(request.path), _range_of(request)
        headers = {"Range": span} if span else {}
        if request.etag:
            headers["If-Match"] = f'"{request.etag}"'
        try:
            answer = self._requests.send("GET", path, headers)
        except StoreRefusal as refusal:
            if request.etag and refusal.status in (404, 412):
                text = f"{path}: the object was replaced or deleted since it was opened"
                raise StoreRefusal(messages.SERVICE_CHANGED, 412, text) from refusal
            raise
        try:
            _require_asked(answer, request, path)
        except StoreRefusal:
            answer.close()
            raise
        return Stream(self._requests.body(answer), facts_of(answer))

    def _stat(self, request: StatObject) -> Described:
        answer = self._requests.send("HEAD", object_path(request.path))
        answer.close()
        return Described(request.id, facts_of(answer))

    def _call(self, request: CallStorlet) -> Described | Stream:
        if request.output is not None:
            return Described(request.id, self._calls.store(request, request.output))
        answer = self._calls.run(request)
        return Stream(CalledResult(answer, request.storlet), facts_of(answer))

    def _list(self, request: ListContainer) -> Stream:
        path = container_path(request.container)
        # Swift refuses a limit above its own.
        most = min(messages.PAGE_MAX, constraints.CONTAINER_LISTING_LIMIT)
        limit = min(request.limit or most, most)
        query = {
            "format": "json",
            "limit": str(limit),
            "prefix": request.prefix,
            "delimiter": request.delimiter,
            "marker": request.marker,
            "end_marker": request.end_marker,
            "reverse": "true" if request.reverse else None,
        }
        given = {key: value for key, value in query.items() if value}
        answer = self._requests.send("GET", path, query=given)
        page = Page(self._memory)
        try:
            page.read(answer)
            return Stream(page, has_more=page.count_entries() >= limit)
        except BaseException:
            page.close()
            raise
        finally:
            answer.close()


class Page:
    """A page of a listing, as a body.

    A storlet that lists, and reads no page, has one in each of its open files.

    :param memory: of the account, for as long as the page is not read.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._pieces: list[bytes] = []
        self._size = 0

    def read(self, answer: StoreAnswer) -> None:
        """Take the page of ``answer``.

        :raises StorletError: it is not complete, or there is no memory for it.
        """
        for piece in read_backend(answer.app_iter):
            self._memory.add(len(piece))
            self._size += len(piece)
            if self._size > _PAGE_BYTES:
                raise BackendFailed("a long listing")
            self._pieces.append(piece)
        if answer.status_int == NO_CONTENT:
            self._pieces = [b"[]"]
        else:
            require_whole(answer.content_length, self._size)

    def count_entries(self) -> int:
        """How many entries it has, a list in JSON.

        Each entry has one of two keys.  Within a name the quotes have a backslash.  To parse a page
        would occupy the hub for milliseconds, and a storlet may list often.
        """
        page = b"".join(self._pieces)
        if not (page.startswith(b"[") and page.rstrip().endswith(b"]")):
            raise BackendFailed("Swift's listing is no JSON")
        return page.count(b'"name":') + page.count(b'"subdir":')

    def __iter__(self) -> Iterator[bytes]:
        yield from self._pieces

    def abandon(self) -> None:
        """Nothing to do: it was read."""

    def close(self) -> None:
        """Give the memory back; may be called twice."""
        self._pieces = []
        size, self._size = self._size, 0
        self._memory.remove(size)


def _range_of(request: OpenObject) -> str:
    if request.start is None and request.end is None:
        return ""
    start, end = request.start or 0, request.end
    if end is not None and end < start:
        text = f"{request.path}: a range from {start} to {end} has no bytes"
        raise StoreRefusal(errors.RANGE_UNSATISFIABLE, 416, text)
    return f"bytes={start}-{'' if end is None else end}"


def _require_asked(answer: StoreAnswer, request: OpenObject, path: str) -> None:
    """Refuse an answer that is not the range, or not the version, of the request."""
    is_part = answer.status_int == 206
    if is_part != (request.start is not None or request.end is not None):
        text = f"{path}: what a rule makes of the object has no ranges"
        raise StoreRefusal(errors.RANGE_UNSATISFIABLE, 416, text)
    if request.etag and etag_of(answer) != request.etag:
        text = f"{path}: the object was replaced since it was opened"
        raise StoreRefusal(messages.SERVICE_CHANGED, 412, text)
