"""Test doubles for the tests of this folder: a small Swift, a node's daemon and its workers.

The engine runs on eventlet in the test's main thread, as in a server.  The daemon and the workers
run in native threads and speak the real protocol over real sockets and pipes.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from swift.common.swob import HTTPForbidden, HTTPUnauthorized, Request, Response

from storlet_daemon.protocol import framing, messages
from storlet_daemon.protocol.descriptors import Descriptors
from storlet_middleware import concurrency
from storlet_middleware.config import Config, parse
from storlet_middleware.filter import ProxyFilter
from tests.unit.middleware.logger import Logger

ACCOUNT = "AUTH_test"
OWNER = "test:tester"
#: Headers of a request for the storlet of the fixture ``swift``.
RUN = {"X-Run-Storlet": "up.py"}
STORLET_HEADERS = {
    "X-Object-Meta-Storlet-Language": "python",
    "X-Object-Meta-Storlet-Interface-Version": "1.0",
    "X-Object-Meta-Storlet-Object-Metadata": "no",
    "X-Object-Meta-Storlet-Main": "up.Up",
}


def open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def make_config(run_dir: Path, **options: str) -> Config:
    """Return a configuration; options have the form ``section__name="value"``."""
    sections: dict[str, list[str]] = {"sandbox": [f"run_dir = {run_dir}", f"state_dir = {run_dir}"]}
    for key, value in options.items():
        section, _, name = key.partition("__")
        sections.setdefault(section, []).append(f"{name} = {value}")
    return parse("\n".join(f"[{name}]\n" + "\n".join(lines) for name, lines in sections.items()))


# --- sandbox --------------------------------------------------------------------------------------


class WorkerRun:
    """One invocation, seen from the worker."""

    def __init__(
        self, connection: socket.socket, invoke: messages.Invoke, descriptors: Descriptors
    ) -> None:
        self.connection = connection
        self.invoke = invoke
        self.inputs = [descriptors.take(item.fd) for item in invoke.inputs]
        self.outs = [descriptors.take(item.fd) for item in invoke.outputs]
        self.log = descriptors.take(invoke.log.fd) if invoke.log else -1
        services = invoke.services
        self.services = socket.socket(fileno=descriptors.take(services.fd)) if services else None
        self._asked = 0

    def send(self, message: messages.Message) -> None:
        framing.send(self.connection, message)

    @property
    def out(self) -> int:
        """The first output."""
        return self.outs[0] if self.outs else -1

    def begin(self, **metadata: str) -> None:
        self.send(messages.Started())
        self.send(messages.Metadata(metadata))

    def begin_further(self, number: int, /, **metadata: str) -> None:
        self.send(messages.Metadata(metadata, number))

    def read(self) -> bytes:
        """Read the first input to its end."""
        span, pieces = self.invoke.inputs[0], []
        if span.start is not None:
            os.lseek(self.inputs[0], span.start, os.SEEK_SET)
        left = span.end - (span.start or 0) + 1 if span.end is not None else -1
        while left and (piece := os.read(self.inputs[0], 65536 if left < 0 else left)):
            pieces.append(piece)
            left -= len(piece) if left > 0 else 0
        return b"".join(pieces)

    def write(self, data: bytes, number: int = 0) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self.outs[number], view) :]

    def ask(self, kind: type[messages.ServiceRequest], *fields: Any) -> tuple[Any, Descriptors]:
        """The reply to a request of the storlet, and its descriptors."""
        assert self.services is not None
        self._asked += 1
        framing.send(self.services, kind(self._asked, *fields))
        received = framing.receive(self.services)
        assert received is not None
        return received.message(messages.SERVICE_REPLIES), received.descriptors

    def create(self, path: str, data: bytes, *fields: Any) -> Any:
        """Create an object; the last reply."""
        reply, descriptors = self.ask(messages.CreateObject, path, *fields)
        if not isinstance(reply, messages.Created):
            return reply
        fd = descriptors.take(0)
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(fd, view) :]
        except OSError:
            pass  # the reply says why
        finally:
            os.close(fd)
        return self.ask(messages.CloseFile, reply.id, len(data))[0]

    def close_files(self) -> None:
        if self.services is not None:
            self.services.close()
        for fd in (*self.inputs, *self.outs, self.log):
            if fd >= 0:
                os.close(fd)
        self.inputs, self.outs, self.log = [], [], -1

    def succeed(self) -> None:
        self.close_files()
        self.send(messages.Done(messages.OK, usage=messages.Usage(0.25, 4096)))

    def fail(
        self,
        message: str = "ValueError: no",
        code: str = messages.FAILED,
        traceback: str = "Traceback ...",
    ) -> None:
        self.close_files()
        self.send(messages.Done.error(code, message, traceback))

    def wait_for_cancel(self, seconds: float = 5) -> bool:
        """Return True if the filter closes the connection in time."""
        self.connection.settimeout(seconds)
        try:
            return framing.receive(self.connection) is None
        except ConnectionResetError:  # closed before it read all that this side sent
            return True
        except OSError:
            return False


Script = Callable[[WorkerRun], None]


def upper(run: WorkerRun) -> None:
    run.begin()
    run.write(run.read().upper())
    run.succeed()


class Workers:
    """A worker group: runs ``script`` for each connection in a new thread."""

    def __init__(self, path: Path, script: Script = upper) -> None:
        self.path = str(path)
        self.script = script
        self.runs: list[WorkerRun] = []
        self.problems: list[BaseException] = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(self.path)
        self._listener.listen(64)
        self._threads: list[threading.Thread] = []
        self._spawning = threading.Lock()
        self._spawn(self._accept)

    def _spawn(self, function: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=function, args=args, daemon=True)
        # Start and registration are atomic, so that settle() and close() join each started thread.
        with self._spawning:
            thread.start()
            self._threads.append(thread)

    def _started(self) -> list[threading.Thread]:
        with self._spawning:
            return list(self._threads)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._spawn(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                received = framing.receive(connection)
            except OSError:
                return
            if received is None:
                return
            run = WorkerRun(
                connection, received.message(messages.INVOCATION_REQUEST), received.descriptors
            )
            self.runs.append(run)
            try:
                self.script(run)
            except (BrokenPipeError, ConnectionError):
                pass
            except BaseException as error:
                self.problems.append(error)
                raise
            finally:
                run.close_files()

    def connect(self) -> socket.SocketType:
        return concurrency.connect(self.path, 5)

    def settle(self) -> None:
        """Wait until all runs have ended."""
        for thread in self._started()[1:]:
            thread.join(5)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._started():
            thread.join(5)


class Node:
    """A node: its sandboxd, and its workers."""

    def __init__(self, directory: Path, script: Script = upper) -> None:
        self.code_dir = directory / "code"
        self.code_dir.mkdir()
        self.workers = Workers(directory / "w.sock", script)
        self.asked: list[messages.Message] = []
        self.answer: Callable[[messages.Message], messages.Message | None] = self._answer
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(str(directory / "sandboxd.sock"))
        self._listener.listen(64)
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _answer(self, request: messages.Message) -> messages.Message:
        if isinstance(request, messages.Prepare):
            return messages.Prepared(str(self.code_dir))
        return messages.Acquired(self.workers.path)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                received = framing.receive(connection)
                if received is None:
                    continue
                request = received.message(messages.NODE_REQUESTS)
                self.asked.append(request)
                answer = self.answer(request)
                if answer is not None:
                    # The filter may have given up waiting.
                    with contextlib.suppress(BrokenPipeError):
                        framing.send(connection, answer)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)
        self.workers.close()


# --- Swift ----------------------------------------------------------------------------------------


class Body:
    """A body that records whether it was read to its end and closed."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self.is_read = False
        self.is_closed = False

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            return next(self._chunks)
        except StopIteration:
            self.is_read = True
            raise

    def close(self) -> None:
        self.is_closed = True


@dataclass
class Stored:
    body: bytes
    headers: dict[str, str]
    #: Provides the body of a GET instead of ``body``.
    chunks: Callable[[], Iterable[bytes]] | None = None


@dataclass
class Seen:
    method: str
    path: str
    headers: dict[str, str]
    query: str
    source: str


@dataclass
class Container:
    read: str = ""
    write: str = ""
    sysmeta: dict[str, str] = field(default_factory=dict)
    objects: dict[str, Stored] = field(default_factory=dict)


class FakeSwift:
    """The rest of a proxy's pipeline: one account with containers and objects.

    It checks ACLs with ``swift.authorize``.
    """

    def __init__(self) -> None:
        self.is_enabled = True
        #: Further headers of the account.
        self.account_headers: dict[str, str] = {}
        self.containers: dict[str, Container] = {}
        self.seen: list[Seen] = []
        self.bodies: list[Body] = []
        self.hooks: dict[tuple[str, str], Callable[[Any], Any]] = {}

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        request = Request(environ)
        self.seen.append(
            Seen(
                request.method,
                environ["PATH_INFO"],
                dict(request.headers),
                environ.get("QUERY_STRING", ""),
                environ.get("swift.source", ""),
            )
        )
        hook = self.hooks.get((request.method, environ["PATH_INFO"]))
        answer = hook(request) if hook else self.respond(request)
        if answer is None:
            answer = self.respond(request)
        chunks = answer(environ, start_response)
        if request.method == "GET":
            chunks = Body(chunks)
            self.bodies.append(chunks)
        return chunks

    def put(self, container: str, name: str, body: bytes = b"", **headers: str) -> Stored:
        given = {key.replace("_", "-"): value for key, value in headers.items()}
        stored = Stored(body, {"Content-Type": "text/plain", **given})
        self.containers.setdefault(container, Container()).objects[name] = stored
        return stored

    def put_storlet(
        self, name: str = "up.py", body: bytes = b"class Up: pass", **more: str
    ) -> Stored:
        stored = self.put("storlet", name, body)
        main = f"{name.removesuffix('.py')}.Up"
        stored.headers |= {**STORLET_HEADERS, "X-Object-Meta-Storlet-Main": main}
        stored.headers |= {key.replace("_", "-"): value for key, value in more.items()}
        return stored

    def requests(self, method: str, path: str = "") -> list[Seen]:
        return [seen for seen in self.seen if seen.method == method and seen.path.endswith(path)]

    def unclosed(self) -> int:
        return sum(not body.is_closed for body in self.bodies)

    def respond(self, request: Any) -> Any:
        parts = request.environ["PATH_INFO"].split("/", 4)[2:]
        if parts[0] != ACCOUNT:
            return Response(status=404, request=request)
        if len(parts) == 1 or not parts[1]:
            headers = {"X-Account-Meta-Storlet-Enabled": str(self.is_enabled)}
            headers |= self.account_headers
            return Response(status=204, request=request, headers=headers)
        container = self.containers.get(parts[1])
        if len(parts) == 2:
            return self._container(request, parts[1], container)
        if container is None:
            return Response(status=404, request=request)
        return self._object(request, container, parts[2])

    def _refusal(self, request: Any, acl: str | None) -> Any:
        authorize = request.environ.get("swift.authorize")
        request.acl = acl
        return authorize(request) if authorize else None

    def _container(self, request: Any, name: str, container: Container | None) -> Any:
        if container is None and request.method != "PUT":
            return Response(status=404, request=request, body=b"no such container")
        if request.method == "PUT":
            self.containers.setdefault(name, Container())
            return Response(status=201, request=request)
        assert container is not None
        refusal = self._refusal(request, container.read if request.method != "POST" else None)
        if refusal is not None:
            return refusal
        if request.method == "POST":
            for key, value in request.headers.items():
                if key.startswith("X-Container-Sysmeta-"):
                    container.sysmeta[key] = value
                    if not value:
                        del container.sysmeta[key]
                elif key == "X-Container-Read":
                    container.read = value
            request.environ.get("swift.infocache", {}).clear()
            return Response(status=204, request=request)
        headers = {
            "X-Container-Read": container.read,
            "X-Container-Write": container.write,
            **container.sysmeta,
        }
        if request.method == "GET":
            query = dict(parse_qsl(request.environ.get("QUERY_STRING", "")))
            found = listed(container.objects, query)
            entries = [{"name": n, "bytes": len(container.objects[n].body)} for n in found]
            listing = json.dumps(entries)
            return Response(status=200, request=request, headers=headers, body=listing)
        return Response(status=204, request=request, headers=headers)

    def _object(self, request: Any, container: Container, name: str) -> Any:
        is_read = request.method in ("GET", "HEAD")
        refusal = self._refusal(request, container.read if is_read else container.write)
        if refusal is not None:
            return refusal
        if request.method == "PUT":
            return self._put(request, container, name)
        stored = container.objects.get(name)
        if stored is None:
            return Response(status=404, request=request, body=b"no such object")
        if request.method == "DELETE":
            del container.objects[name]
        if request.method in ("POST", "DELETE", "COPY"):
            return Response(status=204, request=request)
        return self.serve(request, stored)

    def serve(self, request: Any, stored: Stored) -> Any:
        headers = {
            "Etag": hashlib.md5(stored.body, usedforsecurity=False).hexdigest(),
            "Last-Modified": "Sat, 01 Jan 2022 00:00:00 GMT",
            "X-Timestamp": "1640995200.00000",
            **stored.headers,
        }
        more: dict[str, Any] = (
            {"app_iter": stored.chunks()} if stored.chunks else {"body": stored.body}
        )
        answer = Response(request=request, headers=headers, conditional_response=True, **more)
        if stored.chunks:
            answer.content_length = len(stored.body)
        return answer

    def _put(self, request: Any, container: Container, name: str) -> Any:
        chunks = []
        try:
            while chunk := request.environ["wsgi.input"].read(65536):
                chunks.append(chunk)
        except Exception:  # noqa: BLE001 - as Swift's proxy does
            return Response(status=499, request=request)
        keep = ("X-Object-Meta-", "X-Object-Sysmeta-", "Content-Type", "X-Delete-", "Etag")
        headers = {key: value for key, value in request.headers.items() if key.startswith(keep)}
        container.objects[name] = Stored(b"".join(chunks), headers)
        return Response(
            status=201,
            request=request,
            headers={"Etag": hashlib.md5(b"".join(chunks), usedforsecurity=False).hexdigest()},
        )


def listed(names: Iterable[str], query: dict[str, str]) -> list[str]:
    """The names that Swift lists; both markers are exclusive."""
    is_reverse = query.get("reverse") == "true"
    after, before = query.get("marker", ""), query.get("end_marker", "")
    if is_reverse:
        after, before = before, after
    found = [
        name
        for name in sorted(names)
        if name.startswith(query.get("prefix", ""))
        and (not after or name > after)
        and (not before or name < before)
    ]
    return (found[::-1] if is_reverse else found)[: int(query.get("limit", 10_000))]


def authorize(request: Any) -> Any:
    """Authorise like TempAuth: the owner for everything, other users by ACL."""
    user = request.environ.get("REMOTE_USER", "")
    if user.split(",")[0] == OWNER:
        request.environ["swift_owner"] = True
        return None
    if user and user.split(",")[0] in (getattr(request, "acl", None) or "").split(","):
        return None
    return HTTPForbidden(request=request) if user else HTTPUnauthorized(request=request)


class Proxy:
    """A proxy's filter over a :class:`FakeSwift`."""

    def __init__(self, swift: FakeSwift, config: Config, **options: str) -> None:
        self.swift = swift
        self._logger = Logger()
        self.filter = ProxyFilter(swift, config, self._logger, options)
        self.memcache: Any = None

    @property
    def logger(self) -> Logger:
        """The logger, after all runs were reported."""
        self.filter._proxy.reports.flush()
        return self._logger

    def call(
        self, method: str, path: str, headers: dict[str, str] | None = None, **more: Any
    ) -> Any:
        """Return the answer with its body read; ``broken`` is the exception of the body."""
        answer = self.start(method, path, headers, **more)
        chunks, answer.broken = [], None
        try:
            chunks.extend(answer.app_iter)
        except Exception as error:  # noqa: BLE001
            answer.broken = error
        finally:
            close = getattr(answer.app_iter, "close", None)
            if close:
                close()
        answer.data = b"".join(chunks)
        return answer

    def start(
        self,
        method: str,
        path: str,
        headers: dict[str, str] | None = None,
        user: str = OWNER,
        **more: Any,
    ) -> Any:
        """Return the answer with its body unread."""
        environ: dict[str, Any] = {"swift.trans_id": "txtest", "swift.authorize": authorize}
        if user:
            environ["REMOTE_USER"] = user
        if self.memcache is not None:
            environ["swift.cache"] = self.memcache
        environ.update(more.pop("environ", {}))
        full = path if path.startswith("/v1") else f"/v1/{ACCOUNT}/{path}"
        body = more.pop("body", None)
        request = Request.blank(full, method=method, headers=headers or {}, environ=environ, **more)
        if isinstance(body, bytes):
            request.body = body
        elif body is not None:
            request.environ["wsgi.input"] = body
        captured: dict[str, Any] = {}

        def start_response(status: str, headers: list[tuple[str, str]], *more: Any) -> None:
            captured.update(status=status, headers=headers)

        chunks = self.filter(request.environ, start_response)
        return Answer(captured["status"], captured["headers"], chunks)


def assert_idle(proxy: Proxy) -> None:
    """Assert that no run of the proxy is counted, and none opens an input."""
    assert proxy.filter._proxy._inflight == {}
    assert proxy.filter._proxy.openings._slots._used == {}


class Answer:
    """The filter's answer, without further processing by swob."""

    def __init__(self, status: str, headers: list[tuple[str, str]], app_iter: Any) -> None:
        self.status = int(status.split(maxsplit=1)[0])
        self.line = status
        self.headers = {key.title(): value for key, value in headers}
        self.app_iter = app_iter
        self.data = b""
        self.broken: Exception | None = None

    @property
    def error(self) -> str:
        return self.headers.get("X-Storlet-Error", "")


class Memcache:
    """The used part of Swift's memcache ring, in memory."""

    def __init__(self) -> None:
        self.memcache_servers = ["one"]
        self.values: dict[str, Any] = {}
        self.on_get: list[Callable[[], None]] = []

    def get(self, key: str, *args: Any, **more: Any) -> Any:
        return None

    def set(self, key: str, value: Any, *args: Any, **more: Any) -> None:
        """Do not cache account and container info."""

    def get_multi(self, keys: list[str], server_key: str) -> list[Any]:
        values = [self.values.get(key) for key in keys]
        for hook in self.on_get:
            hook()
        return values

    def set_multi(
        self, mapping: dict[str, Any], server_key: str, serialize: bool = True, time: int = 0
    ) -> None:
        assert time > 0
        self.values.update(mapping)

    def incr(self, key: str, time: int = 0) -> int:
        assert time > 0
        self.values[key] = self.values.get(key, 0) + 1
        return int(self.values[key])

    def delete(self, key: str) -> None:
        self.values.pop(key, None)


class BrokenInput(io.RawIOBase):
    """A client's body that breaks off after ``data``, like a lost connection."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def read(self, size: int = -1) -> bytes:
        piece = self._data.read(size)
        if not piece:
            raise OSError("connection lost")
        return piece


def wait_until(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Wait for a change made by a native thread; green threads run meanwhile."""
    import eventlet  # noqa: PLC0415

    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        eventlet.sleep(0.01)
    return condition()
