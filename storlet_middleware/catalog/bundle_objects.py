"""The objects of one bundle, and the lock of those that change them.

``NAME.storlet``, the pointer, has the bytes and the number of the current version, and the list of
the versions that are kept.  Each version is an object of its own; one that is in no list is of an
upload or a deletion that was cut.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, BinaryIO, Final

from swift.common.swob import Request, Response

from storlet_middleware import errors, names
from storlet_middleware.catalog import staged_uploads
from storlet_middleware.catalog.bundle_store import CONTENT_TYPE, BundleStore, Row, Versions
from storlet_middleware.errors import BackendFailed, StorletError, StorletNotFound
from storlet_middleware.wsgi import change_lock, own_requests
from storlet_middleware.wsgi.subrequest import SwiftRefusal
from storlet_middleware.wsgi.swift_paths import ContainerPath, object_path

_LOCK_SECONDS: Final = 120


class BundleObjects:
    """The objects of the bundle ``name`` in the container ``container_path``.

    :param app: the rest of the pipeline.
    :param environ: of the request that reads or changes them.
    """

    def __init__(
        self,
        app: Any,
        store: BundleStore,
        environ: dict[str, Any],
        container_path: ContainerPath,
        name: str,
    ) -> None:
        self._app = app
        self._store = store
        self._environ = environ
        self._container_path = container_path
        self._name = name
        #: The name of the pointer.
        self.pointer = name + names.BUNDLE_SUFFIX
        #: The start of the names of versions.
        self.prefix = f"{names.BUNDLE_OBJECTS}{name}/"

    def locked(self) -> Any:
        """A block in which no other request changes the bundle.

        :raises StorletError: another one is changing it.
        """
        conflict = StorletError(
            f"another request is changing the bundle {self._name}: try again",
            code=errors.REGISTRATION_CONFLICT,
        )
        key = f"storlets-bundle-change/{self._container_path.account}/{self._name}"
        return change_lock.held(self._environ, key, _LOCK_SECONDS, conflict)

    def versions(self) -> Versions | None:
        """The list in the pointer; ``None`` if there is no such bundle."""
        return self._store.find(self._environ, self._container_path, self._name).versions

    def existing(self) -> tuple[Versions, Mapping[str, str]]:
        """The versions, and the headers of the pointer; raise if there is no such bundle."""
        found = self._store.find(self._environ, self._container_path, self._name)
        if found.versions is None:
            raise StorletNotFound(f"there is no bundle {self.pointer}")
        return found.versions, found.headers

    def path(self, holder: str) -> str:
        """The path of one of the objects."""
        return object_path(*self._container_path, holder)

    def put(self, holder: str, packed: BinaryIO, headers: dict[str, str]) -> Any:
        """Store a version, or the pointer; Swift's answer.

        :raises SwiftRefusal: Swift does not store it.
        """
        headers = {"Content-Type": CONTENT_TYPE, **headers}
        answer = staged_uploads.write(self._app, self._environ, self.path(holder), packed, headers)
        if answer.status_int // 100 != 2:
            raise SwiftRefusal(Response(status=answer.status_int, request=Request(self._environ)))
        return answer

    def next_number(self, before: Versions) -> int:
        """The number of a new version."""
        # A deletion that was cut left versions, whose numbers are not given again.
        return max([before.last, *([] if before.rows else self._stored())]) + 1

    def prune(self, last: int, kept: tuple[Row, ...]) -> None:
        """Remove the versions up to ``last`` that are not ``kept``, also those of cut uploads.

        The next upload removes what Swift cannot list or delete at the moment.
        """
        kept_objects = {row.object_of(self._name) for row in kept}
        try:
            stored = self._stored()
        except BackendFailed:
            return
        for number, holders in stored.items():
            if number <= last:
                for holder in holders - kept_objects:
                    own_requests.exchange(self._app, self._environ, "DELETE", self.path(holder))

    def _stored(self) -> dict[int, set[str]]:
        """The objects that hold versions, by number."""
        found: dict[int, set[str]] = {}
        for holder in self._store.list(self._environ, self._container_path, self.prefix):
            number = holder.removeprefix(self.prefix).partition("-")[0]
            if number.isdecimal():
                found.setdefault(int(number), set()).add(holder)
        return found
