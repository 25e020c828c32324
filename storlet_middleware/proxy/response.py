"""The answer to a GET: the result's headers and its stream of bytes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, Final

from swift.common.header_key_dict import HeaderKeyDict

from storlet_middleware import errors, names
from storlet_middleware.errors import StorletError
from storlet_middleware.proxy.disclosure import Disclosure
from storlet_middleware.proxy.ending import SUCCESS, Ending
from storlet_middleware.proxy.execution.result import Result
from storlet_middleware.proxy.plan import UNKNOWN_TYPE
from storlet_middleware.wsgi import s3_request, stored_headers
from storlet_middleware.wsgi.answer import Answer
from storlet_middleware.wsgi.bodies import ClosingIterator
from storlet_middleware.wsgi.disconnect import ClientGone, ClientWatch, break_connection

#: Called at the end of the body.
OnEnd = Callable[[Ending], None]

_GONE: Final = Ending(errors.CLIENT_GONE, "the client closed its connection")


def answer_of(
    environ: dict[str, Any],
    result: Result,
    source: Any,
    disclosure: Disclosure,
    own: dict[str, str],
    body: ResultBody,
) -> Answer:
    """The client's answer, whose body is ``body``.

    :param source: headers of Swift's answer for the source, a ``HeaderKeyDict``, or none.
    :param own: headers of the run; they take precedence.
    """
    headers: dict[str, str] = disclosure.answer_headers(source)
    metadata = result.metadata
    if metadata:
        # Its names replace those of the source in any case.
        headers = HeaderKeyDict(headers)
        stored_headers.set_metadata(headers, metadata)
    if "Content-Type" not in headers:
        headers["Content-Type"] = disclosure.content_type(source, UNKNOWN_TYPE)
    if result.span:
        headers.update(span_headers(result, disclosure))
    # eventlet buffers small pieces up to 4 KiB; a storlet's slow output is sent immediately.
    environ["eventlet.minimum_write_chunk_size"] = 0
    return Answer("200 OK", list((headers | own).items()), body)


def span_headers(result: Result, disclosure: Disclosure) -> dict[str, str]:
    """The range of the source that the storlet read, unless it is hidden from the caller."""
    if not result.span or disclosure.withholds:
        return {}
    return {names.INPUT_RANGE: "bytes {}-{}/{}".format(*result.span)}


class ResultBody(ClosingIterator):
    """The body of an answer; breaks the connection when the result fails.

    :param chunks: the output of the result.
    :param on_end: only its first call has an effect.
    :param commit: stores further outputs after the last byte, before the body ends; raises if it
        cannot.
    :param shown: an error as the caller may see it: a storlet that has called this one gets it.
    """

    def __init__(
        self,
        environ: dict[str, Any],
        chunks: Iterator[bytes],
        watch: ClientWatch,
        on_end: OnEnd,
        commit: Callable[[], object] | None = None,
        shown: Callable[[StorletError], StorletError] = StorletError.without_tenant_text,
    ) -> None:
        reading = _read(environ, chunks, watch, on_end, commit, shown)
        # on_close matters only if iteration never started.
        super().__init__(reading, functools.partial(on_end, _GONE))


def _read(
    environ: dict[str, Any],
    chunks: Iterator[bytes],
    watch: ClientWatch,
    on_end: OnEnd,
    commit: Callable[[], object] | None,
    shown: Callable[[StorletError], StorletError],
) -> Iterator[bytes]:
    ending = _GONE
    try:
        yield from watch.guard(chunks)
        if commit is not None:
            commit()
        ending = SUCCESS
    except StorletError as error:
        ending = Ending.of_error(error)
        if not s3_request.is_select(environ):
            # An event stream has error messages.
            break_connection(environ)
        seen = shown(error)
        if seen is error:
            raise
        raise seen from error
    except ClientGone:
        raise StorletError(_GONE.message, code=_GONE.code) from None
    except Exception as error:
        ending = Ending.of_error(error)
        break_connection(environ)
        raise
    finally:
        on_end(ending)
