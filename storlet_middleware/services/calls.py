"""Calls: a storlet runs another one on an object, in the caller's name.

A call is a GET with ``X-Run-Storlet``, or with an output a COPY, which enters at the filter like a
client's request.  So its authorization, its rules, its limits, its placement (at the data) and its
record are those of a client's request.  A call on data is a PUT, whose result is stored, or without
an output is the answer.  The called storlet's run is an inner one
(:mod:`~storlet_middleware.services.nesting`): it ends with the run of its caller.

The result is a stream with an end mark, like an object that is read.  A called storlet that fails
before its first byte fails the call, and one that fails later fails the stream.  The caller's
storlet gets the code and the text that the caller would get.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

from storlet_daemon.protocol.messages import CallStorlet, Facts, Span, one_line
from storlet_middleware import errors, names
from storlet_middleware.errors import BackendFailed, StorletError
from storlet_middleware.services.call_input import CallInput
from storlet_middleware.services.changes import writable_path
from storlet_middleware.services.facts import etag_of, facts_of
from storlet_middleware.services.requests import (
    ResultBody,
    StoreAnswer,
    StoreRefusal,
    StoreRequests,
    object_path,
)
from storlet_middleware.wsgi.bodies import read_bounded
from storlet_middleware.wsgi.storlet_request import run_headers
from storlet_middleware.wsgi.strings import wsgi

#: The body of an answer to a COPY is a short text.
_ANSWER_BYTES: Final = 64 << 10
#: Characters of a storlet's name in an error.
_SHOWN: Final = 100


class Calls:
    """Performs the calls of one run.

    :param reserved: the containers that no storlet may write.
    """

    def __init__(self, requests: StoreRequests, reserved: frozenset[str]) -> None:
        self._requests = requests
        self._reserved = reserved

    def run(self, request: CallStorlet, data: CallInput | None = None) -> StoreAnswer:
        """The answer with the result of the called storlet.

        :param data: its input, instead of an object.
        :raises StoreRefusal: the call was refused, or the storlet has failed.
        """
        headers = _headers_of(request)
        with _failures(request.storlet, data):
            if data is not None:
                return self._requests.send_data("", headers, data)
            return self._requests.send("GET", object_path(request.path or ""), headers)

    def store(self, request: CallStorlet, output: str, data: CallInput | None = None) -> Facts:
        """Store the result as the object ``output``; the facts about it that the caller may see.

        :param data: the input of the storlet, instead of an object.
        :raises StoreRefusal: the call was refused, or the storlet has failed.
        """
        headers, target = _headers_of(request), writable_path(output, self._reserved)
        with _failures(request.storlet, data):
            if data is not None:
                answer = self._requests.send_data(target, headers, data)
            else:
                headers["Destination"] = quote(target)
                answer = self._requests.send("COPY", object_path(request.path or ""), headers)
        read_bounded(answer.app_iter, _ANSWER_BYTES, BackendFailed("a long answer"))
        etag = etag_of(answer)
        # A caller that may not read the object knows its ETag only.
        with contextlib.suppress(StoreRefusal):
            found = self._requests.send("HEAD", target)
            found.close()
            if etag_of(found) == etag:
                return facts_of(found)
        return Facts(etag=etag or None)


class CalledResult(ResultBody):
    """The result of a called storlet; its iteration raises :class:`StoreRefusal` if it fails.

    :param data: the storlet's input, which the result owns.
    """

    def __init__(self, answer: StoreAnswer, storlet: str, data: CallInput | None = None) -> None:
        super().__init__(answer)
        self._storlet = storlet
        self._data = data

    def __iter__(self) -> Iterator[bytes]:
        with _failures(self._storlet, self._data):
            yield from super().__iter__()

    def close(self) -> None:
        try:
            super().close()
        finally:
            if self._data is not None:
                self._data.close()


@contextlib.contextmanager
def _failures(storlet: str, data: CallInput | None) -> Iterator[None]:
    """Name the called storlet in what is raised, and mark its own failures."""
    try:
        yield
    except (StoreRefusal, StorletError) as error:
        if data is not None and data.refusal is not None:
            raise data.refusal from error
        raise _refusal(storlet, error.code, error.status, str(error)) from error


def _refusal(storlet: str, code: str, status: int, text: str) -> StoreRefusal:
    is_of_storlet = code.startswith("storlet.") and code != errors.STORLET_NOT_FOUND
    shown = storlet if len(storlet) <= _SHOWN else storlet[:_SHOWN] + "..."
    message = one_line(f"call of {shown}: {text}")
    return StoreRefusal(code, status, message, storlet if is_of_storlet else "")


def _headers_of(request: CallStorlet) -> dict[str, str]:
    """The headers of a client that runs the storlet; the filter checks them.

    :raises StoreRefusal: the storlet can run for no object.
    """
    name = request.storlet
    if name.strip() == names.DISTRIBUTED:
        text = f"{name}: no storlet can call it: list the objects, and call a storlet on each"
        raise StoreRefusal(errors.BAD_REQUEST, 400, text)
    headers = run_headers(wsgi(name), request.parameters)
    if request.ranges and request.path is None:
        text = "ranges: data that a storlet sends has none: leave them out"
        raise StoreRefusal(errors.BAD_REQUEST, 400, text)
    if request.ranges:
        headers[names.RANGE] = "bytes=" + ",".join(map(_span, request.ranges))
    return headers


def _span(span: Span) -> str:
    return f"{span.start}-{'' if span.end is None else span.end}"
