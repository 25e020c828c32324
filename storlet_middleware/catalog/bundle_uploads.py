"""Changes of bundles: upload, rollback, deletion, and the list of versions.

::

    client --> upload-... (expires) --> this proxy's disk --> check in a child process
        lock --> version object --> NAME.storlet (the pointer) --> old versions removed --> unlock

Everything before the pointer is without effect, and is removed or expires.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, BinaryIO, Final

from swift.common.swob import Request, Response

from storlet_middleware import errors, names
from storlet_middleware.catalog import staged_uploads
from storlet_middleware.catalog.bundle_check import BundleChecker, Checked
from storlet_middleware.catalog.bundle_objects import BundleObjects
from storlet_middleware.catalog.bundle_store import (
    CONTENT_TYPE,
    BundleStore,
    Row,
    Versions,
    facts_headers,
    facts_of,
    file_of,
    version_of,
)
from storlet_middleware.catalog.manifests import require_owner_of_secrets
from storlet_middleware.catalog.self_tests import cases_of
from storlet_middleware.catalog.staged_uploads import StagedUploads
from storlet_middleware.catalog.storlets import ProxyFetcher
from storlet_middleware.catalog.upload_check import PackedCode, UploadCheck
from storlet_middleware.config import Config
from storlet_middleware.errors import BackendFailed, BadRequest, BundleInvalid, StorletNotFound
from storlet_middleware.wsgi import authorization
from storlet_middleware.wsgi.operation import Operation
from storlet_middleware.wsgi.subrequest import SwiftRefusal
from storlet_middleware.wsgi.swift_paths import ContainerPath, object_path

#: Headers that make an object a link, or end it while its versions stay.
_REFUSED: Final = ("X-Object-Manifest", "X-Symlink-Target", "X-Delete-At", "X-Delete-After")


def is_bundle(name: str) -> bool:
    """Whether an object of the storlet container is a bundle, or a version of one."""
    return name.endswith(names.BUNDLE_SUFFIX) or name.startswith(names.BUNDLE_OBJECTS)


class BundleUploads:
    """Handles changes of bundles of all accounts.

    :param app: the rest of the pipeline.
    :param client_seconds: the idle deadline of a client.
    """

    def __init__(
        self, app: Any, config: Config, client_seconds: float, load_check: UploadCheck
    ) -> None:
        self.app = app
        self.container = config.storlet.storlet_container
        self.staged = StagedUploads(
            app, config.limits.code_bytes, client_seconds, "bundle", BundleInvalid
        )
        self.store = BundleStore(app, config.storlet.versions_kept)
        self.checker = BundleChecker(config)
        self.load_check = load_check

    def change(
        self, operation: Operation, environ: dict[str, Any], cache: Any, *, is_checked: bool
    ) -> Any:
        """The answer to a write of a bundle.

        :param cache: the account's cache of storlet versions.
        :param is_checked: load the code and run its test cases before it becomes current.
        """
        return _Change(self, operation, environ, is_checked=is_checked).answer(cache)

    def versions(self, operation: Operation, environ: dict[str, Any]) -> Response:
        """The list of a bundle's versions, as JSON, newest first, and the engine range."""
        change = _Change(self, operation, environ)
        change.authorize("GET")
        versions, headers = change.objects.existing()
        rows = [
            {
                "number": row.number,
                "version": row.label,
                "sha256": row.sha256,
                "bytes": row.size,
                "time": row.time,
                "current": row.number == versions.current,
                "previous": row.number == versions.previous,
            }
            for row in sorted(versions.rows, key=lambda row: -row.number)
        ]
        described = {
            "name": change.name,
            "engine": facts_of(headers).get("engine", ""),
            "versions": rows,
        }
        body = json.dumps(described, indent=1).encode() + b"\n"
        return Response(body=body, content_type="application/json", request=Request(environ))


class _Change:
    """One request about a bundle."""

    def __init__(
        self,
        uploads: BundleUploads,
        operation: Operation,
        environ: dict[str, Any],
        *,
        is_checked: bool = False,
    ) -> None:
        self._uploads = uploads
        self._operation = operation
        self._environ = environ
        self._is_checked = is_checked
        self._is_owner = False
        path = operation.target or operation.path
        self._path = path
        self._container_path = ContainerPath(path.version, path.account, path.container or "")
        self.name = (path.name or "").removesuffix(names.BUNDLE_SUFFIX)
        self.objects = BundleObjects(
            uploads.app, uploads.store, environ, self._container_path, self.name
        )

    def answer(self, cache: Any) -> Any:
        self.authorize("PUT")
        method = self._operation.sent_method
        if (self._path.name or "").startswith(names.BUNDLE_OBJECTS):
            raise BadRequest(
                f"{names.BUNDLE_OBJECTS}...: versions of bundles are made by uploads of"
                f" NAME{names.BUNDLE_SUFFIX} only"
            )
        if self._operation.is_copy:
            raise BadRequest(
                "a bundle cannot be the target of a copy: download it and PUT it, or POST"
                f" ?{names.VERSION_QUERY}=NUMBER to return to a version"
            )
        if method == "PUT":
            return self._upload(cache)
        return self._rollback(cache) if method == "POST" else self._delete(cache)

    def authorize(self, method: str) -> None:
        """Raise Swift's refusal unless the caller may read or write the container."""
        path = object_path(*self._container_path, self._path.name or "")
        verdict = authorization.authorize(self._environ, self._uploads.app, method, path)
        if verdict.refusal is not None:
            raise SwiftRefusal(verdict.refusal)
        if verdict.container_status == 404:
            raise SwiftRefusal(Response(status=404, request=Request(self._environ)))
        self._is_owner = verdict.is_owner

    # --- upload -----------------------------------------------------------------------------------

    def _upload(self, cache: Any) -> Response:
        self._refuse_options()
        received = self._uploads.staged.received(
            self._environ, self._container_path, self.objects.prefix, CONTENT_TYPE
        )
        with received as (packed, headers):
            checked = self._uploads.checker.check(self._container_path.account, self.name, packed)
            self._require_owner_of_secrets(checked.facts)
            self._require_loads(packed, checked.facts, checked.sha256, headers)
            return self._activate(packed, checked, cache)

    def _require_owner_of_secrets(self, facts: Mapping[str, Any]) -> None:
        secrets, parameters = facts.get("secrets", ()), facts.get("parameters", {})
        require_owner_of_secrets(secrets, parameters, is_owner=self._is_owner)

    def _require_loads(
        self, packed: BinaryIO, facts: Mapping[str, Any], sha256: str, headers: Mapping[str, str]
    ) -> None:
        """Check that the code can be loaded and passes its test cases, if it is requested.

        :param headers: of the object that ``packed`` is a copy of.
        """
        if self._is_checked:
            own = file_of(self._container_path, self.objects.pointer, headers)
            version = version_of(self._container_path, self.name, {**facts, "sha256": sha256}, own)
            others = ProxyFetcher(self._uploads.app, self._environ, self._container_path.version)
            fetcher = PackedCode(own, packed, others)
            self._uploads.load_check.require_loads(
                self._environ, version, fetcher, cases_of(packed), is_owner=self._is_owner
            )

    def _refuse_options(self) -> None:
        faults = [
            f"{header}: a bundle is a plain object that does not expire: leave it out"
            for header in _REFUSED
            if self._operation.header(header)
        ]
        if "multipart-manifest" in self._operation.query:
            faults.append("multipart-manifest: a bundle is a plain object, not a manifest")
        prefix = names.environ_key(names.STORLET_META)
        faults += [
            f"{names.header_of(key)}: a bundle has this in its manifest: leave it out"
            for key in self._environ
            if key.startswith(prefix)
        ]
        if names.bundle_of(self.name) != (self.name, 0):
            wanted = "want a lower-case letter, then at most 62 of a-z, 0-9, '_' and '-'"
            faults.append(f"{self.name}{names.BUNDLE_SUFFIX}: {wanted}, before the suffix")
        if faults:
            raise BundleInvalid("; ".join(faults))

    def _activate(self, packed: BinaryIO, checked: Checked, cache: Any) -> Response:
        """Store the version, then move the pointer to it."""
        with self.objects.locked():
            before = self.objects.versions() or Versions()
            # The current version again is no new one: a client may repeat a request whose response
            # it has not seen, and each repetition would push an earlier version out of the list.
            row = before.row(0)
            if row is None or row.sha256 != checked.sha256:
                time = datetime.now(UTC).isoformat(timespec="seconds")
                number, size = self.objects.next_number(before), packed.seek(0, 2)
                row = Row(number, checked.sha256, size, checked.label, time)
            facts = facts_headers({**checked.facts, "metadata": checked.metadata}, row)
            self.objects.put(row.object_of(self.name), packed, facts)
            rows = (*(each for each in before.rows if each != row), row)
            after = before.moved_to(row.number, rows).limited_to(self._uploads.store.kept)
            answer = self._point(after, packed, facts, checked.metadata, cache)
            self.objects.prune(after.last, after.rows)
            return answer

    def _point(
        self,
        versions: Versions,
        packed: BinaryIO,
        facts: dict[str, str],
        metadata: dict[str, str],
        cache: Any,
    ) -> Response:
        """Make ``versions`` the pointer, whose current version is ``packed``."""
        headers = {**facts, **metadata, names.BUNDLE_VERSIONS: versions.text}
        if self._operation.sent_method == "PUT":
            headers |= self._own_headers()
        cache.begin_write()
        try:
            stored = self.objects.put(self.objects.pointer, packed, headers)
        finally:
            cache.end_write()
        status = 201 if self._operation.sent_method == "PUT" else 202
        answer = Response(status=status, request=Request(self._environ))
        for name in ("Etag", "Last-Modified"):
            if name in stored.headers:
                answer.headers[name] = stored.headers[name]
        answer.headers[names.BUNDLE_NUMBER] = str(versions.current)
        return answer

    def _own_headers(self) -> dict[str, str]:
        """The client's metadata, and its condition that there is no such bundle yet."""
        return {
            names.header_of(key): str(value)
            for key, value in self._environ.items()
            if key.startswith("HTTP_X_OBJECT_META_") or key == "HTTP_IF_NONE_MATCH"
        }

    # --- rollback and deletion --------------------------------------------------------------------

    def _rollback(self, cache: Any) -> Response:
        text = self._operation.query.get(names.VERSION_QUERY)
        if text is None:
            raise BadRequest(
                "the metadata of a bundle comes from its manifest; a POST takes"
                f" ?{names.VERSION_QUERY}=NUMBER and makes that version current"
            )
        if not text.isdecimal() or not text.isascii() or len(text) > 9:
            raise BadRequest(errors.fault(names.VERSION_QUERY, text, "want a version number"))
        slot = self._uploads.staged.slot(self._container_path.account)
        with self.objects.locked(), slot, tempfile.TemporaryFile() as packed:
            before, _ = self.objects.existing()
            row = before.row(int(text)) if int(text) else None
            if row is None:
                kept = ", ".join(str(each.number) for each in before.rows)
                raise StorletNotFound(f"bundle {self.name} has no version {text}; there are {kept}")
            holder = row.object_of(self.name)
            if row.number == before.current:
                holder = self.objects.pointer
            path = self.objects.path(holder)
            found = staged_uploads.read(self._uploads.app, self._environ, path, packed)
            stored = facts_of(found)
            if stored.get("sha256") != row.sha256 or packed.seek(0, 2) != row.size:
                raise BackendFailed(f"{holder} is not what was verified at its upload")
            self._require_owner_of_secrets(stored)
            self._require_loads(packed, stored, row.sha256, found)
            # Versions of a longer list than is kept now stay until the next upload.
            facts, metadata = facts_headers(stored, row), stored["metadata"]
            after = before.moved_to(row.number, before.rows)
            return self._point(after, packed, facts, metadata, cache)

    def _delete(self, cache: Any) -> Any:
        """Delete the bundle with all its versions."""
        with self.objects.locked():
            versions = self.objects.versions()
            cache.begin_write()
            try:
                answer = Request(self._environ).get_response(self._uploads.app)
            finally:
                cache.end_write()
            if answer.status_int // 100 == 2 and versions is not None:
                self.objects.prune(versions.last, ())
            return answer
