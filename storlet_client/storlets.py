"""The two faces of the library: :class:`Storlets`, and :class:`AsyncStorlets` for ``asyncio``.

Both drive the same flows of :mod:`~storlet_client.operations`.  A connection is kept open between
requests.  An output that ends before its end raises :class:`~storlet_client.BrokenAnswer`.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from types import TracebackType
from typing import Any, Generic, TypeVar, Union

import httpx
from typing_extensions import Self

from storlet_client import operations, records
from storlet_client.diagnosis.account import diagnose
from storlet_client.diagnosis.check import Check
from storlet_client.errors import BrokenAnswer, ConfigurationError, StorletsError, Unreachable
from storlet_client.exchange import Answer, Body, Call, Flow, Pause
from storlet_client.login import Credentials, from_environment
from storlet_client.operations import (
    BundleVersion,
    Deployed,
    Grant,
    Info,
    Invocation,
    Manifest,
    Storlet,
)
from storlet_client.overview import Overview, overview
from storlet_client.records import Decoder, RecordQuery
from storlet_client.session import Session

T = TypeVar("T")
H = TypeVar("H", httpx.Client, httpx.AsyncClient)
#: Called with each call, and with its answer or pause: for progress and ``-v``.
Watch = Callable[[Call, Union[Answer, Pause, None]], None]

_CONNECT_SECONDS = 10.0
#: A storlet that works without output sends no bytes for a long time; the server limits that.
_READ_SECONDS = 3600.0
#: Of requests that are answered at once; Swift itself tries its nodes for less.
_QUICK_SECONDS = 90.0


class _Facts:
    """The headers of an output."""

    def __init__(self, answer: Answer) -> None:
        self.headers = answer.headers
        self._response: Any = answer.stream

    @property
    def metadata(self) -> dict[str, str]:
        """The user metadata that the storlet set, by lower-case name."""
        prefix = "x-object-meta-"
        return {k[len(prefix) :]: v for k, v in self.headers.items() if k.startswith(prefix)}

    @property
    def invocation(self) -> str:
        """The id of the invocation."""
        return self.headers.get("x-storlet-invocation", "")

    @property
    def ran_on(self) -> str:
        """``object`` or ``proxy``; empty if nothing ran."""
        return self.headers.get("x-storlet-ran-on", "")

    @property
    def usage(self) -> str:
        """CPU time, memory and bytes, if the server sent them."""
        return self.headers.get("x-storlet-usage", "")

    @property
    def length(self) -> int | None:
        """Bytes of the output, if they are known."""
        value = self.headers.get("content-length", "")
        return int(value) if value.isdecimal() else None


class Output(_Facts):
    """The output of a storlet, or an object, as a stream."""

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._response.iter_raw()
        except httpx.HTTPError as error:
            raise _broken(error) from error

    def lines(self) -> Iterator[str]:
        """Lines of UTF-8 without their ends."""
        yield from _lines(self)

    def read(self) -> bytes:
        """The whole output."""
        return b"".join(self)


class AsyncOutput(_Facts):
    """The output of a storlet, or an object, as a stream."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._response.aiter_raw():
                yield chunk
        except httpx.HTTPError as error:
            raise _broken(error) from error

    async def lines(self) -> AsyncIterator[str]:
        """Lines of UTF-8 without their ends."""
        splitter = _Lines()
        async for chunk in self:
            for line in splitter.feed(chunk):
                yield line
        for line in splitter.end():
            yield line

    async def read(self) -> bytes:
        """The whole output."""
        return b"".join([chunk async for chunk in self])


class _Lines:
    """Splits chunks into lines."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []

    def feed(self, chunk: bytes) -> list[str]:
        first, *others = chunk.split(b"\n")
        self._rest.append(first)
        if not others:
            return []
        whole = [b"".join(self._rest), *others[:-1]]
        self._rest = [others[-1]]
        return [line.decode("utf-8") for line in whole]

    def end(self) -> list[str]:
        rest = b"".join(self._rest)
        return [rest.decode("utf-8")] if rest else []


def _lines(chunks: Iterable[bytes]) -> Iterator[str]:
    splitter = _Lines()
    for chunk in chunks:
        yield from splitter.feed(chunk)
    yield from splitter.end()


# --- transports -----------------------------------------------------------------------------------


def _broken(error: httpx.HTTPError) -> BrokenAnswer:
    if isinstance(error, httpx.ReadTimeout):
        return BrokenAnswer(f"the output is incomplete: no byte for {_READ_SECONDS:.0f} s")
    reason = str(error) or type(error).__name__
    return BrokenAnswer(f"the output is incomplete: {reason}")


def _unreachable(call: Call, error: Exception) -> StorletsError:
    if isinstance(error, (httpx.InvalidURL, httpx.UnsupportedProtocol)):
        return ConfigurationError([f"{call.url!r} is not the URL of a server: {error}"])
    url = httpx.URL(call.url)
    reason = str(error) or type(error).__name__
    if isinstance(error, httpx.ConnectTimeout):
        reason = f"no connection within {_CONNECT_SECONDS:.0f} s"
    elif isinstance(error, httpx.TimeoutException):
        reason = f"no answer to {call.method} within {_seconds(call):.0f} s"
    return Unreachable(f"{url.scheme}://{url.netloc.decode()}: {reason}")


def _seconds(call: Call) -> float:
    """The longest silence of the server."""
    return _QUICK_SECONDS if call.is_quick else _READ_SECONDS


def _arguments(call: Call) -> dict[str, Any]:
    # An output is stored and sent as the storlet made it, so no encoding is negotiated.
    given = {"Accept-Encoding": "identity", **call.headers}
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
        "content": call.body,
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


def _no_watch(_call: Call, _event: Answer | Pause | None) -> None:
    pass


class _Account(Generic[H]):
    """An account with storlets.

    :param credentials: see :mod:`~storlet_client.login`.
    :param verify: whether certificates are checked, or the path of a file with trusted ones.
    :param watch: called with each call, and with its answer or pause.
    """

    _client: type[H]

    def __init__(
        self,
        credentials: Credentials,
        *,
        verify: bool | str = True,
        watch: Watch = _no_watch,
    ) -> None:
        self._session = Session(credentials)
        self._http: H = self._client(verify=verify)
        self._watch = watch

    @classmethod
    def connect(cls, cloud: str = "") -> Self:
        """The account of a cloud of ``clouds.yaml``, or of the environment."""
        return cls(from_environment(cloud=cloud))


# --- the synchronous face -------------------------------------------------------------------------


class Storlets(_Account[httpx.Client]):
    """An account with storlets; close it, or use it as a context."""

    _client = httpx.Client

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def _perform(self, call: Call) -> Answer:
        self._watch(call, None)
        try:
            response = self._http.send(
                self._http.build_request(**_arguments(call)), stream=call.is_streamed
            )
            if _reads(call, response):
                response.read()
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise _unreachable(call, error) from error
        answer = _answer(response, is_read=_reads(call, response))
        self._watch(call, answer)
        return answer

    def _drive(self, flow: Flow[T]) -> T:
        call: Call | None = None
        try:
            step = next(flow)
            while True:
                if isinstance(step, Pause):
                    if call is not None:
                        self._watch(call, step)
                    time.sleep(step.seconds)
                    step = next(flow)
                else:
                    call = step
                    step = flow.send(self._perform(step))
        except StopIteration as end:
            result: T = end.value
            return result

    @contextmanager
    def _stream(self, flow: Flow[Answer]) -> Iterator[Output]:
        answer = self._drive(flow)
        try:
            yield Output(answer)
        finally:
            if answer.stream is not None:
                answer.stream.close()

    # --- operations -------------------------------------------------------------------------------

    def info(self) -> Info:
        """The cluster's languages, limits and container names."""
        return self._drive(operations.info(self._session))

    def enable(self) -> tuple[str, ...]:
        """Enable storlets for the account; the names of the containers that were created."""
        return self._drive(operations.enable(self._session))

    def list(self) -> list[Storlet]:
        """All storlets of the account."""
        return self._drive(operations.list_storlets(self._session))

    def show(self, name: str) -> Storlet:
        """One storlet."""
        return self._drive(operations.show(self._session, name))

    def overview(self, name: str = "") -> Overview:
        """All storlets, or one, with versions, limits, access and their runs of the last day."""
        return self._drive(overview(self._session, name))

    def deploy(
        self,
        name: str,
        code: bytes,
        manifest: Manifest,
        dependencies: Mapping[str, tuple[bytes, str]] | None = None,
        *,
        check: bool | None = None,
    ) -> Deployed:
        """Upload a storlet with its dependencies; it is in use once this returns.

        :param dependencies: content and file mode (octal, such as ``0700``) by file name; others
            that ``manifest`` names are uploaded already.
        :param check: have the cluster load the code before it takes effect; ``None``: if it can.
        """
        flow = operations.deploy(
            self._session, name, code, manifest, dependencies or {}, check=check
        )
        return self._drive(flow)

    def deploy_bundle(self, name: str, packed: bytes, *, check: bool | None = None) -> int:
        """Upload a bundle under ``name``; the number of the new version, which is current."""
        return self._drive(operations.deploy_bundle(self._session, name, packed, check=check))

    def versions(self, name: str) -> Sequence[BundleVersion]:
        """The versions of a bundle that the cluster keeps, newest first."""
        return self._drive(operations.versions(self._session, name))

    def roll_back(self, name: str, number: int) -> None:
        """Make an earlier version of a bundle the current one."""
        self._drive(operations.roll_back(self._session, name, number))

    def delete(self, name: str) -> None:
        """Delete a storlet; running invocations finish."""
        self._drive(operations.delete(self._session, name))

    def download(self, name: str) -> AbstractContextManager[Output]:
        """The file of a storlet, as a stream."""
        return self._stream(operations.download_storlet(self._session, name))

    def download_version(self, name: str, version: BundleVersion) -> AbstractContextManager[Output]:
        """The bundle of one of :meth:`versions`, as a stream."""
        return self._stream(operations.download_version(self._session, name, version))

    def read(self, path: str, if_match: str = "") -> AbstractContextManager[Output]:
        """The object ``container/object``, as a stream, without a storlet.

        :param if_match: the only ETag that it may have.
        """
        place = operations.object_path(path)
        return self._stream(operations.download(self._session, place, if_match))

    def upload(self, path: str, body: Body, content_type: str = "") -> bool:
        """Store ``body`` as ``container/object``; whether the container was created for it."""
        return self._drive(operations.upload(self._session, path, body, content_type))

    def run(
        self,
        storlet: str,
        path: str,
        parameters: Mapping[str, str] | None = None,
        **more: Any,
    ) -> AbstractContextManager[Output]:
        """Run a storlet on ``container/object``; the output is a stream.

        :param more: further fields of :class:`~storlet_client.operations.Invocation`.
        """
        invocation = Invocation(storlet, path, parameters or {}, **more)
        return self._stream(operations.run(self._session, invocation))

    def records(
        self, container: str, name: str, struct: str, where: str = "", fields: Sequence[str] = ()
    ) -> Iterator[dict[str, Any]]:
        """The records of an object, one at a time, as mappings of field to value.

        They are selected at the node that has the object, by the storlet ``std:records``.

        :param struct: the fields of a record, such as ``i4 id, s96 text``; see
            :mod:`~storlet_client.structure`.
        :param where: a condition, such as ``id >= 100 and text ^= 'Haifa'``.
        :param fields: the fields that are wanted; all by default.
        :raises ConfigurationError: one of these is not valid, or the cluster has no such storlet.
        """
        query = RecordQuery.of(container, name, struct, where, fields)
        return self._records(query)

    def _records(self, query: RecordQuery) -> Iterator[dict[str, Any]]:
        decoder = Decoder(query.layout)
        with self._stream(records.run(self._session, query)) as output:
            for chunk in output:
                yield from decoder.feed(chunk)
        decoder.end()

    def library(self) -> Sequence[Mapping[str, Any]]:
        """The storlets that every account has, with versions and parameters."""
        return self._drive(operations.library(self._session))

    def distribute(self, document: Mapping[str, Any]) -> AbstractContextManager[Output]:
        """Run a storlet on many objects; the answer is a stream.

        :param document: ``objects``, ``split``, ``merge`` and more, as HTTP clients send it.
        """
        return self._stream(operations.distribute(self._session, document))

    def copy(
        self,
        storlet: str,
        path: str,
        target: str,
        parameters: Mapping[str, str] | None = None,
        **more: Any,
    ) -> Answer:
        """Run a storlet on an object, and store its output as ``target`` (``container/object``)."""
        invocation = Invocation(storlet, path, parameters or {}, **more)
        return self._drive(operations.copy(self._session, invocation, target))

    def put(
        self,
        storlet: str,
        path: str,
        body: Body,
        parameters: Mapping[str, str] | None = None,
        *,
        content_type: str = "",
        **more: Any,
    ) -> Answer:
        """Upload ``body`` through a storlet, and store its output as ``path``."""
        invocation = Invocation(storlet, path, parameters or {}, **more)
        return self._drive(operations.put(self._session, invocation, body, content_type))

    def grants(self, container: str) -> Sequence[Grant]:
        """The grants of a container."""
        return self._drive(operations.grants(self._session, container))

    def grant(self, container: str, user: str, storlet: str) -> str:
        """Let ``user`` read a container through one storlet only; any warning of the server."""
        return self._drive(operations.grant(self._session, container, Grant(user, storlet)))

    def revoke(self, container: str, user: str, storlet: str) -> None:
        """Remove a grant."""
        self._drive(operations.revoke(self._session, container, Grant(user, storlet)))

    def rules(self) -> str | None:
        """The text of the rules in force; ``None`` without rules."""
        return self._drive(operations.rules(self._session))

    def put_rules(self, text: bytes, *, accept_warnings: bool = False) -> str:
        """Check rules and put them in force; the server's report."""
        flow = operations.put_rules(self._session, text, accept_warnings=accept_warnings)
        return self._drive(flow)

    def delete_rules(self) -> None:
        """Remove the rules."""
        self._drive(operations.delete_rules(self._session))

    def explain(self, method: str, path: str) -> str:
        """The decision of the rules on a request, which is not performed."""
        return self._drive(operations.explain(self._session, method, path))

    def logs(self, storlet: str) -> Sequence[Mapping[str, Any]]:
        """The stored logs of a storlet, the newest last."""
        return self._drive(operations.logs(self._session, storlet))

    def log(self, storlet: str, invocation: str) -> str:
        """One stored log."""
        return self._drive(operations.log(self._session, storlet, invocation))

    def runs(self, selection: Mapping[str, str], most: int) -> Sequence[Mapping[str, Any]]:
        """Records of runs, newest first, by ``storlet``, ``outcome``, ``since`` and ``until``."""
        return self._drive(operations.runs(self._session, selection, most))

    def run_record(self, invocation: str) -> Mapping[str, Any]:
        """The record of one run."""
        return self._drive(operations.run_record(self._session, invocation))

    def follow_runs(self, selection: Mapping[str, str]) -> AbstractContextManager[Output]:
        """A stream with a line of JSON for each record of a run that ends from now on."""
        return self._stream(operations.follow_runs(self._session, selection))

    def follow_logs(self, selection: Mapping[str, str]) -> AbstractContextManager[Output]:
        """As :meth:`follow_runs`, with lines of the logs of running storlets."""
        return self._stream(operations.follow_logs(self._session, selection))

    def diagnose(self, named: Sequence[str] = ()) -> Sequence[Check]:
        """Problems of login, cluster, account, storlets and grants, each with its remedy.

        :param named: containers, or objects as ``container/object``, that are checked, too.
        """
        return self._drive(diagnose(self._session, named))


# --- the asynchronous face ------------------------------------------------------------------------


class AsyncStorlets(_Account[httpx.AsyncClient]):
    """The same for ``asyncio``; see :class:`Storlets` for the parameters of each method."""

    _client = httpx.AsyncClient

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def _perform(self, call: Call) -> Answer:
        self._watch(call, None)
        try:
            response = await self._http.send(
                self._http.build_request(**_arguments(call)), stream=call.is_streamed
            )
            if _reads(call, response):
                await response.aread()
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise _unreachable(call, error) from error
        answer = _answer(response, is_read=_reads(call, response))
        self._watch(call, answer)
        return answer

    async def _drive(self, flow: Flow[T]) -> T:
        call: Call | None = None
        try:
            step = next(flow)
            while True:
                if isinstance(step, Pause):
                    if call is not None:
                        self._watch(call, step)
                    await asyncio.sleep(step.seconds)
                    step = next(flow)
                else:
                    call = step
                    step = flow.send(await self._perform(step))
        except StopIteration as end:
            result: T = end.value
            return result

    @asynccontextmanager
    async def _stream(self, flow: Flow[Answer]) -> AsyncIterator[AsyncOutput]:
        answer = await self._drive(flow)
        try:
            yield AsyncOutput(answer)
        finally:
            if answer.stream is not None:
                await answer.stream.aclose()

    # --- operations -------------------------------------------------------------------------------

    async def info(self) -> Info:
        """The cluster's languages, limits and container names."""
        return await self._drive(operations.info(self._session))

    async def enable(self) -> tuple[str, ...]:
        """Enable storlets for the account; the names of the containers that were created."""
        return await self._drive(operations.enable(self._session))

    async def list(self) -> list[Storlet]:
        """All storlets of the account."""
        return await self._drive(operations.list_storlets(self._session))

    async def show(self, name: str) -> Storlet:
        """One storlet."""
        return await self._drive(operations.show(self._session, name))

    async def overview(self, name: str = "") -> Overview:
        """All storlets, or one, with versions, limits, access and their runs of the last day."""
        return await self._drive(overview(self._session, name))

    async def deploy(
        self,
        name: str,
        code: bytes,
        manifest: Manifest,
        dependencies: Mapping[str, tuple[bytes, str]] | None = None,
        *,
        check: bool | None = None,
    ) -> Deployed:
        """Upload a storlet with its dependencies; it is in use once this returns."""
        flow = operations.deploy(
            self._session, name, code, manifest, dependencies or {}, check=check
        )
        return await self._drive(flow)

    async def deploy_bundle(self, name: str, packed: bytes, *, check: bool | None = None) -> int:
        """Upload a bundle under ``name``; the number of the new version, which is current."""
        return await self._drive(operations.deploy_bundle(self._session, name, packed, check=check))

    async def versions(self, name: str) -> Sequence[BundleVersion]:
        """The versions of a bundle that the cluster keeps, newest first."""
        return await self._drive(operations.versions(self._session, name))

    async def roll_back(self, name: str, number: int) -> None:
        """Make an earlier version of a bundle the current one."""
        await self._drive(operations.roll_back(self._session, name, number))

    async def delete(self, name: str) -> None:
        """Delete a storlet; running invocations finish."""
        await self._drive(operations.delete(self._session, name))

    def download(self, name: str) -> AbstractAsyncContextManager[AsyncOutput]:
        """The file of a storlet, as a stream."""
        return self._stream(operations.download_storlet(self._session, name))

    def download_version(
        self, name: str, version: BundleVersion
    ) -> AbstractAsyncContextManager[AsyncOutput]:
        """The bundle of one of :meth:`versions`, as a stream."""
        return self._stream(operations.download_version(self._session, name, version))

    def read(self, path: str, if_match: str = "") -> AbstractAsyncContextManager[AsyncOutput]:
        """The object ``container/object``, as a stream, without a storlet."""
        place = operations.object_path(path)
        return self._stream(operations.download(self._session, place, if_match))

    async def upload(self, path: str, body: Body, content_type: str = "") -> bool:
        """Store ``body`` as ``container/object``; whether the container was created for it."""
        return await self._drive(operations.upload(self._session, path, body, content_type))

    def run(
        self,
        storlet: str,
        path: str,
        parameters: Mapping[str, str] | None = None,
        **more: Any,
    ) -> AbstractAsyncContextManager[AsyncOutput]:
        """Run a storlet on ``container/object``; the output is a stream."""
        invocation = Invocation(storlet, path, parameters or {}, **more)
        return self._stream(operations.run(self._session, invocation))

    def records(
        self, container: str, name: str, struct: str, where: str = "", fields: Sequence[str] = ()
    ) -> AsyncIterator[dict[str, Any]]:
        """The records of an object, one at a time, as mappings of field to value."""
        query = RecordQuery.of(container, name, struct, where, fields)
        return self._records(query)

    async def _records(self, query: RecordQuery) -> AsyncIterator[dict[str, Any]]:
        decoder = Decoder(query.layout)
        async with self._stream(records.run(self._session, query)) as output:
            async for chunk in output:
                for record in decoder.feed(chunk):
                    yield record
        decoder.end()

    async def library(self) -> Sequence[Mapping[str, Any]]:
        """The storlets that every account has, with versions and parameters."""
        return await self._drive(operations.library(self._session))

    def distribute(self, document: Mapping[str, Any]) -> AbstractAsyncContextManager[AsyncOutput]:
        """Run a storlet on many objects; the answer is a stream."""
        return self._stream(operations.distribute(self._session, document))

    async def copy(
        self,
        storlet: str,
        path: str,
        target: str,
        parameters: Mapping[str, str] | None = None,
        **more: Any,
    ) -> Answer:
        """Run a storlet on an object, and store its output as ``target`` (``container/object``)."""
        invocation = Invocation(storlet, path, parameters or {}, **more)
        return await self._drive(operations.copy(self._session, invocation, target))

    async def put(
        self,
        storlet: str,
        path: str,
        body: Body,
        parameters: Mapping[str, str] | None = None,
        *,
        content_type: str = "",
        **more: Any,
    ) -> Answer:
        """Upload ``body`` through a storlet, and store its output as ``path``."""
        invocation = Invocation(storlet, path, parameters or {}, **more)
        return await self._drive(operations.put(self._session, invocation, body, content_type))

    async def grants(self, container: str) -> Sequence[Grant]:
        """The grants of a container."""
        return await self._drive(operations.grants(self._session, container))

    async def grant(self, container: str, user: str, storlet: str) -> str:
        """Let ``user`` read a container through one storlet only; any warning of the server."""
        return await self._drive(operations.grant(self._session, container, Grant(user, storlet)))

    async def revoke(self, container: str, user: str, storlet: str) -> None:
        """Remove a grant."""
        await self._drive(operations.revoke(self._session, container, Grant(user, storlet)))

    async def rules(self) -> str | None:
        """The text of the rules in force; ``None`` without rules."""
        return await self._drive(operations.rules(self._session))

    async def put_rules(self, text: bytes, *, accept_warnings: bool = False) -> str:
        """Check rules and put them in force; the server's report."""
        flow = operations.put_rules(self._session, text, accept_warnings=accept_warnings)
        return await self._drive(flow)

    async def delete_rules(self) -> None:
        """Remove the rules."""
        await self._drive(operations.delete_rules(self._session))

    async def explain(self, method: str, path: str) -> str:
        """The decision of the rules on a request, which is not performed."""
        return await self._drive(operations.explain(self._session, method, path))

    async def logs(self, storlet: str) -> Sequence[Mapping[str, Any]]:
        """The stored logs of a storlet, the newest last."""
        return await self._drive(operations.logs(self._session, storlet))

    async def log(self, storlet: str, invocation: str) -> str:
        """One stored log."""
        return await self._drive(operations.log(self._session, storlet, invocation))

    async def runs(self, selection: Mapping[str, str], most: int) -> Sequence[Mapping[str, Any]]:
        """Records of runs, newest first, by ``storlet``, ``outcome``, ``since`` and ``until``."""
        return await self._drive(operations.runs(self._session, selection, most))

    async def run_record(self, invocation: str) -> Mapping[str, Any]:
        """The record of one run."""
        return await self._drive(operations.run_record(self._session, invocation))

    def follow_runs(self, selection: Mapping[str, str]) -> AbstractAsyncContextManager[AsyncOutput]:
        """A stream with a line of JSON for each record of a run that ends from now on."""
        return self._stream(operations.follow_runs(self._session, selection))

    def follow_logs(self, selection: Mapping[str, str]) -> AbstractAsyncContextManager[AsyncOutput]:
        """As :meth:`follow_runs`, with lines of the logs of running storlets."""
        return self._stream(operations.follow_logs(self._session, selection))

    async def diagnose(self, named: Sequence[str] = ()) -> Sequence[Check]:
        """Problems of login, cluster, account, storlets and grants, each with its remedy.

        :param named: containers, or objects as ``container/object``, that are checked, too.
        """
        return await self._drive(diagnose(self._session, named))
