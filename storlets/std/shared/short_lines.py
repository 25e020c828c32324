"""A bound for lines on their way to the engine.

The engine keeps a line that is too long in memory before it finds that out, and has another error
for it: that it has too little memory, or cannot read the object with several threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

MOST_BYTES = 1 << 20


class ShortLines:
    """The bytes of ``source``, which fails at a line that is too long.

    :param source: its blocks are shorter, and so are lines within one.
    :param failure: gives the error.
    :param head: the bytes before those of ``source``.
    """

    def __init__(
        self,
        source: Any,
        failure: Callable[[], Exception],
        *,
        head: bytes = b"",
        line_end: bytes = b"\n",
    ) -> None:
        self._source = source
        self._failure = failure
        self._line_end = line_end
        #: Bytes since the last line end.
        self._length = len(head) - head.rfind(line_end) - 1

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes, or what ``source`` gives; none only at the end."""
        data = bytes(self._source.read(size))
        first = data.find(self._line_end)
        self._length += len(data) if first < 0 else first
        if self._length > MOST_BYTES:
            raise self._failure()
        if first >= 0:
            self._length = len(data) - data.rfind(self._line_end) - 1
        return data
