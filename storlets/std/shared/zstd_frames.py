"""The data of an object in zstd with a seek table; only the frames that have bytes of a part are
read.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import packed
from refusal import Refusal

OUTPUT_BYTES = 1 << 20
#: Most data of a frame that is held in memory; std:compress makes frames of 1 MiB.
MOST_BYTES = 16 << 20


class FrameError(Refusal):
    """A frame is not as the seek table says."""


class EvenFrames:
    """Frames of the same size, of which only the last one may be shorter.  The last one is always
    read, so a table with one wrong size of data is noticed.

    :param frames: their sizes, from their table.
    """

    def __init__(self, source: Any, frames: list[tuple[int, int]]) -> None:
        self._source = source
        self._frames = frames
        self._places = list(itertools.accumulate((each for each, _ in frames), initial=0))
        self._plain = frames[0][1] if frames else 0
        self._last = self._data(len(frames) - 1) if frames else b""
        self.size = self._plain * max(0, len(frames) - 1) + len(self._last)

    @staticmethod
    def are(frames: list[tuple[int, int]]) -> bool:
        """Whether these frames are even, and small enough."""
        plain = [size for _, size in frames] or [0]
        is_even = all(size == plain[0] for size in plain[:-1]) and plain[-1] <= plain[0]
        return is_even and plain[0] <= MOST_BYTES and (len(plain) == 1 or plain[-1] > 0)

    def write(self, target: Any, first: int, end: int) -> None:
        """Write the data from byte ``first`` to the one before ``end``; each frame after all of it
        was verified.
        """
        while first < end:
            number = first // self._plain
            is_last = number == len(self._frames) - 1
            data = self._last if is_last else self._data(number)
            start = number * self._plain
            target.write(data[first - start : end - start])
            first = start + len(data)

    def _data(self, number: int) -> bytes:
        compressed, plain = self._frames[number]
        self._source.seek(self._places[number])
        return b"".join(_data_of(_Frame(self._source, compressed), plain))


class _Frame:
    """The bytes of one frame as a file."""

    def __init__(self, source: Any, size: int) -> None:
        self._source, self._left = source, size

    def read(self, size: int) -> bytes:
        data = bytes(self._source.read(min(size, self._left)))
        self._left -= len(data)
        return data


def _data_of(frame: _Frame, plain: int) -> Iterator[bytes]:
    """All data of a frame, also behind the part: the checksum is at its end."""
    data, given = packed.Unpacked(frame, "zstd"), 0
    while block := data.read(OUTPUT_BYTES):
        given += len(block)
        if given > plain:
            break
        yield block
    if given != plain:
        raise FrameError(f"a frame does not have {plain} bytes, as the seek table says")
