"""A bundle in a file of this machine, as the storlet version that a cluster would make of it."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from storlet_middleware.bundle import archive
from storlet_middleware.catalog.bundle_check import BundleChecker
from storlet_middleware.catalog.bundle_store import version_of
from storlet_middleware.config import Config
from storlet_middleware.engine.storlet_version import CodeFile, StorletVersion
from storlet_middleware.names import BUNDLE_SUFFIX
from storlet_middleware.wsgi.swift_paths import ContainerPath

#: The account of all local runs.
ACCOUNT: Final = "AUTH_local"
_CHUNK: Final = 1 << 20


class LocalBundle:
    """A verified bundle; the fetcher of its own code."""

    def __init__(self, config: Config, path: Path) -> None:
        """Verify the file at ``path`` with the checks of an upload.

        :raises BundleInvalid: with all faults.
        :raises OSError: it cannot be read.
        """
        self._path = path
        with path.open("rb") as packed:
            name = _name_of(packed)
            packed.seek(0)
            checked = BundleChecker(config).check(ACCOUNT, name, packed)
            packed.seek(0)
            etag = hashlib.file_digest(packed, "md5").hexdigest()
            size = packed.tell()
        container = config.storlet.storlet_container
        own = CodeFile(container, name + BUNDLE_SUFFIX, etag, "", size, 0o444)
        facts = {**checked.facts, "sha256": checked.sha256}
        self.version: StorletVersion = version_of(
            ContainerPath("v1", ACCOUNT, container), name, facts, own
        )

    def fetch(self, account: str, file: CodeFile) -> Iterator[bytes]:
        """See :class:`~storlet_middleware.engine.code_cache.Fetcher`."""
        with self._path.open("rb") as packed:
            yield from iter(lambda: packed.read(_CHUNK), b"")


def _name_of(packed: BinaryIO) -> str:
    """The name in the manifest: a file may have any name, unlike an object."""
    try:
        with zipfile.ZipFile(packed) as zipped:
            if zipped.getinfo(archive.MANIFEST).file_size > _CHUNK:
                return ""
            return str(json.loads(zipped.read(archive.MANIFEST))["name"])
    except Exception:  # noqa: BLE001 - a damaged file; the check has the reason
        return ""
