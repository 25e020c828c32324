"""Uploads of code that is checked before it takes effect, and the objects that hold code.

::

    client --> NAME/upload-... (expires) --> a file of this proxy --> check --> PUT by the caller

A slow client fills space of its own account and no disk of the proxy: a proxy process holds at most
:data:`CHECKS` files of a kind at a time, one of an account.
"""

from __future__ import annotations

import contextlib
import secrets
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, Final
from urllib.parse import unquote

from swift.common.exceptions import ChunkReadError
from swift.common.swob import Request, Response
from swift.common.utils import close_if_possible

from storlet_middleware.check_slots import CheckSlots, NoSlot
from storlet_middleware.errors import BackendFailed, NodeBusy, StorletError
from storlet_middleware.wsgi import own_requests, stored_headers
from storlet_middleware.wsgi.bodies import ClientBody, ObjectBody
from storlet_middleware.wsgi.subrequest import SwiftRefusal
from storlet_middleware.wsgi.swift_paths import ContainerPath, object_path

#: Concurrent checks in a proxy process, and so the most uploads that it holds on its disk.
CHECKS: Final = 4
_WAIT_SECONDS: Final = 60.0
#: Longer than an upload with its check may last.
_UPLOAD_SECONDS: Final = 86400


class StagedUploads:
    """Uploads of one kind by all accounts.

    :param app: the rest of the pipeline.
    :param most_bytes: limit of a body.
    :param client_seconds: the idle deadline of a client.
    :param kind: ``bundle`` or ``storlet``, for errors.
    :param too_large: the type of error for a larger body.
    """

    def __init__(
        self,
        app: Any,
        most_bytes: int,
        client_seconds: float,
        kind: str,
        too_large: type[StorletError],
    ) -> None:
        self._app = app
        self._most_bytes = most_bytes
        self._client_seconds = client_seconds
        self._kind = kind
        self._too_large = too_large
        self._slots = CheckSlots(CHECKS)

    @contextlib.contextmanager
    def received(
        self,
        environ: dict[str, Any],
        container_path: ContainerPath,
        prefix: str,
        content_type: str = "",
    ) -> Iterator[tuple[BinaryIO, Mapping[str, str]]]:
        """The body of the client's PUT as a file, and the headers of the object that it is a copy
        of; both are removed in the end.

        :param prefix: of the object's name.
        :raises SwiftRefusal: Swift does not store it.
        """
        path = object_path(*container_path, f"{prefix}upload-{secrets.token_hex(16)}")
        headers = {"X-Delete-After": str(_UPLOAD_SECONDS)}
        if content_type:
            headers["Content-Type"] = content_type
        try:
            answer = self._store(environ, path, headers)
            if answer.status_int // 100 != 2:
                raise SwiftRefusal(Response(status=answer.status_int, request=Request(environ)))
            with self.slot(container_path.account), tempfile.TemporaryFile() as packed:
                yield packed, read(self._app, environ, path, packed)
        finally:
            # An upload that Swift cannot delete at the moment has no effect, and expires.
            own_requests.exchange(self._app, environ, "DELETE", path)

    @contextlib.contextmanager
    def slot(self, account: str) -> Iterator[None]:
        """Hold one of the process's slots for uploads on its disk."""
        try:
            with self._slots.held(account, _WAIT_SECONDS):
                yield
        except NoSlot:
            text = f"too many concurrent checks of {self._kind}s"
            raise NodeBusy(text, retry_after=5) from None

    def _store(self, environ: dict[str, Any], path: str, headers: dict[str, str]) -> Any:
        """Store the client's body; raises its error, and Swift has stored nothing then."""
        body = _Reader(self._body(environ))
        sent = {**headers, "Transfer-Encoding": "chunked"}
        answer = own_requests.exchange(self._app, environ, "PUT", path, sent, body)
        if body.error is not None:
            raise body.error
        return answer

    def _body(self, environ: dict[str, Any]) -> Iterator[bytes]:
        body, size = ClientBody(environ, self._client_seconds), 0
        for chunk in body:
            size += len(chunk)
            if size > self._most_bytes:
                body.abandon()
                raise self._too_large(
                    f"the {self._kind} is larger than the {self._most_bytes} bytes allowed"
                )
            yield chunk


def read(app: Any, environ: dict[str, Any], path: str, out: BinaryIO) -> Mapping[str, str]:
    """Copy an object to ``out``; its headers."""
    answer = own_requests.send(app, environ, "GET", path, own_requests.NEWEST)
    try:
        if answer.status_int != 200:
            raise BackendFailed(
                f"{unquote(path)[:-1]} cannot be read now: Swift answered {answer.status_int}"
            )
        out.writelines(ObjectBody(answer))
    finally:
        close_if_possible(answer.app_iter)
    out.flush()
    headers: Mapping[str, str] = answer.headers
    return headers


def write(
    app: Any, environ: dict[str, Any], path: str, body: BinaryIO, headers: Mapping[str, str]
) -> Any:
    """Store all of a file; Swift's answer, without its body.

    :raises BadRequest: an object server would refuse the headers.
    """
    put = Request.blank(path, environ={"REQUEST_METHOD": "PUT"}, headers=dict(headers))
    stored_headers.require_storable(put, {})
    size = body.seek(0, 2)
    body.seek(0)
    sent = {**headers, "Content-Length": str(size)}
    return own_requests.exchange(app, environ, "PUT", path, sent, body)


class _Reader:
    """Chunks as ``wsgi.input``; ``error`` is what they raised, and Swift sees a broken body."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""
        self.error: StorletError | None = None

    def read(self, size: int = -1, /) -> bytes:
        """Up to ``size`` bytes; empty at the end only."""
        try:
            while size < 0 or not self._rest:
                chunk = next(self._chunks, b"")
                if not chunk:
                    break
                self._rest += chunk
        except StorletError as error:
            self.error = error
            raise ChunkReadError("the upload broke off") from error
        end = len(self._rest) if size < 0 else size
        piece, self._rest = self._rest[:end], self._rest[end:]
        return piece
