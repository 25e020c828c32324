"""Read the object's metadata and set new ones on the result.

Parameters::

    set-<Name>     sets <Name> on the result, for any name
    remove         names to leave out, separated by commas
    Content-Type   replaces the content type

The body is copied unchanged.
"""

from __future__ import annotations

from typing import Any

BUFFER_BYTES = 256 * 1024
SET_PREFIX = "set-"


class Metadata:
    """The storlet's metadata is added to the source's; an empty value removes a name."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        """Set the metadata before the first byte (later is too late), then copy."""
        source, target = in_files[0], out_files[0]
        metadata = source.get_metadata()
        metadata |= {
            name.strip(): "" for name in params.get("remove", "").split(",") if name.strip()
        }
        metadata |= {
            name[len(SET_PREFIX) :]: value
            for name, value in params.items()
            if name.lower().startswith(SET_PREFIX)
        }
        if "Content-Type" in params:
            metadata["Content-Type"] = params["Content-Type"]
        self.logger.info("set: %s", ", ".join(sorted(metadata)))
        target.set_metadata(metadata)
        buffer = bytearray(BUFFER_BYTES)
        view = memoryview(buffer)
        while count := source.readinto(buffer):
            target.write(view[:count])
