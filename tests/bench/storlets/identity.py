"""The no-op: copies the object through one reused buffer of 256 KiB."""

from __future__ import annotations

from typing import Any


class Identity:
    """The storlet."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        source, target = in_files[0], out_files[0]
        target.set_metadata(source.get_metadata())
        buffer = bytearray(256 * 1024)
        view = memoryview(buffer)
        while count := source.readinto(buffer):
            target.write(view[:count])
