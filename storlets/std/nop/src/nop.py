"""Copies the object and its metadata."""

from __future__ import annotations

from typing import Any

CHUNK_BYTES = 256 * 1024


class Nop:
    """The identity: for tests, and for the cost of a storlet by itself."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        source, target = in_files[0], out_files[0]
        target.set_metadata(source.get_metadata())
        while chunk := source.read(CHUNK_BYTES):
            target.write(chunk)
