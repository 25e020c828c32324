"""Compress a stream in gzip format.

Parameters::

    level   1 (fast) to 9 (small)       default: 6

The header carries no time and no name: the same bytes in give the same bytes out.
"""

from __future__ import annotations

import zlib
from typing import Any

CHUNK_BYTES = 256 * 1024
GZIP_FORMAT = 16 + zlib.MAX_WBITS


class GzipCompress:
    """Useful on PUT (store less) and on GET (send less)."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        """Write the input compressed; raise ValueError for a level outside 1 to 9."""
        level = int(params.get("level", "6"))
        if not 1 <= level <= 9:
            raise ValueError(f"level must be 1 to 9, not {level}")
        source, target = in_files[0], out_files[0]
        target.set_metadata(source.get_metadata() | {"Content-Type": "application/gzip"})
        compressor = zlib.compressobj(level, zlib.DEFLATED, GZIP_FORMAT)
        while chunk := source.read(CHUNK_BYTES):
            target.write(compressor.compress(chunk))
        target.write(compressor.flush())
