"""Elements in one encoding; sequences and items are written without lengths."""

from __future__ import annotations

import struct
from collections.abc import Callable

from dicom_elements import (
    ITEM_END_TAG,
    ITEM_TAG,
    LONG_VRS,
    SEQUENCE,
    SEQUENCE_END_TAG,
    UNDEFINED,
    Encoding,
)

MOST_SHORT_BYTES = 0xFFFF
#: Their padding is a space; that of the others is NUL.
TEXT_VRS = frozenset(
    "AE AS CS DA DS DT IS LO LT PN SH ST TM UC UR UT".split()  # noqa: SIM905
)

Write = Callable[[bytes], object]


class Writer:
    """Writes elements with ``write``."""

    def __init__(self, write: Write, encoding: Encoding) -> None:
        self.write = write
        self.encoding = encoding

    def element(self, tag: int, vr: str, value: bytes) -> None:
        """An element; a value of odd length gets its padding."""
        if len(value) % 2:
            value += b" " if vr in TEXT_VRS else b"\0"
        self.header(tag, vr, len(value))
        self.write(value)

    def header(self, tag: int, vr: str, length: int) -> None:
        """All of an element before its value."""
        order, parts = self.encoding.order, (tag >> 16, tag & 0xFFFF)
        if self.encoding.is_implicit:
            self.write(struct.pack(order + "HHI", *parts, length))
        elif vr in LONG_VRS or length > MOST_SHORT_BYTES:
            # The standard has UN for a value that is longer than its VR permits.
            vr = vr if vr in LONG_VRS else "UN"
            self.write(struct.pack(order + "HH2sHI", *parts, vr.encode(), 0, length))
        else:
            self.write(struct.pack(order + "HH2sH", *parts, vr.encode(), length))

    def begin(self, tag: int) -> None:
        """The start of a sequence."""
        self.header(tag, SEQUENCE, UNDEFINED)

    def end(self) -> None:
        self.delimiter(SEQUENCE_END_TAG, 0)

    def item(self) -> None:
        self.delimiter(ITEM_TAG, UNDEFINED)

    def item_end(self) -> None:
        self.delimiter(ITEM_END_TAG, 0)

    def delimiter(self, tag: int, length: int) -> None:
        """The start of an item, or the end of one or of a sequence."""
        self.write(struct.pack(self.encoding.order + "HHI", tag >> 16, tag & 0xFFFF, length))
