"""The object as libvips reads it: its format by its first bytes, and the ways to its data.

JPEG and PNG stream.  A TIFF is read in any order: of a seekable input only the parts that are
needed, of a stream all of it is kept in memory.  GIF and WebP are always kept.
"""

from __future__ import annotations

import errno
import os
from typing import Any

from image_ends import PngChunks, is_whole_gif
from image_library import library
from image_request import ImageError
from tiff_pages import Page, pages_of

_CHUNK_HEAD_BYTES = 8
#: First bytes of the formats; None is any byte.
_SIGNATURES: dict[str, tuple[bytes, ...]] = {
    "jpeg": (b"\xff\xd8\xff",),
    "png": (b"\x89PNG\r\n\x1a\n",),
    "gif": (b"GIF87a", b"GIF89a"),
    "tiff": (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"),
}
_SIGNATURE_BYTES = 12
BLOCK_BYTES = 1 << 20
#: Pages of a TIFF, frames of a GIF or WebP.
MOST_PAGES = 1000
#: Of an object that must be kept, because its format cannot be read as a stream.
MOST_KEPT_BYTES = 64 << 20
#: Of a stream before its first pixel; the library keeps them.
MOST_HEADER_BYTES = 16 << 20
#: The names of the library for the formats, and those of users.
NAMES = {"jpeg": "JPEG", "png": "PNG", "gif": "GIF", "tiff": "TIFF", "webp": "WebP"}


class Reader:
    """The object, with calls for the library.

    A call from the library cannot raise: an error is kept, and the library sees the end of the
    object.

    :ivar kind: the format, as the library calls it.
    """

    def __init__(self, source: Any) -> None:
        self._source = source
        self.can_seek: bool = source.seekable()
        head = bytes(source.read(_SIGNATURE_BYTES))
        #: Bytes of a stream that were read to find the format.
        self._ahead = b"" if self.can_seek else head
        if self.can_seek:
            source.seek(0)
        self._header_left = 0 if self.can_seek else MOST_HEADER_BYTES
        self.error: Exception | None = None
        self.kind = _kind_of(head)
        #: Of a stream; of a seekable object its end is looked for afterwards.
        self._chunks = PngChunks() if self.kind == "png" else None
        #: Of a TIFF.
        self._pages: list[Page] = []

    def vips_source(self) -> Any:
        """The object for a loader of the library."""
        vips = library()
        if self.kind in {"jpeg", "png"} or (self.kind == "tiff" and self.can_seek):
            if self.kind == "tiff":
                self._pages = list(pages_of(self._read_at, MOST_PAGES + 1))
                self._source.seek(0)
            custom = vips.SourceCustom()
            custom.on_read(self._read_for_library)
            if self.can_seek:
                custom.on_seek(self._seek_for_library)
            return custom
        whole = self._whole()
        if self.kind == "gif" and not is_whole_gif(whole):
            raise cut_off("gif")
        if self.kind == "tiff":
            parts = pages_of(lambda place, size: whole[place : place + size], MOST_PAGES + 1)
            self._pages = list(parts)
        return vips.Source.new_from_memory(whole)

    def require_known_colours(self, page: int) -> None:
        """
        :param page: its number, from 1.
        :raises ImageError: it is one of a TIFF with other samples than the library knows.
        """
        for found in self._pages[page - 1 : page]:
            found.require_known_colours()

    def begin_pixels(self) -> None:
        """From now on a stream may have any number of bytes."""
        self._header_left = 0

    def require_no_error(self) -> None:
        """Raise the error of a call from the library."""
        if self.error is not None:
            raise self.error

    def require_end(self) -> None:
        """Raise :class:`ImageError` if a PNG ends before its last chunk.

        The decoders of other formats need the end, or :meth:`vips_source` has verified it.
        """
        chunks = self._chunks
        if chunks is None:
            return
        if self.can_seek:
            self._source.seek(0)
        while not chunks.is_whole:
            if self.can_seek:
                self._source.seek(chunks.skipped(), os.SEEK_CUR)
            block = bytes(self._source.read(_CHUNK_HEAD_BYTES if self.can_seek else BLOCK_BYTES))
            if not block:
                raise cut_off("png")
            chunks.add(block)

    def _read_at(self, place: int, size: int) -> bytes:
        if place >= self._source.seek(0, os.SEEK_END):
            return b""
        self._source.seek(place)
        return bytes(self._source.read(size))

    def _whole(self) -> bytes:
        parts, size = [self._ahead], len(self._ahead)
        while size <= MOST_KEPT_BYTES and (block := self._source.read(BLOCK_BYTES)):
            parts.append(bytes(block))
            size += len(block)
        if size > MOST_KEPT_BYTES:
            advice = ": std:image-region reads a part of it" if self.kind == "tiff" else ""
            raise ImageError(
                f"the object has more than {MOST_KEPT_BYTES >> 20} MiB, and {NAMES[self.kind]} is"
                f" kept in memory{advice}"
            )
        return b"".join(parts)

    def _read_for_library(self, size: int) -> bytes:
        if self.error is not None:
            return b""
        try:
            return self._read(size)
        except Exception as error:  # raised in the main thread
            self.error = error
            return b""

    def _read(self, size: int) -> bytes:
        if self._ahead:
            data, self._ahead = self._ahead[:size], self._ahead[size:]
        else:
            data = bytes(self._source.read(size))
        if self._chunks is not None and not self.can_seek:
            self._chunks.add(data)
        if self._header_left:
            self._header_left -= len(data)
            if self._header_left <= 0:
                raise ImageError(
                    f"the first pixel is not within {MOST_HEADER_BYTES >> 20} MiB of the object"
                )
        return data

    def _seek_for_library(self, offset: int, whence: int) -> int:
        try:
            return int(self._source.seek(offset, whence))
        except Exception as error:  # raised in the main thread
            # A place that no object has is damage, which the library explains.
            if getattr(error, "errno", None) != errno.EINVAL:
                self.error = self.error or error
            return -1


def cut_off(kind: str) -> ImageError:
    """The error of an object that ends before its mark of the end."""
    return ImageError(f"the object is damaged: the end of the {NAMES[kind]} is missing")


def _kind_of(head: bytes) -> str:
    for kind, signatures in _SIGNATURES.items():
        if head.startswith(signatures):
            return kind
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "webp"
    raise ImageError("the object is no JPEG, PNG, WebP, GIF or TIFF")
