"""Decompresses an object, within limits and to the end; ``packed`` has the formats."""

from __future__ import annotations

from typing import Any

import packed
from parameters import is_true

OUTPUT_BYTES = 1 << 20
ITEM = "Compression"
PLAIN = "none"


class DecompressionError(ValueError):
    """The format of the object is unknown."""


class Decompress:
    """See the README for the parameters."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        source, target = in_files[0], out_files[0]
        start = source.read(packed.INPUT_BYTES)
        kind = format_of(params, source.get_metadata(), start)
        # An empty value removes the item.
        target.set_metadata({ITEM: ""})
        if kind == PLAIN:
            target.write(start)
        else:
            source = packed.Unpacked(source, kind, start, int(params["max-ratio"]))
        while block := source.read(OUTPUT_BYTES):
            target.write(block)


def format_of(params: dict[str, str], metadata: dict[str, str], start: bytes) -> str:
    """The format by parameter, metadata or first bytes."""
    if params["format"] != "auto":
        return params["format"]
    for name, value in metadata.items():
        if name.lower() == ITEM.lower() and value.strip():
            kind = value.strip().lower()
            if kind not in (*packed.MAGIC, PLAIN):
                known = ", ".join(packed.MAGIC)
                raise DecompressionError(f"its {ITEM} is {kind}: known are {known}")
            return kind
    kind = packed.kind_of(start)
    if kind:
        return kind
    if is_true(params, "accept-plain"):
        return PLAIN
    raise DecompressionError(
        f"the object has no {ITEM} in its metadata and begins like none of"
        f" {', '.join(packed.MAGIC)}"
    )
