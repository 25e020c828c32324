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
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from storlet_daemon.runtimes.table import API_VERSION
from storlet_middleware import errors, names
from storlet_middleware.bundle import manifest
from storlet_middleware.engine.storlet_version import CodeFile, StorletVersion
from storlet_middleware.errors import (
    BackendFailed,
    BundleInvalid,
    InternalError,
    StorletNotFound,
    Unprocessable,
)
from storlet_middleware.wsgi import own_requests
from storlet_middleware.wsgi.swift_paths import ContainerPath, object_path

CONTENT_TYPE: Final = "application/vnd.openstack.storlet+zip"
#: Swift's servers accept header lines of 8,192 bytes and some 90 headers.
_PIECE: Final = 7000
_MAX_PIECES: Final = 4


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
    """The pointer of a bundle.

    :param last: the highest number that was ever given.
    :param history: the kept versions that were current before the current one, the latest last; a
        rollback to one of them removes it and the later ones.
    """

    current: int = 0
    last: int = 0
    rows: tuple[Row, ...] = ()
    history: tuple[int, ...] = ()

    @property
    def previous(self) -> int | None:
        """The version that was current before the current one, if it is kept."""
        return self.history[-1] if self.history else None

    def moved_to(self, number: int, rows: tuple[Row, ...]) -> Versions:
        """The pointer after version ``number`` of the kept ``rows`` became current."""
        history = self.history
        if number in history:
            history = history[: history.index(number)]
        elif number != self.current:
            history = (*history, self.current)
        kept = {row.number for row in rows}
        history = tuple(each for each in history if each in kept)
        return Versions(number, max(self.last, number), rows, history)

    def limited_to(self, most: int) -> Versions:
        """``most`` versions: the current one, the previous one, and then the last of the others."""
        uploaded = [row.number for row in reversed(self.rows)]
        ranked = dict.fromkeys([self.current, *self.history[-1:], *uploaded])
        kept = set(list(ranked)[:most])
        return replace(
            self,
            rows=tuple(row for row in self.rows if row.number in kept),
            history=tuple(number for number in self.history if number in kept),
        )

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
        current, rows = fields["current"], tuple(Row(**row) for row in fields["rows"])
        history = fields.get("history")
        if history is None:  # an older release wrote it
            history = sorted(row.number for row in rows if row.number < current)
        return cls(current, fields["last"], rows, tuple(history))


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

    def resolve(
        self, environ: dict[str, Any], container_path: ContainerPath, storlet: str
    ) -> StorletVersion:
        """The version that ``name`` or ``name@number`` means."""
        bundle = names.bundle_of(storlet)
        if bundle is None:
            raise InternalError(f"{storlet!r} is not the name of a bundle")
        name, number = bundle
        found = self.find(environ, container_path, name)
        if not found.exists:
            raise StorletNotFound(
                f"there is no bundle {name}{names.BUNDLE_SUFFIX} in {container_path.container}"
            )
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
            headers = self._headers_of(environ, container_path, holder)
        return _version(container_path, name, row, holder, headers)

    def find(self, environ: dict[str, Any], container_path: ContainerPath, name: str) -> Found:
        """The pointer of the bundle ``name``."""
        answer = self._head(environ, container_path, name + names.BUNDLE_SUFFIX)
        if answer.status_int == 404:
            return Found(exists=False)
        _require_success(answer, f"bundle {name}")
        text = answer.headers.get(names.BUNDLE_VERSIONS)
        return Found(True, Versions.read(text) if text else None, answer.headers)

    def _headers_of(
        self, environ: dict[str, Any], container_path: ContainerPath, holder: str
    ) -> Mapping[str, str]:
        answer = self._head(environ, container_path, holder)
        if answer.status_int == 404:
            raise StorletNotFound(f"{holder} was deleted")
        _require_success(answer, holder)
        headers: Mapping[str, str] = answer.headers
        return headers

    def list(
        self, environ: dict[str, Any], container_path: ContainerPath, prefix: str
    ) -> list[str]:
        """Names of the objects with a prefix; a container may not know its newest objects yet."""
        listed = own_requests.all_listed(self._app, environ, object_path(*container_path), prefix)
        return [str(each["name"]) for each in listed]

    def _head(self, environ: dict[str, Any], container_path: ContainerPath, holder: str) -> Any:
        path = object_path(*container_path, holder)
        return own_requests.exchange(self._app, environ, "HEAD", path, own_requests.NEWEST)


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
    container_path: ContainerPath, name: str, row: Row, holder: str, headers: Mapping[str, str]
) -> StorletVersion:
    facts = facts_of(headers)
    # With object versioning of Swift, or after a copy, an object may carry facts of other bytes.
    if facts.get("sha256") != row.sha256 or int(headers.get("Content-Length", -1)) != row.size:
        text = f"{holder} is not what was verified at its upload: PUT the bundle again"
        raise Unprocessable(text, code=errors.STORLET_LOAD)
    if not manifest.fits_engine(facts["engine"], API_VERSION):
        text = f"bundle {name} works with engine API {facts['engine']}; this node has {API_VERSION}"
        raise Unprocessable(text, code=errors.STORLET_LOAD)
    found = version_of(container_path, name, facts, file_of(container_path, holder, headers))
    return replace(found, number=row.number)


def file_of(container_path: ContainerPath, holder: str, headers: Mapping[str, str]) -> CodeFile:
    """The file of a bundle in the object ``holder``, which has these headers."""
    etag, size = (headers.get("Etag") or "").strip('"'), int(headers["Content-Length"])
    return CodeFile(container_path.container, holder, etag, "", size, 0o444)


def version_of(
    container_path: ContainerPath, name: str, facts: Mapping[str, Any], own: CodeFile
) -> StorletVersion:
    """The version of verified ``facts``, with the bytes of ``own``."""
    return StorletVersion(
        account=container_path.account,
        name=name,
        language=facts["language"],
        language_version=facts["language_version"],
        main=facts["main"],
        files=(own,),
        limits=facts["limits"],
        records=facts.get("records", ""),
        digest=facts["sha256"],
        archives=tuple(facts["archives"]),
        parameters=facts["parameters"],
        inputs=tuple(facts.get("inputs", ())),
        outputs=tuple(facts.get("outputs", ())),
        arguments=tuple(facts.get("arguments", ())),
        services=tuple(facts.get("services", ())),
        seekable=bool(facts.get("seekable")),
        ranges=bool(facts.get("ranges")),
        secrets=tuple(facts.get("secrets", ())),
    )


def _require_success(answer: Any, what: str) -> None:
    if answer.status_int // 100 != 2:
        raise _unreadable(what, answer)


def _unreadable(what: str, answer: Any) -> BackendFailed:
    return BackendFailed(f"{what} cannot be read now: Swift answered {answer.status_int}")
