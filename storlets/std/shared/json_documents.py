"""JSON documents as JSON lines: one value a line.

The values are the elements of an array, or values one after the other, with any white space between
their parts.  The array is at the top of the document, or within objects.  A value stays as it is
written, but for its line ends, which are spaces: within texts JSON has none.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from parameters import shown
from sql_check import SqlError

BLOCK_BYTES = 256 * 1024
#: Bound of one value, as of one line.
MOST_CHARACTERS = 1 << 20
TOO_LONG = (
    f"{MOST_CHARACTERS} characters: the rows are the elements of an array at the top, or of the one"
    " that the parameter rows names"
)
#: A number with ``.``, or ``e`` and a sign, is whole only with a digit after these.
_MARK_CHARACTERS = 3
_SPACE = re.compile(r"[ \t\r\n]*")
_ENDS = re.compile(r"[\r\n]")


class AsLines:
    """A file with the lines.

    :param source: a file with the documents.
    :param path: the keys that lead to the array with the rows; without keys it is at the top.
    """

    def __init__(self, source: Any, path: Sequence[str] = ()) -> None:
        self._source = source
        self._path = path
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        # Numbers stay as they are written, so their values are not needed.
        self._json = json.JSONDecoder(parse_float=_unread, parse_int=_unread)
        self._text = ""
        self._at = 0
        self._is_end = False
        self._number = 0
        self._rows = self._of_path() if path else self._of_all()
        self._rest = b""

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes, and none only at the end.

        :raises SqlError: the object is no JSON, a value is too long, or a key is missing.
        """
        parts, have = [self._rest], len(self._rest)
        while have < size and (value := next(self._rows, None)) is not None:
            self._number += 1
            line = _ENDS.sub(" ", value).encode() + b"\n"
            parts.append(line)
            have += len(line)
        data = b"".join(parts)
        self._rest = data[size:]
        return data[:size]

    def _of_all(self) -> Iterator[str]:
        """The elements of arrays at the top, and other values there."""
        while char := self._char():
            if char == "[":
                yield from self._elements()
            else:
                yield self._value()

    def _of_path(self) -> Iterator[str]:
        """The elements of the array at the path."""
        for key in self._path:
            if self._char() != "{":
                raise self._error(f"there is no object for the key {shown(key)}")
            self._at += 1
            is_first = True
            while (name := self._name(is_first)) != key:
                if name is None:
                    raise self._error(f"there is no key {shown(key)}")
                self._value()
                is_first = False
        if self._char() != "[":
            raise self._error(f"the value of {shown(self._path[-1])} is no array")
        yield from self._elements()
        for key in reversed(self._path):
            while (name := self._name(is_first=False)) is not None:
                if name == key:
                    raise self._error(f"the key {shown(key)} is there twice")
                self._value()
        if self._char():
            raise self._error("there is more after the document")

    def _elements(self) -> Iterator[str]:
        """The elements of the array that begins at the place."""
        self._at += 1
        if self._char() == "]":
            self._at += 1
            return
        while True:
            yield self._value()
            char = self._char()
            if char not in (",", "]"):
                raise self._error("want ',' or ']' after a value of the array")
            self._at += 1
            if char == "]":
                return

    def _name(self, is_first: bool) -> str | None:
        """The name of the next member of an object, or ``None`` at its end."""
        char = self._char()
        if char == "}":
            self._at += 1
            return None
        if not is_first:
            if char != ",":
                raise self._error("want ',' or '}' after a member of an object")
            self._at += 1
        name = json.loads(self._value())
        if not isinstance(name, str) or self._char() != ":":
            raise self._error("want a name and ':' in an object")
        self._at += 1
        return name

    def _char(self) -> str:
        """The next character that is no white space; empty at the end."""
        while True:
            match = _SPACE.match(self._text, self._at)
            self._at = match.end() if match else self._at
            char = self._text[self._at : self._at + 1]
            if char or self._is_end:
                return char
            self._read_on()

    def _value(self) -> str:
        """The value at the place."""
        if not self._char():
            raise self._error("the object is cut")
        while True:
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
            if self._is_end or not self._may_continue(end):
                break
            self._read_on()
        value = self._text[self._at : end]
        self._at = end
        return value

    def _may_continue(self, end: int) -> bool:
        """Whether the value up to ``end`` may be the start of a number that is in the next block,
        too, such as 1 of 1e-5.
        """
        rest = self._text[end : end + _MARK_CHARACTERS]
        return not rest or (len(rest) < _MARK_CHARACTERS and rest[0] in ".eE")

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


def path_of(text: str) -> list[str]:
    """The keys of the parameter ``rows``, such as ``data.items``.

    :raises SqlError: a key is empty.
    """
    keys = text.split(".") if text else []
    if "" in keys:
        raise SqlError(f"rows: {shown(text)}: want keys with '.' between them, such as data.items")
    return keys


def _unread(_text: str) -> None:
    """The value of a number, which nothing needs."""
