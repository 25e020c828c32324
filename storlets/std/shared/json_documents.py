"""JSON documents as JSON lines: one value a line.

The values are the elements of an array, or values one after the other, with any white space between
their parts.  A value stays as it is written, but for its line ends, which are spaces: within texts
JSON has none.
"""

from __future__ import annotations

import codecs
import json
import re
from typing import Any

from sql_check import SqlError

BLOCK_BYTES = 256 * 1024
#: Bound of one value, as of one line.
MOST_CHARACTERS = 1 << 20
TOO_LONG = (
    f"{MOST_CHARACTERS} characters: the rows are the elements of an array at the top, or values one"
    " after the other"
)
_SPACE = re.compile(r"[ \t\r\n]*")
_ENDS = re.compile(r"[\r\n]")


class AsLines:
    """A file with the lines.

    :param source: a file with the documents.
    """

    def __init__(self, source: Any) -> None:
        self._source = source
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        # Numbers stay as they are written, so no text is made of them twice.
        self._json = json.JSONDecoder(parse_float=_unread, parse_int=_unread)
        self._text = ""
        self._at = 0
        self._is_end = False
        self._is_array = False
        self._wants_comma = False
        self._wants_value = False
        self._number = 0
        self._rest = b""

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes, and none only at the end.

        :raises SqlError: the object is no JSON, or a value is too long.
        """
        parts, have = [self._rest], len(self._rest)
        while have < size and (value := self._next()) is not None:
            line = value.encode() + b"\n"
            parts.append(line)
            have += len(line)
        data = b"".join(parts)
        self._rest = data[size:]
        return data[:size]

    def _next(self) -> str | None:
        """The next value, or ``None`` at the end."""
        while True:
            match = _SPACE.match(self._text, self._at)
            self._at = match.end() if match else self._at
            char = self._text[self._at : self._at + 1]
            if not char:
                if self._is_end:
                    break
                self._read_on()
            elif self._wants_comma and char == ",":
                self._wants_comma, self._wants_value = False, True
                self._at += 1
            elif self._is_array and char == "]" and not self._wants_value:
                self._is_array = self._wants_comma = False
                self._at += 1
            elif self._wants_comma:
                raise self._error("want ',' or ']' after a value of the array")
            elif char == "[" and not self._is_array:
                self._is_array = True
                self._at += 1
            elif (value := self._value()) is not None:
                return value
        if self._is_array:
            raise self._error("the object is cut: its array does not end")
        return None

    def _value(self) -> str | None:
        """The value at the place; ``None`` if more of the object is needed, which is read."""
        try:
            _, end = self._json.raw_decode(self._text, self._at)
        except RecursionError:
            raise self._error("is nested too deeply") from None
        except json.JSONDecodeError as error:
            end = len(self._text)
            is_long = end - self._at > MOST_CHARACTERS
            if self._is_end or is_long:
                more = f", or has more than {TOO_LONG}" if is_long else ""
                raise self._error(f"{error.msg}{more}") from None
        if end - self._at > MOST_CHARACTERS:
            raise self._error(f"has more than {TOO_LONG}")
        # A number at the end of a block may continue in the next one.
        if end == len(self._text) and not self._is_end:
            self._read_on()
            return None
        value = self._text[self._at : end]
        self._at = end
        self._number += 1
        self._wants_comma, self._wants_value = self._is_array, False
        return _ENDS.sub(" ", value)

    def _read_on(self) -> None:
        """Add a block to the text."""
        data = bytes(self._source.read(BLOCK_BYTES))
        self._is_end = not data
        try:
            more = self._decoder.decode(data, final=self._is_end)
        except UnicodeDecodeError as error:
            raise self._error(f"is not UTF-8: {error.reason}") from None
        self._text = self._text[self._at :] + more
        self._at = 0

    def _error(self, what: str) -> SqlError:
        return SqlError(f"the object is no JSON: row {self._number + 1}: {what}")


def _unread(_text: str) -> None:
    """The value of a number, which nothing needs."""
