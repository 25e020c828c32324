"""Blocks of whole lines, of any encoding in which a line feed is one byte."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from refusal import Refusal

BLOCK_BYTES = 256 * 1024
MOST_LINE_BYTES = 8 << 20


class LineError(Refusal):
    """A line is too long."""


def blocks(source: Any) -> Iterator[bytes]:
    """The data as they come."""
    while block := source.read(BLOCK_BYTES):
        yield block


def whole_lines(source: Any) -> Iterator[bytes]:
    """Blocks that end with a line feed.

    A last line without an end gets one, so that outputs of several objects can be concatenated.

    :raises LineError: a line is too long.
    """
    rest = b""
    for block in blocks(source):
        end = block.rfind(b"\n") + 1
        if end:
            # One copy: that of a slice, and that of a sum, would be two.
            yield b"".join((rest, memoryview(block)[:end]))
            rest = block[end:]
        else:
            rest += block
        if len(rest) > MOST_LINE_BYTES:
            raise LineError(f"a line of more than {MOST_LINE_BYTES} bytes: this is not text")
    if rest:
        yield rest + b"\n"
