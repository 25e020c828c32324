"""The search of a block, in which no line takes more than some seconds of CPU time.

Some expressions take a time that is exponential in the length of a line, such as ``(a+)+b``.  The
search of a block is interrupted by a timer, and continues line by line, each with the whole time.

Others take a time that is quadratic, such as ``a*b``, and their search is not interrupted before it
ends.  So long lines are searched alone, in parts.
"""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from matching import Search, Spans, by_lines
from refusal import Refusal

#: The timer is that of the process in user mode: a slow client, or other processes, do not count.
TIMER, SIGNAL = signal.ITIMER_VIRTUAL, signal.SIGVTALRM

#: Spans that one call of the search gives.
FEW = 256
#: A quadratic search of a shorter line takes up to three seconds.  The search in parts reads 80 MB
#: a second, a tenth of what the other one does.
LONG_LINE_BYTES = 64 * 1024


class LineTimeError(Refusal):
    """The search of one line has taken too long."""


class _Expired(Exception):  # noqa: N818 - no error of its own
    """The timer has ended a search."""


class Clock:
    """The timer of a run; a context manager.

    In another thread than the first one, which gets no signals, no time is limited.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._is_searching = False
        self._is_used = threading.current_thread() is threading.main_thread()
        self._before: Any = None

    def __enter__(self) -> Clock:
        if self._is_used:
            self._before = signal.signal(SIGNAL, self._end)
        return self

    def __exit__(self, *_error: object) -> None:
        if self._is_used:
            self.stop()
            signal.signal(SIGNAL, self._before)

    def _end(self, _number: int, _frame: object) -> None:
        # The interpreter calls it within a search, too.
        if self._is_searching:
            raise _Expired

    def start(self) -> None:
        """Begin to measure."""
        if self._is_used:
            signal.setitimer(TIMER, self.seconds, self.seconds)

    def stop(self) -> None:
        """End that."""
        if self._is_used:
            signal.setitimer(TIMER, 0)

    def next_of(self, spans: Spans) -> list[tuple[int, int]]:
        """The next few spans; none at the end.

        :raises _Expired: the time is over; the spans that were found are lost.
        """
        self._is_searching = True
        try:
            return list(islice(spans, FEW))
        finally:
            self._is_searching = False

    def limited(self, search: Search, block: bytes, at: int) -> Spans:
        """The spans of a block.

        :param at: the place of the block in the data, in bytes.
        :raises LineTimeError: a line takes too long.
        """
        place = 0
        if search.long_line is not None:
            for start, end in long_lines(block):
                yield from self._between(search, block, place, start, at)
                yield from self._long(search.long_line, block, start, end, at)
                place = end
        yield from self._between(search, block, place, len(block), at)

    def _between(self, search: Search, block: bytes, start: int, end: int, at: int) -> Spans:
        """The spans of a part of a block, which has no long lines."""
        if not start:
            # Most blocks have no long lines, and no call for each span.
            yield from self._of_block(search, block[:end], at)
        elif start < end:
            for first, last in self._of_block(search, block[start:end], at + start):
                yield start + first, start + last

    def _long(
        self, search: Callable[[bytes], bool], block: bytes, start: int, end: int, at: int
    ) -> Spans:
        """The span of a long line, if it matches."""

        def found() -> Spans:
            if search(block[start:end].rstrip(b"\n").rstrip(b"\r")):
                yield start, end

        yield from self._in_time(found(), at + start)

    def _in_time(self, spans: Spans, place: int) -> list[tuple[int, int]]:
        """The spans of one line."""
        self.start()
        try:
            return self.next_of(spans)
        except _Expired:
            raise LineTimeError(
                f"the search of the line at byte {place} takes more than"
                f" {self.seconds:g} s (line-seconds). Repetitions within repetitions, such as"
                " (a+)+b, may take a time that is exponential in the length of the line, and"
                " others, such as a*b, one that is quadratic"
            ) from None
        finally:
            self.stop()

    def _of_block(self, search: Search, block: bytes, at: int) -> Spans:
        """The spans of a block without long lines, or one that no line makes slow."""
        if search.line is None:
            yield from search.find(block)
            return
        spans, end = search.find(block), 0
        self.start()
        try:
            while few := self.next_of(spans):
                end = few[-1][1]
                yield from few
            return
        except _Expired:
            self._is_searching = False
        finally:
            self.stop()
        yield from self._by_lines(search.line, block, end, at)

    def _by_lines(self, line: re.Pattern[bytes], block: bytes, start: int, at: int) -> Spans:
        """The lines from ``start`` on that match."""
        while start < len(block):
            end = block.find(b"\n", start) + 1
            is_found = bool(self._in_time(by_lines(line, block[start:end]), at + start))
            if is_found:
                yield start, end
            start = end


def long_lines(block: bytes) -> Iterator[tuple[int, int]]:
    """Start and end of each line of a block with more than ``LONG_LINE_BYTES``."""
    start, size = 0, len(block)
    while start < size:
        # The lines up to the last line end within that length are shorter.
        end = block.rfind(b"\n", start, start + LONG_LINE_BYTES) + 1
        if end:
            start = end
            continue
        end = block.find(b"\n", start) + 1 or size
        yield start, end
        start = end
