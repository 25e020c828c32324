"""Objects that a storlet creates: withheld until the run has succeeded, as its further outputs are.

::

    worker                          creations                     the run's stored outputs
      | -- create /c/o (id 7) -------> |                                 |
      |                                | -- PUT /c/o, decided ---------> |
      | <-- created 7, a stream ------ |                                 |
      | ==> bytes in the stream =====> | ==> bytes ====================> |
      | -- close 7, 1000 bytes ------> |                                 |
      | <-- performed ---------------- |                                 |
      |         the run succeeds       |          commit                 |

All checks are done before ``created``: the containers that no storlet may write, the name, the
headers, the caller's rights, the account's rules, quotas that are used up.

**The end of a stream is no end of an object.**  Only ``close`` is, with the number of bytes.  A run
that succeeds with an object that is neither closed nor discarded fails: its storlet has forgotten
it, or an exception has kept the storlet from writing all of it.  So does a run with an object that
failed, unless the storlet discards it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from storlet_daemon.protocol.messages import (
    CloseFile,
    Created,
    CreateObject,
    DiscardFile,
    Message,
    Performed,
)
from storlet_middleware import errors
from storlet_middleware.concurrency import GreenTask, Killed, end, monotonic, spawn
from storlet_middleware.engine.handover import stream
from storlet_middleware.engine.output_stream import OutputStream, ReadPace, next_chunk
from storlet_middleware.errors import BackendFailed, StorletError, Unprocessable
from storlet_middleware.services.changes import writable_path
from storlet_middleware.services.requests import StoreRefusal, StoreRequests, limit_refusal
from storlet_middleware.wsgi import stored_headers
from storlet_middleware.wsgi.deferred_put import DeferredPut

#: Header of the time after which an object is deleted.
_DELETE_AFTER = "X-Delete-After"


class NewObject(Protocol):
    """An object whose PUT is withheld."""

    def write(self, chunk: bytes) -> None:
        """Take ``chunk``; waits while there is no room for it.

        :raises StorletError: Swift refuses the PUT, or the PUT is broken.
        """

    def discard(self) -> None:
        """Break the PUT: nothing is stored.  Calls after the first do nothing."""


class NewObjects(Protocol):
    """The objects that a run stores when it succeeds."""

    def require_free(self, path: str) -> None:
        """Raise :class:`StorletError` if the run already stores another object at ``path``."""

    def add(self, path: str, put: DeferredPut) -> NewObject:
        """Store the object, too; raises as :meth:`require_free`."""


@dataclass(frozen=True)
class Donation:
    """A reply with a descriptor, which its receiver owns.

    :param cancel: called if it cannot be sent.
    """

    reply: Message
    fd: int
    cancel: Callable[[], None]


class Creations:
    """The objects that the storlet of one channel creates.

    :param reserved: the containers that no storlet may write.
    :param objects: of the whole run.
    :param most: of them at the same time.
    """

    def __init__(
        self, requests: StoreRequests, reserved: frozenset[str], objects: NewObjects, most: int
    ) -> None:
        self._requests = requests
        self._reserved = reserved
        self._objects = objects
        self._most = most
        self._files: dict[int, _File] = {}
        #: Requests for a file that is not there yet.
        self._creating = 0
        self._count: Callable[[int], None] = _uncounted
        self._pace = ReadPace()
        self._is_finished = False

    def begin(self, count: Callable[[int], None], pace: ReadPace) -> None:
        """The run begins.

        :param count: called with the bytes that the storlet writes; raises above a limit.
        :param pace: of all readers of the run.
        """
        self._count, self._pace = count, pace

    # --- requests ---------------------------------------------------------------------------------

    def create(self, request: CreateObject) -> Donation:
        """Begin an object.

        :raises StoreRefusal: it may not be stored; :raises StorletError: likewise.
        """
        path = writable_path(request.path, self._reserved)
        self._objects.require_free(path)
        if len(self._files) + self._creating >= self._most:
            raise limit_refusal(f"more than {self._most} created objects (Service-Creations)")
        self._creating += 1
        try:
            put = self._requests.defer_put(path, *_headers_of(request))
        finally:
            self._creating -= 1
        if self._is_finished:
            raise StoreRefusal(errors.SERVICES_REFUSED, 422, f"{path}: the run has ended")
        file = _File(path, self._objects.add(path, put), self._count, self._pace)
        try:
            writing = file.open()
        except OSError as error:
            file.discard()
            raise BackendFailed(f"no stream for the storlet: {error.strerror}") from error
        self._files[request.id] = file
        return Donation(Created(request.id), writing, lambda: self._drop(request.id))

    def close_file(self, request: CloseFile) -> Performed:
        """The object is complete.

        :raises StoreRefusal: there is none with this id; :raises BaseException: it has failed.
        """
        self._file(request.file).finish(request.bytes)
        return Performed(request.id)

    def discard(self, request: DiscardFile) -> Performed:
        """Do not store the object.

        :raises StoreRefusal: there is none with this id.
        """
        self._file(request.file)
        self._drop(request.file)
        return Performed(request.id)

    def _file(self, number: int) -> _File:
        file = self._files.get(number)
        if file is None:
            text = f"{number}: no object is being created with this id"
            raise StoreRefusal(errors.BAD_REQUEST, 400, text)
        return file

    def _drop(self, number: int) -> None:
        file = self._files.pop(number, None)
        if file is not None:
            file.discard()

    # --- the run ----------------------------------------------------------------------------------

    @property
    def open_count(self) -> int:
        """How many streams are open."""
        return sum(not file.is_over for file in self._files.values())

    def were_active_since(self, moment: float) -> bool:
        """Whether the storlet waits for a PUT, or a PUT has taken bytes since ``moment``."""
        return any(file.is_held_up or file.last_progress > moment for file in self._files.values())

    def finish(self) -> None:
        """The storlet has succeeded; raises unless all objects are complete."""
        self._is_finished = True
        for file in self._files.values():
            file.require_complete()

    def close(self) -> None:
        """Stop all readers; may be called twice.  The PUTs are the run's."""
        self._is_finished = True
        files, self._files = self._files, {}
        with contextlib.ExitStack() as stack:
            for file in files.values():
                stack.callback(file.close)


class _File:
    """One object: the stream that the storlet writes, and its reader."""

    def __init__(
        self, path: str, target: NewObject, count: Callable[[int], None], pace: ReadPace
    ) -> None:
        self._path = path
        self._target = target
        self._count = count
        self._pace = pace
        self._stream = OutputStream()
        self._task: GreenTask | None = None
        self._size = 0
        self._error: BaseException | None = None
        self._is_complete = False
        #: Whether the reader waits for the PUT.
        self.is_held_up = False
        self.last_progress = monotonic()

    def open(self) -> int:
        """Begin to read; the writing end, which the caller owns."""
        self._stream.fd, writing = stream(reader_is_ours=True)
        self._task = spawn(self._run)
        return writing

    @property
    def is_over(self) -> bool:
        """Whether nothing more is read."""
        return self._task is None or bool(self._task.dead)

    def _run(self) -> None:
        try:
            while chunk := next_chunk(self._stream, self._pace, self._count):
                self._size += len(chunk)
                self.is_held_up = True
                try:
                    self._target.write(chunk)
                finally:
                    self.is_held_up = False
                    self.last_progress = monotonic()
        except Killed:
            raise
        except BaseException as error:  # noqa: BLE001 - Swift's timeouts are no Exception
            self._error = error
            # The storlet's next write fails, and its library gets the reason with ``close``.
            self._stream.close()

    def finish(self, size: int) -> None:
        """The storlet has written ``size`` bytes, and writes no more; raises if they are not
        complete.
        """
        task = self._task
        if task is not None and not task.dead:
            # Bytes that a process of the storlet writes from now on are not read.
            self._stream.end_here()
            task.wait()
        if self._error is None and self._size != size:
            text = f"{self._path}: {self._size} of {size} bytes arrived"
            self._error = Unprocessable(text, code=errors.SERVICES_REFUSED)
        self._stream.close()
        if self._error is not None:
            raise self._error
        self._is_complete = True

    def require_complete(self) -> None:
        """Raise unless the object may be stored."""
        if self._error is not None:
            raise _of_run(self._error)
        if not self._is_complete:
            raise Unprocessable(
                f"the storlet has created {self._path}, and has neither closed nor discarded it"
            )

    def discard(self) -> None:
        """Drop the object."""
        self.close()
        self._target.discard()

    def close(self) -> None:
        """Stop reading; may be called twice."""
        task, self._task = self._task, None
        try:
            if task is not None:
                end(task)
        finally:
            self._stream.close()


def _headers_of(request: CreateObject) -> tuple[dict[str, str], dict[str, str]]:
    """The headers of the PUT, and the metadata that the storlet chose."""
    metadata = dict(request.metadata)
    if request.content_type:
        metadata["Content-Type"] = request.content_type
    headers: dict[str, str] = {}
    stored_headers.set_metadata(headers, metadata)
    if request.delete_after is not None:
        headers[_DELETE_AFTER] = str(request.delete_after)
    return headers, metadata


def _of_run(error: BaseException) -> BaseException:
    """The error of a run that ends with a failed object."""
    if isinstance(error, StoreRefusal):
        return Unprocessable(str(error), code=error.code)
    if isinstance(error, StorletError):
        return error
    return BackendFailed(f"an object that the storlet creates has failed: {error!r}"[:300])


def _uncounted(size: int) -> None:
    raise AssertionError(f"{size} bytes before the run has begun")
