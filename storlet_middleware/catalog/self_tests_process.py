"""Reads the test cases of a bundle, with their files, in a process of its own.

The process is ``python -m storlet_middleware.catalog.self_tests_process``.  Its argument is the
limit of CPU seconds, its standard input the bundle, as a file that was verified.  It prints a line
of JSON, and behind it the content of the files one after the other::

    {"cases": [{"name": ..., "input": ...}], "files": [["apples.txt", 41], ["expected.txt", 24]],
     "outputs": 1}

``outputs`` is the number of outputs that each case has at least.
A bundle that was built before the check ran test cases has none of the files.
"""

from __future__ import annotations

import json
import sys
import zipfile
from typing import Any, BinaryIO

from storlet_middleware import child_limits
from storlet_middleware.bundle import archive, manifest


def read(packed: BinaryIO) -> tuple[dict[str, Any], list[bytes]]:
    """The JSON, and the content of the files."""
    with zipfile.ZipFile(packed) as zipped:
        document = json.loads(zipped.read(archive.MANIFEST))
        paths = [path for path in zipped.namelist() if path.startswith(archive.TESTS)]
        contents = [zipped.read(path) for path in paths]
    cases = [case for case in document.get("tests", ()) if case.get("upload", True)]
    sizes = [
        (path.removeprefix(archive.TESTS), len(content))
        for path, content in zip(paths, contents, strict=True)
    ]
    outputs, _ = manifest.output_counts(document)
    return {"cases": cases, "files": sizes, "outputs": outputs}, contents


def main() -> None:
    child_limits.confine(int(sys.argv[1]))
    child_limits.give_way()
    try:
        described, contents = read(sys.stdin.buffer)
    except MemoryError:
        sys.exit(child_limits.NO_MEMORY)
    sys.stdout.buffer.write(json.dumps(described).encode() + b"\n")
    sys.stdout.buffer.writelines(contents)


if __name__ == "__main__":
    main()
