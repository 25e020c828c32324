"""Keep the lines that match a pattern.

Parameters::

    pattern      a regular expression (Python's re), searched in each line without its
                 line break; needed
    fixed        true: the pattern is plain text                   default: false
    ignore_case  true: a equals A                                  default: false
    invert       true: keep the lines that do not match            default: false
    max_count    stop after this number of lines                   default: no end
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

FLUSH_BYTES = 64 * 1024


class Grep:
    """Filter lines by a regular expression on bytes, so that any encoding of the text is
    preserved."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        """Write the lines chosen; raise ValueError without a pattern, re.error for a bad one."""
        expression = compiled(params)
        wanted = not is_true(params, "invert")
        out_files[0].set_metadata({"Content-Type": "text/plain; charset=utf-8"})
        lines = (
            line
            for line in in_files[0]
            if (expression.search(line.rstrip(b"\r\n")) is not None) is wanted
        )
        limit = int(params["max_count"]) if "max_count" in params else None
        for block in blocks(islice(lines, limit)):
            out_files[0].write(block)


def compiled(params: dict[str, str]) -> re.Pattern[bytes]:
    """The parameters as one compiled expression."""
    if not params.get("pattern"):
        raise ValueError("the parameter pattern is missing")
    pattern = params["pattern"].encode()
    if is_true(params, "fixed"):
        pattern = re.escape(pattern)
    return re.compile(pattern, re.IGNORECASE if is_true(params, "ignore_case") else 0)


def is_true(params: dict[str, str], name: str) -> bool:
    """A switch: absent is false; only true and false are valid."""
    value = params.get(name, "false").lower()
    if value not in ("true", "false"):
        raise ValueError(f"{name} must be true or false, not {value!r}")
    return value == "true"


def blocks(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Collect lines to about 64 KiB: a write per line would dominate the cost."""
    gathered: list[bytes] = []
    size = 0
    for line in lines:
        gathered.append(line)
        size += len(line)
        if size >= FLUSH_BYTES:
            yield b"".join(gathered)
            gathered, size = [], 0
    yield b"".join(gathered)
