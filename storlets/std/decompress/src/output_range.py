"""The range that the server requests of the output: its parameter, and the report about it.

A storlet that declares ranges gets the parameter if a client has sent ``Range``.  It reports what
it writes, or writes all of its output without a report.
"""

from __future__ import annotations

from typing import Any

PARAMETER, ITEM = "storlet_range", "Storlet-Range"


def is_wanted(params: dict[str, str]) -> bool:
    """Whether the client requests a range."""
    return PARAMETER in params


def begin(
    target: Any, metadata: dict[str, str], params: dict[str, str], size: int
) -> tuple[int, int]:
    """Report the range of an output of ``size`` bytes, with the ``metadata`` of the output; return
    its first byte and the one behind its last.  If it has no byte of the output, both are 0, and
    nothing may be written.
    """
    first, _, last = params[PARAMETER].removeprefix("bytes=").partition("-")
    if first:
        start, end = int(first), min(size, int(last) + 1 if last else size)
    else:
        start, end = max(0, size - int(last)), size
    if start >= end:
        target.set_metadata({**metadata, ITEM: f"bytes */{size}"})
        return 0, 0
    target.set_metadata({**metadata, ITEM: f"bytes {start}-{end - 1}/{size}"})
    return start, end
