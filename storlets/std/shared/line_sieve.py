"""CSV without the lines that have none of some needles.

A line is dropped only where it is known to be whole rows: no quote is in it, or each one is around
a whole value.  All other lines reach the engine, which finds their faults.  Decision 0072.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Callable
from typing import Any

from byte_search import Search
from needles import Needles
from sql_pipes import no_report

#: A line with a needle or a quote costs as much as this many bytes without one.  Where there are
#: more such lines, all lines reach the engine.
SPARSE_BYTES = 512
#: The number of these lines that are always looked at.
FREE_LINES = 32


class Sieve:
    """The lines that have one of the needles."""

    def __init__(
        self,
        needles: Needles,
        line_end: bytes,
        delimiter: bytes,
        quote: bytes,
        *,
        are_rows: bool = False,
    ) -> None:
        """
        :param needles: at least one.
        :param line_end: ends each line.
        :param quote: may be around a value; empty: there is none.
        :param are_rows: lines are known to be rows, because no value has a line end.
        """
        self._line_end = line_end
        self._delimiter = delimiter
        self._needles = needles
        self._are_rows = are_rows
        #: Such needles have the same bytes in most encodings.
        self._is_ascii = all(needle.content.isascii() for needle in needles)
        self._quote = quote
        mark = re.escape(quote)
        other = b"[^" + re.escape(delimiter + quote) + b"\r\n]*"
        quoted = b"(?:" + mark + b"[^" + mark + b"\r\n]*" + mark + b")+" if quote else other
        value = b"(?:" + quoted + b"|" + other + b")"
        delimited = b"(?:" + re.escape(delimiter) + value + b")*"
        self._line = re.compile(value + delimited + re.escape(line_end))

    def divided(self, data: bytes, before: bytes = b"") -> tuple[bytes, bytes]:
        """The whole lines of ``before`` and ``data``, and the begin of the next one.

        :param before: has no whole line.
        """
        found = data.rfind(self._line_end)
        if found < 0 and before:
            # Its last byte may be the first one of a line end.
            return self.divided(before + data)
        end = found + len(self._line_end) if found >= 0 else 0
        return b"".join((before, memoryview(data)[:end])), data[end:]

    def parted(self, lines: bytes) -> tuple[bytes, bytes]:
        """The first line, and the others."""
        _, end = self._bounds(lines, 0)
        return lines[:end], lines[end:]

    def has_rows(self, lines: bytes) -> bool:
        """Whether each line is known to be whole rows.

        :param lines: whole lines, of which the first one begins a row.
        """
        if self._are_rows or not self._quote:
            return True
        count, at = 0, lines.find(self._quote)
        while at >= 0:
            start, end = self._bounds(lines, at)
            count += 1
            are_many = count > FREE_LINES + at // SPARSE_BYTES
            if are_many or not self._line.fullmatch(lines, start, end):
                return False
            at = lines.find(self._quote, end)
        return True

    def kept(self, lines: bytes) -> bytes:
        """The lines with a needle, or all of them.

        :param lines: whole lines, each of whole rows.
        """
        if not self._finds_all(lines):
            return lines
        # Without quotes, the first bytes of a value are after a delimiter.
        before_start = b"" if self._quote and self._quote in lines else self._delimiter
        mark, size, spans = self._line_end, len(self._line_end), dict[int, int]()
        for content, is_start in self._needles:
            needle = before_start + content if is_start else content
            search = Search(lines, needle)
            count, at = 0, search.after(0)
            while at >= 0:
                count += 1
                if count > FREE_LINES + at // SPARSE_BYTES:
                    return lines
                before, end = lines.rfind(mark, 0, at), lines.index(mark, at) + size
                spans[before + size if before >= 0 else 0] = end
                at = search.after(end)
        return b"".join([lines[start:end] for start, end in sorted(spans.items())])

    def _finds_all(self, lines: bytes) -> bool:
        """Whether needles, which are UTF-8, are found by their bytes."""
        return self._is_ascii or lines.isascii() or _is_utf8(lines)

    def _bounds(self, lines: bytes, at: int) -> tuple[int, int]:
        """The begin and the end of the line with a place."""
        start, end = lines.rfind(self._line_end, 0, at), lines.find(self._line_end, at)
        size = len(self._line_end)
        return start + size if start >= 0 else 0, end + size if end >= 0 else len(lines)


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


class Sieved:
    """A file with the rest of a CSV, without the lines that a sieve drops.

    From the first line that may not be whole rows, all lines are there.
    """

    def __init__(
        self,
        source: Any,
        head: bytes,
        sieve: Sieve,
        most_line_bytes: int,
        report: Callable[[], None] = no_report,
    ) -> None:
        """
        :param head: the begin of the CSV, which ``source`` no longer has.
        :param most_line_bytes: a line with more is an error of the reader.
        :param report: called after each block of ``source``.
        """
        self._source = source
        self._sieve = sieve
        self._most = most_line_bytes
        self._report = report
        self._head = head
        lines, self._rest = sieve.divided(head.removeprefix(BOM_UTF8))
        #: The bytes of the rest that the reader has.
        self._given = len(self._rest)
        self._is_sieving = sieve.has_rows(lines)

    def kept_head(self) -> bytes:
        """The head for a reader that has found no fault in it: its first line, and those that the
        sieve does not drop; before the first :meth:`read`.
        """
        if not self._is_sieving:
            return self._head
        end = len(self._head) - self._given
        start = BOM_UTF8 if self._head.startswith(BOM_UTF8) else b""
        first, lines = self._sieve.parted(self._head[len(start) : end])
        return start + first + self._sieve.kept(lines) + self._head[end:]

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes and a line; none only at the end."""
        while data := bytes(self._source.read(size)):
            self._report()
            if data := self._taken(data):
                return data
        return self._ungiven()

    def _taken(self, data: bytes) -> bytes:
        """The lines of the next block for the reader."""
        if not self._is_sieving:
            self._rest += data
            return self._ungiven()
        lines, rest = self._sieve.divided(data, self._rest)
        if not lines and len(rest) <= self._most:
            self._rest = rest
            return b""
        if len(rest) > self._most or not self._sieve.has_rows(lines):
            self._is_sieving = False
            self._rest = lines + rest
            return self._ungiven()
        if not self._given:
            self._rest = rest
            return self._sieve.kept(lines)
        # The reader has the begin of the first line.
        first, lines = self._sieve.parted(lines)
        self._rest = first
        begun = self._ungiven()
        self._rest = rest
        return begun + self._sieve.kept(lines)

    def _ungiven(self) -> bytes:
        """All of the rest that the reader does not have."""
        data, self._rest, self._given = self._rest[self._given :], b"", 0
        return data
