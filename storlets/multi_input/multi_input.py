"""Join several objects to one, in the order in which the request names them.

Parameters::

    separator   text written between two inputs      default: none

The result's metadata contains the number of inputs, and each input's own as
``Input-<number>-<name>``.
"""

from __future__ import annotations

from typing import Any

BUFFER_BYTES = 256 * 1024


class MultiInput:
    """The request's object is the first input; X-Storlet-Extra-Resources or ranges add others."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        """Write all inputs in sequence."""
        target = out_files[0]
        metadata = {"Inputs": str(len(in_files))}
        for number, source in enumerate(in_files, start=1):
            metadata |= {
                f"Input-{number}-{name}": value for name, value in source.get_metadata().items()
            }
        target.set_metadata(metadata)
        separator = params.get("separator", "").encode()
        buffer = bytearray(BUFFER_BYTES)
        view = memoryview(buffer)
        for number, source in enumerate(in_files):
            if number and separator:
                target.write(separator)
            while count := source.readinto(buffer):
                target.write(view[:count])
