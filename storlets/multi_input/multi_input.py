"""Join several objects to one, in the order in which the request names them.

Parameters::

    separator   text written between two inputs      default: none

The result's metadata tells how many inputs there were, and carries each input's own under ``Input-<number>-<name>``.
"""

from __future__ import annotations

from typing import Any

BUFFER_BYTES = 256 * 1024


class MultiInput:
    """The object of the request is the first input; X-Storlet-Extra-Resources (or several ranges) add the others."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        """Write all inputs one after the other."""
        target = out_files[0]
        metadata = {"Inputs": str(len(in_files))}
        for number, source in enumerate(in_files, start=1):
            metadata |= {f"Input-{number}-{name}": value for name, value in source.get_metadata().items()}
        target.set_metadata(metadata)
        separator = params.get("separator", "").encode()
        buffer = bytearray(BUFFER_BYTES)
        view = memoryview(buffer)
        for number, source in enumerate(in_files):
            if number and separator:
                target.write(separator)
            while count := source.readinto(buffer):
                target.write(view[:count])
