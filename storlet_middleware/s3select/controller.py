"""``SelectObjectContent``: a GET of the object, in the caller's name, that runs ``std:s3-select``.

Of Parquet it runs ``std:s3-select-parquet``, which reads parts of the object.

The GET has the pipeline of the client's own ones, so its authorization and its rules are those of
GetObject.  The client's signature covers the operation and the object.  It need not cover the
query: a caller that may select may read all of the object, and the query reaches nothing else.
Headers of this package beside the query are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from swift.common.middleware.s3api.acl_handlers import ObjectAclHandler
from swift.common.middleware.s3api.controllers.base import Controller, object_operation
from swift.common.middleware.s3api.etree import XMLSyntaxError, fromstring
from swift.common.middleware.s3api.s3request import SigV4Mixin
from swift.common.middleware.s3api.s3response import AccessDenied, HTTPOk, PreconditionFailed
from swift.common.utils import public

from storlet_middleware import names
from storlet_middleware.errors import StorletError
from storlet_middleware.s3select import event_stream, frames, select_xml
from storlet_middleware.s3select.fault_codes import SelectFault, answer_of
from storlet_middleware.wsgi import delegation, s3_errors, s3_request

STORLET: Final = "std:s3-select"
PARQUET_STORLET: Final = "std:s3-select-parquet"
_CONTENT_TYPE: Final = "application/vnd.amazon.eventstream"
#: Bound of a document without its expression, in bytes; real ones have about 2,000.
_MOST_OTHER_BYTES: Final = 16 * 1024
_EXPRESSION: Final = re.compile(rb"(<(?:\w+:)?Expression\s*>)(?:<!\[CDATA\[)?[^<]*(?=</)")


def is_select(request: Any) -> bool:
    """Whether a request of ``s3api`` is for this controller."""
    params = request.params
    return (
        request.method == "POST"
        and "select" in params
        and params.get("select-type") == "2"
        and s3_request.controller_of(request) == s3_request.OBJECT
    )


class SelectController(Controller):
    """Answers ``POST /bucket/key?select&select-type=2``."""

    # Swift requires both from 2.38.1 on.
    acl_handler = ObjectAclHandler
    resource_type = "OBJECT"

    @public  # type: ignore[untyped-decorator]
    @object_operation  # type: ignore[untyped-decorator]
    def POST(self, req: Any) -> Any:  # noqa: N802 - the name of the method
        """The event stream, or an exception of ``s3api``."""
        try:
            return self._answer(req)
        except SelectFault as fault:
            raise answer_of(fault) from fault

    def _answer(self, req: Any) -> Any:
        _require_plain(req)
        select = _request_of(req)
        start, end = select.start, select.end
        if select.last is None:
            answer = self._get(req, select, start, end)
        else:
            answer = self._get_last(req, select, select.last)
        body = SelectBody(answer, wants_progress=select.wants_progress)
        try:
            body.begin()
        except BaseException:
            body.close()
            raise
        return HTTPOk(app_iter=body, content_type=_CONTENT_TYPE)

    def _get_last(self, req: Any, select: select_xml.SelectRequest, last: int) -> Any:
        """The answer of the run over the records that begin in the last bytes of the object.

        :raises SelectFault: the object was replaced: the offset would be one of the former object.
        """
        seen = self._described(req, select)
        try:
            return self._get(req, select, max(seen.length - last, 0), None, seen.etag)
        except PreconditionFailed as error:
            text = "the object was replaced: repeat the request"
            raise SelectFault("InternalError", text) from error

    def _get(
        self,
        req: Any,
        select: select_xml.SelectRequest,
        start: int,
        end: int | None,
        etag: str = "",
    ) -> Any:
        """The answer of the run over the records that begin between two offsets.

        :param etag: of the version that the run must read; empty: any.
        """
        # Only the controllers of Swift's filter and this one can set it.
        req.environ[s3_request.SELECT] = True
        headers = {
            names.RUN_STORLET: PARQUET_STORLET if select.is_parquet else STORLET,
            f"{names.PARAMETER_PREFIX}1": quote(f"request:{select.parameter(start, end)}", safe=""),
        }
        if start and not select.is_parquet:
            # One byte more shows whether a record begins at the first offset.
            headers[names.RANGE] = f"bytes={start - 1}-"
        if etag:
            headers["If-Match"] = f'"{etag}"'
        return req.get_response(self.app, "GET", headers=headers, body=b"")

    def _described(self, req: Any, select: select_xml.SelectRequest) -> _Described:
        """The object before the run.

        :raises SelectFault: its length is not known: a rule makes the data, or it is dynamic.
        """
        head = req.get_response(self.app, "HEAD", body=b"")
        seen = _Described.of(head)
        if seen.length and seen.etag and names.RULE not in head.sw_headers:
            return seen
        # The refusal of a rule is the answer if there is one.
        _close(self._get(req, select, 0, 0))
        raise SelectFault(
            "UnsupportedScanRangeInput",
            "ScanRange: End alone requires an object whose length is known: give Start, too",
        )


class _Described(NamedTuple):
    """An object by its HEAD.

    :param etag: Swift's, without quotes, of which a multipart upload has another one for S3.
    """

    length: int
    etag: str

    @classmethod
    def of(cls, head: Any) -> _Described:
        # Swift's filter gives 0 where the answer has no length.
        etag = str(head.sw_headers.get("Etag") or "").strip('"')
        return cls(int(head.headers.get("Content-Length", 0)), etag)


def _require_plain(req: Any) -> None:
    if not isinstance(req, SigV4Mixin):
        # Swift's version 2 covers no query of this operation.
        raise AccessDenied("SelectObjectContent requires a signature of version 4", "s3_select")
    given = delegation.given_headers(req.environ)
    if given:
        raise SelectFault(
            "InvalidRequestParameter", f"{', '.join(given)}: leave out with SelectObjectContent"
        )
    if "HTTP_RANGE" in req.environ:
        raise SelectFault("UnsupportedRangeHeader", "Range: use ScanRange")
    unknown = sorted({"versionId", "partNumber"} & set(req.params))
    if unknown:
        raise SelectFault("InvalidRequestParameter", f"{unknown[0]}: is not supported")


def _request_of(req: Any) -> select_xml.SelectRequest:
    document = req.xml(select_xml.MOST_BYTES)
    if not document:
        raise SelectFault("EmptyRequestBody", "the request has no body")
    # Swift 2.35 refuses a request without the header there, which this operation does not need.
    if req.environ.get("HTTP_CONTENT_MD5"):
        req.check_md5(document)
    try:
        root = fromstring(_bounded(document))
    except XMLSyntaxError as error:
        raise SelectFault("MalformedXML", "the request is no XML") from error
    return select_xml.parse(root)


def _bounded(document: bytes) -> bytes:
    """The document in UTF-8, whose tree is small.

    The tree is made before the caller is known, and a proxy server has one thread.

    :raises SelectFault: the document has more than an expression and its options.
    """
    try:
        text = document.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SelectFault("MalformedXML", "the request is not UTF-8") from error
    if text.startswith("<?xml"):
        # With another encoding the expression could have elements.
        text = text.partition("?>")[2]
    plain = text.encode()
    if len(_EXPRESSION.sub(rb"\1", plain, count=1)) > _MOST_OTHER_BYTES:
        raise SelectFault("MalformedXML", "the request has more than 16 KiB beside its Expression")
    return plain


class SelectBody:
    """The event stream of one run.  A result that is not complete ends with an error message.

    :param answer: of the GET; it is closed with this.
    """

    def __init__(self, answer: Any, *, wants_progress: bool) -> None:
        self._answer = answer
        self._frames = frames.read(iter(answer.app_iter or [answer.body]))
        self._wants_progress = wants_progress
        self._first: frames.Frame | None = None
        self._returned = 0

    def begin(self) -> None:
        """Wait for the first frame, so that an early failure has a status of its own.

        :raises SelectFault: the query has failed.
        """
        self._first = next(self._frames)

    def __iter__(self) -> Iterator[bytes]:
        try:
            if self._first is not None:
                yield from self._messages(self._first)
            for frame in self._frames:
                yield from self._messages(frame)
        except SelectFault as fault:
            yield event_stream.error(fault.code, str(fault))
        except StorletError as error:
            _, code = s3_errors.status_and_code(error)
            yield event_stream.error(code, str(error))
        finally:
            self.close()

    def _messages(self, frame: frames.Frame) -> Iterator[bytes]:
        if isinstance(frame, frames.Records):
            self._returned += len(frame.data)
            yield event_stream.records(frame.data)
        elif isinstance(frame, frames.Stats):
            # The run may still fail; its end comes first.
            for _ in self._frames:
                pass
            counts = (frame.scanned, frame.processed, self._returned)
            if self._wants_progress:
                yield event_stream.progress(*counts)
            yield event_stream.stats(*counts)
            yield event_stream.end()
        elif self._wants_progress:
            yield event_stream.progress(frame.scanned, frame.processed, self._returned)
        else:
            yield event_stream.keep_alive()

    def close(self) -> None:
        """End the run; idempotent."""
        _close(self._answer)


def _close(answer: Any) -> None:
    close = getattr(answer.app_iter, "close", None)
    if close is not None:
        close()
