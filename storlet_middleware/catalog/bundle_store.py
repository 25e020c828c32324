"""Bundles as objects of the storlet container: the current version, the kept ones, resolution.

::

    storlet/thumb.storlet                       the current version, with the list of all versions
    storlet/versions/thumb/3-0123456789ab       version 3, immutable
    storlet/versions/thumb/upload-0123...       an upload that is being checked; expires by itself

Each object carries in system metadata what a proxy verified of it; no client can write that, so an
object that came another way (container sync, an operator's tools) never runs.  ``thumb.storlet`` is
the pointer: one PUT replaces the current version and the list, after the version is stored.
Requests are pre-authorized; the callers of this module authorize the client first.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, BinaryIO, Final
from urllib.parse import quote

from swift.common.exceptions import ChunkReadError
from swift.common.utils import close_if_possible, drain_and_close
from swift.common.wsgi import make_pre_authed_request

from storlet_daemon.runtimes.table import API_VERSION
from storlet_middleware import errors, names
from storlet_middleware.bundle import manifest
from storlet_middleware.engine.storlet_version import CodeFile, StorletVersion
from storlet_middleware.errors import (
    BackendFailed,
    BundleInvalid,
    InternalError,
    StorletError,
    StorletNotFound,
    Unprocessable,
)
from storlet_middleware.wsgi.bodies import ObjectBody, read_bounded
from storlet_middleware.wsgi.swift_paths import object_path

#: API version, account and container.
Place = tuple[str, str, str]
CONTENT_TYPE: Final = "application/vnd.openstack.storlet+zip"
#: Swift's servers accept header lines of 8,192 bytes and some 90 headers.
_PIECE: Final = 7000
_MAX_PIECES: Final = 4
_CHUNK: Final = 1 << 18
_LISTING_BYTES: Final = 16 << 20


@dataclass(frozen=True)
class Row:
    """A kept version; ``label`` is the author's version, ``time`` that of the upload (ISO 8601)."""

    number: int
    sha256: str
    size: int
    label: str
    time: str

    def object_of(self, name: str) -> str:
        """The object that holds this version of the bundle ``name``."""
        return f"{names.BUNDLE_OBJECTS}{name}/{self.number}-{self.sha256[:12]}"


@dataclass(frozen=True)
class Versions:
    """The pointer of a bundle.  ``last`` is the highest number that was ever given."""

    current: int = 0
    last: int = 0
    rows: tuple[Row, ...] = ()

    def row(self, number: int) -> Row | None:
        """The row of a kept version; 0: of the current one."""
        wanted = number or self.current
        return next((row for row in self.rows if row.number == wanted), None)

    @property
    def text(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def read(cls, text: str) -> Versions:
        fields = json.loads(text)
        return cls(fields["current"], fields["last"], tuple(Row(**row) for row in fields["rows"]))


@dataclass(frozen=True)
class Found:
    """The head of ``NAME.storlet``; ``versions`` is ``None`` if no proxy verified the object."""

    exists: bool
    versions: Versions | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


class BundleStore:
    """The bundles of any account, as objects.

    :param app: the rest of the proxy pipeline.
    :param kept: the number of versions that are kept.
    """

    def __init__(self, app: Any, kept: int) -> None:
        self._app = app
        self.kept = kept

    # --- resolution -------------------------------------------------------------------------------

    def resolve(self, environ: dict[str, Any], place: Place, storlet: str) -> StorletVersion:
        """The version that ``name`` or ``name@number`` means."""
        bundle = names.bundle_of(storlet)
        if bundle is None:
            raise InternalError(f"{storlet!r} is not the name of a bundle")
        name, number = bundle
        found = self.find(environ, place, name)
        if not found.exists:
            raise StorletNotFound(f"there is no bundle {name}{names.BUNDLE_SUFFIX} in {place[2]}")
        if found.versions is None:
            raise Unprocessable(
                f"bundle {name} was stored by another way than an upload: PUT it again",
                code=errors.STORLET_LOAD,
            )
        row = found.versions.row(number)
        if row is None:
            kept = ", ".join(str(each.number) for each in found.versions.rows)
            raise StorletNotFound(f"bundle {name} has no version {number}; there are {kept}")
        holder, headers = name + names.BUNDLE_SUFFIX, found.headers
        if row.number != found.versions.current:
            holder = row.object_of(name)
            headers = self._head(environ, place, holder)
        return _version(place, name, row, holder, headers)

    def find(self, environ: dict[str, Any], place: Place, name: str) -> Found:
        """The pointer of the bundle ``name``."""
        answer = self._send(environ, "HEAD", place, name + names.BUNDLE_SUFFIX)
        if answer.status_int == 404:
            return Found(exists=False)
        _require_success(answer, f"bundle {name}")
        text = answer.headers.get(names.BUNDLE_VERSIONS)
        return Found(True, Versions.read(text) if text else None, answer.headers)

    def _head(self, environ: dict[str, Any], place: Place, holder: str) -> Mapping[str, str]:
        answer = self._send(environ, "HEAD", place, holder)
        if answer.status_int == 404:
            raise StorletNotFound(f"{holder} was deleted")
        _require_success(answer, holder)
        headers: Mapping[str, str] = answer.headers
        return headers

    # --- changes ----------------------------------------------------------------------------------

    def read(
        self, environ: dict[str, Any], place: Place, holder: str, out: BinaryIO
    ) -> Mapping[str, str]:
        """Copy an object to ``out``; its headers."""
        request = self._request(environ, "GET", place, holder, {"X-Newest": "true"})
        answer = request.get_response(self._app)
        try:
            if answer.status_int != 200:
                raise BackendFailed(
                    f"{holder} cannot be read now: Swift answered {answer.status_int}"
                )
            out.writelines(ObjectBody(answer))
        finally:
            close_if_possible(answer.app_iter)
        out.flush()
        headers: Mapping[str, str] = answer.headers
        return headers

    def write_file(
        self,
        environ: dict[str, Any],
        place: Place,
        holder: str,
        body: BinaryIO,
        headers: Mapping[str, str],
    ) -> Any:
        """Store all of a file; Swift's answer, without its body."""
        size = body.seek(0, 2)
        body.seek(0)
        chunks = iter(lambda: body.read(_CHUNK), b"")
        return self._write(environ, place, holder, chunks, {**headers, "Content-Length": str(size)})

    def write(
        self,
        environ: dict[str, Any],
        place: Place,
        holder: str,
        chunks: Iterator[bytes],
        headers: Mapping[str, str],
    ) -> Any:
        """The same for chunks; raises what they raise, and Swift has stored nothing then."""
        return self._write(
            environ, place, holder, chunks, {**headers, "Transfer-Encoding": "chunked"}
        )

    def _write(
        self,
        environ: dict[str, Any],
        place: Place,
        holder: str,
        chunks: Iterator[bytes],
        headers: Mapping[str, str],
    ) -> Any:
        request = self._request(environ, "PUT", place, holder, headers)
        reader = request.environ["wsgi.input"] = _Reader(chunks)
        answer = request.get_response(self._app)
        drain_and_close(answer)
        if reader.error is not None:
            raise reader.error
        return answer

    def remove(self, environ: dict[str, Any], place: Place, holder: str) -> None:
        """Delete an object, if Swift can at the moment: what is left behind has no effect."""
        self._send(environ, "DELETE", place, holder)

    def list(self, environ: dict[str, Any], place: Place, prefix: str) -> list[str]:
        """Names of the objects with a prefix; a container may not know its newest objects yet."""
        path = object_path(*place).rstrip("?") + f"?format=json&prefix={quote(prefix)}"
        request = make_pre_authed_request(
            environ, method="GET", path=path, swift_source=names.SWIFT_SOURCE
        )
        answer = request.get_response(self._app)
        too_many = BackendFailed(f"the list of {prefix} is too long")
        body = read_bounded(answer.app_iter, _LISTING_BYTES, too_many)
        if answer.status_int != 200:
            return []
        found = [str(each["name"]) for each in json.loads(body)]
        return [name for name in found if name.startswith(prefix)]

    def _send(self, environ: dict[str, Any], method: str, place: Place, holder: str) -> Any:
        headers = {"X-Newest": "true"} if method == "HEAD" else {}
        answer = self._request(environ, method, place, holder, headers).get_response(self._app)
        drain_and_close(answer)
        return answer

    def _request(
        self,
        environ: dict[str, Any],
        method: str,
        place: Place,
        holder: str,
        headers: Mapping[str, str],
    ) -> Any:
        return make_pre_authed_request(
            environ,
            method=method,
            path=object_path(*place, holder),
            headers=dict(headers),
            swift_source=names.SWIFT_SOURCE,
        )


def facts_headers(facts: Mapping[str, Any], row: Row) -> dict[str, str]:
    """System metadata of an object that holds a version: what was verified of it.

    :raises BundleInvalid: it is too long.
    """
    data = json.dumps({**facts, "sha256": row.sha256}, separators=(",", ":"))
    pieces = [data[at : at + _PIECE] for at in range(0, len(data), _PIECE)]
    if len(pieces) > _MAX_PIECES:
        most = _PIECE * _MAX_PIECES
        raise BundleInvalid(f"parameters: {len(data)} bytes as JSON; at most {most} are allowed")
    return {f"{names.BUNDLE_SYSMETA}{index}": piece for index, piece in enumerate(pieces)}


def facts_of(headers: Mapping[str, str]) -> dict[str, Any]:
    """The inverse of :func:`facts_headers`; empty if no proxy has verified the object."""
    pieces: list[str] = []
    while (piece := headers.get(f"{names.BUNDLE_SYSMETA}{len(pieces)}")) is not None:
        pieces.append(piece)
    facts: dict[str, Any] = json.loads("".join(pieces)) if pieces else {}
    return facts


def _version(
    place: Place, name: str, row: Row, holder: str, headers: Mapping[str, str]
) -> StorletVersion:
    facts = facts_of(headers)
    # With object versioning of Swift, or after a copy, an object may carry facts of other bytes.
    if facts.get("sha256") != row.sha256 or int(headers.get("Content-Length", -1)) != row.size:
        text = f"{holder} is not what was verified at its upload: PUT the bundle again"
        raise Unprocessable(text, code=errors.STORLET_LOAD)
    if not manifest.fits_engine(facts["engine"], API_VERSION):
        text = f"bundle {name} works with engine API {facts['engine']}; this node has {API_VERSION}"
        raise Unprocessable(text, code=errors.STORLET_LOAD)
    return version_of(place, name, facts, file_of(place, holder, headers))


def file_of(place: Place, holder: str, headers: Mapping[str, str]) -> CodeFile:
    """The file of a bundle in the object ``holder``, which has these headers."""
    etag, size = (headers.get("Etag") or "").strip('"'), int(headers["Content-Length"])
    return CodeFile(place[2], holder, etag, "", size, 0o444)


def version_of(place: Place, name: str, facts: Mapping[str, Any], own: CodeFile) -> StorletVersion:
    """The version of verified ``facts``, with the bytes of ``own``."""
    return StorletVersion(
        account=place[1],
        name=name,
        language=facts["language"],
        language_version=facts["language_version"],
        main=facts["main"],
        files=(own,),
        limits=facts["limits"],
        digest=facts["sha256"],
        archives=tuple(facts["archives"]),
        parameters=facts["parameters"],
    )


def _require_success(answer: Any, what: str) -> None:
    if answer.status_int // 100 != 2:
        raise _unreadable(what, answer)


def _unreadable(what: str, answer: Any) -> BackendFailed:
    return BackendFailed(f"{what} cannot be read now: Swift answered {answer.status_int}")


class _Reader:
    """Chunks as ``wsgi.input``; ``error`` is what they raised, and Swift sees a broken body."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""
        self.error: StorletError | None = None

    def read(self, size: int = -1) -> bytes:
        """Up to ``size`` bytes; empty at the end only."""
        try:
            while size < 0 or not self._rest:
                chunk = next(self._chunks, b"")
                if not chunk:
                    break
                self._rest += chunk
        except StorletError as error:
            self.error = error
            raise ChunkReadError("the bundle broke off") from error
        end = len(self._rest) if size < 0 else size
        piece, self._rest = self._rest[:end], self._rest[end:]
        return piece
