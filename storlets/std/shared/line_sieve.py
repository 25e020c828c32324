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

    def whole_lines(self, data: bytes, start: int = 0) -> tuple[int, int]:
        """The end of the first line that ends after ``start``, and that of the last one; both are
        ``start`` if none does.
        """
        last = data.rfind(self._line_end, start)
        if last < 0:
            return start, start
        size = len(self._line_end)
        return data.index(self._line_end, start) + size, last + size

    def has_rows(self, data: bytes, start: int, end: int) -> bool:
        """Whether each line is known to be whole rows.

        :param start: where the first of some whole lines begins, and with it a row.
        :param end: where the last one ends.
        """
        if self._are_rows or not self._quote:
            return True
        count, at = 0, data.find(self._quote, start, end)
        while at >= 0:
            before, after = data.rfind(self._line_end, start, at), data.index(self._line_end, at)
            begin = before + len(self._line_end) if before >= 0 else start
            after += len(self._line_end)
            count += 1
            are_many = count > FREE_LINES + (at - start) // SPARSE_BYTES
            if are_many or not self._line.fullmatch(data, begin, after):
                return False
            at = data.find(self._quote, after, end)
        return True

    def kept(self, data: bytes, start: int, end: int) -> bytes:
        """The lines with a needle, or all of them.

        :param start: where the first of some whole lines of whole rows begins.
        :param end: where the last one ends.
        """
        if start == end or not self._finds_all(data, start, end):
            return data[start:end]
        # Without quotes, the first bytes of a value are after a delimiter.
        has_quotes = self._quote and data.find(self._quote, start, end) >= 0
        before_start = b"" if has_quotes else self._delimiter
        mark, size, spans = self._line_end, len(self._line_end), dict[int, int]()
        for content, is_start in self._needles:
            search = Search(data, before_start + content if is_start else content)
            count, at = 0, search.after(start)
            while 0 <= at < end:
                count += 1
                if count > FREE_LINES + (at - start) // SPARSE_BYTES:
                    return data[start:end]
                before, after = data.rfind(mark, start, at), data.index(mark, at) + size
                spans[before + size if before >= 0 else start] = after
                at = search.after(after)
        return b"".join([data[first:after] for first, after in sorted(spans.items())])

    def _finds_all(self, data: bytes, start: int, end: int) -> bool:
        """Whether needles, which are UTF-8, are found by their bytes."""
        return self._is_ascii or data.isascii() or _is_utf8(data[start:end])


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
        :param head: the start of the CSV, which ``source`` no longer has.
        :param most_line_bytes: a line with more is an error of the reader.
        :param report: called after each block of ``source``.
        """
        self._source = source
        self._sieve = sieve
        self._most = most_line_bytes
        self._report = report
        self._head = head
        self._begin = len(BOM_UTF8) if head.startswith(BOM_UTF8) else 0
        self._first, self._end = sieve.whole_lines(head, self._begin)
        #: The start of a line, and how much of it the reader has.
        self._rest = head[self._end :]
        self._given = len(self._rest)
        self._is_sieving = sieve.has_rows(head, self._begin, self._end)

    def kept_head(self) -> bytes:
        """The head for a reader that has found no fault in it: its first line, and those that the
        sieve does not drop.
        """
        if not self._is_sieving:
            return self._head
        kept = self._sieve.kept(self._head, self._first, self._end)
        return self._head[: self._first] + kept + self._head[self._end :]

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
        sieve = self._sieve
        start, end = sieve.whole_lines(data)
        if end and not self._rest:
            start = 0
        # The line that an earlier block begins; a CR LF may be in both.
        begun = self._rest + (data[:start] if end else data)
        first, last = sieve.whole_lines(begun)
        rest = data[end:] if end else begun[last:]
        if not last and not end and len(rest) <= self._most:
            self._rest = rest
            return b""
        are_rows = sieve.has_rows(begun, 0, last) and sieve.has_rows(data, start, end)
        if len(rest) > self._most or not are_rows:
            self._is_sieving = False
            self._rest += data
            return self._ungiven()
        # The first line is whole for a reader that has its start.
        taken = begun[self._given : first] if self._given else b""
        kept = sieve.kept(begun, first if self._given else 0, last)
        self._rest, self._given = rest, 0
        return taken + kept + sieve.kept(data, start, end)

    def _ungiven(self) -> bytes:
        """All of the rest that the reader does not have."""
        data, self._rest, self._given = self._rest[self._given :], b"", 0
        return data
