"""The end of the last line of a CSV or of JSON lines.

One thread of the engine loses a last row of CSV without an end if it has too few or too many
values, and the last one begins in another buffer.  With an end it is a row as all others.  Of JSON
the engine refuses a valid last line without an end that ends two bytes before its buffer does.
"""

from __future__ import annotations

from typing import Any


class LastLine:
    """The bytes of ``source``, and a line end where the last line has none.

    :param head: the bytes before those of ``source``.
    """

    def __init__(self, source: Any, line_end: bytes, head: bytes = b"") -> None:
        self._source = source
        self._line_end = line_end
        self._last = head[-1:]

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes, or what ``source`` gives; none only at the end."""
        data = bytes(self._source.read(size))
        if data:
            self._last = data[-1:]
            return data
        last, self._last = self._last, b""
        if last == b"\r" == self._line_end[:1]:
            return self._line_end[1:]
        # A CR that belongs to no line end is an error of the reader.
        return b"" if last in (b"", b"\r", b"\n") else self._line_end
