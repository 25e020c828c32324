"""One request to the store in the name of a run's caller; it enters at the filter like a client's.

So authorization, the rules of the account, and the guards of segments, links and listings are those
of the caller's own request.  Only paths in the account of the run are possible.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

from swift.common.header_key_dict import HeaderKeyDict
from swift.common.swob import Request, Response
from swift.common.utils import close_if_possible, drain_and_close

from storlet_daemon.protocol.messages import one_line
from storlet_middleware import errors, names
from storlet_middleware.concurrency import Timeout, result_of
from storlet_middleware.errors import BackendFailed, InternalError, StorletError, row_of
from storlet_middleware.services import identity
from storlet_middleware.services.nesting import Nesting
from storlet_middleware.wsgi import dynamic_object, early_refusal, stored_headers
from storlet_middleware.wsgi.bodies import GuardedBody, SourceAnswer, read_bounded
from storlet_middleware.wsgi.context import CONTEXT, RequestContext
from storlet_middleware.wsgi.deferred_put import DeferredPut
from storlet_middleware.wsgi.sent_headers import require_sendable, require_short_line
from storlet_middleware.wsgi.storlet_request import ON_DATA
from storlet_middleware.wsgi.strings import wsgi
from storlet_middleware.wsgi.subrequest import swift_code
from storlet_middleware.wsgi.swift_paths import AccountPath, name_fault

#: More than any error of this filter has.
_ERROR_BYTES: Final = 64 << 10


class StoreRefusal(Exception):
    """The store refused a request of a storlet; the storlet gets the reason.

    :param code: an error code, or one of ``services.*``, which only storlets see.
    :param storlet: of a call whose storlet has failed.
    """

    def __init__(self, code: str, status: int, message: str, storlet: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.storlet = storlet


def limit_refusal(text: str) -> StoreRefusal:
    """The refusal of what exceeds a limit of the run."""
    return StoreRefusal(errors.LIMIT_SERVICES, 422, f"the run exceeds a limit: {text}")


@dataclass(frozen=True)
class StoreAnswer(SourceAnswer):
    """A successful answer; the holder closes it.

    :param environ: of the request.
    """

    environ: dict[str, Any]

    def close(self) -> None:
        close_if_possible(self.app_iter)


class StoreRequests:
    """Sends the requests of one run.

    :param front: this filter, as a WSGI application.
    :param app: the rest of the pipeline, for look-ups of the filter itself.
    :param environ: of the client's request.
    :ivar account_path: the scope of the requests.
    """

    def __init__(
        self,
        front: Callable[..., Iterable[bytes]],
        app: Any,
        environ: Mapping[str, Any],
        account_path: AccountPath,
        nesting: Nesting,
    ) -> None:
        self._front = front
        self._app = app
        self._environ = environ
        self.account_path = account_path
        self._nesting = nesting

    def send(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> StoreAnswer:
        """The answer for ``/container`` or ``/container/object``.

        :raises StoreRefusal: no success.
        :raises BadRequest: HTTP cannot carry ``headers``.
        """
        request = self._request(method, path, headers, query)
        if method == "COPY" and names.RUN_STORLET not in (headers or {}):
            # The PUT of Swift's copy has the headers of this request.
            require_storable(path, request, {})
        return self._sent(request, path)

    def send_data(self, path: str, headers: Mapping[str, str], data: Any) -> StoreAnswer:
        """The answer to a request that runs a storlet on ``data``, a body as ``wsgi.input``.

        The result is stored as ``path``; if that is empty, it is the answer.

        :raises StoreRefusal: no success.
        """
        request = self._request("PUT", path, headers)
        request.headers["Transfer-Encoding"] = "chunked"
        request.environ["wsgi.input"] = data
        if not path:
            request.environ[ON_DATA] = True
        return self._sent(request, path or "data")

    def defer_put(
        self, path: str, headers: Mapping[str, str], metadata: Mapping[str, str]
    ) -> DeferredPut:
        """A PUT of ``/container/object`` that the rules and Swift allow now, to be sent later.

        :param metadata: the part of ``headers`` that the storlet chose, by its keys.
        :raises StoreRefusal: it is not allowed, or Swift would not store an object with its
            headers, which are also those of the client.
        """
        request = self._request("PUT", path)
        request.headers.update({**headers, "Transfer-Encoding": "chunked"})
        require_storable(path, request, metadata)
        deferred = DeferredPut(request.environ)
        self._sent(request, path).close()
        if not deferred.is_decided:
            raise InternalError(f"the PUT of {path} was answered, and not deferred")
        refusal = early_refusal.refusal_of(self._app, deferred.environ)
        if refusal is not None:
            raise _early_refusal_of(refusal, path)
        return deferred

    def _request(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> Request:
        environ = identity.environ_of(self._environ)
        environ["REQUEST_METHOD"] = method
        environ["PATH_INFO"] = wsgi(
            f"/{self.account_path.version}/{self.account_path.account}{path}"
        )
        environ["QUERY_STRING"] = urlencode(query or {})
        require_short_line(quote(f"/{self.account_path.account}{path}"), environ["QUERY_STRING"])
        self._nesting.put(environ)
        request = Request(environ)
        require_sendable(headers or {})
        request.headers.update(headers or {})
        return request

    def _sent(self, request: Request, path: str) -> StoreAnswer:
        # An answer that comes after the run has ended is closed.
        status, given, chunks = result_of(
            self._enter, request, release=lambda got: close_if_possible(got[2])
        )
        answer = StoreAnswer(int(status[:3]), HeaderKeyDict(given), chunks, request.environ)
        if answer.status_int // 100 != 2:
            raise _refusal_of(answer, path)
        return answer

    def _enter(self, request: Request) -> tuple[str, list[tuple[str, str]], Iterable[bytes]]:
        answer: tuple[str, list[tuple[str, str]], Iterable[bytes]]
        answer = request.call_application(self._front)
        return answer

    def body(self, answer: StoreAnswer) -> GuardedBody | ResultBody:
        """The bytes of an object's ``answer``; iteration raises unless they are complete."""
        if names.RAN_ON in answer.headers:
            return ResultBody(answer)
        context: RequestContext | None = answer.environ.get(CONTEXT)
        manifest = answer.headers.get(dynamic_object.MANIFEST)
        find_length = None if manifest is None else lambda: self._listed_bytes(answer, manifest)
        if context is None:
            return GuardedBody(answer, (), (), find_length)
        return GuardedBody(answer, context.refused, context.chain.denied, find_length)

    def _listed_bytes(self, answer: StoreAnswer, manifest: str) -> int:
        account_path = (self.account_path.version, self.account_path.account)
        return dynamic_object.listed_bytes(self._app, answer.environ, account_path, manifest)


class ResultBody:
    """The result of a storlet: its iteration raises the error with which the storlet fails."""

    def __init__(self, answer: StoreAnswer) -> None:
        self._chunks = answer.app_iter

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._chunks
        except StorletError:
            raise
        except (Exception, Timeout) as error:
            raise BackendFailed(f"the result broke off: {error!r}"[:300]) from error

    def abandon(self) -> None:
        """Nothing to do: no other request uses the connection."""

    def close(self) -> None:
        close_if_possible(self._chunks)


def require_storable(path: str, request: Request, metadata: Mapping[str, str]) -> None:
    """Refuse a PUT or POST with headers that an object server would refuse.

    :param metadata: the storlet's part of the headers, by its keys.
    """
    try:
        stored_headers.require_storable(request, metadata)
    except StorletError as error:
        raise StoreRefusal(errors.BAD_REQUEST, 400, f"{path}: {error}") from error


def object_path(text: str) -> str:
    """A storlet's ``/container/object``.

    :raises StoreRefusal: it is none.
    """
    container, _, name = text.removeprefix("/").partition("/")
    wrong = name_fault(container, name) if text.startswith("/") else "want /container/object"
    if wrong:
        raise _malformed(text, wrong)
    return text


def container_path(name: str) -> str:
    """The path of a storlet's container.

    :raises StoreRefusal: it is no name of one.
    """
    wrong = name_fault(name)
    if wrong:
        raise _malformed(name, wrong)
    return f"/{name}"


def _malformed(given: str, wrong: str) -> StoreRefusal:
    return StoreRefusal(errors.BAD_REQUEST, 400, f"{given[:60]!r}: {wrong}")


def _refusal_of(answer: StoreAnswer, path: str) -> StoreRefusal:
    """The refusal with the code and the text of this filter, or of Swift's status."""
    code = answer.headers.get(names.ERROR) or ""
    body = b""
    with contextlib.suppress(StorletError):  # the status says enough
        body = read_bounded(answer.app_iter, _ERROR_BYTES, BackendFailed("a long error"))
    if not code:
        code = swift_code(answer.status_int)
    row = row_of(code)
    # With legacy_status the answer has another one.
    status = answer.status_int if row.statuses else row.status
    text = _text_of(body) or f"Swift answered {answer.status_int}"
    rule = answer.headers.get(names.RULE)
    named = f" (rule {rule})" if rule and rule not in text else ""
    return StoreRefusal(code, status, one_line(f"{path}: {text}{named}"))


def _early_refusal_of(answer: Response, path: str) -> StoreRefusal:
    status = answer.status_int
    drain_and_close(answer)
    if status == 404:
        text = f"{path}: there is no container {path.split('/')[1]}"
        return StoreRefusal(errors.TARGET_NOT_FOUND, status, text)
    return StoreRefusal(swift_code(status), status, f"{path}: Swift answered {answer.status}")


def _text_of(body: bytes) -> str:
    """The message of an error of this filter; Swift's own texts are HTML."""
    try:
        found = json.loads(body)
        return str(found["message"])
    except (KeyError, TypeError, ValueError):
        return ""
