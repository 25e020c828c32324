"""The inputs of a run, as the caller can read them from Swift.

Each read is a GET down the rest of the pipeline with the caller's environment, so that Swift's
authorization, the grants of this run and the rules apply to it.  Conditions (``If-*``) and the
query of the request belong to the source; extra resources are read without them.  An answer without
data is Swift's refusal; :class:`~.disclosure.Disclosure` decides whether the client gets all of it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from swift.common.header_key_dict import HeaderKeyDict
from swift.common.swob import HTTPLengthRequired, Range, Request, Response, WsgiBytesIO
from swift.common.utils import close_if_possible, drain_and_close

from storlet_middleware import errors, names
from storlet_middleware.concurrency import GreenTask, end, result_of, spawn
from storlet_middleware.engine.task import SeekableInput, StreamInput
from storlet_middleware.errors import (
    AccessDenied,
    BackendFailed,
    BadRequest,
    InternalError,
    PreconditionFailed,
    RangeUnsatisfiable,
    StorletError,
)
from storlet_middleware.proxy.disclosure import Disclosure
from storlet_middleware.proxy.ranged_source import FIRST, RangedSource
from storlet_middleware.proxy.shared import Proxy
from storlet_middleware.wsgi import authorization, dynamic_object, gate
from storlet_middleware.wsgi.bodies import ClientBody, GuardedBody, SourceAnswer
from storlet_middleware.wsgi.byte_ranges import ByteRange
from storlet_middleware.wsgi.caller import user_of
from storlet_middleware.wsgi.context import AuthorizationChain, RequestContext, swift_authorize
from storlet_middleware.wsgi.grants import GrantedReads, Reader
from storlet_middleware.wsgi.storlet_request import SWIFT_QUERIES, ObjectPath, StorletRequest
from storlet_middleware.wsgi.subrequest import SwiftRefusal, client_environ, path_info
from storlet_middleware.wsgi.swift_paths import object_path
from storlet_middleware.wsgi.user_metadata import storlet_metadata

#: Headers of the client's request that select a part of the answer.
_RANGES: Final = ("HTTP_RANGE", "HTTP_IF_RANGE")


@dataclass(frozen=True)
class _Read:
    """An object to read, or a part of it; ``etag`` is the one that it must have, or empty."""

    path: ObjectPath
    span: ByteRange | None = None
    etag: str = ""


_Get = Callable[[_Read], SourceAnswer | Exception]


class Source:
    """Reads the inputs of one run.

    :param storlets: names of the storlets that the bytes pass before a client's own choice: a grant
        for any of them allows a read.
    :param used_grants: receives an item when a grant allowed a read.
    :param timestamp: ``X-Timestamp`` of the object that the rules were evaluated for ("": there was
        none); an object with another one is refused.  ``None``: no rule was evaluated for the
        object itself.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - the parts of one run, put together in one place
        self,
        proxy: Proxy,
        context: RequestContext,
        request: StorletRequest,
        storlets: list[str],
        disclosure: Disclosure,
        used_grants: list[bool],
        timestamp: str | None,
    ) -> None:
        self._proxy = proxy
        self._context = context
        self._environ = context.environ
        self._request = request
        self._storlets = storlets
        self._disclosure = disclosure
        self._used_grants = used_grants
        self._timestamp = timestamp
        #: Swift's answer for the source, if it has data.
        self.answer: SourceAnswer | None = None
        #: The ETag of each extra resource, if all were read and all have one.
        self.resource_etags: tuple[str, ...] = ()

    @property
    def path(self) -> ObjectPath:
        if self._request.source is None:
            raise InternalError("the request has no source")
        return self._request.source

    @property
    def headers(self) -> Any:
        """Headers of Swift's answer for the source; of type ``HeaderKeyDict``."""
        if self.answer is None:
            raise InternalError("the source was not read")
        return self.answer.headers

    @property
    def etag(self) -> str:
        """The ETag of the source as Swift showed it; empty if it was not read, or is unknown."""
        if self.answer is None:
            return ""
        headers = self.answer.headers
        is_framed = names.BACKEND_RUN in headers
        return _etag(headers, names.BACKEND_SOURCE_ETAG if is_framed else "Etag")

    def close(self) -> None:
        """Release the answer if no result owns it."""
        if self.answer is not None:
            close_if_possible(self.answer.app_iter)

    def require_allowed(self) -> None:
        """Raise Swift's refusal of a caller that may not read the source, before it is read.

        Every caller may run the library, so without this check a caller without any rights could
        wait for slots of the account.
        """
        request = self._request
        path = object_path(request.version, request.account, self.path.container, self.path.name)
        refusal = authorization.authorize(self._environ, self._proxy.app, "GET", path).refusal
        if refusal is None:
            return
        asked = Request(self._get_environ(self.path))
        authorize = asked.environ.get("swift.authorize")
        grants = authorize.grants if isinstance(authorize, AuthorizationChain) else ()
        swift = swift_authorize(self._environ)
        if swift is None or not any(grant.allows(asked, swift) for grant in grants):
            raise SwiftRefusal(refusal)

    # --- inputs -----------------------------------------------------------------------------------

    def inputs(self) -> tuple[list[StreamInput], tuple[int, int, int] | None]:
        """The source, or each of its ranges, and the extra resources, fetched concurrently; and the
        span of a single range.

        A plain answer that an object node gave instead of a result is used as it is.
        """
        wanted: list[_Read] = []
        if self.answer is None:
            spans: tuple[ByteRange | None, ...] = self._request.ranges or (None,)
            wanted += [_Read(self.path, span) for span in spans]
        answers = self._fetch(wanted + _extra_reads(self._request))
        self._keep_etags(answers[len(wanted) :])
        if self.answer is not None:
            answers.insert(0, self.answer)
        self.answer = answers[0]
        span = _span_of(answers[0]) if len(self._request.ranges) == 1 else None
        return [self._input(answer) for answer in answers], span

    def seekable_inputs(self) -> list[SeekableInput]:
        """The source and the extra resources, each read by ranges of one version."""
        wanted = [_Read(self.path), *_extra_reads(self._request)]
        answers = self._fetch([replace(read, span=FIRST) for read in wanted], self._try_get_first)
        self._keep_etags(answers[1:])
        # Each answer is read and closed here.
        self.answer = replace(answers[0], app_iter=())
        with contextlib.ExitStack() as opened:
            for answer in answers:
                opened.callback(close_if_possible, answer.app_iter)
            return [
                SeekableInput(
                    RangedSource(self, read.path, answer), storlet_metadata(answer.headers)
                )
                for read, answer in zip(wanted, answers, strict=True)
            ]

    def inputs_of_put(self) -> list[StreamInput]:
        """The client's body, and the extra resources."""
        _require_length(self._environ)
        metadata = storlet_metadata(Request(self._environ).headers)
        body = ClientBody(self._environ, self._proxy.client_timeout_seconds)
        extra = self._fetch(_extra_reads(self._request))
        self._keep_etags(extra)
        return [StreamInput(body, metadata, drains=True), *map(self._input, extra)]

    def _keep_etags(self, answers: list[SourceAnswer]) -> None:
        etags = tuple(_etag(answer.headers) for answer in answers)
        self.resource_etags = etags if all(etags) else ()

    def _input(self, answer: SourceAnswer) -> StreamInput:
        return StreamInput(self.body(answer), storlet_metadata(answer.headers))

    def body(self, answer: SourceAnswer) -> GuardedBody:
        """The bytes of an answer; iteration raises unless they are complete."""
        manifest = answer.headers.get(dynamic_object.MANIFEST)
        find_length = None if manifest is None else lambda: self._listed_bytes(manifest)
        context = self._context
        return GuardedBody(answer, context.refused, context.chain.denied, find_length)

    def _listed_bytes(self, manifest: str) -> int:
        place = (self._request.version, self._request.account)
        return dynamic_object.listed_bytes(self._proxy.app, self._environ, place, manifest)

    # --- reads ------------------------------------------------------------------------------------

    def _fetch(self, wanted: list[_Read], get: _Get | None = None) -> list[SourceAnswer]:
        """Answers with data for all of ``wanted``, in their order; raises the first fault, and
        leaves nothing open.
        """
        get = get or self._try_get
        # A single read needs no green thread of its own.
        outcomes = [get(wanted[0])] if len(wanted) == 1 else self._try_all(get, wanted)
        faults = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
        answers = [outcome for outcome in outcomes if not isinstance(outcome, Exception)]
        if not faults:
            return answers
        for answer in answers:
            close_if_possible(answer.app_iter)
        # A refusal by a rule takes precedence over Swift's answer.
        raise (self._context.refused or faults)[0]

    def _try_all(self, get: _Get, wanted: list[_Read]) -> list[SourceAnswer | Exception]:
        """The outcome of each, among few of the account at a time (:attr:`Proxy.openings`)."""

        def in_turn(read: _Read) -> SourceAnswer | Exception:
            with self._proxy.openings.held(self._request.account):
                return get(read)

        tasks = [spawn(in_turn, read) for read in wanted]
        try:
            return [task.wait() for task in tasks]
        except BaseException:
            for task in tasks:
                _cancel(task)
            raise

    def _try_get_first(self, read: _Read) -> SourceAnswer | Exception:
        """:meth:`_try_get`; all of an object that has no byte in the range: it is empty."""
        outcome = self._try_get(read)
        is_empty = isinstance(outcome, RangeUnsatisfiable)
        return self._try_get(replace(read, span=None)) if is_empty else outcome

    def _try_get(self, read: _Read) -> SourceAnswer | Exception:
        """The answer, or the exception: eventlet prints exceptions that a green thread raises."""
        path, span = read.path, read.span
        try:
            headers = {} if span is None else {"Range": str(_range_header(span))}
            answer = self.get(path, headers)
            if span is not None and answer.status_int != 206:
                close_if_possible(answer.app_iter)
                raise _unsatisfiable(path)  # noqa: TRY301 - an outcome like the others
            _require_etag(read, answer, has_grant=bool(self._used_grants))
        except Exception as error:  # noqa: BLE001
            if (
                isinstance(error, SwiftRefusal)
                and path in self._request.extra
                and path != self._request.source
            ):
                return _extra_refused(path, error.answer)
            return error
        return answer

    def get_in_turn(self, path: ObjectPath, headers: dict[str, str]) -> SourceAnswer:
        """:meth:`get`, among few of the account at a time (:attr:`Proxy.openings`)."""
        with self._proxy.openings.held(self._request.account):
            return self.get(path, headers)

    def get(self, path: ObjectPath, headers: dict[str, str]) -> SourceAnswer:
        """Swift's answer to the caller's GET of ``path``.

        :raises RangeUnsatisfiable: no byte is in the range.
        :raises SwiftRefusal: Swift answered without data.
        :raises BackendFailed: the object is not the one that the rules were evaluated for.
        """
        request = Request(self._get_environ(path))
        request.headers.update(headers)
        # Of extra resources, no storlet and no caller gets headers; their reads are checked.
        rules = self._context.chain.rules if path == self._request.source else None
        given = result_of(
            gate.ask,
            self._proxy.app,
            request.environ,
            rules,
            release=lambda answer: close_if_possible(answer.chunks),
        )
        chunks = given.chunks
        answer = SourceAnswer(int(given.status[:3]), HeaderKeyDict(given.headers), chunks)
        operation = self._context.operation
        if self._used_grants and operation is not None and operation.conditions:
            close_if_possible(chunks)
            raise AccessDenied(
                "a grant does not cover conditions (If-*), which would confirm a guess of the"
                " object's hash: retry without them"
            )
        if answer.status_int == 416:
            close_if_possible(chunks)
            raise _unsatisfiable(path)
        if answer.status_int not in (200, 206):
            raise SwiftRefusal(self._refusal(request, given.status, answer))
        # A link that is read as such has no bytes, and the rules were evaluated for its target.
        is_link = "X-Symlink-Target" in answer.headers
        is_checked = path == self._request.source and self._timestamp is not None and not is_link
        if is_checked and answer.headers.get("X-Timestamp", "") != self._timestamp:
            close_if_possible(chunks)
            raise BackendFailed(
                "the object changed while its rules were being evaluated; retry", retry_after=1
            )
        return answer

    def _get_environ(self, path: ObjectPath) -> dict[str, Any]:
        environ = client_environ(self._environ)
        environ["REQUEST_METHOD"] = "GET"
        environ["PATH_INFO"] = path_info(self._request, path)
        environ["swift.source"] = names.SWIFT_SOURCE
        environ["wsgi.input"] = WsgiBytesIO()
        # Storlets of a rule work on the whole object; a server may answer a Range with all of the
        # result (RFC 9110, 14.2).
        for key in _RANGES:
            environ.pop(key, None)
        if path != self._request.source:
            environ["QUERY_STRING"] = ""
            for key in [key for key in environ if key.startswith("HTTP_IF_")]:
                del environ[key]
        chain = self._context.chain
        if chain.swift is not None and not self._reads_stored_form():
            user, account = user_of(self._environ), self._request.account
            grants = [
                GrantedReads(Reader(user, account, storlet), self._proxy.app, self._used_grants)
                for storlet in self._storlets
            ]
            chain = chain.with_grants(*grants)
            environ["swift.authorize"] = chain
        return environ

    def _reads_stored_form(self) -> bool:
        """Whether the client's query selects a manifest, link, part or version: no grant covers
        these.
        """
        operation = self._context.operation
        return operation is not None and not SWIFT_QUERIES.isdisjoint(operation.query)

    def _refusal(self, request: Request, status: str, answer: SourceAnswer) -> Response:
        refusal = Response(
            status=status, headers=answer.headers, app_iter=answer.app_iter, request=request
        )
        if not self._disclosure.hides_source_answer(answer.status_int):
            return refusal
        drain_and_close(refusal)
        return Response(status=answer.status_int, request=Request(self._environ))


def _extra_reads(request: StorletRequest) -> list[_Read]:
    """The reads of the extra resources, with the ETags that the client requires of them."""
    etags = request.if_resources or ("",) * len(request.extra)
    return [_Read(path, None, etag) for path, etag in zip(request.extra, etags, strict=True)]


def _require_etag(read: _Read, answer: SourceAnswer, *, has_grant: bool) -> None:
    """Refuse an extra resource with another ETag than the client requires."""
    if not read.etag:
        return
    if has_grant:
        close_if_possible(answer.app_iter)
        raise AccessDenied(
            f"a grant does not cover {names.IF_RESOURCES}, which would confirm a guess of an"
            " object's hash: retry without it"
        )
    if _etag(answer.headers) != read.etag:
        close_if_possible(answer.app_iter)
        path = read.path
        raise PreconditionFailed(
            f"{names.IF_RESOURCES}: {path.container}/{path.name} has another ETag"
        )


def _etag(headers: Any, name: str = "Etag") -> str:
    return (headers.get(name) or "").strip('"')


def _require_length(environ: dict[str, Any]) -> None:
    """Refuse a body without a known end, as Swift does; eventlet would present it as empty."""
    request = Request(environ)
    try:
        length = request.message_length()
    except (
        AttributeError,
        ValueError,
    ) as error:  # swob raises these for an unknown transfer encoding
        raise BadRequest(str(error)) from None
    if length is None and "HTTP_TRANSFER_ENCODING" not in environ:
        raise HTTPLengthRequired(request=request)


def _range_header(span: ByteRange) -> Range:
    first, last = span
    return Range(f"bytes={'' if first is None else first}-{'' if last is None else last}")


def _span_of(answer: SourceAnswer) -> tuple[int, int, int] | None:
    """First byte, last byte and size from ``Content-Range: bytes a-b/size``."""
    try:
        span, size = answer.headers["Content-Range"].removeprefix("bytes ").split("/")
        first, last = span.split("-")
        return int(first), int(last), int(size)
    except (KeyError, ValueError):
        return None


def _cancel(task: GreenTask) -> None:
    """End ``task``, which opens an answer, and close the answer if there is one."""
    end(task)
    with contextlib.suppress(BaseException):
        outcome = task.wait()
        if not isinstance(outcome, BaseException):
            close_if_possible(outcome.app_iter)


def _unsatisfiable(path: ObjectPath) -> RangeUnsatisfiable:
    return RangeUnsatisfiable(f"no byte of {path.container}/{path.name} is in the range")


def _extra_refused(path: ObjectPath, answer: Any) -> StorletError:
    close_if_possible(answer.app_iter)
    text = f"extra resource /{path.container}/{path.name}: {answer.status}"
    if answer.status_int in (401, 403):
        return AccessDenied(text, status=answer.status_int)
    if answer.status_int == 404:
        return StorletError(text, code=errors.INPUT_NOT_FOUND)
    return StorletError(text, code=errors.BACKEND_FAILED)
