"""The lines of a text in UTF-8, with bounds of a line and of a record.

Memory is that of one block and one record.  No message has a part of the text.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from refusal import Refusal

BLOCK_BYTES = 256 * 1024
#: Bound of one record; a record of CSV may have several lines.
MOST_RECORD_BYTES = 1 << 20


class LineError(Refusal):
    """The text is not UTF-8, or a line is too long."""


class Lines:
    """The lines with their ends, without a byte order mark: it would change the name of a column.

    :ivar record: number of characters since a reader of records has set it to 0.
    """

    def __init__(self, source: Any) -> None:
        self._source = source
        self.record = 0

    def __iter__(self) -> Iterator[str]:
        """
        :raises LineError: with the number of the line.
        """
        number, is_start = 1, True
        for block in self._blocks():
            try:
                text = block.decode()
            except UnicodeDecodeError as error:
                line = number + block.count(b"\n", 0, error.start)
                raise LineError(f"line {line}: is not UTF-8: {error.reason}") from None
            if is_start:
                text, is_start = text.removeprefix("\ufeff"), False
            for line_text in io.StringIO(text, newline="\n"):
                self.record += len(line_text)
                if self.record > MOST_RECORD_BYTES:
                    raise LineError(
                        f"line {number}: a record has more than {MOST_RECORD_BYTES} bytes"
                    )
                yield line_text
                number += 1

    def _blocks(self) -> Iterator[bytes]:
        """Blocks that end with a line feed, except the last one."""
        number, rest = 1, b""
        while block := self._source.read(BLOCK_BYTES):
            end = block.rfind(b"\n") + 1
            if end:
                number += block.count(b"\n")
                yield rest + block[:end]
                rest = block[end:]
            else:
                rest += block
            if len(rest) > MOST_RECORD_BYTES:
                raise LineError(f"line {number}: has more than {MOST_RECORD_BYTES} bytes")
        if rest:
            yield rest
