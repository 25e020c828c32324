"""The bytes of the object on their way to the engine: counted, cut to a range, without comments,
and checked for their encoding."""

from __future__ import annotations

import re
from codecs import BOM_UTF8, getincrementaldecoder
from typing import Any, Protocol

from select_errors import SelectError
from select_request import CsvInput

BLOCK_BYTES = 256 * 1024
#: Bound of one record.
MOST_RECORD_BYTES = 1 << 20


def too_long() -> SelectError:
    """The error of a record that is too long."""
    return SelectError("OverMaxRecordSize", "a record has more than 1 MiB")


class Stream(Protocol):
    """A file that is read from its start to its end."""

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes or a few more; none only at the end."""


class Counted:
    """Counts the bytes that are read."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self.count = 0

    def read(self, size: int) -> bytes:
        data = bytes(self._source.read(size))
        self.count += len(data)
        return data


class Ranged:
    """The records that begin between two offsets, both included.

    :param start: the offset of the first; the source begins one byte before it, or at 0.
    :param end: the offset of the last; ``None``: all.
    """

    def __init__(self, source: Stream, start: int, end: int | None) -> None:
        self._source = source
        self._at = max(start - 1, 0)
        self._skips = start > 0
        self._end = end
        self._is_in_record = False
        self._is_over = False

    def read(self, size: int) -> bytes:
        while not self._is_over:
            data = self._source.read(size)
            if not data:
                break
            before = self._at
            self._at += len(data)
            if self._skips:
                found = data.find(b"\n")
                if found < 0:
                    continue
                self._skips = False
                data = data[found + 1 :]
                before += found + 1
            data = self._cut(data, before)
            if data:
                return data
        return b""

    def _cut(self, data: bytes, before: int) -> bytes:
        """The data up to the end of the last record, if it is in them."""
        if self._end is None or not data:
            return data
        if before > self._end and not self._is_in_record:
            self._is_over = True
            return b""
        self._is_in_record = True
        found = data.find(b"\n", max(self._end - before, 0))
        if found >= 0:
            self._is_over = True
            return data[: found + 1]
        return data


class OtherRecords:
    """CSV whose records end with some other character, with that one and LF in each other's place.

    The engine's records end with LF or CR.  ``select_schema`` changes both back in values.

    :param delimiter: one ASCII character.
    """

    def __init__(self, source: Stream, delimiter: str) -> None:
        self._source = source
        other = delimiter.encode()
        self._table = bytes.maketrans(other + b"\n", b"\n" + other)

    def read(self, size: int) -> bytes:
        data = self._source.read(size)
        if b"\r" in data:
            # The engine would take it, before the delimiter, for a part of that.
            raise SelectError("CSVParsingError", "a CR in an object whose records end otherwise")
        return data.translate(self._table)


class CsvText:
    """CSV without comments, in which each quote has its place.

    The engine takes a quote without an end for the end of the object, and its own option for
    comments cuts lines.  So the quotes are checked here: a quoted field begins after a delimiter
    and ends before one, and other fields have no quote.

    :param form: its quote, delimiter and comment are of one byte each; the comment may be empty.
    """

    def __init__(self, source: Stream, form: CsvInput) -> None:
        self._source = source
        self._comment = form.comment.encode()
        self._quote = form.quote.encode()
        self._line_end = line_end = b"\r" if form.record == "\r" else b"\n"
        begin, field = _field_patterns(form, line_end)
        self._begin = re.compile(begin, re.DOTALL)
        comment = b"(?!" + re.escape(self._comment) + b")" if self._comment else b""
        plain = b"[^" + re.escape(self._quote) + line_end + b"]*"
        after = line_end + comment + (b"|" + field if field else b"")
        # No possessive repetitions: those of Python 3.11 end one byte early within a group.
        self._text = re.compile(plain + b"(?:(?:" + after + b")" + plain + b")*", re.DOTALL)
        #: The last byte before the rest; a comment may begin after a line's end only.
        self._before = line_end
        self._rest = b""
        self._is_in_comment = False
        self._is_first = True

    def read(self, size: int) -> bytes:
        while True:
            data = self._source.read(size)
            if self._is_first:
                data = data.removeprefix(BOM_UTF8)
                self._is_first = False
            kept = self._taken(self._rest + data, is_end=not data)
            if kept or not data:
                return kept

    def _taken(self, block: bytes, *, is_end: bool) -> bytes:
        """The part of a block that is complete; the rest waits for more."""
        if self._is_plain(block):
            self._before, self._rest = block[-1:] or self._before, b""
            return block
        text = self._before + block
        kept, at = [], 1
        while at < len(text):
            at = self._after_comment(text, at)
            end = self._text.match(text, at).end()  # type: ignore[union-attr]
            if end < len(text) and text[end : end + 1] == self._line_end:
                end += 1
            elif end < len(text):
                whole = self._field(text, end, is_end=is_end)
                if not whole:
                    kept.append(text[at:end])
                    at = end
                    break
                end = whole
            kept.append(text[at:end])
            at = end
        self._before = text[at - 1 : at]
        self._rest = text[at:]
        if len(self._rest) > MOST_RECORD_BYTES:
            raise too_long()
        return b"".join(kept)

    def _is_plain(self, block: bytes) -> bool:
        """Whether a block has neither quotes nor comments: the search for them is much faster."""
        if self._is_in_comment or (self._quote and self._quote in block):
            return False
        # The search for one byte is ten times as fast as that for two.
        if not self._comment or self._comment not in block:
            return True
        begins = self._before == self._line_end and block.startswith(self._comment)
        return not begins and self._line_end + self._comment not in block

    def _after_comment(self, text: bytes, at: int) -> int:
        """The place after the comments that begin here."""
        while at < len(text):
            if not self._is_in_comment:
                begins = self._comment and text.startswith(self._comment, at)
                if not begins or text[at - 1 : at] != self._line_end:
                    break
                self._is_in_comment = True
            end = text.find(self._line_end, at)
            if end < 0:
                return len(text)
            self._is_in_comment = False
            at = end + 1
        return at

    def _field(self, text: bytes, at: int, *, is_end: bool) -> int:
        """The end of a quoted field that is the end of the object; 0 if more is needed.

        :raises SelectError: the quote has no such place.
        """
        if self._text.match(text[at - 1 : at] + self._quote * 2 + b"\n", 1).end() == 1:  # type: ignore[union-attr]
            raise SelectError(
                "CSVUnescapedQuote", "a field that does not begin with a quote has one"
            )
        end = self._begin.match(text, at).end()  # type: ignore[union-attr]
        if end < len(text) and text[end : end + 1] == self._line_end:
            raise SelectError(
                "CSVEscapingRecordDelimiter",
                "a quoted field has a record delimiter: set AllowQuotedRecordDelimiter",
            )
        if end + 1 < len(text):
            raise SelectError("CSVUnescapedQuote", "a quoted field continues after its quote")
        if not is_end:
            return 0
        # The last byte may also be an escape character.
        if text[end : end + 1] != self._quote:
            raise SelectError("CSVParsingError", "a quote has no end")
        return end + 1


def _field_patterns(form: CsvInput, line_end: bytes) -> tuple[bytes, bytes]:
    """The patterns of a quoted field up to its closing quote, and of a whole one in its place;
    empty if there are no quotes.
    """
    if not form.quote:
        return b"", b""
    mark, escape = re.escape(form.quote.encode()), re.escape((form.escape or form.quote).encode())
    # Without quoted line ends, the first one ends the match.
    stop = b"" if form.quoted_records else line_end
    if escape == mark:
        plain = b"[^" + mark + stop + b"]*"
        inner = plain + b"(?:" + mark + mark + plain + b")*"
    else:
        escaped = b"[^" + stop + b"]" if stop else b"."
        inner = b"(?:[^" + mark + escape + stop + b"]|" + escape + escaped + b")*"
    delimiter = re.escape(form.delimiter.encode())
    before, after = delimiter + line_end, delimiter + rb"\r\n"
    whole = b"(?<=[" + before + b"])" + mark + inner + mark + b"(?=[" + after + b"])"
    return mark + inner, whole


class LineFeeds:
    """CSV with LF at the ends of its records, if the first one ends with CR LF.

    Where an empty line follows, and a buffer of the engine ends within CR LF, the engine takes the
    LF for the first byte of a value.

    :param source: each of its blocks ends outside of quoted fields, as those of :class:`CsvText`.
    :param form: with the record delimiter CR LF, a LF without CR is an error.
    """

    def __init__(self, source: Stream, form: CsvInput) -> None:
        self._source = source
        self._needs_crlf = form.record == "\r\n"
        self._has_crlf: bool | None = True if self._needs_crlf else None
        self._quote = form.quote.encode() if form.quoted_records else b""
        begin, _ = _field_patterns(form, b"\n")
        self._field = re.compile(b"(" + begin + self._quote + b")", re.DOTALL)
        self._rest = b""

    def read(self, size: int) -> bytes:
        while data := self._source.read(size):
            data, self._rest = self._rest + data, b""
            if data.endswith(b"\r"):
                data, self._rest = data[:-1], b"\r"
            if self._quote and self._quote in data:
                parts = self._field.split(data)
                parts[::2] = map(self._changed, parts[::2])
                data = b"".join(parts)
            else:
                data = self._changed(data)
            if data:
                return data
        rest, self._rest = self._rest, b""
        return rest

    def _changed(self, text: bytes) -> bytes:
        """A text outside of quoted fields with line ends within."""
        end = text.find(b"\n") if self._has_crlf is None else -1
        if end >= 0:
            self._has_crlf = text[:end].endswith(b"\r")
        if not self._has_crlf:
            return text
        if self._needs_crlf and text.count(b"\n") != text.count(b"\r\n"):
            raise SelectError("CSVParsingError", "a line feed without a carriage return")
        return text.replace(b"\r\n", b"\n")


class Headed:
    """CSV without the empty lines before its first record.

    With one column the engine would take the first of them for the header.
    """

    def __init__(self, source: Stream) -> None:
        self._source = source
        self._is_begun = False

    def read(self, size: int) -> bytes:
        data = self._source.read(size)
        while data and not self._is_begun:
            kept = data.lstrip(b"\r\n")
            self._is_begun = bool(kept)
            data = kept or self._source.read(size)
        return data


class Encoding:
    """The check that a text is in UTF-8, in the order of its parts."""

    def __init__(self) -> None:
        self._decoder = getincrementaldecoder("utf-8")()
        self._is_in_character = False

    def check(self, data: bytes) -> None:
        """Check the next part; an empty one is the end.

        :raises SelectError: the text is not in UTF-8.
        """
        # ASCII is found in a tenth of the time, and most text is.
        if data and not self._is_in_character and data.isascii():
            return
        try:
            self._decoder.decode(data, final=not data)
        except UnicodeDecodeError:
            raise SelectError("InvalidTextEncoding", "the object is not in UTF-8") from None
        self._is_in_character = bool(self._decoder.getstate()[0])


class Utf8:
    """Text whose encoding is checked.

    :param encoding: the check of the text before.
    """

    def __init__(self, source: Stream, encoding: Encoding) -> None:
        self._source = source
        self._encoding = encoding

    def read(self, size: int) -> bytes:
        data = self._source.read(size)
        self._encoding.check(data)
        return data


def head_of(source: Stream, most: int) -> bytes:
    """The start of the data: at least ``most`` bytes, or all."""
    parts, size = [], 0
    while size < most and (part := source.read(BLOCK_BYTES)):
        parts.append(part)
        size += len(part)
    return b"".join(parts)
