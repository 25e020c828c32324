"""Stores a result: a PUT down the pipeline, in the caller's name, whose body is the result.

The end of the body is withheld until the storlet has succeeded
(:mod:`~storlet_middleware.proxy.withheld_put`).  A failure breaks the body, so that nothing is
stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from swift.common.swob import Request, Response

from storlet_middleware import names
from storlet_middleware.proxy.disclosure import Disclosure
from storlet_middleware.proxy.execution.result import Result
from storlet_middleware.proxy.shared import Proxy
from storlet_middleware.proxy.stored_outputs import StoredOutputs, shown
from storlet_middleware.proxy.withheld_put import PutRefused, WithheldPut, reserve_for
from storlet_middleware.wsgi import stored_headers
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


class Store:
    """Stores the result of one run.

    :param environ: the client's WSGI environment.
    :param target: the object that the result becomes.
    :param reverse: name of the rule whose ``reverse`` applies when the stored object is read; empty
        for none.
    """

    def __init__(
        self,
        proxy: Proxy,
        environ: dict[str, Any],
        request: StorletRequest,
        target: ObjectPath,
        reverse: str,
    ) -> None:
        self._proxy = proxy
        self._environ = environ
        self._request = request
        self._target = target
        self._reverse = reverse

    def put(
        self,
        result: Result,
        chunks: Iterator[bytes],
        outputs: StoredOutputs,
        disclosure: Disclosure,
        source: Any,
    ) -> Response:
        """Store ``result`` and the further ``outputs``; Swift's answer to the PUT of the result.

        :param chunks: the output of the result.
        :param source: headers of Swift's answer for the source of a copy; ``None`` for a PUT.
        :raises StorletError: the storlet failed, or its metadata cannot be stored.
        """
        put = Request(self._put_environ(is_copy=source is not None))
        _set_headers(put, result, disclosure, source)
        if self._reverse:
            put.headers[names.REVERSE_SYSMETA] = self._reverse
        stored_headers.require_storable(put, result.metadata)
        reserve = reserve_for(
            self._environ,
            self._proxy.app,
            put.environ["PATH_INFO"],
            self._proxy.client_timeout_seconds,
        )
        proxy = self._proxy
        share = proxy.buffers.share(self._request.account)
        withheld = WithheldPut(proxy.app, put, reserve, share, proxy.logger, result.stalled)
        try:
            withheld.feed(chunks)
            withheld.wait_fed()
            answer = outputs.commit(withheld, shown(self._target))
        except PutRefused as refused:
            return refused.answer
        finally:
            withheld.close()
        if answer is None:
            raise AssertionError("the commit has an answer for each PUT")
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


def source_headers(request: StorletRequest, source: Any, disclosure: Disclosure) -> dict[str, str]:
    """The headers of a copy's answer that describe its source.

    :param source: headers of Swift's answer for the source; ``None`` for a PUT.
    """
    path = request.source
    if source is None or path is None:
        return {}
    headers = {
        names.GENERATED_FROM_ACCOUNT: quote(request.account),
        names.GENERATED_FROM: quote(f"{path.container}/{path.name}"),
    }
    modified = source.get("Last-Modified")
    if modified and disclosure.shows_header("Last-Modified"):
        headers[names.GENERATED_FROM_LAST_MODIFIED] = modified
    return headers


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
