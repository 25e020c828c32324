"""Index the words of many objects: a line a word, with the names of the objects that contain it.

Parameters::

    container   the objects that are indexed; without it, the input alone is
    prefix      only the objects whose names begin with it
    index       path of the object that becomes the index; without it, the answer is the index

The storlet declares the services ``read, list, write``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from storlet import services

WORD = re.compile(rb"[a-z0-9]+")


class IndexWords:
    """Reads line by line; memory use depends on the size of the index."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        """Index all objects, then write the index."""
        self.found: dict[bytes, set[str]] = {}
        count = self.index_all(in_files[0], params)
        metadata = {"Objects": str(count)}
        out_files[0].set_metadata({"Content-Type": "text/plain", **metadata})
        path = params.get("index")
        if path is None:
            self.write(out_files[0])
            return
        # Stored when this run has succeeded: a reader never finds half an index.
        with services.create(path, "text/plain", metadata) as index:
            self.write(index)
        out_files[0].write(f"{len(self.found)} words of {count} objects\n".encode())

    def index_all(self, source: Any, params: dict[str, str]) -> int:
        """Index the input, or the objects of a container; their number."""
        container = params.get("container")
        if container is None:
            self.index("input", source)
            return 1
        count = 0
        for entry in services.list(container, prefix=params.get("prefix", "")):
            with services.open(f"/{container}/{entry.name}") as lines:
                self.index(entry.name, lines)
            count += 1
        return count

    def index(self, name: str, lines: Iterable[bytes]) -> None:
        """Add the words of one object."""
        for line in lines:
            for word in WORD.findall(line.lower()):
                self.found.setdefault(word, set()).add(name)

    def write(self, file: Any) -> None:
        """Write the index in the order of the words."""
        for word in sorted(self.found):
            file.write(word + b" " + ",".join(sorted(self.found[word])).encode() + b"\n")
