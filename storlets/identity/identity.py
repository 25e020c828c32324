"""Copy the input unchanged: the smallest streaming storlet, and the reference for speed."""

from __future__ import annotations

from typing import Any

BUFFER_BYTES = 256 * 1024


class Identity:
    """Copy the first input to the output through one reused buffer."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        """Keep the input's metadata, then copy its bytes; memory use does not depend on the input's
        size."""
        source, target = in_files[0], out_files[0]
        target.set_metadata(source.get_metadata())
        buffer = bytearray(BUFFER_BYTES)
        view = memoryview(buffer)
        while count := source.readinto(buffer):
            target.write(view[:count])
