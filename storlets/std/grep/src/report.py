"""Outputs of a search: lines, their number, or lines with their places and context.

Each sink gets blocks with the runs of lines that are selected.  A run is ``block[start:end]``, one
line or several.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable


def first_lines(block: bytes, start: int, end: int, count: int) -> int:
    """The end of the first ``count`` lines of a run."""
    for _ in range(count):
        start = block.find(b"\n", start, end) + 1
        if not start:
            return end
    return start


class Sink:
    """Counts the selected lines up to a limit.

    :param most: 0 is no limit.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0
        self._parts: list[bytes] = []

    @property
    def is_done(self) -> bool:
        """Whether no further line is needed."""
        return self._is_full

    @property
    def _is_full(self) -> bool:
        return 0 < self._most <= self._count

    def add_block(self, block: bytes, spans: Iterable[tuple[int, int]]) -> None:
        """Add a block; the spans are the selected lines."""
        place = 0
        for start, end in spans:
            self.skip(block, place, start)
            self.take(block, start, end)
            place = end
            if self.is_done:
                return
        self.skip(block, place, len(block))

    def take(self, block: bytes, start: int, end: int) -> None:
        """Add selected lines."""
        found = block.count(b"\n", start, end)
        if self._most and self._count + found > self._most:
            cut = first_lines(block, start, end, self._most - self._count)
            self.add(block, start, cut)
            self._count = self._most
            self.skip(block, cut, end)
        else:
            self.add(block, start, end)
            self._count += found

    def add(self, block: bytes, start: int, end: int) -> None:
        """Put selected lines into the output, within the limit."""

    def skip(self, block: bytes, start: int, end: int) -> None:
        """Add lines that are not selected."""

    def output(self) -> bytes:
        """The output since the last call."""
        output = b"".join(self._parts)
        self._parts.clear()
        return output

    def end(self) -> bytes:
        """The last output."""
        return b""


class Number(Sink):
    """The number of selected lines."""

    def add_block(self, block: bytes, spans: Iterable[tuple[int, int]]) -> None:
        if self._most:
            super().add_block(block, spans)
        else:
            self._count += sum(block.count(b"\n", start, end) for start, end in spans)

    def end(self) -> bytes:
        return b"%d\n" % self._count


class Lines(Sink):
    """The selected lines."""

    def add_block(self, block: bytes, spans: Iterable[tuple[int, int]]) -> None:
        if self._most:
            super().add_block(block, spans)
        else:
            self._parts = [block[start:end] for start, end in spans]

    def add(self, block: bytes, start: int, end: int) -> None:
        self._parts.append(block[start:end])


class Places(Sink):
    """The selected lines with line number, place in bytes and context, in the form of ``grep``.

    :param before: lines of context before each; ``after``: behind.
    """

    def __init__(
        self, most: int, before: int, after: int, *, is_numbered: bool, has_offsets: bool
    ) -> None:
        super().__init__(most)
        self._before: deque[bytes] = deque(maxlen=before)
        self._after, self._due = after, 0
        self._has_context = bool(before or after)
        self._is_numbered, self._has_offsets = is_numbered, has_offsets
        self._line, self._offset = 1, 0
        #: The number of the next line if the output has no gap; 0 before the first line.
        self._next = 0

    @property
    def is_done(self) -> bool:
        return self._is_full and not self._due

    def add(self, block: bytes, start: int, end: int) -> None:
        if start == end:
            return
        first = self._line - len(self._before)
        if self._has_context and self._next and first > self._next:
            self._parts.append(b"--\n")
        self._parts.extend(self._before)
        self._before.clear()
        while start < end:
            stop = first_lines(block, start, end, 1)
            self._parts.append(self._shown(block, start, stop, b":"))
            start = stop
        self._next, self._due = self._line, self._after

    def skip(self, block: bytes, start: int, end: int) -> None:
        while start < end and self._due:
            stop = first_lines(block, start, end, 1)
            self._parts.append(self._shown(block, start, stop, b"-"))
            self._next, self._due, start = self._line, self._due - 1, stop
        if start == end:
            return
        last = end
        for _ in range(self._before.maxlen or 0):
            last = block.rfind(b"\n", start, last - 1) + 1 or start
            if last == start:
                break
        self._line += block.count(b"\n", start, last)
        self._offset += last - start
        while last < end:
            stop = first_lines(block, last, end, 1)
            self._before.append(self._shown(block, last, stop, b"-"))
            last = stop

    def _shown(self, block: bytes, start: int, end: int, mark: bytes) -> bytes:
        """The next line with its place."""
        number = b"%d%s" % (self._line, mark) if self._is_numbered else b""
        offset = b"%d%s" % (self._offset, mark) if self._has_offsets else b""
        self._line += 1
        self._offset += end - start
        return number + offset + block[start:end]
