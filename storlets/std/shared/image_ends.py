"""The ends of a PNG and a GIF, which libvips does not verify.

Its decoders stop behind the last line of pixels, or take the frames that there are for all of them.
"""

from __future__ import annotations

_PNG_SIGNATURE_BYTES, _PNG_HEAD_BYTES, _PNG_CHECKSUM_BYTES = 8, 8, 4
_GIF_HEAD_BYTES, _GIF_FRAME_BYTES = 13, 10
_GIF_EXTENSION, _GIF_FRAME, _GIF_END = b"!", b",", b";"
_GIF_HAS_COLOURS, _GIF_COLOURS = 0x80, 0x07


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
