"""Bundles for tests."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, Final

from storlet_client.bundle import archive

#: A storlet that answers with a function of a library of its bundle.
SOURCE: Final = """\
import helper

VERSION = {version!r}


class Tool:
    def __init__(self, logger):
        pass

    def __call__(self, in_files, out_files, params):
        data = b"".join(iter(lambda: in_files[0].read(65536), b""))
        listed = ";".join(f"{key}={params[key]}" for key in sorted(params)
                          if not key.startswith("storlet_"))
        out_files[0].set_metadata({})
        out_files[0].write(f"{VERSION} {helper.count(data)} {listed}".encode())
        out_files[0].close()
"""
HELPER: Final = "def count(data):\n    return len(data)\n"
Files = Mapping[str, tuple[bytes, int]]


def bundle(
    name: str,
    files: Files,
    /,
    test_files: Mapping[str, bytes] | None = None,
    source: Files | None = None,
    **fields: Any,
) -> bytes:
    """A bundle with ``files`` below ``code/``; ``fields`` are of its manifest.

    :param test_files: the files of its test cases.
    :param source: further files of its project.
    """
    document = {"name": name, "version": "1.0", "language": "python", **fields}
    out = io.BytesIO()
    normal = {key.replace("_", "-"): value for key, value in document.items()}
    others = {archive.TESTS + path: (data, 0o644) for path, data in (test_files or {}).items()}
    others |= {archive.SOURCE + path: each for path, each in (source or {}).items()}
    archive.write(out, normal, files, others=others)
    return out.getvalue()


def tool(name: str, version: str = "one", **fields: Any) -> bytes:
    """A Python bundle with a library; its answer begins with ``version``."""
    files = {
        "tool.py": (SOURCE.replace("{version!r}", repr(version)).encode(), 0o644),
        "lib/helper.py": (HELPER.encode(), 0o644),
    }
    return bundle(name, files, **{"main": "tool.Tool", "version": version, **fields})
