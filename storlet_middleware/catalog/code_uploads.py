"""PUT, POST, COPY and DELETE in the storlet and dependency containers: checked, and reported to the
cache of storlet versions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from swift.common.swob import Request, Response
from swift.common.utils import config_true_value, drain_and_close
from swift.common.wsgi import make_subrequest

from storlet_middleware import names
from storlet_middleware.catalog import manifests, upload_check
from storlet_middleware.catalog.bundle_uploads import BundleUploads, is_bundle
from storlet_middleware.catalog.plain_uploads import PlainUploads
from storlet_middleware.catalog.storlets import Catalog
from storlet_middleware.errors import PreconditionFailed
from storlet_middleware.wsgi import authorization
from storlet_middleware.wsgi.bodies import ClosingIterator
from storlet_middleware.wsgi.context import RequestContext
from storlet_middleware.wsgi.operation import Operation
from storlet_middleware.wsgi.subrequest import SwiftRefusal
from storlet_middleware.wsgi.swift_paths import SwiftPath

WSGIApp = Callable[..., Any]


class CodeUploads:
    """Writes into the code containers of all accounts.

    :param app: the rest of the pipeline.
    """

    def __init__(
        self,
        app: WSGIApp,
        catalog: Catalog,
        bundles: BundleUploads,
        plain: PlainUploads,
        require_enabled: Callable[[dict[str, Any]], None],
    ) -> None:
        self._app = app
        self._catalog = catalog
        self._bundles = bundles
        self._plain = plain
        self._require_enabled = require_enabled

    def writer(self, context: RequestContext) -> WSGIApp:
        """The application that performs the write.

        :raises StorletError: the declaration in the metadata is not valid, or the copy cannot be
            parsed.
        """
        operation, environ = context.require_operation(), context.environ
        if operation.fault:
            raise PreconditionFailed(operation.fault)
        target = operation.target or operation.path
        if operation.method != "DELETE":
            self._require_enabled(environ)
        is_checked = self._is_checked(operation, target, environ)
        if self._is_of_bundle(target, operation.sent_method):
            cache = self._catalog.cache_for_write(environ, target.account)
            answer: WSGIApp = self._bundles.change(operation, environ, cache, is_checked=is_checked)
            return answer
        if operation.method != "DELETE":
            headers = Request(environ).headers
            self._catalog.refuse_links(headers)
            meta = self._metadata(operation, environ, headers)
            self._catalog.check_upload(
                target.account, target.container or "", target.name or "", meta
            )
        cache = self._catalog.cache_for_write(environ, target.account)
        verdict = authorization.authorize(environ, self._app, "PUT", target.path)
        if verdict.refusal is not None:
            # Swift will refuse it; an attempt without access must not invalidate the account's
            # cached versions.
            return self._app
        if operation.method != "DELETE":
            manifests.require_owner_of_secrets(
                manifests.secrets_in(meta), {}, is_owner=verdict.is_owner
            )
        write = self._reporting(cache)
        if not is_checked:
            return write
        checked: WSGIApp = self._plain.upload(
            operation,
            environ,
            lambda environ: Request(environ).get_response(write),
            is_owner=verdict.is_owner,
        )
        return checked

    def _is_checked(self, operation: Operation, target: SwiftPath, environ: dict[str, Any]) -> bool:
        """Whether the code is checked before the write: only that of storlets can be."""
        is_storlet = target.container == self._bundles.container
        return (
            is_storlet
            and operation.method != "DELETE"
            and upload_check.is_wanted(operation, environ, self._app)
        )

    def _reporting(self, cache: Any) -> WSGIApp:
        """Swift, with a report of each write to the cache of storlet versions."""

        def write(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
            cache.begin_write()
            try:
                chunks: Iterable[bytes] = self._app(environ, start_response)
            except BaseException:
                cache.end_write()
                raise
            if isinstance(chunks, list | tuple):
                cache.end_write()
                return chunks
            # With heartbeats (SLO, COPY) Swift answers first and writes while its answer is read.
            return ClosingIterator(chunks, cache.end_write)

        return write

    def _is_of_bundle(self, target: SwiftPath, method: str) -> bool:
        """Whether a write concerns a bundle; a version of one is deleted like any object."""
        name = target.name or ""
        if target.container != self._bundles.container or not is_bundle(name):
            return False
        return method != "DELETE" or not name.startswith(names.BUNDLE_OBJECTS)

    def _metadata(
        self, operation: Operation, environ: dict[str, Any], headers: Any
    ) -> Mapping[str, str]:
        """The metadata of the stored object; in a copy, the request's metadata replaces the
        source's.
        """
        own = dict(headers)
        if operation.source is None or config_true_value(headers.get("X-Fresh-Metadata", "false")):
            return own
        return {**dict(self._head(environ, operation.source).headers), **own}

    def _head(self, environ: dict[str, Any], place: SwiftPath) -> Any:
        """Swift's answer to the caller's HEAD of ``place``; raises Swift's refusal."""
        head = make_subrequest(
            environ,
            method="HEAD",
            path=place.path,
            headers={"X-Newest": "true"},
            swift_source=names.SWIFT_SOURCE,
        )
        answer = head.get_response(self._app)
        drain_and_close(answer)
        if answer.status_int // 100 != 2:
            # The Content-Length of a HEAD describes a body that is not sent.
            raise SwiftRefusal(Response(status=answer.status_int, request=Request(environ)))
        return answer
