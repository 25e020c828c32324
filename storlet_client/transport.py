"""Performs the calls of flows by HTTP: :class:`Transport`, and :class:`AsyncTransport` for
``asyncio``.

A connection is kept open between requests.
"""

from __future__ import annotations

import asyncio
import os
import re
import ssl
import time
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import lru_cache
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar, Union
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

from storlet_client.content import FileContent
from storlet_client.errors import (
    ConfigurationError,
    StorletsError,
    Unreachable,
    without_credentials,
    without_number,
)
from storlet_client.exchange import Answer, Body, Call, Flow, Pause, Sent, Together
from storlet_client.output import READ_SECONDS, AsyncOutput, Output

T = TypeVar("T")
C = TypeVar("C")
Step = Union[Call, Pause, Together]
#: ``None`` is the start of a call.
Event = Union[Answer, Pause, Sent, None]
#: Called with each call, with the parts of its body that were sent, and with its answer or pause:
#: for progress and ``-v``.
Watch = Callable[[Call, Event], None]
#: A longer body is sent in parts of this size.
PART_BYTES = 1 << 18

#: The most flows that are performed at the same time.
_MOST = 8
_CONNECT_SECONDS = 10.0
#: Of requests that are answered at once; Swift itself tries its nodes for less.
_QUICK_SECONDS = 90.0


class Transport:
    """Performs one flow at a time, and the parts of :class:`Together` in threads.

    :param verify: whether certificates are checked, or the path of a file with trusted ones.
    :param watch: see :data:`Watch`.
    """

    def __init__(self, *, verify: bool | str, watch: Watch) -> None:
        self._client = _opened(httpx.Client, verify)
        self._watch = watch
        self._threads: list[Thread] = []

    def close(self) -> None:
        """Close the connections."""
        # A thread that still reads, after Ctrl-C, would read from the next file of this number.
        if not any(thread.is_alive() for thread in self._threads):
            self._client.close()

    def drive(self, flow: Flow[T]) -> T:
        """Perform all calls of ``flow``; its result."""
        return self._drive(flow, self._watch)

    def _drive(self, flow: Flow[T], watch: Watch) -> T:
        steps = _watched(flow, watch)
        answer: Answer | None = None
        try:
            while True:
                answer = self._perform(_next(steps, answer))
        except StopIteration as end:
            result: T = end.value
            return result

    def _perform(self, step: Step) -> Answer | None:
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return None
        if isinstance(step, Together):
            self._perform_all(step)
            return None
        with _translated(step):
            request = self._client.build_request(**_arguments(step, self._body(step)))
            response = self._client.send(request, stream=step.is_streamed)
            if _reads(step, response):
                response.read()
        return _answer(response, is_read=_reads(step, response))

    def _perform_all(self, step: Together) -> None:
        parts = _Parts(step)
        # Daemons, which are not waited for after Ctrl-C.
        self._threads = [
            Thread(target=self._perform_each, args=(parts,), daemon=True)
            for _ in step.flows[:_MOST]
        ]
        for thread in self._threads:
            thread.start()
        try:
            for thread in self._threads:
                thread.join()
        finally:
            parts.waiting.clear()
        parts.finish(self._watch)

    def _perform_each(self, parts: _Parts) -> None:
        """Perform one flow after the other, while there are any."""
        while (part := parts.next()) is not None:
            with part.kept_failure(parts):
                part.result = self._drive(part.flow, part.watch)

    def _body(self, call: Call) -> Body:
        """The body, in parts that are watched."""
        if not is_parted(call.body) or isinstance(call.body, AsyncIterable):
            return call.body
        return self._parts(call, call.body or b"")

    def _parts(self, call: Call, body: bytes | Iterable[bytes]) -> Iterator[bytes]:
        for part in _split(body) if isinstance(body, bytes) else body:
            yield part
            self._watch(call, Sent(len(part)))

    @contextmanager
    def stream(self, flow: Flow[Answer]) -> Iterator[Output]:
        """The output that ``flow`` opens, closed at the end of the context."""
        answer = self.drive(flow)
        try:
            yield Output(answer)
        finally:
            if answer.stream is not None:
                answer.stream.close()


class AsyncTransport:
    """The same for ``asyncio``."""

    def __init__(self, *, verify: bool | str, watch: Watch) -> None:
        self._client = _opened(httpx.AsyncClient, verify)
        self._watch = watch

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def drive(self, flow: Flow[T]) -> T:
        """Perform all calls of ``flow``; its result."""
        return await self._drive(flow, self._watch)

    async def _drive(self, flow: Flow[T], watch: Watch) -> T:
        steps = _watched(flow, watch)
        answer: Answer | None = None
        try:
            while True:
                answer = await self._perform(_next(steps, answer))
        except StopIteration as end:
            result: T = end.value
            return result

    async def _perform(self, step: Step) -> Answer | None:
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return None
        if isinstance(step, Together):
            await self._perform_all(step)
            return None
        with _translated(step):
            request = self._client.build_request(**_arguments(step, self._body(step)))
            response = await self._client.send(request, stream=step.is_streamed)
            if _reads(step, response):
                await response.aread()
        return _answer(response, is_read=_reads(step, response))

    async def _perform_all(self, step: Together) -> None:
        parts = _Parts(step)
        await asyncio.gather(*(self._perform_each(parts) for _ in step.flows[:_MOST]))
        parts.finish(self._watch)

    async def _perform_each(self, parts: _Parts) -> None:
        while (part := parts.next()) is not None:
            with part.kept_failure(parts):
                part.result = await self._drive(part.flow, part.watch)

    def _body(self, call: Call) -> Body:
        """The body, in parts that are watched."""
        body = call.body
        if body is None or (isinstance(body, bytes) and not is_parted(body)):
            return body
        return self._parts(
            call, body if isinstance(body, AsyncIterable) else _each(_parts_of(body))
        )

    async def _parts(self, call: Call, body: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
        async for part in body:
            yield part
            self._watch(call, Sent(len(part)))

    @asynccontextmanager
    async def stream(self, flow: Flow[Answer]) -> AsyncIterator[AsyncOutput]:
        """The output that ``flow`` opens, closed at the end of the context."""
        answer = await self.drive(flow)
        try:
            yield AsyncOutput(answer)
        finally:
            if answer.stream is not None:
                await answer.stream.aclose()


def _opened(kind: Callable[..., C], verify: bool | str) -> C:
    """A client of httpx.

    :raises ConfigurationError: certificates or a proxy of the environment cannot be used.
    """
    trusted: bool | ssl.SSLContext | str = verify
    if verify is not False:
        trusted = _certificates(verify if isinstance(verify, str) else "")
    try:
        return kind(verify=trusted)
    except (httpx.InvalidURL, ValueError, ImportError) as error:
        reason = str(error)
        if isinstance(error, ImportError):
            reason = "SOCKS needs a package: pip install 'httpx[socks]'"
        names = ", ".join(name for name in sorted(os.environ) if name.lower() in _PROXIES)
        raise ConfigurationError([f"{names}: the proxy cannot be used: {reason}"]) from error


#: The variables that name proxies, in lower case.
_PROXIES = frozenset(("http_proxy", "https_proxy", "all_proxy"))


def _certificates(place: str) -> ssl.SSLContext:
    """The trusted certificates of a file or a folder; of the variables of OpenSSL, if it is empty.

    :raises ConfigurationError: there are none.
    """
    named = place or os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")
    if not named:
        return _usual_certificates()
    try:
        if Path(named).is_dir():
            return ssl.create_default_context(capath=named)
        state = Path(named).stat()
        return _certificates_of(named, (state.st_ino, state.st_size, state.st_mtime_ns))
    except OSError as error:  # also an SSLError
        reason = error.strerror or str(error)
        raise ConfigurationError([f"{named}: no trusted certificates: {reason}"]) from error


@lru_cache(maxsize=1)
def _usual_certificates() -> ssl.SSLContext:
    """Those of httpx, for all clients of the process: OpenSSL needs 25 ms to read them."""
    return httpx.create_ssl_context()


@lru_cache(maxsize=4)
def _certificates_of(file: str, state: tuple[int, ...]) -> ssl.SSLContext:
    """Those of a file, for all clients until its ``state`` is another one."""
    return ssl.create_default_context(cafile=file)


class _Part:
    """One of several flows that are performed at the same time, and the events that it had."""

    def __init__(self, flow: Flow[Any]) -> None:
        self.flow = flow
        self.result: Any = None
        self.failure: Exception | None = None
        self.events: list[tuple[Call, Event]] = []

    def watch(self, call: Call, event: Event) -> None:
        """Keep an event."""
        self.events.append((call, event))

    @contextmanager
    def kept_failure(self, parts: _Parts) -> Iterator[None]:
        """Keep the error of the block, and let no other flow begin."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - raised where all parts have ended
            self.failure = error
            parts.waiting.clear()


class _Parts:
    """All flows of a step."""

    def __init__(self, step: Together) -> None:
        self._step = step
        self._all = [_Part(flow) for flow in step.flows]
        #: Those that have not begun; any thread may take one.
        self.waiting = deque(self._all)

    def next(self) -> _Part | None:
        """A flow to perform."""
        try:
            return self.waiting.popleft()
        except IndexError:
            return None

    def finish(self, watch: Watch) -> None:
        """Hand over the results, or raise the first failure.

        ``watch`` sees one call after the other, in the order of the flows, and in one thread.
        """
        for part in self._all:
            for call, event in part.events:
                watch(call, event)
            if part.failure is not None:
                raise part.failure
        self._step.results.extend(part.result for part in self._all)


def _watched(flow: Flow[T], watch: Watch) -> Flow[T]:
    """``flow``, whose calls, answers and pauses are reported to ``watch``."""
    call: Call | None = None
    answer: Answer | None = None
    while True:
        try:
            step = _next(flow, answer)
        except StopIteration as end:
            result: T = end.value
            return result
        if isinstance(step, Together):
            yield step
            answer = None
        elif isinstance(step, Pause):
            if call is not None:
                watch(call, step)
            yield step
            answer = None
        else:
            call = step
            watch(call, None)
            answer = yield step
            watch(call, answer)


def _next(flow: Flow[T], answer: Answer | None) -> Step:
    """The next step, after a call with ``answer``, or after a pause."""
    return next(flow) if answer is None else flow.send(answer)


@contextmanager
def _translated(call: Call) -> Iterator[None]:
    """Raise errors of the connection as errors of this library."""
    try:
        yield
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise _unreachable(call, error) from error


def is_parted(body: Body) -> bool:
    """Whether a body is sent in parts, each of which is watched.

    A short one is not, and neither is a file: its size is sent with it.
    """
    is_file = hasattr(body, "read") or hasattr(body, "aread")
    is_short = isinstance(body, bytes) and len(body) <= PART_BYTES
    return body is not None and not is_file and not is_short


def _parts_of(body: Any) -> Iterable[bytes]:
    """The parts of bytes, of an open file or of an iterable."""
    if isinstance(body, bytes):
        return _split(body)
    if hasattr(body, "read"):
        return iter(lambda: body.read(PART_BYTES), b"")
    parts: Iterable[bytes] = body
    return parts


def _split(body: bytes) -> Iterator[bytes]:
    for begin in range(0, len(body), PART_BYTES):
        yield body[begin : begin + PART_BYTES]


async def _each(parts: Iterable[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


def _unreachable(call: Call, error: Exception) -> StorletsError:
    if isinstance(error, (httpx.InvalidURL, httpx.UnsupportedProtocol)):
        return ConfigurationError(
            [f"{without_credentials(call.url)!r} is not the URL of a server: {error}"]
        )
    url = httpx.URL(call.url)
    reason = _TLS_PLACE.sub("", without_number(error)) or type(error).__name__
    if isinstance(error, httpx.ConnectTimeout):
        reason = f"no connection within {_CONNECT_SECONDS:.0f} s"
    elif _NO_TLS in reason:
        reason = "the server does not speak TLS: is the URL one of http://?"
    elif isinstance(error, httpx.TimeoutException):
        reason = f"no answer to {call.method} within {_seconds(call):.0f} s"
    proxy = _proxy_of(url)
    through = f" through the proxy {proxy}" if proxy else ""
    return Unreachable(f"{url.scheme}://{url.netloc.decode()}{through}: {reason}")


#: The error of OpenSSL for a server without TLS.
_NO_TLS = "wrong version number"
#: The name of an error of OpenSSL, and the place in the source, which say less than its text.
_TLS_PLACE = re.compile(r"^\[SSL: \w+\] | \(_ssl\.c:\d+\)$")


def _proxy_of(url: httpx.URL) -> str:
    """Host and port of the proxy that the environment names for ``url``; empty if none."""
    proxies = getproxies()
    found = proxies.get(url.scheme) or proxies.get("all") or ""
    if not found or proxy_bypass(url.netloc.decode()):
        return ""
    return urlsplit(found if "://" in found else f"//{found}").netloc.rpartition("@")[2]


def _seconds(call: Call) -> float:
    """The longest silence of the server."""
    return _QUICK_SECONDS if call.is_quick else READ_SECONDS


def _arguments(call: Call, body: Body) -> dict[str, Any]:
    # An output is stored and sent as the storlet made it, so no encoding is negotiated.
    given = {"Accept-Encoding": "identity", **call.headers}
    if body is not call.body and isinstance(call.body, bytes):
        given["Content-Length"] = str(len(call.body))
    if isinstance(call.body, FileContent):
        given["Content-Length"] = str(call.body.size)
    faults = [
        f"{name}: {value!r}: a header cannot carry it"
        for name, value in given.items()
        if not _NAME.fullmatch(name) or value != value.strip() or _CONTROL.search(value)
    ]
    if faults:
        raise ConfigurationError(faults)
    return {
        "method": call.method,
        "url": call.target(""),
        "headers": [(name.encode("ascii"), value.encode("utf-8")) for name, value in given.items()],
        "content": body,
        "timeout": httpx.Timeout(_seconds(call), connect=_CONNECT_SECONDS),
    }


#: A name of a header in HTTP, and characters that its value cannot have.
_NAME = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def _answer(response: httpx.Response, *, is_read: bool) -> Answer:
    headers = {name.lower(): value for name, value in response.headers.items()}
    body, stream = (response.content, None) if is_read else (b"", response)
    return Answer(response.status_code, headers, body, stream)


def _reads(call: Call, response: httpx.Response) -> bool:
    """Whether the body is read at once: of errors, and of answers that are not streamed."""
    return not call.is_streamed or response.status_code // 100 != 2
