"""Reverses the order of the bits in each byte; twice gives the object back."""

from __future__ import annotations

from typing import Any

BLOCK_BYTES = 256 * 1024
TABLE = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


class BitReverse:
    """A filter for tests."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        source, target = in_files[0], out_files[0]
        target.set_metadata(source.get_metadata())
        while block := source.read(BLOCK_BYTES):
            target.write(block.translate(TABLE))
