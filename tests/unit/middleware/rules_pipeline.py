"""Swift's own middlewares to the right of the storlet filter, over a store in memory.

They are wired as in a proxy's pipeline.  The store replaces the proxy server.  It calls
``swift.authorize`` in the same order as that server (without the container's ACL first; for reads,
again with it).  It stores the same headers as an object server, and serves ranges and conditional
requests as an object server does.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
from dataclasses import dataclass, field
from typing import Any

from swift.common.header_key_dict import HeaderKeyDict
from swift.common.middleware.copy import ServerSideCopyMiddleware
from swift.common.middleware.dlo import DynamicLargeObject
from swift.common.middleware.slo import StaticLargeObject
from swift.common.middleware.symlink import SymlinkMiddleware
from swift.common.middleware.versioned_writes.legacy import VersionedWritesMiddleware
from swift.common.middleware.versioned_writes.object_versioning import ObjectVersioningMiddleware
from swift.common.request_helpers import resolve_etag_is_at_header, resolve_ignore_range_header
from swift.common.swob import HTTPForbidden, HTTPPreconditionFailed, Request, Response
from swift.common.utils import Timestamp

from storlet_middleware.enforcement.covered_reads import CoveredReads
from storlet_middleware.enforcement.read_guard import ReadGuard
from storlet_middleware.errors import RuleRefused, StorletError
from storlet_middleware.wsgi.context import AuthorizationChain
from storlet_middleware.wsgi.operation import parse
from storlet_middleware.wsgi.swift_paths import SwiftPath

_STORED_PREFIXES = ("x-object-sysmeta-", "x-object-meta-", "x-object-transient-sysmeta-")
_STORED_HEADERS = ("content-type", "x-object-manifest", "x-static-large-object")
_ETAG_OVERRIDE = "X-Object-Sysmeta-Container-Update-Override-Etag"


@dataclass
class StoredObject:
    body: bytes
    headers: dict[str, str]


@dataclass
class Container:
    headers: dict[str, str] = field(default_factory=dict)
    objects: dict[str, StoredObject] = field(default_factory=dict)


class Store:
    """Replaces the proxy server; containers have account and container as key (WSGI strings)."""

    def __init__(self) -> None:
        self.containers: dict[str, Container] = {}
        #: Method, path and ``swift.source`` of each authorised request.
        self.done: list[tuple[str, str, str]] = []
        self._clock = itertools.count(1640995200)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        request = Request(environ)
        return self._respond(request)(environ, start_response)

    def _respond(self, request: Any) -> Any:
        _, account, container, name = request.split_path(2, 4, True)
        if "\0" in request.path_info and not request.allow_reserved_names:
            return HTTPPreconditionFailed(request=request, body=b"Invalid UTF8 or contains NULL")
        found = self.containers.get(f"{account}/{container}")
        is_read = request.method in ("GET", "HEAD")
        authorize = request.environ.get("swift.authorize")
        if authorize is not None:
            refusal = authorize(request)
            if refusal is not None:
                if not is_read:
                    return refusal
                request.acl = found.headers.get("X-Container-Read") if found else None
                refusal = authorize(request)
            if refusal is not None:
                return refusal
        self.done.append(
            (request.method, request.path_info, request.environ.get("swift.source", ""))
        )
        if container is None:
            return Response(status=204, request=request)
        if name:
            return self._object(request, found, name)
        return self._container(request, f"{account}/{container}", found)

    def _container(self, request: Any, path: str, container: Container | None) -> Any:
        if request.method == "PUT":
            container = self.containers.setdefault(path, Container())
        if container is None:
            return Response(status=404, request=request)
        if request.method in ("PUT", "POST"):
            container.headers |= {
                key: value
                for key, value in request.headers.items()
                if key.startswith("X-Container-")
            }
            request.environ.get("swift.infocache", {}).clear()
            return Response(status=201, request=request)
        if request.method == "HEAD":
            return Response(status=204, request=request, headers=container.headers)
        prefix, marker = request.params.get("prefix", ""), request.params.get("marker", "")
        entries = [
            self._entry(name, stored)
            for name, stored in sorted(
                container.objects.items(), reverse="reverse" in request.params
            )
            if name.startswith(prefix) and (not marker or name > marker)
        ]
        return Response(
            request=request,
            headers=container.headers,
            body=json.dumps(entries),
            content_type="application/json",
        )

    @staticmethod
    def _entry(name: str, stored: StoredObject) -> dict[str, Any]:
        text = name.encode("latin-1").decode()
        etag = stored.headers.get(_ETAG_OVERRIDE, stored.headers["Etag"])
        kind = stored.headers["Content-Type"]
        return {
            "name": text,
            "hash": etag,
            "bytes": len(stored.body),
            "content_type": kind,
            "last_modified": "2022",
        }

    def _object(self, request: Any, container: Container | None, name: str) -> Any:
        if container is None:
            return Response(status=404, request=request)
        if request.method == "PUT":
            return self._put(request, container, name)
        stored = container.objects.get(name)
        if stored is None:
            return Response(status=404, request=request)
        if request.method == "DELETE":
            del container.objects[name]
            return Response(status=204, request=request)
        if request.method == "POST":
            sysmeta = {
                key: value
                for key, value in stored.headers.items()
                if key.startswith("X-Object-Sysmeta-")
            }
            return Response(status=202, request=request, headers=sysmeta)
        resolve_ignore_range_header(request, HeaderKeyDict(stored.headers))
        etag = resolve_etag_is_at_header(request, HeaderKeyDict(stored.headers))
        answer = Response(
            request=request,
            headers=stored.headers,
            conditional_response=True,
            conditional_etag=etag,
        )
        answer.body = stored.body
        answer.headers["Etag"] = stored.headers["Etag"]
        answer.headers["Last-Modified"] = "Sat, 01 Jan 2022 00:00:00 GMT"
        answer.headers["X-Backend-Timestamp"] = answer.headers["X-Timestamp"]
        return answer

    def _put(self, request: Any, container: Container, name: str) -> Any:
        if "Content-Type" not in request.headers:
            request.headers["Content-Type"] = "text/plain"
        chunks = []
        try:
            while chunk := request.environ["wsgi.input"].read(65536):
                chunks.append(chunk)
        except Exception:  # noqa: BLE001 - as Swift's proxy does
            return Response(status=499, request=request)
        body = b"".join(chunks)
        if len(body) < (request.content_length or 0):
            return Response(status=499, request=request)
        etag = hashlib.md5(body, usedforsecurity=False).hexdigest()
        if request.headers.get("Etag", etag).strip('"') != etag:
            return Response(status=422, request=request)
        headers = {
            key.title(): value
            for key, value in request.headers.items()
            if value and key.lower().startswith((*_STORED_PREFIXES, *_STORED_HEADERS))
        }
        stamp = Timestamp(next(self._clock)).internal
        container.objects[name] = StoredObject(
            body, {**headers, "Etag": etag, "X-Timestamp": stamp}
        )
        return Response(
            status=201,
            request=request,
            headers={"Etag": etag, "Last-Modified": "Sat, 01 Jan 2022 00:00:00 GMT"},
        )


class OnePathRule:
    """Path rules with one rule.

    :param covered: the covered objects (``a/c/o``); ``*`` stands for any container or name.
    """

    def __init__(self, *covered: str, rule: str = "hide") -> None:
        self.covered = set(covered)
        self.rule = rule
        self.checked: list[str] = []
        self.error: StorletError | None = None
        #: Methods and paths (``a/c/o``).
        self.denied: set[tuple[str, str]] = set()

    def denial(self, method: str, place: SwiftPath) -> tuple[str, str] | None:
        path = f"{place.account}/{place.container}/{place.name}"
        return (self.rule, "no") if (method, path) in self.denied else None

    def covers(self, account: str, container: str, name: str) -> str | None:
        return self._rule_of(f"{account}/{container}/{name}")

    def may_cover(self, account: str, container: str | None, name: str | None) -> str | None:
        """An unknown container or name matches any."""
        container, name = "*" if container is None else container, "*" if name is None else name
        return self._rule_of(f"{account}/{container}/{name}")

    def _rule_of(self, path: str) -> str | None:
        self.checked.append(path)
        if self.error is not None:
            raise self.error
        parts = path.split("/", 2)
        for covered in self.covered:
            pairs = zip(parts, covered.split("/", 2), strict=True)
            if all("*" in pair or pair[0] == pair[1] for pair in pairs):
                return self.rule
        return None


def allows_all(request: Any) -> Any:
    request.environ["swift_owner"] = True


def allows_but(*closed: str) -> Any:
    """Return a ``swift.authorize`` that refuses paths that contain one of ``closed``."""

    def authorize(request: Any) -> Any:
        is_closed = any(part in request.path_info for part in closed)
        return HTTPForbidden(request=request) if is_closed else None

    return authorize


class _Tail:
    """The end of the pipeline; the store is replaceable.

    The pipeline is built once, because each of Swift's loggers keeps a socket.
    """

    store: Store | None = None

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        assert self.store is not None
        return self.store(environ, start_response)


@functools.cache
def _build_pipeline() -> tuple[_Tail, Any]:
    tail = _Tail()
    app: Any = SymlinkMiddleware(tail, {}, 2)
    app = ObjectVersioningMiddleware(app, {"allow_object_versioning": "true"})
    app = VersionedWritesMiddleware(app, {"allow_versioned_writes": "true"})
    app = DynamicLargeObject(app, {"rate_limit_after_segment": "1000000"})
    app = StaticLargeObject(app, {"rate_limit_after_segment": "1000000"})
    return tail, ServerSideCopyMiddleware(app, {})


class Pipeline:
    """Everything to the right of the storlet filter."""

    def __init__(self) -> None:
        self.store = Store()
        tail, self.app = _build_pipeline()
        tail.store = self.store
        for container in ("AUTH_a/open", "AUTH_a/closed", "AUTH_b/closed"):
            self.store.containers[container] = Container()

    def request(
        self, method: str, path: str, headers: dict[str, str] | None = None, **more: Any
    ) -> Any:
        """Send a request of the owner without a guard; return the answer with its body read."""
        environ = {"swift.authorize": allows_all, "swift.infocache": {}}
        request = Request.blank(
            path if path.startswith("/v1") else f"/v1/AUTH_a/{path}",
            environ,
            headers=headers,
            method=method,
            **more,
        )
        answer = request.get_response(self.app)
        answer.body  # noqa: B018 - reads the body
        assert answer.status_int < 400, f"{method} {path}: {answer.status} {answer.body!r}"
        return answer

    def slo(self, path: str, *parts: str, query: str = "") -> None:
        manifest = json.dumps([{"path": f"/{part}"} for part in parts])
        self.request("PUT", f"{path}?multipart-manifest=put{query}", body=manifest.encode())

    def guarded(
        self,
        path_rules: OnePathRule,
        method: str,
        path: str,
        headers: dict[str, str] | None = None,
        **more: Any,
    ) -> Guarded:
        return Guarded(self, path_rules, method, path, headers or {}, **more)


class Guarded:
    """A client's request with the guard that the filter installs, and Swift's answer."""

    def __init__(
        self,
        pipeline: Pipeline,
        path_rules: OnePathRule,
        method: str,
        path: str,
        headers: dict[str, str],
        *,
        under: str | None = None,
        follows_links: bool = True,
        authorize: Any = allows_all,
        decided: tuple[str, str | None, str | None] | None = None,
        **more: Any,
    ) -> None:
        environ: dict[str, Any] = {"swift.infocache": {}}
        if authorize is not None:
            environ["swift.authorize"] = authorize
        request = Request.blank(
            path if path.startswith("/v1") else f"/v1/AUTH_a/{path}",
            environ,
            headers=headers,
            method=method,
            **more,
        )
        environ = request.environ
        operation = parse(environ)
        assert operation is not None
        place = operation.subject if decided is None else SwiftPath("v1", *decided)
        reads = CoveredReads(operation, lambda _: path_rules, place, pipeline.app)
        reads.allow_storlet_of(under, follows_links=follows_links)
        self.guard = ReadGuard(reads, authorize, "storlet-rules")
        environ["swift.authorize"] = AuthorizationChain(authorize, rules=self.guard)
        status, self.headers, chunks = request.call_application(pipeline.app)
        self.status = int(status.split()[0])
        self.refusal: StorletError | None = None
        self.broken: StorletError | None = None
        self.body = b""
        try:
            self.guard.check_answer(status, self.headers)
        except StorletError as error:
            self.refusal = error
            getattr(chunks, "close", bool)()
            return
        pieces: list[bytes] = []
        try:
            pieces.extend(self.guard.break_if_refused(self.headers, chunks))
        except StorletError as error:
            self.broken = error
        self.body = b"".join(pieces)

    @property
    def is_refused(self) -> bool:
        return self.refusal is not None


COVERED = "AUTH_a/closed/o"

SECRET = b"secret"

ETAG = hashlib.md5(SECRET, usedforsecurity=False).hexdigest()


def assert_refused(answer: Any, rule: str = "hide") -> None:
    assert isinstance(answer.refusal, RuleRefused), (answer.status, answer.body)
    assert answer.refusal.rule == rule
    assert SECRET not in answer.body


def assert_served(answer: Any, body: bytes | None = None) -> None:
    assert not answer.is_refused, answer.refusal
    assert answer.broken is None
    assert answer.status < 300, (answer.status, answer.body)
    assert body is None or answer.body == body
