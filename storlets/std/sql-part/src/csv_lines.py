"""The lines of a CSV that begin within a range of bytes, where each line is a row.

A place in the middle of a CSV does not show whether it is within quotes.  But a row has at most
1 MiB (``sql_input``), so one ends in the MiB before the range.  If each line from there on has its
quotes around whole values, each of these lines begins and ends outside of quotes, and so do those
of the range.  Any other line is an error.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from typing import Any

from line_feeds import QuotePlaces
from parameters import shown
from sql_check import SqlError
from sql_input import MOST_LINE_BYTES, Format, line_too_long

#: The bound of a row is that of the engine, which may count its end.
SLACK_BYTES = 4096
_RANGE = re.compile("bytes=(?:([0-9]+)-([0-9]*)|-([0-9]+))")
_ADVICE = (
    "a part has whole lines: query the object with std:sql, or take quotes for data (quote=none)"
)


def range_of(text: str, size: int) -> tuple[int, int]:
    """The first and the last byte of a range of an object of ``size`` bytes.

    An empty object has the range from its start, without a byte.

    :raises SqlError: it is no range, or has no byte of the object.
    """
    found = _RANGE.fullmatch(text)
    if found is None:
        raise SqlError(
            f"scan-range: {shown(text)}: want bytes=FIRST-LAST, bytes=FIRST- or bytes=-N"
        )
    if found[3]:
        first, last = max(size - int(found[3]), 0), size - 1
    else:
        first, last = int(found[1]), min(int(found[2] or size), size - 1)
    if first > last and (first or size):
        raise SqlError(f"scan-range: {shown(text)}: has no byte of the object, which has {size}")
    return first, last


class Quotes:
    """The check of whole lines, which are given in blocks."""

    def __init__(self, form: Format) -> None:
        """:raises SqlError: the dialect has quotes that lines do not show."""
        quote = form.reader["quotechar"]
        if quote and form.reader.get("escapechar", quote) != quote:
            raise SqlError("escape: a part requires doubled quotes in values")
        self.mark = (quote or "").encode()
        self._places = QuotePlaces(self.mark, form)
        self._rest = b""

    def take(self, data: bytes) -> None:
        """Check the lines that end in the next block.

        :raises SqlError: a line has a quote at another place than around a whole value.
        """
        if not self.mark:
            return
        lines, line_end, rest = data.rpartition(b"\n")
        if not line_end:
            self._rest += data
        else:
            self._require(self._rest + lines + line_end)
            self._rest = rest
        if len(self._rest) > MOST_LINE_BYTES:
            raise line_too_long()

    def end(self) -> None:
        """Check the last line, which has no end.

        :raises SqlError: as :meth:`take`.
        """
        self.take(b"\n")

    def _require(self, lines: bytes) -> None:
        if self.mark not in lines:
            return
        parts = lines.split(self.mark)
        if len(parts) % 2 == 0 or b"\n" in b"".join(parts[1::2]):
            raise SqlError(
                f"a value has a line end within quotes, or a quote has no end: {_ADVICE}"
            )
        if self._places.are_wrong(b"\n" + self.mark.join(parts[::2])):
            raise SqlError(f"a quote is within a value, and not around it: {_ADVICE}")


class Lines:
    """A file with the lines that begin within a range.

    :param source: the object, in which this seeks.
    :param first: the first byte of the range.
    :param last: the last one.
    """

    def __init__(self, source: Any, first: int, last: int, quotes: Quotes) -> None:
        self._source = source
        self._first = first
        self._last = last
        self._quotes = quotes
        # A line that begins at the first byte has the end of another one before it.
        before = MOST_LINE_BYTES + SLACK_BYTES if quotes.mark else 1
        self._at = max(first - before, 0)
        #: The first line begins before the window, and a place before the range.
        self._is_cut = self._at > 0
        self._skips = first > 0
        self._is_over = False
        source.seek(self._at)

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes, and none only at the end.

        :raises SqlError: a line has a quote at another place than around a whole value.
        """
        while not self._is_over:
            data = bytes(self._source.read(size))
            if not data:
                self._is_over = True
                self._quotes.end()
                break
            before, self._at = self._at, self._at + len(data)
            found = data.find(b"\n", max(self._last - before, 0))
            if found >= 0:
                self._is_over = True
                data = data[: found + 1]
            self._check(data, is_first=before == 0)
            if self._skips:
                found = data.find(b"\n", max(self._first - 1 - before, 0))
                self._skips = found < 0
                data = b"" if self._skips else data[found + 1 :]
            if data:
                return data
        return b""

    def _check(self, data: bytes, *, is_first: bool) -> None:
        if is_first:
            data = data.removeprefix(BOM_UTF8)
        if self._is_cut:
            _, line_end, data = data.partition(b"\n")
            self._is_cut = not line_end
        self._quotes.take(data)
