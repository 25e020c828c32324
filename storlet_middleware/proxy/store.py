"""Stores a result: a PUT down the pipeline, in the caller's name, whose body is the result.

Swift commits the object at the end of the body, and the body ends only after the storlet has
succeeded.  A failure breaks the body, so that nothing is stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from swift.common.exceptions import ChunkReadError, ChunkReadTimeout
from swift.common.swob import Request, Response
from swift.common.utils import close_if_possible, drain_and_close

from storlet_middleware import names
from storlet_middleware.errors import InternalError, StorletError
from storlet_middleware.proxy import stored_headers
from storlet_middleware.proxy.disclosure import Disclosure
from storlet_middleware.proxy.result import Result
from storlet_middleware.wsgi.storlet_request import ObjectPath, StorletRequest
from storlet_middleware.wsgi.subrequest import client_environ, path_info

#: Headers of the client's request that describe the client's body or a copy.
_NOT_OF_RESULT = (
    "CONTENT_LENGTH",
    "HTTP_ETAG",
    "HTTP_X_COPY_FROM",
    "HTTP_DESTINATION",
    "HTTP_EXPECT",
)


class OutputBroken(ChunkReadError):
    """Raised into a PUT whose storlet failed: Swift sees a broken body and commits nothing."""


class Store:
    """Stores the result of one run.

    :param app: the rest of the pipeline.
    :param environ: the client's WSGI environment.
    :param target: the object that the result becomes.
    :param reverse: name of the rule whose ``reverse`` applies when the stored object is read; empty
        for none.
    """

    def __init__(
        self,
        app: Any,
        environ: dict[str, Any],
        request: StorletRequest,
        target: ObjectPath,
        reverse: str,
    ) -> None:
        self._app = app
        self._environ = environ
        self._request = request
        self._target = target
        self._reverse = reverse

    def put(self, result: Result, disclosure: Disclosure, source: Any) -> Response:
        """Store ``result``; Swift's answer.

        :param source: headers of Swift's answer for the source of a copy; ``None`` for a PUT.
        :raises StorletError: the storlet failed, or its metadata cannot be stored.
        """
        put = Request(self._put_environ(is_copy=source is not None))
        _set_headers(put, result, disclosure, source)
        if self._reverse:
            put.headers[names.REVERSE_SYSMETA] = self._reverse
        stored_headers.require_storable(put, result.metadata)
        body = _OutputBody(result)
        put.environ["wsgi.input"] = body
        try:
            answer = put.get_response(self._app)
        finally:
            body.close()
        if body.error is not None:
            drain_and_close(answer)
            raise body.error
        if answer.status_int // 100 == 2 and not body.is_complete:
            drain_and_close(answer)
            raise InternalError("Swift committed before the storlet's output had ended")
        return answer

    def _put_environ(self, *, is_copy: bool) -> dict[str, Any]:
        put = client_environ(self._environ)
        put["REQUEST_METHOD"] = "PUT"
        put["PATH_INFO"] = path_info(self._request, self._target)
        put["QUERY_STRING"] = ""
        put["swift.source"] = names.SWIFT_SOURCE
        put["HTTP_TRANSFER_ENCODING"] = "chunked"
        for key in _NOT_OF_RESULT:
            put.pop(key, None)
        # The conditions of a copy are the source's.
        dropped = ("HTTP_X_OBJECT_META_STORLET_", *(("HTTP_IF_",) if is_copy else ()))
        for key in [key for key in put if key.startswith(dropped)]:
            del put[key]
        return put


def _set_headers(put: Request, result: Result, disclosure: Disclosure, source: Any) -> None:
    """The client's headers override the source's, and the storlet's metadata overrides both."""
    if source is not None:
        own = {
            key.lower()
            for key, value in put.headers.items()
            if value or key.lower() != "content-type"
        }
        inherited = disclosure.inherited_metadata(source)
        put.headers.update(
            {key: value for key, value in inherited.items() if key.lower() not in own}
        )
        if "content-type" not in own:
            put.headers["Content-Type"] = disclosure.content_type(source, "")
    stored_headers.set_metadata(put.headers, result.metadata)


class _OutputBody:
    """A result as the body of a PUT (``wsgi.input``)."""

    def __init__(self, result: Result) -> None:
        self._result = result
        self._chunks: Iterator[bytes] = result.chunks()
        self._rest = b""
        self.is_complete = False
        self.error: StorletError | None = None

    def read(self, size: int = -1) -> bytes:
        """Up to ``size`` bytes; raises :class:`OutputBroken` when the storlet failed."""
        if self.error is not None:
            raise OutputBroken("the storlet failed")
        while (size < 0 or not self._rest) and not self.is_complete:
            chunk = self._next()
            self.is_complete = chunk is None
            self._rest += chunk or b""
        if size < 0 or size >= len(self._rest):
            piece, self._rest = self._rest, b""
        else:
            piece, self._rest = self._rest[:size], self._rest[size:]
        return piece

    def _next(self) -> bytes | None:
        try:
            return next(self._chunks, None)
        except StorletError as error:
            self.error = error
            raise OutputBroken("the storlet failed") from error
        except ChunkReadTimeout as timeout:
            # Swift applies its client timeout to the data of this PUT, too.
            self.error = self._result.stalled(f"no output for {timeout}")
            raise

    def close(self) -> None:
        close_if_possible(self._chunks)
