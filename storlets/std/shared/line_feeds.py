"""CSV with CR LF at the ends of its rows, as the same with LF alone.

Threads of the engine begin at line ends.  Where one of them ends no row, the engine refuses the
object, and one thread must read it.  With CR LF that one goes wrong: where a buffer ends within CR
LF, and an empty line follows, it takes the LF for the first byte of a value.  So such an object has
LF for the engine, but for line ends within quotes, which are data.

A quote counts as the start of a quoted value or as its end, so each one must have such a place:
after another quote a wrong count would change data.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from dataclasses import replace
from typing import Any

import sql_input
from sql_check import SqlError
from sql_input import Format


def unified(source: Any, head: bytes, form: Format) -> tuple[Any, bytes, Format]:
    """The object as the engine can read it: the file, its first MiB, and the format.

    :param head: the first MiB, which ``source`` no longer has.
    :raises SqlError: quotes are not in their places, and ``parallel=false`` needs LF.
    """
    if not form.is_csv or b"\r\n" not in head:
        return source, head, form
    if form.is_parallel:
        is_small = len(head) < sql_input.HEAD_BYTES
        if is_small or sql_input.has_plain_lines(head.replace(b"\r\n", b"\n"), form):
            return source, head, form
    try:
        lines = LineFeeds(source, head, form)
    except SqlError:
        if form.is_parallel:
            return source, head, form
        raise
    dialect = f"{form.dialect}, new_line='\\n'"
    form = replace(form, dialect=dialect, has_line_feeds=True)
    return lines, sql_input.head_of(lines), form


class QuotePlaces:
    """The places of quotes that are around whole values.

    :param mark: the quote.
    """

    def __init__(self, mark: bytes, form: Format) -> None:
        delimiter, quote = re.escape(form.reader["delimiter"].encode()), re.escape(mark)
        # The search for a pattern is fast only if it begins with a byte.
        self._before = re.compile(quote + b"[^" + delimiter + quote + b"\n]")
        self._after = re.compile(quote + b"[^" + delimiter + quote + b"\r\n]")

    def are_wrong(self, text: bytes) -> bool:
        """Whether a quote is elsewhere.

        :param text: the parts outside of quotes, joined by the quote, after a line end.
        """
        return bool(self._after.search(text) or self._before.search(text[::-1]))


class Quotes:
    """The quotes of an object, block by block: what is outside of them, and their places.

    :ivar are_open: whether the next block begins within quotes.
    """

    def __init__(self, form: Format) -> None:
        self._mark = (form.reader["quotechar"] or "").encode()
        self._places = QuotePlaces(self._mark, form)
        self.are_open = False
        self._before = b"\n"

    @property
    def before(self) -> bytes:
        """The byte before the next one outside of quotes, or the start of a quoted value: a text
        after which the next block has the same meaning as after all data so far.
        """
        return b"\n" + self._mark if self.are_open else self._before

    def split(self, data: bytes) -> tuple[list[bytes], int]:
        """The parts of the next block between quotes, and the number of the first one outside.

        All steps work on whole blocks: the parts outside of quotes, joined by the quote, have each
        quoted value as one quote.
        """
        parts = data.split(self._mark) if self._mark else [data]
        first = int(self.are_open)
        self.are_open = (first + len(parts)) % 2 == 0
        return parts, first

    def are_wrong(self, text: bytes, first: int) -> bool:
        """Whether a quote is elsewhere than around a whole value.

        :param text: the parts outside of quotes, joined by the quote.
        :param first: the number of the first one.
        """
        # The quotes on both sides of these parts have their places, too.
        before, after = self._before + self._mark * first, self._mark * self.are_open
        has_marks = bool(self._mark) and (
            self._mark in before or bool(after) or self._mark in text
        )
        self._before = after or text[-1:] or before[-1:]
        return has_marks and self._places.are_wrong(before + text + after)


class LineFeeds:
    """A file with the bytes of ``source``, without the CR of a CR LF outside of quotes."""

    def __init__(self, source: Any, head: bytes, form: Format) -> None:
        """
        :param head: the bytes before those of ``source``.
        :raises SqlError: as :meth:`read`.
        """
        quote = form.reader["quotechar"]
        if form.reader.get("escapechar", quote) != quote:
            raise SqlError("escape: CR LF at the ends of lines requires doubled quotes in values")
        self._source = source
        #: Without quotes nothing is divided by it.
        self._mark = (quote or "\0").encode()
        self._quotes = Quotes(form)
        #: A CR whose LF may follow.
        self._held = b""
        start = BOM_UTF8 if head.startswith(BOM_UTF8) else b""
        self._ready = start + self._changed(head[len(start) :])

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes, and none only at the end.

        :raises SqlError: a quote is not in its place, or a CR is outside of quotes without LF.
        """
        while not self._ready:
            data = bytes(self._source.read(size))
            if not data:
                if self._held:
                    raise SqlError(_LONE)
                if self._quotes.are_open:
                    raise SqlError(_NO_END)
                break
            self._ready = self._changed(data)
        data, self._ready = self._ready[:size], self._ready[size:]
        return data

    def _changed(self, data: bytes) -> bytes:
        """The next block with LF."""
        parts, first = self._quotes.split(self._held + data)
        self._held = b""
        if not self._quotes.are_open and parts[-1].endswith(b"\r"):
            parts[-1], self._held = parts[-1][:-1], b"\r"
        outside = parts[first::2]
        if outside:
            text = self._mark.join(outside).replace(b"\r\n", b"\n")
            if b"\r" in text:
                raise SqlError(_LONE)
            if self._quotes.are_wrong(text, first):
                raise SqlError(_MISPLACED)
            parts[first::2] = text.split(self._mark, len(outside) - 1)
        return self._mark.join(parts)


def ended(source: Any, head: bytes, form: Format, *, has_threads: bool) -> Any:
    """The rest of a CSV, which fails if it ends within quotes and the engine does not notice it.

    :param head: the bytes before those of ``source``.
    """
    if not has_threads:
        return Ended(source, head, form)
    return EscapeEnd(source, head, form) if form.reader.get("escapechar") else source


class EscapeEnd:
    """The bytes of ``source``, which fails if the last one is an escape character.

    Several threads of the engine take the end of the object there for that of a quoted value.
    """

    def __init__(self, source: Any, head: bytes, form: Format) -> None:
        """
        :param head: the bytes before those of ``source``.
        """
        self._source = source
        self._escape = form.reader["escapechar"].encode()
        self._is_last = False
        self._take(head)

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes, and none only at the end.

        :raises SqlError: the last byte is an escape character that is not escaped.
        """
        data = bytes(self._source.read(size))
        if not data and self._is_last:
            raise SqlError("the object ends with its escape character: it is cut")
        self._take(data)
        return data

    def _take(self, data: bytes) -> None:
        count = len(data) - len(data.rstrip(self._escape))
        is_whole = count == len(data)
        self._is_last = (count + (is_whole and self._is_last)) % 2 == 1


class OpenValue:
    """Whether an object ends within quotes, of which some may be data.

    A quoted value begins after a delimiter or a line end, and maybe spaces.  Each block is searched
    from the start of the last value that may have no end yet.  It takes several times as long as
    :class:`Quotes`, which counts quotes.

    :param before: ``Quotes.before`` of the data so far.
    """

    def __init__(self, form: Format, before: bytes) -> None:
        self._quote = form.reader["quotechar"].encode()
        quote = re.escape(self._quote)
        delimiter = form.reader["delimiter"].encode()
        #: Spaces that are no delimiters.
        self._space = b"" if delimiter == b" " else b" "
        begin = b"[\n" + re.escape(delimiter) + b"]" + (self._space and b" *")
        inner = b"[^" + quote + b"]*"
        self._begun = re.compile(begin + quote)
        # The byte behind a closing quote shows that it is no doubled one.
        doubled = b"(?:" + quote * 2 + inner + b")*"
        self._whole = re.compile(begin + quote + inner + doubled + quote + b"(?=[^" + quote + b"])")
        self._rest = before

    def take(self, data: bytes) -> None:
        """Search the next block.

        :raises SqlError: a quoted value is longer than a row may be.
        """
        found = self._begun.search(self._rest)
        if found or self._quote in data:
            data, self._rest = self._whole.sub(b"", self._rest + data), b""
            found = self._begun.search(data)
        last = data.rstrip(self._space)[-1:]
        self._rest = data[found.start() :] if found else last or self._rest
        if len(self._rest) > 2 * sql_input.MOST_LINE_BYTES:
            raise SqlError(_NO_END)

    def is_open(self) -> bool:
        """Whether the data end within quotes."""
        return self._begun.search(self._whole.sub(b"", self._rest + b"\n")) is not None


class Ended:
    """The bytes of ``source``, which fails at its end if that is within quotes.

    One thread of the engine takes a quote without an end for the end of the object, and drops the
    rows behind it.  Several threads find it.
    """

    def __init__(self, source: Any, head: bytes, form: Format) -> None:
        """
        :param head: the bytes before those of ``source``.
        """
        reader = form.reader
        self._source, self._form = source, form
        self._mark = (reader["quotechar"] or "").encode()
        self._quotes = Quotes(form)
        self._escape = (reader.get("escapechar") or "").encode()
        self._escaped = re.compile(re.escape(self._escape) + b".", re.DOTALL)
        #: After a quote within a value without quotes, which is data.
        self._value: OpenValue | None = None
        #: An escape character before the next block.
        self._held = b""
        self._take(head.removeprefix(BOM_UTF8))

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes, and none only at the end.

        :raises SqlError: the end is within quotes.
        """
        data = bytes(self._source.read(size))
        if data:
            self._take(data)
        elif self._value.is_open() if self._value else self._quotes.are_open:
            raise SqlError(_NO_END)
        return data

    def _take(self, data: bytes) -> None:
        if not self._mark:
            return
        if self._escape:
            data = self._escaped.sub(b"", self._held + data)
            self._held = data[-1:] if data.endswith(self._escape) else b""
        if self._value is not None:
            self._value.take(data)
            return
        before = self._quotes.before
        parts, first = self._quotes.split(data)
        outside = parts[first::2]
        if outside and self._quotes.are_wrong(self._mark.join(outside), first):
            self._value = OpenValue(self._form, before)
            self._value.take(data)


_NO_END = "a quote has no end (quote=none takes quotes for data)"
_MISPLACED = (
    "a value has a quote within, or continues after its closing quote: with CR LF at the ends of"
    " lines quotes are around whole values (quote=none takes them for data)"
)
_LONE = "a CR outside of quotes has no LF after it, which ends the other lines"
