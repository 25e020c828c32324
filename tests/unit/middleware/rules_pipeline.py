"""Swift's own middlewares to the right of our filter, wired as in a proxy's pipeline, over a store in memory.

The store stands for the proxy server: it asks ``swift.authorize`` in that server's order (without the container's ACL first,
again with it for reads), keeps what an object server keeps, and answers ranges and conditions as that does.
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

from storlet_middleware.enforcement.read_guard import ReadGuard
from storlet_middleware.errors import StorletError
from storlet_middleware.wsgi.context import AuthorizationChain
from storlet_middleware.wsgi.operation import parse
from storlet_middleware.wsgi.swift_paths import Read

_KEPT = ("x-object-sysmeta-", "x-object-meta-", "x-object-transient-sysmeta-")
_ALLOWED = ("content-type", "x-object-manifest", "x-static-large-object")
_ETAG_OVERRIDE = "X-Object-Sysmeta-Container-Update-Override-Etag"


@dataclass
class Kept:
    body: bytes
    headers: dict[str, str]


@dataclass
class Box:
    """A container."""

    headers: dict[str, str] = field(default_factory=dict)
    objects: dict[str, Kept] = field(default_factory=dict)


class Store:
    """The proxy server: what it keeps, by account and container (WSGI strings)."""

    def __init__(self) -> None:
        self.boxes: dict[str, Box] = {}
        #: Method, path and ``swift.source`` of what was done, with no one's refusal.
        self.done: list[tuple[str, str, str]] = []
        self._clock = itertools.count(1640995200)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        request = Request(environ)
        return self._respond(request)(environ, start_response)

    def _respond(self, request: Any) -> Any:
        _, account, container, name = request.split_path(2, 4, True)
        if "\0" in request.path_info and not request.allow_reserved_names:
            return HTTPPreconditionFailed(request=request, body=b"Invalid UTF8 or contains NULL")
        box = self.boxes.get(f"{account}/{container}")
        is_read = request.method in ("GET", "HEAD")
        authorize = request.environ.get("swift.authorize")
        if authorize is not None:
            refusal = authorize(request)
            if refusal is not None:
                if not is_read:
                    return refusal
                request.acl = box.headers.get("X-Container-Read") if box else None
                refusal = authorize(request)
            if refusal is not None:
                return refusal
        self.done.append(
            (request.method, request.path_info, request.environ.get("swift.source", ""))
        )
        if container is None:
            return Response(status=204, request=request)
        return (
            self._object(request, box, name)
            if name
            else self._container(request, f"{account}/{container}", box)
        )

    def _container(self, request: Any, path: str, box: Box | None) -> Any:
        if request.method == "PUT":
            box = self.boxes.setdefault(path, Box())
        if box is None:
            return Response(status=404, request=request)
        if request.method in ("PUT", "POST"):
            box.headers |= {
                key: value
                for key, value in request.headers.items()
                if key.startswith("X-Container-")
            }
            request.environ.get("swift.infocache", {}).clear()
            return Response(status=201, request=request)
        if request.method == "HEAD":
            return Response(status=204, request=request, headers=box.headers)
        prefix, marker = request.params.get("prefix", ""), request.params.get("marker", "")
        entries = [
            self._entry(name, kept)
            for name, kept in sorted(box.objects.items(), reverse="reverse" in request.params)
            if name.startswith(prefix) and (not marker or name > marker)
        ]
        return Response(
            request=request,
            headers=box.headers,
            body=json.dumps(entries),
            content_type="application/json",
        )

    @staticmethod
    def _entry(name: str, kept: Kept) -> dict[str, Any]:
        text = name.encode("latin-1").decode()
        etag = kept.headers.get(_ETAG_OVERRIDE, kept.headers["Etag"])
        kind = kept.headers["Content-Type"]
        return {
            "name": text,
            "hash": etag,
            "bytes": len(kept.body),
            "content_type": kind,
            "last_modified": "2022",
        }

    def _object(self, request: Any, box: Box | None, name: str) -> Any:
        if box is None:
            return Response(status=404, request=request)
        if request.method == "PUT":
            return self._put(request, box, name)
        kept = box.objects.get(name)
        if kept is None:
            return Response(status=404, request=request)
        if request.method == "DELETE":
            del box.objects[name]
            return Response(status=204, request=request)
        if request.method == "POST":
            sysmeta = {
                key: value
                for key, value in kept.headers.items()
                if key.startswith("X-Object-Sysmeta-")
            }
            return Response(status=202, request=request, headers=sysmeta)
        resolve_ignore_range_header(request, HeaderKeyDict(kept.headers))
        etag = resolve_etag_is_at_header(request, HeaderKeyDict(kept.headers))
        answer = Response(
            request=request, headers=kept.headers, conditional_response=True, conditional_etag=etag
        )
        answer.body = kept.body
        answer.headers["Etag"] = kept.headers["Etag"]
        answer.headers["Last-Modified"] = "Sat, 01 Jan 2022 00:00:00 GMT"
        answer.headers["X-Backend-Timestamp"] = answer.headers["X-Timestamp"]
        return answer

    def _put(self, request: Any, box: Box, name: str) -> Any:
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
            if value and key.lower().startswith((*_KEPT, *_ALLOWED))
        }
        stamp = Timestamp(next(self._clock)).internal
        box.objects[name] = Kept(body, {**headers, "Etag": etag, "X-Timestamp": stamp})
        return Response(
            status=201,
            request=request,
            headers={"Etag": etag, "Last-Modified": "Sat, 01 Jan 2022 00:00:00 GMT"},
        )


class Judge:
    """Rules as data: who covers an object (``a/c/o``), a container (``a/c/*``) or an account (``a/*``)."""

    def __init__(self, *covered: str, rule: str = "hide") -> None:
        self.covered = set(covered)
        self.rule = rule
        self.asked: list[str] = []
        self.error: StorletError | None = None

    def covers(self, account: str, container: str, name: str) -> str | None:
        return self._ask(f"{account}/{container}/{name}")

    def may_cover(self, account: str, container: str | None, name: str | None) -> str | None:
        """Of what is unknown any value may be."""
        container, name = "*" if container is None else container, "*" if name is None else name
        return self._ask(f"{account}/{container}/{name}")

    def _ask(self, what: str) -> str | None:
        self.asked.append(what)
        if self.error is not None:
            raise self.error
        parts = what.split("/", 2)
        for covered in self.covered:
            if all(
                "*" in pair or pair[0] == pair[1]
                for pair in zip(parts, covered.split("/", 2), strict=True)
            ):
                return self.rule
        return None


def allows_all(request: Any) -> Any:
    request.environ["swift_owner"] = True


def allows_but(*closed: str) -> Any:
    """An authorize that refuses paths which contain one of ``closed``."""

    def authorize(request: Any) -> Any:
        return (
            HTTPForbidden(request=request)
            if any(each in request.path_info for each in closed)
            else None
        )

    return authorize


class _Tail:
    """The end of the pipeline, which is wired once: Swift's loggers keep a socket each."""

    store: Store | None = None

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        assert self.store is not None
        return self.store(environ, start_response)


@functools.cache
def _wired() -> tuple[_Tail, Any]:
    tail = _Tail()
    app: Any = SymlinkMiddleware(tail, {}, 2)
    app = ObjectVersioningMiddleware(app, {"allow_object_versioning": "true"})
    app = VersionedWritesMiddleware(app, {"allow_versioned_writes": "true"})
    app = DynamicLargeObject(app, {"rate_limit_after_segment": "1000000"})
    app = StaticLargeObject(app, {"rate_limit_after_segment": "1000000"})
    return tail, ServerSideCopyMiddleware(app, {})


class Pipeline:
    """Everything to the right of our filter."""

    def __init__(self) -> None:
        self.store = Store()
        tail, self.app = _wired()
        tail.store = self.store
        for container in ("AUTH_a/open", "AUTH_a/closed", "AUTH_b/closed"):
            self.store.boxes[container] = Box()

    def request(
        self, method: str, path: str, headers: dict[str, str] | None = None, **more: Any
    ) -> Any:
        """Swift's answer without a guard, as to the owner; its body is read."""
        environ = {"swift.authorize": allows_all, "swift.infocache": {}}
        request = Request.blank(
            path if path.startswith("/v1") else f"/v1/AUTH_a/{path}",
            environ,
            headers=headers,
            method=method,
            **more,
        )
        answer = request.get_response(self.app)
        answer.body  # noqa: B018 - reads it
        assert answer.status_int < 400, f"{method} {path}: {answer.status} {answer.body!r}"
        return answer

    def slo(self, path: str, *parts: str, query: str = "") -> None:
        manifest = json.dumps([{"path": f"/{part}"} for part in parts])
        self.request("PUT", f"{path}?multipart-manifest=put{query}", body=manifest.encode())

    def guarded(
        self,
        judge: Judge,
        method: str,
        path: str,
        headers: dict[str, str] | None = None,
        **more: Any,
    ) -> Guarded:
        return Guarded(self, judge, method, path, headers or {}, **more)


class Guarded:
    """A client's request with the guard that the filter installs for it, and Swift's answer."""

    def __init__(
        self, pipeline: Pipeline, judge: Judge, method: str, path: str, headers: dict[str, str], *,
        under: str | None = None, authorize: Any = allows_all, decided: tuple[str, str | None, str | None] | None = None, **more: Any,
    ) -> None:  # fmt: skip
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
        place = operation.subject if decided is None else Read("v1", *decided)
        self.guard = ReadGuard(
            operation, lambda _: judge, place, authorize, pipeline.app, "storlet-rules"
        )
        self.guard.under = under
        environ["swift.authorize"] = AuthorizationChain(authorize, rules=self.guard)
        status, self.headers, chunks = request.call_application(pipeline.app)
        self.status = int(status.split()[0])
        self.refusal: StorletError | None = None
        self.broken: StorletError | None = None
        self.body = b""
        try:
            self.guard.check_answer(self.headers)
        except StorletError as error:
            self.refusal = error
            getattr(chunks, "close", bool)()
            return
        pieces: list[bytes] = []
        try:
            pieces.extend(self.guard.until_refused(self.headers, chunks))
        except StorletError as error:
            self.broken = error
        self.body = b"".join(pieces)

    @property
    def is_refused(self) -> bool:
        return self.refusal is not None
