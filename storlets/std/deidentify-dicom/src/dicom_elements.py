"""The elements of a data set, as a sequence of events, with all structure checked.

A loop with a stack reads it, so that nesting costs no recursion.  Tags of a data set are in
ascending order, lengths end within the sequence or item around them, and each that has no length
has its delimiter.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from dicom_source import DicomError, Source

MOST_DEPTH = 64
#: Bound of the elements and items of an object.
MOST_ELEMENTS = 500_000

ELEMENT, BEGIN, END, ITEM, ITEM_END, PIXELS = range(6)
UNDEFINED = 0xFFFFFFFF
ITEM_TAG, ITEM_END_TAG, SEQUENCE_END_TAG = 0xFFFEE000, 0xFFFEE00D, 0xFFFEE0DD
DELIMITERS = 0xFFFE
#: Float Pixel Data, Double Float Pixel Data and Pixel Data: one of them, at the top level.
PIXEL_TAGS = (0x7FE00008, 0x7FE00009, 0x7FE00010)
PIXEL_VRS = ("OB", "OW", "OF", "OD")
SHORT_VRS = frozenset(
    "AE AS AT CS DA DS DT FL FD IS LO LT PN SH SL SS ST TM UI UL US".split()  # noqa: SIM905
)
#: A length of 32 bits follows, after two bytes without a meaning.
LONG_VRS = frozenset("OB OD OF OL OV OW SQ SV UC UN UR UT UV".split())  # noqa: SIM905
SEQUENCE, UNKNOWN = "SQ", "UN"

#: The VRs that a dictionary has for a tag, or none.
Vrs = Callable[[int], tuple[str, ...]]


@dataclass(frozen=True)
class Encoding:
    """How elements are encoded: with or without VR, and the order of bytes."""

    is_implicit: bool
    is_big: bool

    @property
    def order(self) -> str:
        return ">" if self.is_big else "<"


IMPLICIT, EXPLICIT, BIG = Encoding(True, False), Encoding(False, False), Encoding(False, True)


class Event(NamedTuple):
    """A part of a data set.

    :ivar vr: of an element, of a sequence, or of pixels.
    :ivar value: of an element.
    :ivar length: of pixels, whose value the receiver reads from the source.
    """

    kind: int
    tag: int = 0
    vr: str = ""
    value: bytes = b""
    length: int = 0


class Frame:
    """A sequence, or an item with elements; the outermost one is the data set."""

    __slots__ = ("encoding", "end", "is_item", "last", "most", "tag")

    def __init__(
        self, is_item: bool, tag: int, end: int | None, most: int | None, encoding: Encoding
    ) -> None:
        self.is_item = is_item
        self.tag = tag
        #: Where it ends, unless a delimiter ends it.
        self.end = end
        #: The end of this or of the nearest frame around it that has one.
        self.most = most
        self.encoding = encoding
        self.last = -1


def named(tag: int) -> str:
    """A tag as text."""
    return f"({tag >> 16:04X},{tag & 0xFFFF:04X})"


class Elements:
    """The events of a data set.

    :ivar start: where the element of the last event began.
    :param vrs: gives the VRs of a tag, for data sets without them.
    """

    def __init__(self, source: Source, encoding: Encoding, vrs: Vrs) -> None:
        self._source = source
        self._vrs = vrs
        self._frames = [Frame(True, 0, None, None, encoding)]
        self._count = 0
        self.start = source.place

    def __iter__(self) -> Iterator[Event]:
        """
        :raises DicomError: the structure is wrong.
        """
        while True:
            frame = self._frames[-1]
            if frame.end is not None and self._source.place == frame.end:
                yield self._ended()
            elif len(self._frames) == 1 and self._source.is_at_end():
                return
            else:
                yield self._in_item(frame) if frame.is_item else self._in_sequence(frame)

    def _in_sequence(self, frame: Frame) -> Event:
        """An item, or the end of the sequence."""
        tag, length = self._header(frame, 8, "HHI")
        if tag == SEQUENCE_END_TAG and frame.end is None and length == 0:
            return self._ended()
        if tag != ITEM_TAG:
            raise self._wrong(frame.tag, "has something else than an item")
        self._push(True, frame.tag, length, frame.encoding)
        return Event(ITEM)

    def _in_item(self, frame: Frame) -> Event:
        """An element, the start of a sequence, or the end of the item."""
        self._require_room(frame, 8)
        self.start = self._source.place
        start = self._source.take(8)
        group, number = struct.unpack_from(frame.encoding.order + "HH", start)
        tag = group << 16 | number
        if group == DELIMITERS:
            is_end = tag == ITEM_END_TAG and len(self._frames) > 1 and frame.end is None
            if not is_end or start[4:] != bytes(4):
                raise self._wrong(tag, "is a delimiter at a place where none belongs")
            return self._ended()
        if tag <= frame.last:
            raise self._wrong(tag, f"comes after {named(frame.last)}: tags must ascend")
        frame.last = tag
        self._counted()
        vr, length = self._vr_and_length(frame, tag, start)
        encoding = frame.encoding
        if vr == UNKNOWN:
            # Its value is encoded without VRs, and in little endian.
            is_readable, encoding = not encoding.is_big, IMPLICIT
            # Many programs write attributes of the standard so.
            vr = (*self._vrs(tag), UNKNOWN)[0] if is_readable else UNKNOWN
        if len(self._frames) == 1 and tag in PIXEL_TAGS:
            if vr not in PIXEL_VRS:
                raise self._wrong(tag, "has another VR than OB, OW, OF or OD")
            return Event(PIXELS, tag, vr, length=length)
        if vr == SEQUENCE or (vr == UNKNOWN and length == UNDEFINED):
            self._push(False, tag, length, encoding)
            return Event(BEGIN, tag, vr)
        if length == UNDEFINED:
            raise self._wrong(tag, "has no length, and is no sequence")
        self._require_room(frame, length)
        return Event(ELEMENT, tag, vr, self._source.take(length))

    def _vr_and_length(self, frame: Frame, tag: int, start: bytes) -> tuple[str, int]:
        encoding = frame.encoding
        if encoding.is_implicit:
            (length,) = struct.unpack_from(encoding.order + "I", start, 4)
            known = self._vrs(tag)
            return (known[0] if known else UNKNOWN), length
        vr = start[4:6].decode("latin-1")
        if vr in SHORT_VRS:
            return vr, struct.unpack_from(encoding.order + "H", start, 6)[0]
        if vr not in LONG_VRS:
            raise self._wrong(tag, "has a VR that does not exist")
        self._require_room(frame, 4)
        return vr, struct.unpack(encoding.order + "I", self._source.take(4))[0]

    def _header(self, frame: Frame, size: int, form: str) -> tuple[int, Any]:
        self._require_room(frame, size)
        group, number, length = struct.unpack(frame.encoding.order + form, self._source.take(size))
        return group << 16 | number, length

    def _push(self, is_item: bool, tag: int, length: int, encoding: Encoding) -> None:
        around = self._frames[-1]
        # An item is a level, and the sequence around it another one.
        if len(self._frames) > 2 * MOST_DEPTH:
            raise self._wrong(tag, f"is within more than {MOST_DEPTH} sequences")
        end = None if length == UNDEFINED else self._source.place + length
        self._require_room(around, length if end is not None else 0)
        self._counted()
        most = around.most if end is None else end
        self._frames.append(Frame(is_item, tag, end, most, encoding))

    def _ended(self) -> Event:
        frame = self._frames.pop()
        return Event(ITEM_END if frame.is_item else END, frame.tag)

    def _counted(self) -> None:
        self._count += 1
        if self._count > MOST_ELEMENTS:
            raise DicomError(f"the object has more than {MOST_ELEMENTS} elements and items")

    def _require_room(self, frame: Frame, size: int) -> None:
        """Raise unless ``size`` bytes are left in the nearest frame that has a length."""
        if frame.most is not None and self._source.place + size > frame.most:
            raise self._wrong(frame.tag, "has a length that does not fit its content")

    def _wrong(self, tag: int, text: str) -> DicomError:
        return DicomError(f"byte {self._source.place} of the data set: {named(tag)} {text}")
