"""Bodies: inputs that come through Swift, and an answer that is always closed.

An input raises if its bytes end too early.  A short input without an error would give a result that
looks complete.
"""

from __future__ import annotations

import contextlib
import hashlib
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from swift.common.exceptions import ChunkReadTimeout
from swift.common.utils import close_if_possible

from storlet_middleware import errors
from storlet_middleware.concurrency import Timeout, call_later
from storlet_middleware.errors import AccessDenied, BackendFailed, InputIncomplete, StorletError
from storlet_middleware.wsgi.disconnect import client_socket

_CHUNK: Final = 65536
#: Time for the answer to reach the client before its connection is closed.
_LINGER_SECONDS: Final = 1.0


class ClosingIterator:
    """Iterator that always calls ``on_close`` exactly once, even if iteration never started.

    A generator's ``finally`` does not run if the generator is closed before its first ``next``.  So
    an answer that must release something needs more than a generator: WSGI servers close an answer
    that they never read, for example the answer to a client that disconnected.

    ``on_close`` is called at the end of ``chunks``, when ``chunks`` raises, or at :meth:`close`,
    whichever comes first.  ``chunks`` is closed before that; ``on_close`` is called even if closing
    ``chunks`` raises.
    """

    def __init__(self, chunks: Iterable[bytes], on_close: Callable[[], None]) -> None:
        self._chunks = chunks
        self._iterator = iter(chunks)
        self._on_close = on_close
        self._is_closed = False

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            return next(self._iterator)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close ``chunks`` and call ``on_close``; calls after the first do nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            close_if_possible(self._iterator)
            if self._chunks is not self._iterator:
                close_if_possible(self._chunks)
        finally:
            self._on_close()


class ClientBody:
    """The body of a client's PUT.

    :param environ: the client's request.
    :param timeout_seconds: limit of the time in which the client sends nothing.
    """

    def __init__(self, environ: Mapping[str, Any], timeout_seconds: float) -> None:
        self._environ = environ
        self._input = environ["wsgi.input"]
        self._timeout_seconds = timeout_seconds
        # eventlet and Swift ignore the Content-Length of a chunked body.
        is_chunked = "HTTP_TRANSFER_ENCODING" in environ
        length = None if is_chunked else environ.get("CONTENT_LENGTH")
        self._length = int(length) if length else None
        self._etag = (environ.get("HTTP_ETAG") or "").strip('" ').lower()

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        # The client's ETag is the hash of its body.  Swift stores the storlet's output, so it
        # cannot compare the two.
        digest = hashlib.md5(usedforsecurity=False) if self._etag else None
        while self._length is None or size < self._length:
            chunk = self._read()
            if not chunk:
                break
            size += len(chunk)
            if digest:
                digest.update(chunk)
            yield chunk
        if self._length is not None and size < self._length:
            raise InputIncomplete(f"the client sent {size} of {self._length} bytes")
        if digest and digest.hexdigest() != self._etag:
            raise StorletError("the body does not match its ETag", code=errors.INPUT_ETAG_MISMATCH)

    def _read(self) -> bytes:
        try:
            with ChunkReadTimeout(self._timeout_seconds):
                chunk: bytes = self._input.read(_CHUNK)
        except ChunkReadTimeout as error:
            raise StorletError(
                f"the client sent nothing for {self._timeout_seconds:g} s",
                code=errors.INPUT_TIMEOUT,
            ) from error
        except (OSError, ValueError) as error:
            raise InputIncomplete(f"the client's body broke off: {error}") from error
        return chunk

    def abandon(self) -> None:
        """Close the connection: the rest of the body must not be parsed as the next request."""
        client = client_socket(self._environ)
        if client is not None:
            call_later(_LINGER_SECONDS, lambda: _shut_down(client))

    def close(self) -> None:
        """Nothing to do: the WSGI server owns the body."""


def read_backend(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield ``chunks``; raise :class:`BackendFailed` if they break off.

    Swift's timeouts count as well; they are not subclasses of ``Exception``.
    """
    iterator = iter(chunks)
    while True:
        try:
            chunk = next(iterator, None)
        except (Exception, Timeout) as error:
            raise BackendFailed(f"Swift's answer broke off: {error!r}"[:300]) from error
        if chunk is None:
            return
        yield chunk


def read_bounded(chunks: Iterable[bytes], most_bytes: int, too_many: StorletError) -> bytes:
    """All of ``chunks``, which are then closed; raises ``too_many`` if they have more than
    ``most_bytes`` bytes."""
    pieces, size = [], 0
    try:
        for piece in read_backend(chunks):
            size += len(piece)
            if size > most_bytes:
                raise too_many
            pieces.append(piece)
    finally:
        close_if_possible(chunks)
    return b"".join(pieces)


def _shut_down(client: socket.socket) -> None:
    with contextlib.suppress(OSError):
        client.shutdown(socket.SHUT_RDWR)


@dataclass(frozen=True)
class SourceAnswer:
    """Status, headers and body of Swift's answer.  To make swob's ``Response`` of it would cost
    twice as much.

    :param headers: a ``HeaderKeyDict``, which ignores the case of names.
    """

    status_int: int
    headers: Any
    app_iter: Iterable[bytes]

    @property
    def content_length(self) -> int | None:
        """In bytes; ``None`` if Swift does not know it yet."""
        length = self.headers.get("Content-Length")
        return int(length) if length else None


class ObjectBody:
    """The body of an answer from Swift.  Owns the answer's connection from construction until
    :meth:`close`.

    A body always has a length to compare with: Swift ends some bodies early without an error.

    :param find_length: the length of a body without a Content-Length; called at its end.
    """

    def __init__(self, answer: Any, find_length: Callable[[], int] | None = None) -> None:
        self._length: int | None = answer.content_length
        self._chunks = answer.app_iter
        self._find_length = find_length

    def __iter__(self) -> Iterator[bytes]:
        length, find_length = self._length, self._find_length
        if length is None and find_length is None:
            raise BackendFailed("Swift gave no length of an input: its end cannot be verified")
        size = 0
        for chunk in read_backend(self._chunks):
            size += len(chunk)
            yield chunk
        if length is None and find_length is not None:
            length = find_length()
        if size != length:
            raise BackendFailed(f"Swift gave {size} of {length} bytes of an input")

    def abandon(self) -> None:
        """Nothing to do: no other request uses the backend connection."""

    def close(self) -> None:
        """Release the backend connection."""
        close_if_possible(self._chunks)


class GuardedBody(ObjectBody):
    """An :class:`ObjectBody` of which rules or Swift's authorization may refuse a part.

    A segment of a large object is checked when Swift begins to read it, and Swift ends the body at
    a refused segment.  This class raises the refusal.

    :param refused: the rules' refusals, added while the body is read.
    :param denied: Swift's answers for parts that the caller may not read; they are the reason if
        the body is too short.
    """

    def __init__(
        self,
        answer: Any,
        refused: Sequence[StorletError],
        denied: Sequence[Any] = (),
        find_length: Callable[[], int] | None = None,
    ) -> None:
        super().__init__(answer, find_length)
        self._refused = refused
        self._denied = denied

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from super().__iter__()
        except StorletError as error:
            if self._refused:
                raise self._refused[0] from error
            if self._denied:
                raise AccessDenied(
                    "the caller may not read a part of the object, such as a segment"
                ) from error
            raise
        if self._refused:
            raise self._refused[0]
