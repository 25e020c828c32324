"""The two faces of the library: :class:`Storlets`, and :class:`AsyncStorlets` for ``asyncio``.

Both have the same flows of :mod:`~storlet_client.operations` performed, each by its own transport
of :mod:`~storlet_client.transport`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from types import TracebackType
from typing import Any, Generic, TypeVar

from typing_extensions import Self

from storlet_client import operations, queries, records
from storlet_client.content import Content
from storlet_client.diagnosis.account import diagnose
from storlet_client.diagnosis.check import Check
from storlet_client.exchange import Answer, Body, Call
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
from storlet_client.output import AsyncOutput, Output, Record
from storlet_client.overview import Overview, overview
from storlet_client.queries import SqlQuery
from storlet_client.records import RecordQuery
from storlet_client.session import Session
from storlet_client.transport import AsyncTransport, Event, Transport, Watch

H = TypeVar("H", Transport, AsyncTransport)


def no_watch(_call: Call, _event: Event) -> None:
    """Report no events."""


def verify_of(credentials: Credentials, given: bool | str) -> bool | str:
    """Whether certificates are checked: as ``given``, or else as the credentials say."""
    return getattr(credentials, "verify", True) if given is True else given


class _Account(Generic[H]):
    """An account with storlets.

    :param credentials: see :mod:`~storlet_client.login`.
    :param verify: whether certificates are checked, or the path of a file with trusted ones; by
        default what ``clouds.yaml`` says, if the credentials are of a cloud.
    :param watch: see :data:`~storlet_client.transport.Watch`.
    """

    _transport: type[H]

    def __init__(
        self,
        credentials: Credentials,
        *,
        verify: bool | str = True,
        watch: Watch = no_watch,
    ) -> None:
        self._session = Session(credentials)
        self._http: H = self._transport(verify=verify_of(credentials, verify), watch=watch)

    @classmethod
    def connect(cls, cloud: str = "") -> Self:
        """The account of a cloud of ``clouds.yaml``, or of the environment."""
        return cls(from_environment(cloud=cloud))


# --- the synchronous face -------------------------------------------------------------------------


class Storlets(_Account[Transport]):
    """An account with storlets; close it, or use it as a context."""

    _transport = Transport

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

    # --- operations -------------------------------------------------------------------------------

    def info(self) -> Info:
        """The cluster's languages, limits and container names."""
        return self._http.drive(operations.info(self._session))

    def enable(self, records: str = "", *, check: bool | None = None) -> tuple[str, ...]:
        """Enable storlets for the account; the names of the containers that were created."""
        return self._http.drive(operations.enable(self._session, records, check=check))

    def list(self) -> list[Storlet]:
        """All storlets of the account."""
        return self._http.drive(operations.list_storlets(self._session))

    def show(self, name: str) -> Storlet:
        """One storlet."""
        return self._http.drive(operations.show(self._session, name))

    def overview(self, name: str | None = None) -> Overview:
        """All storlets, or one, with versions, limits, access and their runs of the last day."""
        return self._http.drive(overview(self._session, name))

    def deploy(
        self,
        name: str,
        code: Content,
        manifest: Manifest,
        dependencies: Mapping[str, tuple[Content, str]] | None = None,
        *,
        check: bool | None = None,
    ) -> Deployed:
        """Upload a storlet with its dependencies; it is in use once this returns.

        :param code: its bytes, or a :class:`~storlet_client.FileContent`, which is read as it is
            sent.
        :param dependencies: content and file mode (octal, such as ``0700``) by file name; others
            that ``manifest`` names are uploaded already.
        :param check: have the cluster load the code before it takes effect; ``None``: if it can.
        """
        flow = operations.deploy(
            self._session, name, code, manifest, dependencies or {}, check=check
        )
        return self._http.drive(flow)

    def deploy_bundle(self, name: str, packed: bytes, *, check: bool | None = None) -> int:
        """Upload a bundle under ``name``; the number of its version, which is current then."""
        return self._http.drive(operations.deploy_bundle(self._session, name, packed, check=check))

    def versions(self, name: str) -> Sequence[BundleVersion]:
        """The versions of a bundle that the cluster keeps, newest first."""
        return self._http.drive(operations.versions(self._session, name))

    def roll_back(self, name: str, number: int | None = None) -> int:
        """Make a version of a bundle current; its number.

        :param number: by default, of the one that was current before the last deployment or
            rollback; a second rollback goes to the one before that.
        """
        return self._http.drive(operations.roll_back(self._session, name, number))

    def delete(self, name: str) -> None:
        """Delete a storlet; running invocations finish."""
        self._http.drive(operations.delete(self._session, name))

    def download(self, name: str) -> AbstractContextManager[Output]:
        """The file of a storlet, as a stream."""
        return self._http.stream(operations.download_storlet(self._session, name))

    def download_version(self, name: str, version: BundleVersion) -> AbstractContextManager[Output]:
        """The bundle of one of :meth:`versions`, as a stream."""
        return self._http.stream(operations.download_version(self._session, name, version))

    def read(self, path: str, if_match: str = "") -> AbstractContextManager[Output]:
        """The object ``container/object``, as a stream, without a storlet.

        :param if_match: the only ETag that it may have.
        """
        place = operations.object_path(path)
        return self._http.stream(operations.download(self._session, place, if_match))

    def upload(self, path: str, body: Body, content_type: str = "") -> bool:
        """Store ``body`` as ``container/object``; whether the container was created for it."""
        return self._http.drive(operations.upload(self._session, path, body, content_type))

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
        return self._http.stream(operations.run(self._session, invocation))

    def records(
        self, container: str, name: str, struct: str, where: str = "", fields: Sequence[str] = ()
    ) -> Iterator[Record]:
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

    def _records(self, query: RecordQuery) -> Iterator[Record]:
        with self._http.stream(records.run(self._session, query)) as output:
            yield from output.records_of(query.layout)

    def sql(
        self,
        query: str,
        path: str,
        parameters: Mapping[str, str] | None = None,
        **more: Any,
    ) -> AbstractContextManager[Output]:
        """The result of one ``SELECT`` from the table ``input``, as a stream.

        It runs where the data are, by the storlets ``std:sql`` and ``std:sql-parquet``.

        :param path: ``container/object``; a container, or a prefix that ends with a slash, is all
            the objects in it.
        :param more: further fields of :class:`~storlet_client.queries.SqlQuery`.
        :raises ConfigurationError: one of these is not valid, or the objects have several formats.
        """
        asked = SqlQuery(query, path, parameters or {}, **more)
        return self._http.stream(queries.run(self._session, asked))

    def library(self) -> Sequence[Mapping[str, Any]]:
        """The storlets that every account has, with versions and parameters."""
        return self._http.drive(operations.library(self._session))

    def distribute(self, document: Mapping[str, Any]) -> AbstractContextManager[Output]:
        """Run a storlet on many objects; the answer is a stream.

        :param document: ``objects``, ``split``, ``merge`` and more, as HTTP clients send it.
        """
        return self._http.stream(operations.distribute(self._session, document))

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
        return self._http.drive(operations.copy(self._session, invocation, target))

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
        return self._http.drive(operations.put(self._session, invocation, body, content_type))

    def grants(self, container: str) -> Sequence[Grant]:
        """The grants of a container."""
        return self._http.drive(operations.grants(self._session, container))

    def grant(self, container: str, user: str, storlet: str) -> str:
        """Let ``user`` read a container through one storlet only; any warning of the server."""
        return self._http.drive(operations.grant(self._session, container, Grant(user, storlet)))

    def revoke(self, container: str, user: str, storlet: str) -> None:
        """Remove a grant."""
        self._http.drive(operations.revoke(self._session, container, Grant(user, storlet)))

    def rules(self) -> str | None:
        """The text of the rules in force; ``None`` without rules."""
        return self._http.drive(operations.rules(self._session))

    def put_rules(self, text: bytes, *, accept_warnings: bool = False) -> str:
        """Check rules and put them in force; the server's report."""
        flow = operations.put_rules(self._session, text, accept_warnings=accept_warnings)
        return self._http.drive(flow)

    def delete_rules(self) -> None:
        """Remove the rules."""
        self._http.drive(operations.delete_rules(self._session))

    def explain(self, method: str, path: str) -> str:
        """The decision of the rules on a request, which is not performed."""
        return self._http.drive(operations.explain(self._session, method, path))

    def secrets(self) -> Sequence[Mapping[str, str]]:
        """The names of the account's secrets, each with the time when it was set."""
        return self._http.drive(operations.secrets(self._session))

    def set_secret(self, name: str, value: bytes) -> bool:
        """Set a secret; whether it is a new one."""
        return self._http.drive(operations.set_secret(self._session, name, value))

    def delete_secret(self, name: str) -> None:
        """Delete a secret."""
        self._http.drive(operations.delete_secret(self._session, name))

    def logs(self, storlet: str) -> Sequence[Mapping[str, Any]]:
        """The stored logs of a storlet, the newest last."""
        return self._http.drive(operations.logs(self._session, storlet))

    def log(self, storlet: str, invocation: str) -> str:
        """One stored log."""
        return self._http.drive(operations.log(self._session, storlet, invocation))

    def invocations(
        self,
        storlet: str = "",
        *,
        outcome: str = "",
        since: str = "",
        until: str = "",
        most: int = 100,
    ) -> Sequence[Mapping[str, Any]]:
        """Records of invocations, newest first.

        :param storlet: only those of this storlet.
        :param outcome: ``ok``, ``failed``, ``refused``, ``cancelled``, or an error code.
        :param since: only those that ended since a time in UTC, such as ``2026-11-23T19:00:00Z``.
        :param until: only those that ended before a time.
        :param most: the maximum number of records.
        :raises ConfigurationError: the cluster keeps no records: its release is older.
        """
        selection = operations.selection(storlet, outcome, since, until)
        return self._http.drive(operations.runs(self._session, selection, most))

    def invocation(self, invocation: str) -> Mapping[str, Any]:
        """The record of the invocation with this id.

        :raises NotThere: there is none.
        """
        return self._http.drive(operations.run_record(self._session, invocation))

    def follow_invocations(
        self, storlet: str = "", *, outcome: str = ""
    ) -> AbstractContextManager[Output]:
        """A stream with a line of JSON for each record of an invocation that ends from now on.

        :raises NotThere: there is no storlet of this name; the context manager raises it.
        """
        selection = operations.selection(storlet, outcome)
        return self._http.stream(operations.follow_runs(self._session, selection))

    def follow_logs(
        self, storlet: str = "", *, outcome: str = ""
    ) -> AbstractContextManager[Output]:
        """As :meth:`follow_invocations`, with lines of the logs of running storlets."""
        selection = operations.selection(storlet, outcome)
        return self._http.stream(operations.follow_logs(self._session, selection))

    def diagnose(self, named: Sequence[str] = ()) -> Sequence[Check]:
        """Problems of login, cluster, account, storlets and grants, each with its remedy.

        :param named: containers, or objects as ``container/object``, that are checked, too.
        """
        return self._http.drive(diagnose(self._session, named))


# --- the asynchronous face ------------------------------------------------------------------------


class AsyncStorlets(_Account[AsyncTransport]):
    """The same for ``asyncio``; see :class:`Storlets` for the parameters of each method."""

    _transport = AsyncTransport

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
        await self._http.close()

    # --- operations -------------------------------------------------------------------------------

    async def info(self) -> Info:
        """The cluster's languages, limits and container names."""
        return await self._http.drive(operations.info(self._session))

    async def enable(self, records: str = "", *, check: bool | None = None) -> tuple[str, ...]:
        """Enable storlets for the account; the names of the containers that were created."""
        return await self._http.drive(operations.enable(self._session, records, check=check))

    async def list(self) -> list[Storlet]:
        """All storlets of the account."""
        return await self._http.drive(operations.list_storlets(self._session))

    async def show(self, name: str) -> Storlet:
        """One storlet."""
        return await self._http.drive(operations.show(self._session, name))

    async def overview(self, name: str | None = None) -> Overview:
        """All storlets, or one, with versions, limits, access and their runs of the last day."""
        return await self._http.drive(overview(self._session, name))

    async def deploy(
        self,
        name: str,
        code: Content,
        manifest: Manifest,
        dependencies: Mapping[str, tuple[Content, str]] | None = None,
        *,
        check: bool | None = None,
    ) -> Deployed:
        """Upload a storlet with its dependencies; it is in use once this returns."""
        flow = operations.deploy(
            self._session, name, code, manifest, dependencies or {}, check=check
        )
        return await self._http.drive(flow)

    async def deploy_bundle(self, name: str, packed: bytes, *, check: bool | None = None) -> int:
        """Upload a bundle under ``name``; the number of its version, which is current then."""
        return await self._http.drive(
            operations.deploy_bundle(self._session, name, packed, check=check)
        )

    async def versions(self, name: str) -> Sequence[BundleVersion]:
        """The versions of a bundle that the cluster keeps, newest first."""
        return await self._http.drive(operations.versions(self._session, name))

    async def roll_back(self, name: str, number: int | None = None) -> int:
        """Make a version of a bundle current; its number.

        :param number: by default, of the one that was current before the last deployment or
            rollback; a second rollback goes to the one before that.
        """
        return await self._http.drive(operations.roll_back(self._session, name, number))

    async def delete(self, name: str) -> None:
        """Delete a storlet; running invocations finish."""
        await self._http.drive(operations.delete(self._session, name))

    def download(self, name: str) -> AbstractAsyncContextManager[AsyncOutput]:
        """The file of a storlet, as a stream."""
        return self._http.stream(operations.download_storlet(self._session, name))

    def download_version(
        self, name: str, version: BundleVersion
    ) -> AbstractAsyncContextManager[AsyncOutput]:
        """The bundle of one of :meth:`versions`, as a stream."""
        return self._http.stream(operations.download_version(self._session, name, version))

    def read(self, path: str, if_match: str = "") -> AbstractAsyncContextManager[AsyncOutput]:
        """The object ``container/object``, as a stream, without a storlet."""
        place = operations.object_path(path)
        return self._http.stream(operations.download(self._session, place, if_match))

    async def upload(self, path: str, body: Body, content_type: str = "") -> bool:
        """Store ``body`` as ``container/object``; whether the container was created for it."""
        return await self._http.drive(operations.upload(self._session, path, body, content_type))

    def run(
        self,
        storlet: str,
        path: str,
        parameters: Mapping[str, str] | None = None,
        **more: Any,
    ) -> AbstractAsyncContextManager[AsyncOutput]:
        """Run a storlet on ``container/object``; the output is a stream."""
        invocation = Invocation(storlet, path, parameters or {}, **more)
        return self._http.stream(operations.run(self._session, invocation))

    def records(
        self, container: str, name: str, struct: str, where: str = "", fields: Sequence[str] = ()
    ) -> AsyncIterator[Record]:
        """The records of an object, one at a time, as mappings of field to value."""
        query = RecordQuery.of(container, name, struct, where, fields)
        return self._records(query)

    async def _records(self, query: RecordQuery) -> AsyncIterator[Record]:
        async with self._http.stream(records.run(self._session, query)) as output:
            async for record in output.records_of(query.layout):
                yield record

    def sql(
        self,
        query: str,
        path: str,
        parameters: Mapping[str, str] | None = None,
        **more: Any,
    ) -> AbstractAsyncContextManager[AsyncOutput]:
        """The result of one ``SELECT`` from the table ``input``, as a stream."""
        asked = SqlQuery(query, path, parameters or {}, **more)
        return self._http.stream(queries.run(self._session, asked))

    async def library(self) -> Sequence[Mapping[str, Any]]:
        """The storlets that every account has, with versions and parameters."""
        return await self._http.drive(operations.library(self._session))

    def distribute(self, document: Mapping[str, Any]) -> AbstractAsyncContextManager[AsyncOutput]:
        """Run a storlet on many objects; the answer is a stream."""
        return self._http.stream(operations.distribute(self._session, document))

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
        return await self._http.drive(operations.copy(self._session, invocation, target))

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
        return await self._http.drive(operations.put(self._session, invocation, body, content_type))

    async def grants(self, container: str) -> Sequence[Grant]:
        """The grants of a container."""
        return await self._http.drive(operations.grants(self._session, container))

    async def grant(self, container: str, user: str, storlet: str) -> str:
        """Let ``user`` read a container through one storlet only; any warning of the server."""
        return await self._http.drive(
            operations.grant(self._session, container, Grant(user, storlet))
        )

    async def revoke(self, container: str, user: str, storlet: str) -> None:
        """Remove a grant."""
        await self._http.drive(operations.revoke(self._session, container, Grant(user, storlet)))

    async def rules(self) -> str | None:
        """The text of the rules in force; ``None`` without rules."""
        return await self._http.drive(operations.rules(self._session))

    async def put_rules(self, text: bytes, *, accept_warnings: bool = False) -> str:
        """Check rules and put them in force; the server's report."""
        flow = operations.put_rules(self._session, text, accept_warnings=accept_warnings)
        return await self._http.drive(flow)

    async def delete_rules(self) -> None:
        """Remove the rules."""
        await self._http.drive(operations.delete_rules(self._session))

    async def explain(self, method: str, path: str) -> str:
        """The decision of the rules on a request, which is not performed."""
        return await self._http.drive(operations.explain(self._session, method, path))

    async def secrets(self) -> Sequence[Mapping[str, str]]:
        """The names of the account's secrets, each with the time when it was set."""
        return await self._http.drive(operations.secrets(self._session))

    async def set_secret(self, name: str, value: bytes) -> bool:
        """Set a secret; whether it is a new one."""
        return await self._http.drive(operations.set_secret(self._session, name, value))

    async def delete_secret(self, name: str) -> None:
        """Delete a secret."""
        await self._http.drive(operations.delete_secret(self._session, name))

    async def logs(self, storlet: str) -> Sequence[Mapping[str, Any]]:
        """The stored logs of a storlet, the newest last."""
        return await self._http.drive(operations.logs(self._session, storlet))

    async def log(self, storlet: str, invocation: str) -> str:
        """One stored log."""
        return await self._http.drive(operations.log(self._session, storlet, invocation))

    async def invocations(
        self,
        storlet: str = "",
        *,
        outcome: str = "",
        since: str = "",
        until: str = "",
        most: int = 100,
    ) -> Sequence[Mapping[str, Any]]:
        """Records of invocations, newest first."""
        selection = operations.selection(storlet, outcome, since, until)
        return await self._http.drive(operations.runs(self._session, selection, most))

    async def invocation(self, invocation: str) -> Mapping[str, Any]:
        """The record of the invocation with this id."""
        return await self._http.drive(operations.run_record(self._session, invocation))

    def follow_invocations(
        self, storlet: str = "", *, outcome: str = ""
    ) -> AbstractAsyncContextManager[AsyncOutput]:
        """A stream with a line of JSON for each record of an invocation that ends from now on."""
        selection = operations.selection(storlet, outcome)
        return self._http.stream(operations.follow_runs(self._session, selection))

    def follow_logs(
        self, storlet: str = "", *, outcome: str = ""
    ) -> AbstractAsyncContextManager[AsyncOutput]:
        """As :meth:`follow_invocations`, with lines of the logs of running storlets."""
        selection = operations.selection(storlet, outcome)
        return self._http.stream(operations.follow_logs(self._session, selection))

    async def diagnose(self, named: Sequence[str] = ()) -> Sequence[Check]:
        """Problems of login, cluster, account, storlets and grants, each with its remedy.

        :param named: containers, or objects as ``container/object``, that are checked, too.
        """
        return await self._http.drive(diagnose(self._session, named))
