"""The inputs of a run: the source, or the client's body, and the extra resources.

Objects are read as the caller can read them (:mod:`~.caller_reads`), all of a run concurrently.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from swift.common.swob import HTTPLengthRequired, Range, Request
from swift.common.utils import close_if_possible

from storlet_middleware import errors, names
from storlet_middleware.backend import framed_etag
from storlet_middleware.concurrency import GreenTask, end, spawn
from storlet_middleware.engine.task import SeekableInput, StreamInput
from storlet_middleware.errors import (
    AccessDenied,
    BadRequest,
    InternalError,
    PreconditionFailed,
    RangeUnsatisfiable,
    StorletError,
)
from storlet_middleware.proxy.caller_reads import CallerReads, unsatisfiable
from storlet_middleware.proxy.ranged_source import FIRST, RangedSource
from storlet_middleware.proxy.shared import Proxy
from storlet_middleware.wsgi.bodies import ClientBody, SourceAnswer
from storlet_middleware.wsgi.byte_ranges import ByteRange
from storlet_middleware.wsgi.context import RequestContext
from storlet_middleware.wsgi.storlet_request import ObjectPath, StorletRequest
from storlet_middleware.wsgi.subrequest import SwiftRefusal
from storlet_middleware.wsgi.user_metadata import storlet_metadata


@dataclass(frozen=True)
class _Read:
    """An object to read, or a part of it; ``etag`` is the one that it must have, or empty."""

    path: ObjectPath
    span: ByteRange | None = None
    etag: str = ""


_Get = Callable[[_Read], SourceAnswer | Exception]


class Source:
    """The inputs of one run."""

    def __init__(
        self, proxy: Proxy, context: RequestContext, request: StorletRequest, reads: CallerReads
    ) -> None:
        self._proxy = proxy
        self._context = context
        self._environ = context.environ
        self._request = request
        self.reads = reads
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
        if names.BACKEND_RUN in headers:
            return framed_etag.read(headers.get("Etag", "")).source
        return _etag(headers)

    def close(self) -> None:
        """Release the answer if no result owns it."""
        if self.answer is not None:
            close_if_possible(self.answer.app_iter)

    # --- inputs -----------------------------------------------------------------------------------

    def inputs(self) -> tuple[list[StreamInput], tuple[int, int, int] | None]:
        """The source, or each of its ranges, and the extra resources, fetched concurrently; and the
        span of a single range.

        A plain answer that an object node gave instead of a result is used as it is.
        """
        request, path = self._request, self.path
        wanted: list[_Read] = []
        if self.answer is None and request.ranges:
            wanted = [_Read(path, span) for span in request.ranges]
        elif self.answer is None:
            wanted = [_Read(path)]
        if request.extra:
            answers = self._fetch(wanted + _extra_reads(request))
            self._keep_etags(answers[len(wanted) :])
        else:
            answers = self._fetch(wanted)
        if self.answer is not None:
            answers.insert(0, self.answer)
        self.answer = answers[0]
        span = _span_of(answers[0]) if len(request.ranges) == 1 else None
        return list(map(self._input, answers)), span

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
                    RangedSource(self.reads, read.path, answer), storlet_metadata(answer.headers)
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
        return StreamInput(self.reads.body(answer), storlet_metadata(answer.headers))

    # --- reads ------------------------------------------------------------------------------------

    def _fetch(self, wanted: list[_Read], get: _Get | None = None) -> list[SourceAnswer]:
        """Answers with data for all of ``wanted``, in their order; raises the first fault, and
        leaves nothing open.
        """
        get = get or self._try_get
        # A single read needs no green thread of its own.
        outcomes = [get(wanted[0])] if len(wanted) == 1 else self._try_all(get, wanted)
        answers: list[SourceAnswer] = []
        faults: list[Exception] = []
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                faults.append(outcome)
            else:
                answers.append(outcome)
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
            answer = self.reads.get(path, headers)
            if span is not None and answer.status_int != 206:
                close_if_possible(answer.app_iter)
                raise unsatisfiable(path)  # noqa: TRY301 - an outcome like the others
            if read.etag:
                _require_etag(read, answer, has_grant=self.reads.used_grant)
        except Exception as error:  # noqa: BLE001
            if (
                isinstance(error, SwiftRefusal)
                and path in self._request.extra
                and path != self._request.source
            ):
                return _extra_refused(path, error.answer)
            return error
        return answer


def _extra_reads(request: StorletRequest) -> list[_Read]:
    """The reads of the extra resources, with the ETags that the client requires of them."""
    etags = request.if_resources or ("",) * len(request.extra)
    return [_Read(path, None, etag) for path, etag in zip(request.extra, etags, strict=True)]


def _require_etag(read: _Read, answer: SourceAnswer, *, has_grant: bool) -> None:
    """Refuse an extra resource with another ETag than the client requires."""
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


def _etag(headers: Any) -> str:
    return (headers.get("Etag") or "").strip('"')


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


def _extra_refused(path: ObjectPath, answer: Any) -> StorletError:
    close_if_possible(answer.app_iter)
    text = f"extra resource /{path.container}/{path.name}: {answer.status}"
    if answer.status_int in (401, 403):
        return AccessDenied(text, status=answer.status_int)
    if answer.status_int == 404:
        return StorletError(text, code=errors.INPUT_NOT_FOUND)
    return StorletError(text, code=errors.BACKEND_FAILED)
