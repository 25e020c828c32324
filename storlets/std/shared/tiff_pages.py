"""The pages of a TIFF, of which libvips does not verify the list and the colours.

It takes a TIFF that is cut within the place of the next page for one with fewer pages.  Samples of
colours that it does not know are those of RGB for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from image_request import ImageError

_BIG_VERSION = 43
_COMPRESSION, _COLOURS, _SUBSAMPLING = 259, 262, 530
#: JPEG of two kinds, whose decoders know the colours.
_JPEGS = (6, 7)
#: Grey of both directions, RGB, a palette, a mask, CMYK and CIE L*a*b*.
_KNOWN = (0, 1, 2, 3, 4, 5, 8)
_YCBCR, _WHOLE = 6, (1, 1)
_SHORT = 3
#: Of a page; they are in ascending order, and the standard has some hundred up to the last of ours.
_MOST_TAGS = 300

#: The bytes at a place of the object; less only at its end.
ReadAt = Callable[[int, int], bytes]


class Form(NamedTuple):
    """The sizes of a kind of TIFF.

    :ivar count_bytes: of the number of tags.
    :ivar place_bytes: of a place, and of a value within a tag.
    """

    order: Literal["little", "big"]
    count_bytes: int
    place_bytes: int
    tag_bytes: int

    def number(self, data: bytes) -> int:
        return int.from_bytes(data, self.order)


class Page(NamedTuple):
    """The numbers of a page that decide about its colours."""

    compression: int
    colours: int
    subsampling: tuple[int, int]

    def require_known_colours(self) -> None:
        """
        :raises ImageError: the library would take its samples for RGB.
        """
        is_known = self.colours in _KNOWN
        if self.colours == _YCBCR:
            is_known = self.compression in _JPEGS or self.subsampling != _WHOLE
        if not is_known:
            raise ImageError(
                f"the TIFF has samples of the kind {self.colours} (PhotometricInterpretation) with"
                f" the compression {self.compression}, which is not supported"
            )


def pages_of(read_at: ReadAt, most: int) -> Iterator[Page]:
    """The pages of a TIFF.

    :param most: pages to look at.
    :raises ImageError: the list of the pages is cut, or a circle.
    """
    head = read_at(0, 16)
    order: Literal["little", "big"] = "little" if head[:1] == b"I" else "big"
    is_big = int.from_bytes(head[2:4], order) == _BIG_VERSION
    form = Form(order, 8, 8, 20) if is_big else Form(order, 2, 4, 12)
    link = head[8:16] if is_big else head[4:8]
    seen: set[int] = set()
    for _ in range(most):
        place = form.number(_whole(link, form.place_bytes))
        if not place:
            return
        if place in seen:
            raise ImageError("the object is damaged: the list of the pages of the TIFF is a circle")
        seen.add(place)
        size = form.number(_whole(read_at(place, form.count_bytes), form.count_bytes))
        place += form.count_bytes
        tags = read_at(place, min(size, _MOST_TAGS) * form.tag_bytes)
        link = read_at(place + size * form.tag_bytes, form.place_bytes)
        yield _page(tags, form)


def _whole(data: bytes, size: int) -> bytes:
    if len(data) < size:
        raise ImageError("the object is damaged: the list of the pages of the TIFF is cut")
    return data


def _page(tags: bytes, form: Form) -> Page:
    found = {_COMPRESSION: (1, 0), _COLOURS: (1, 0), _SUBSAMPLING: (2, 2)}
    for start in range(0, len(tags) - form.tag_bytes + 1, form.tag_bytes):
        name = form.number(tags[start : start + 2])
        if name in found and form.number(tags[start + 2 : start + 4]) == _SHORT:
            value = tags[start + form.tag_bytes - form.place_bytes :]
            found[name] = (form.number(value[:2]), form.number(value[2:4]))
    return Page(found[_COMPRESSION][0], found[_COLOURS][0], found[_SUBSAMPLING])
