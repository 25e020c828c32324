"""Verifies a bundle in a process of its own.

The process is ``python -m storlet_middleware.catalog.bundle_process``.  Its arguments are the
limit of CPU seconds and the four bounds of :class:`storlet_middleware.bundle.archive.Bounds`.
Its standard input is the bundle, as a file.  It prints JSON::

    {"faults": ["code/../x: a path that leaves its folder: ..."]}
    {"faults": [], "sha256": "...", "manifest": {...}, "archives": ["a.jar"]}
"""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Any, BinaryIO, Final

from storlet_middleware import child_limits
from storlet_middleware.bundle import archive

_CHUNK: Final = 1 << 20


def verify(packed: BinaryIO, bounds: archive.Bounds) -> dict[str, Any]:
    """The response of the process."""
    try:
        verified = archive.verify(packed, bounds)
    except archive.BundleError as error:
        return {"faults": error.faults}
    packed.seek(0)
    return {
        "faults": [],
        "sha256": _sha256(packed),
        "manifest": verified.manifest,
        "archives": verified.archives,
    }


def _sha256(packed: BinaryIO) -> str:
    digest = hashlib.sha256()
    while chunk := packed.read(_CHUNK):
        digest.update(chunk)
    return digest.hexdigest()


def main() -> None:
    child_limits.confine(int(sys.argv[1]))
    child_limits.give_way()
    try:
        json.dump(verify(sys.stdin.buffer, archive.Bounds(*map(int, sys.argv[2:6]))), sys.stdout)
    except MemoryError:
        sys.exit(child_limits.NO_MEMORY)


if __name__ == "__main__":
    main()
