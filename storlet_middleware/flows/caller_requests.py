"""Requests of a flow in the caller's name, through the whole filter.

Each is handled like a request that the caller sends: Swift's authorization, grants and rules apply
to its own path.  It has the caller's identity, as the requests of a storlet have
(:mod:`storlet_middleware.services.identity`), and no other state of the outer request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

from swift.common.swob import Request, WsgiBytesIO
from swift.common.utils import close_if_possible

from storlet_middleware import names
from storlet_middleware.errors import AccessDenied, BackendFailed
from storlet_middleware.services import identity
from storlet_middleware.services.nesting import nesting_of
from storlet_middleware.wsgi.answer import Answer
from storlet_middleware.wsgi.bodies import ClosingIterator, read_bounded
from storlet_middleware.wsgi.sent_headers import require_sendable
from storlet_middleware.wsgi.strings import wsgi

WSGIApp = Callable[..., Any]
#: Bound of the text of a refusal.
_ERROR_BYTES: Final = 64 << 10


class CallerRequests:
    """The requests of one flow.

    :param app: the filter itself.
    :param environ: the client's request.
    :param place: API version and account.
    :param run_id: of the flow; the records of its runs have it as their parent.
    :raises AccessDenied: the request is not one of a caller with rights of its own.
    """

    def __init__(
        self, app: WSGIApp, environ: Mapping[str, Any], place: tuple[str, str], run_id: str = ""
    ) -> None:
        self._app = app
        self._place = place
        refusal = identity.refusal(environ)
        if refusal:
            raise AccessDenied(f"the request cannot read other objects: {refusal}", status=401)
        self._environ = identity.environ_of(environ)
        # Errors are shown as text.
        del self._environ["HTTP_ACCEPT"]
        nesting = nesting_of(environ)
        (nesting.of_flow(run_id) if run_id else nesting).put(self._environ)

    def send(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> Answer:
        """The filter's answer, whose body the caller of this method closes.

        The body raises :class:`~storlet_middleware.errors.BackendFailed` if it is shorter than its
        ``Content-Length``: no server to the left of the filter notices that.

        :param path: a container, or container/object, as text.
        :param headers: values as text.
        :raises BadRequest: HTTP cannot carry them.
        """
        environ = dict(self._environ)
        environ["REQUEST_METHOD"] = method
        environ["PATH_INFO"] = wsgi("/".join(("", *self._place, path)))
        environ["QUERY_STRING"] = urlencode(query or {}, quote_via=quote)
        environ["wsgi.input"] = WsgiBytesIO()
        given = {name: wsgi(value) for name, value in (headers or {}).items()}
        require_sendable(given)
        for name, value in given.items():
            environ[names.environ_key(name)] = value
        status, answered, chunks = Request(environ).call_application(self._app)
        answer = Answer(status, answered, chunks)
        length = answer.header("content-length")
        if method == "HEAD" or not length:
            return answer
        whole = _whole(chunks, int(length))
        return Answer(status, answered, ClosingIterator(whole, lambda: close_if_possible(chunks)))

    def head(self, path: str) -> Answer:
        """The filter's answer to a HEAD of container/object, whose body has been read."""
        answer = self.send("HEAD", path)
        read_bounded(answer.chunks, _ERROR_BYTES, BackendFailed("a HEAD has a long answer"))
        return answer


def _whole(chunks: Iterable[bytes], length: int) -> Iterator[bytes]:
    size = 0
    for chunk in chunks:
        size += len(chunk)
        yield chunk
    if size < length:
        raise BackendFailed(f"Swift's answer broke off after {size} of {length} bytes")
