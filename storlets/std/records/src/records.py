"""Keeps records of one length that match a condition, and some of their fields."""

from __future__ import annotations

from typing import Any

import structure

#: About this much is read and written at a time.
BLOCK_BYTES = 256 * 1024


class Records:
    """See structure.py for the description of records and the condition."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        layout = structure.parse(params["struct"])
        is_selected = structure.selection(params["where"], layout)
        names = [name.strip() for name in params["fields"].split(",") if name.strip()]
        result = layout.projected(names or [field.name for field in layout.fields])
        places = {field.name: field.index for field in layout.fields}
        indices = [places[field.name] for field in result.fields]
        out_files[0].set_metadata({"Content-Type": "application/octet-stream"})
        source, rest, read = in_files[0], b"", 0
        while chunk := source.read(BLOCK_BYTES):
            read += len(chunk)
            data = rest + chunk if rest else chunk
            whole = len(data) - len(data) % layout.size
            rest = data[whole:]
            rows = layout.packing.iter_unpack(memoryview(data)[:whole])
            out_files[0].write(
                b"".join(
                    result.packing.pack(*(values[index] for index in indices))
                    for values in rows
                    if is_selected(values)
                )
            )
        if rest:
            raise ValueError(
                f"the object has {read} bytes, which is no multiple of {layout.size}, the length"
                " of a record"
            )
