"""A checked upload of a plain storlet: nothing is stored before the check has passed.

::

    PUT   a staged upload --> check --> PUT NAME
    POST  the stored file with the new metadata --> check --> POST NAME
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, BinaryIO

from swift.common.swob import Request, Response

from storlet_middleware import names
from storlet_middleware.catalog.bundle_store import file_of
from storlet_middleware.catalog.staged_uploads import StagedUploads
from storlet_middleware.catalog.storlets import Catalog, ProxyFetcher
from storlet_middleware.catalog.upload_check import PackedCode, UploadCheck, refusal
from storlet_middleware.engine.storlet_version import CodeFile
from storlet_middleware.errors import RegistrationInvalid, StorletError
from storlet_middleware.wsgi.operation import Operation
from storlet_middleware.wsgi.swift_paths import ContainerPath

#: Passes a request to Swift, and reports it to the cache of storlet versions.
Write = Callable[[dict[str, Any]], Response]


class PlainUploads:
    """Checked uploads of all accounts.

    :param app: the rest of the pipeline.
    :param most_bytes: limit of a storlet's code.
    :param client_seconds: the idle deadline of a client.
    """

    def __init__(
        self, app: Any, catalog: Catalog, check: UploadCheck, most_bytes: int, client_seconds: float
    ) -> None:
        self._app = app
        self._catalog = catalog
        self._check = check
        self._staged = StagedUploads(
            app, most_bytes, client_seconds, "storlet", RegistrationInvalid
        )

    def upload(
        self, operation: Operation, environ: dict[str, Any], write: Write, *, is_owner: bool
    ) -> Response:
        """The answer to a PUT or POST, whose metadata is valid and which the caller may make."""
        self._refuse_other_forms(operation)
        if operation.sent_method == "POST":
            self._check_stored(operation, environ, is_owner=is_owner)
            return write(environ)
        return self._put(operation, environ, write, is_owner=is_owner)

    @staticmethod
    def _refuse_other_forms(operation: Operation) -> None:
        """Refuse code that does not come with the request."""
        text = f": cannot be checked: send the code itself, or {names.CHECK}: false"
        if operation.is_copy:
            raise RegistrationInvalid(operation.copy_header + text)
        if "multipart-manifest" in operation.query:
            raise RegistrationInvalid("multipart-manifest" + text)

    def _check_stored(
        self, operation: Operation, environ: dict[str, Any], *, is_owner: bool
    ) -> None:
        """Check the stored file with the metadata of a POST; Swift answers if there is none."""
        path = operation.path
        own = self._catalog.stored_file(environ, path.version, path.account, path.name or "")
        if own is not None:
            self._require_loads(operation, environ, own, None, is_owner=is_owner)

    def _put(
        self, operation: Operation, environ: dict[str, Any], write: Write, *, is_owner: bool
    ) -> Response:
        path = operation.path
        container_path = ContainerPath(path.version, path.account, path.container or "")
        received = self._staged.received(environ, container_path, f"{names.BUNDLE_OBJECTS}.")
        with received as (packed, headers):
            own = file_of(container_path, path.name or "", headers)
            self._require_loads(operation, environ, own, packed, is_owner=is_owner)
            packed.seek(0)
            return write(_with_body(environ, packed, own.size))

    def _require_loads(
        self,
        operation: Operation,
        environ: dict[str, Any],
        own: CodeFile,
        packed: BinaryIO | None,
        *,
        is_owner: bool,
    ) -> None:
        path, sent = operation.path, Request(environ).headers
        try:
            version = self._catalog.uploaded(environ, path.version, path.account, sent, own)
        except StorletError as error:
            # A dependency is missing, for example.
            raise refusal(error, is_owner=is_owner) from error
        others = ProxyFetcher(self._app, environ, path.version)
        fetcher = others if packed is None else PackedCode(version.files[0], packed, others)
        self._check.require_loads(environ, version, fetcher, is_owner=is_owner)


def _with_body(environ: dict[str, Any], body: BinaryIO, size: int) -> dict[str, Any]:
    """The request with a body that is here."""
    known = {**environ, "wsgi.input": body, "CONTENT_LENGTH": str(size)}
    known.pop("HTTP_TRANSFER_ENCODING", None)
    return known
