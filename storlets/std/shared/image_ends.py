"""The ends of a PNG and a GIF, and the list of the pages of a TIFF, which libvips does not verify.

Its decoders stop behind the last line of pixels, or take the frames and pages that there are for
all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

_PNG_SIGNATURE_BYTES, _PNG_HEAD_BYTES, _PNG_CHECKSUM_BYTES = 8, 8, 4
_GIF_HEAD_BYTES, _GIF_FRAME_BYTES = 13, 10
_GIF_EXTENSION, _GIF_FRAME, _GIF_END = b"!", b",", b";"
_GIF_HAS_COLOURS, _GIF_COLOURS = 0x80, 0x07
#: Bytes of a TIFF's numbers: of tags in a page, and of a place; and bytes of a tag.
_TIFF, _BIG_TIFF = (2, 4, 12), (8, 8, 20)
_BIG_TIFF_VERSION = 43


class PngChunks:
    """Follows the chunks of a PNG, of which it gets all bytes, but for those it skips.

    :ivar is_whole: whether the chunk ``IEND`` was there, and all of it.
    """

    def __init__(self) -> None:
        self.is_whole = False
        self._head = b""
        self._is_last = False
        self._skip = _PNG_SIGNATURE_BYTES

    def add(self, data: bytes) -> None:
        place = 0
        while place < len(data) and not self.is_whole:
            if self._skip:
                step = min(self._skip, len(data) - place)
                self._skip -= step
                self.is_whole = self._is_last and not self._skip
            else:
                part = data[place : place + _PNG_HEAD_BYTES - len(self._head)]
                step = len(part)
                self._begin(self._head + part)
            place += step

    def skipped(self) -> int:
        """The number of bytes that are not needed, and need not be added any more."""
        skip = 0 if self._is_last else self._skip
        self._skip -= skip
        return skip

    def _begin(self, head: bytes) -> None:
        if len(head) < _PNG_HEAD_BYTES:
            self._head = head
            return
        self._head = b""
        self._skip = int.from_bytes(head[:4], "big") + _PNG_CHECKSUM_BYTES
        self._is_last = head[4:] == b"IEND"


def is_whole_gif(data: bytes) -> bool:
    """Whether the blocks of a GIF reach its mark of the end."""
    place = _GIF_HEAD_BYTES + _colours_bytes(data[10:11])
    while place < len(data):
        kind = data[place : place + 1]
        if kind == _GIF_END:
            return True
        if kind == _GIF_EXTENSION:
            place = _behind_blocks(data, place + 2)
        elif kind == _GIF_FRAME:
            colours = _colours_bytes(data[place + 9 : place + 10])
            place = _behind_blocks(data, place + _GIF_FRAME_BYTES + colours + 1)
        elif kind == b"\0":
            # Some writers have an empty block more.
            place += 1
        else:
            return False
    return False


def has_all_pages(read_at: Callable[[int, int], bytes], most: int) -> bool:
    """Whether each page of a TIFF names a next one that is within it, or is the last.

    :param read_at: the bytes at a place, less only at the end.
    :param most: pages to look at.
    """
    head = read_at(0, 16)
    order: Literal["little", "big"] = "little" if head[:1] == b"I" else "big"
    is_big = int.from_bytes(head[2:4], order) == _BIG_TIFF_VERSION
    count_bytes, place_bytes, tag_bytes = _BIG_TIFF if is_big else _TIFF
    link = head[8:16] if is_big else head[4:8]
    for _ in range(most):
        if len(link) < place_bytes:
            return False
        place = int.from_bytes(link, order)
        if not place:
            return True
        count = read_at(place, count_bytes)
        if len(count) < count_bytes:
            return False
        place += count_bytes + int.from_bytes(count, order) * tag_bytes
        link = read_at(place, place_bytes)
    return True


def _colours_bytes(flags: bytes) -> int:
    """The size of the palette that these flags announce."""
    number = flags[0] if flags else 0
    return 3 << ((number & _GIF_COLOURS) + 1) if number & _GIF_HAS_COLOURS else 0


def _behind_blocks(data: bytes, place: int) -> int:
    """The place behind blocks of up to 255 bytes, of which the last one is empty."""
    most = len(data)
    while place < most and (size := data[place]):
        place += size + 1
    return place + 1
