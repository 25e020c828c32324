"""Inputs that come through Swift: a client's body, an object's assembled stream.

Each raises when its bytes end before their end; an input that is quietly shorter would give a result that looks whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from swift.common.exceptions import ChunkReadTimeout
from swift.common.utils import close_if_possible

from storlet_middleware.concurrency import Timeout, call_later
from storlet_middleware.errors import BackendFailed, InputIncomplete, StorletError
from storlet_middleware.wsgi.disconnect import client_socket

_CHUNK: Final = 65536
#: Time for the answer to reach a client whose connection has to be closed.
_LINGER_SECONDS: Final = 1.0


class ClientBody:
    """The body of a PUT.

    :param environ: the client's request.
    :param timeout_seconds: how long the client may send nothing.
    """

    def __init__(self, environ: Mapping[str, Any], timeout_seconds: float) -> None:
        self._environ = environ
        self._input = environ["wsgi.input"]
        self._timeout_seconds = timeout_seconds
        length = environ.get("CONTENT_LENGTH")
        self._length = int(length) if length else None
        self._etag = (environ.get("HTTP_ETAG") or "").strip('" ').lower()

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        # The client's ETag is the hash of what it sends; what is stored is something else, so it is checked here.
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
            raise StorletError("the body does not match its ETag", status=422, code="input.etag_mismatch")

    def _read(self) -> bytes:
        try:
            with ChunkReadTimeout(self._timeout_seconds):
                chunk: bytes = self._input.read(_CHUNK)
        except ChunkReadTimeout as error:
            raise StorletError(
                f"the client sent nothing for {self._timeout_seconds:g} s", status=408, code="input.timeout"
            ) from error
        except (OSError, ValueError) as error:
            raise InputIncomplete(f"the client's body broke off: {error}") from error
        return chunk

    def abandon(self) -> None:
        """The place in the body is lost: what follows on this connection must not be taken for a request."""
        client = client_socket(self._environ)
        if client is not None:
            call_later(_LINGER_SECONDS, lambda: _shut(client))

    def close(self) -> None:
        """The server owns the body."""


def whole(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """``chunks``; what breaks them is an error of ours, also Swift's timeouts, which are no ``Exception``."""
    pieces = iter(chunks)
    while True:
        try:
            chunk = next(pieces, None)
        except (Exception, Timeout) as error:
            raise BackendFailed(f"Swift's answer broke off: {error!r}"[:300]) from error
        if chunk is None:
            return
        yield chunk


def bounded(chunks: Iterable[bytes], most_bytes: int, too_many: StorletError) -> bytes:
    """All of ``chunks``, which are closed; raises ``too_many`` when there is more."""
    pieces, size = [], 0
    try:
        for piece in whole(chunks):
            size += len(piece)
            if size > most_bytes:
                raise too_many
            pieces.append(piece)
    finally:
        close_if_possible(chunks)
    return b"".join(pieces)


def _shut(client: socket.socket) -> None:
    with contextlib.suppress(OSError):
        client.shutdown(socket.SHUT_RDWR)


@dataclass(frozen=True)
class SourceAnswer:
    """Swift's answer with data, as far as it is looked at; swob's ``Response`` makes twice as much of it.

    :param headers: of type ``HeaderKeyDict``: they are found whatever their case.
    """

    status_int: int
    headers: Any
    app_iter: Iterable[bytes]

    @property
    def content_length(self) -> int | None:
        """In bytes; ``None`` where Swift does not know it yet."""
        length = self.headers.get("Content-Length")
        return int(length) if length else None


class ObjectBody:
    """The body of an answer from Swift, owned from construction."""

    def __init__(self, answer: Any) -> None:
        self._chunks = answer.app_iter
        self._length: int | None = answer.content_length

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for chunk in whole(self._chunks):
            size += len(chunk)
            yield chunk
        if self._length is not None and size != self._length:
            raise BackendFailed(f"Swift gave {size} of {self._length} bytes of an input")

    def abandon(self) -> None:
        """Nothing else reads from a backend connection."""

    def close(self) -> None:
        """Release the backend connection."""
        close_if_possible(self._chunks)


class GuardedBody(ObjectBody):
    """The same where rules may close a part of it to the caller, which is known only when Swift comes to read that part.

    Swift ends a large object there, and whoever was told no length would take that for its end.

    :param refused: what the rules refuse, filled while the body is read.
    """

    def __init__(self, answer: Any, refused: Sequence[StorletError]) -> None:
        super().__init__(answer)
        self._refused = refused

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from super().__iter__()
        except StorletError as error:
            if self._refused:
                raise self._refused[0] from error
            raise
        if self._refused:
            raise self._refused[0]
